"""`lockgate access check` and `lockgate link acls plan`."""

from __future__ import annotations

import json

from gateway.access.rules.transform import principal_on_target
from gateway.kafka.rules.acl import Acl, Operation, PatternType, Permission, ResourceType
from gateway.state.link_config import parse
from tests.support.control.control_plane import SOURCE

READ = Acl(ResourceType.TOPIC, PatternType.LITERAL, "orders", "User:alice", "*", Operation.READ, Permission.ALLOW)


def test_a_plan_is_a_diff(linked, run):
    plane = linked.plane
    plane.source.acls_there = {READ, READ._replace(operation=Operation.WRITE)}
    lines = run("link", "acls", "plan", "l").stdout.splitlines()
    assert lines[0] == "ACL sync is off (acl.sync.enable); with every ACL included it would do this:"
    assert lines[1:3] == [
        "+ ALLOW User:alice from *: DESCRIBE on TOPIC orders",
        "+ ALLOW User:alice from *: READ on TOPIC orders",
    ]
    assert lines[3].startswith("! ALLOW User:alice from *: WRITE on TOPIC orders: UNTIL_PROMOTED")
    assert lines[-1] == "2 to create, 0 to delete, 0 stay, 0 are the target's own, 1 are left out"
    assert json.loads(run("link", "acls", "plan", "l", "-o", "json").stdout)["create_count"] == 2
    assert run("link", "acls", "plan", "x", code=1).stderr == "error: link 'x' does not exist\n"


def test_what_is_the_same_everywhere(linked, run):
    linked.plane.source.acls_there = linked.plane.target.acls_there = {READ}
    lines = run("access", "check", "--link", "l", "--principal", "User:alice").stdout.splitlines()
    assert lines[1].split() == ["orders", "TOPIC", "READ", "yes", "yes", "yes"]
    assert lines[-1] == "no differences"


def test_differences_are_the_exit_code(linked, run):
    linked.plane.source.acls_there = {READ, READ._replace(principal="User:*", name="x", operation=Operation.ALTER)}
    linked.plane.target.acls_there = {READ}
    given = ("access", "check", "--link", "l", "--principal", "User:alice")
    shown = run(*given, code=1).stdout
    assert shown.splitlines()[-1] == "2 differences"
    assert "\x1b" not in shown
    only = json.loads(run(*given, "--differences", "-o", "json", code=1).stdout)
    assert [row["operation"] for row in only["data"]] == ["ALTER", "DESCRIBE"]
    assert "differences: 2" in run(*given, "-o", "yaml", code=1).stdout


def test_differences_are_red_on_a_terminal(linked, run, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    linked.plane.source.acls_there = {READ}
    assert "\x1b[31m" in run("access", "check", "--link", "l", "--principal", "User:alice", code=1).stdout


def test_refusals(linked, run):
    assert "is not of the form" in run("access", "check", "--link", "l", "--principal", "alice", code=1).stderr
    assert "Missing option" in run("access", "check", "--link", "l", code=2).stderr


def test_an_option_that_is_a_file(server, run, tmp_path):
    filters, rules = tmp_path / "acl.filters.json", tmp_path / "principals.txt"
    filters.write_text('{"aclFilters": [\n  {"resourceFilter": {"resourceType": "topic"}}\n]}\n')
    rules.write_text("RULE:User:CN=alice,.*/User:alice/,\nRULE:User:CN=bob,.*/User:robert/,\nDEFAULT\n")
    given = ("--set", "acl.sync.enable=true", "--set-file", f"acl.filters={filters}")
    run("link", "create", "l", "--bootstrap", SOURCE, *given)
    run("link", "configuration", "update", "l", "--set-file", f"acl.sync.principal.mapping.rules={rules}")
    config = parse(server.plane.store.links["l"].configs)
    assert config.acl_filters.resource_types() == {ResourceType.TOPIC}
    assert principal_on_target("User:CN=bob,OU=x", config.acl_principals) == "User:robert"
    assert principal_on_target("User:carol", config.acl_principals) == "User:carol"
    update = ("link", "configuration", "update", "l", "--set-file")
    assert "--set-file acl.filters: /no/file" in run(*update, "acl.filters=/no/file", code=2).stderr
    assert "expected KEY=FILE" in run(*update, "acl.filters", code=2).stderr
