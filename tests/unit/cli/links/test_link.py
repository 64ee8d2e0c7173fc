from __future__ import annotations

import json

import pytest
import yaml

from tests.support.control.control_plane import SOURCE


def test_create_list_describe_delete(server, run):
    assert run("link", "list").stdout == "no links\n"
    created = run("link", "create", "l", "--bootstrap", SOURCE, "--set", "ack=both", "--set", "client.id=a=b")
    assert created.stdout == "created link l to source cluster S\n"

    listed = run("link", "list").stdout
    assert listed.splitlines()[0].split() == ["Link", "State", "Mirrors", "Source", "Source", "cluster", "id"]
    assert listed.splitlines()[1].split() == ["l", "ACTIVE", "none", SOURCE, "S"]
    described = run("link", "describe", "l").stdout
    assert "client.id" in described
    assert "a=b" in described
    assert "Target cluster id  T" in described
    assert run("link", "delete", "l").stdout == "deleted link l\n"
    assert run("link", "list").stdout == "no links\n"


def test_json_and_yaml_are_the_apis_answer(server, run):
    created = json.loads(run("link", "create", "l", "--bootstrap", SOURCE, "-o", "json").stdout)
    described = yaml.safe_load(run("link", "describe", "l", "-o", "yaml").stdout)
    listed = json.loads(run("link", "list", "--output", "json").stdout)

    assert created == described == listed["data"][0]
    assert (created["kind"], created["link_name"]) == ("KafkaLinkData", "l")


def test_a_file_of_properties_and_what_overrides_it(server, run, tmp_path):
    file = tmp_path / "link.properties"
    file.write_text(
        "# the source\n! also a comment\n\nbootstrap.servers=elsewhere:1\nack = source\nclient.id=f\n", encoding="utf-8"
    )

    run("link", "create", "l", "--config", str(file), "--set", "ack=both", "--bootstrap", SOURCE)

    link = json.loads(run("link", "describe", "l", "-o", "json").stdout)
    assert (link["client"], link["configs"]["ack"]) == ({"bootstrap.servers": SOURCE, "client.id": "f"}, "both")


def test_a_reference_to_a_secret_may_stand_on_the_command_line(server, run):
    """What it stands for is the gateway's to say: here it has no such folder."""
    reference = "${file:/etc/lockgate/links/west/login.properties:password}"
    refused = run("link", "create", "l", "--bootstrap", SOURCE, "--set", f"sasl.password={reference}", code=1)
    assert "sasl.password: links may not name files; links.files" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["create", "l"], "--bootstrap"),
        (["create", "l", "--set", "ack"], "expected KEY=VALUE"),
        (["create", "l", "--set", "sasl.oauthbearer.client.secret=hush"], "others see a secret on a command line"),
        (["create", "l", "--config", "no-such-file"], "no-such-file"),
        (["create"], "Missing argument"),
        (["list", "-o", "xml"], "xml"),
        (["destroy"], "destroy"),
    ],
)
def test_wrong_usage_is_2(run, arguments, message):
    assert message in run("link", *arguments, code=2).stderr


def test_a_bad_line_of_a_file_is_named(run, tmp_path):
    file = tmp_path / "x"
    file.write_text("ack=both\nnonsense\n", encoding="utf-8")

    assert f"{file}:2: expected key=value" in run("link", "create", "l", "--config", str(file), code=2).stderr


def test_a_refusal_is_1_and_one_line_on_stderr(linked, run):
    for arguments, message in [
        (["link", "create", "l", "--bootstrap", SOURCE], "error: link 'l' exists already\n"),
        (["link", "describe", "x"], "error: link 'x' does not exist\n"),
        (["link", "delete", "x"], "error: link 'x' does not exist\n"),
        (["link", "create", "m", "--bootstrap", SOURCE, "--set", "x.y=1"], "error: x.y: unknown client property\n"),
    ]:
        result = run(*arguments, code=1)
        assert (result.stdout, result.stderr) == ("", message)


def test_delete_with_mirrors_needs_force(linked, run):
    run("mirror", "create", "orders", "--link", "l")

    assert "not STOPPED, such as 'orders'" in run("link", "delete", "l", code=1).stderr
    run("link", "delete", "l", "--force")


def test_configs_as_people_type_them(server, run, tmp_path):
    file = tmp_path / "link.properties"
    file.write_text("ack=both\nclient.id=f\n", encoding="utf-8")
    bootstrap = f"bootstrap.servers={SOURCE}"
    tried = run("link", "create", "l", "--config", bootstrap, "--dry-run").stdout
    assert tried == "link l to source cluster S would be created; nothing was\n"
    assert run("link", "list").stdout == "no links\n"

    run("link", "create", "l", "--config", bootstrap, "--config-file", str(file), "--config", "client.id=g")
    link = json.loads(run("link", "describe", "l", "-o", "json").stdout)
    assert (link["client"]["client.id"], link["configs"]["ack"]) == ("g", "both")


def test_a_link_is_changed_paused_and_looked_at(server, run):
    run("link", "create", "l", "--bootstrap", SOURCE)
    update = ("link", "configuration", "update", "l")
    assert "nothing was" in run(*update, "--config", "ack=both", "--dry-run").stdout
    assert run(*update, "--config", "ack=both").stdout == "changed link l: ack\n"
    shown = json.loads(run("link", "configuration", "describe", "l", "--config", "ack", "-o", "json").stdout)
    assert (shown["value"], shown["source"]) == ("both", "DYNAMIC_CLUSTER_LINK_CONFIG")
    assert run(*update, "--reset", "ack").stdout == "changed link l: ack\n"
    listed = run("link", "configuration", "list", "l").stdout
    assert "cluster.link.retry.timeout.ms" in listed
    assert "create another link" in run(*update, "--config", "link.prefix=w.", code=1).stderr
    assert "--reset KEY" in run(*update, code=2).stderr
    assert "others see a secret" in run(*update, "--config", "sasl.password=p", code=2).stderr
    assert run("link", "pause", "l").stdout == "paused link l (PAUSED)\n"
    assert run("link", "resume", "l").stdout == "resumed link l (ACTIVE)\n"
    tasks = run("link", "task", "list", "l").stdout
    assert [line.split()[0] for line in tasks.splitlines()[1:]] == [
        "CheckAvailability",
        "TopicConfigsSync",
        "ConsumerOffsetSync",
        "AutoCreateMirror",
        "AclSync",
        "SchemaSync",
    ]
    plan = run("link", "delete", "l", "--dry-run").stdout
    assert "Would be deleted  yes" in plan
    assert "it has no mirrors and no groups" in plan
    assert run("link", "delete", "l").stdout == "deleted link l\n"


def test_a_dry_run_of_a_pause(linked, run):
    shown = run("link", "pause", "l", "--dry-run").stdout
    assert shown == "link l would be paused; nothing was changed\n"
    assert linked.plane.store.links["l"].configs == {}
    run("link", "pause", "l")
    assert run("link", "resume", "l", "--dry-run").stdout == "link l would be resumed; nothing was changed\n"
    assert linked.plane.store.links["l"].configs == {"cluster.link.paused": "true"}


def test_a_dry_run_of_a_delete_that_would_be_refused(linked, run):
    run("mirror", "create", "orders", "--link", "l")
    refused = run("link", "delete", "l", "--dry-run", code=1)
    assert "orders" in refused.stdout
    assert refused.stderr.startswith("error: 1 mirror topic(s) are not STOPPED")
    assert "Would be deleted  yes" in run("link", "delete", "l", "--dry-run", "--force").stdout
    assert "l" in linked.plane.store.links
