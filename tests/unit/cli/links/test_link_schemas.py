"""`lockgate link schemas`."""

from __future__ import annotations

import json

import pytest

from tests.support.registries.registry_pair import RegistryPair


@pytest.fixture
def pair(server) -> RegistryPair:
    made = RegistryPair(server.plane)
    made.source.add("orders-value", {"type": "string"}, schema_id=7)
    made.source.add("orders-value", {"type": "int"}, schema_id=9)
    made.source.subjects["orders-value"][1].deleted = True
    made.source.levels["orders-value"] = "FULL"
    made.source.add("lines-value", {"type": "int"}, schema_id=8)
    made.target.add("mine", {"type": "long"}, schema_id=8)
    return made


def test_a_plan_is_a_diff(server, run, pair):
    server.do(lambda: pair.link(cluster_link_paused="true"))
    lines = run("link", "schemas", "plan", "l").stdout.splitlines()
    assert lines == [
        "~ orders-value: mode IMPORT",
        "+ orders-value version 1, id 7",
        "+ orders-value version 2, id 9",
        "~ orders-value: compatibility FULL",
        "- orders-value version 1, id 7: soft-deleted",
        "! lines-value version 1: ID_TAKEN, the target has another schema under id 8",
        "5 changes, 0 versions stay, 1 are left out; 2 subjects, 0 ids",
    ]
    assert json.loads(run("link", "schemas", "sync", "l", "--dry-run", "-o", "json").stdout)["change_count"] == 5
    assert not pair.target.requests


def test_nothing_was_copied_yet(server, run, pair):
    server.do(lambda: pair.link(cluster_link_paused="true"))
    assert run("link", "schemas", "list", "l").stdout == "no schemas\n"


def test_what_was_copied(server, run, pair):
    server.do(pair.link)
    done = run("link", "schemas", "sync", "l", "--id", "9").stdout.splitlines()
    assert done[-1] == "0 changes, 2 versions stay, 1 are left out; 2 subjects, 2 ids"
    rows = [line.split() for line in run("link", "schemas", "list", "l").stdout.splitlines()]
    assert rows[1:] == [["orders-value", "1", "7", "1", "7", "soft-deleted"], ["orders-value", "2", "9", "2", "9"]]
    assert "such as 1 of 'lines-value'" in run("link", "schemas", "promote", "l", code=1).stderr
    promoted = run("link", "schemas", "promote", "l", "--force").stdout
    assert promoted == "promoted the schemas of link l: 1 subjects\n"
    assert "promoted" in run("link", "schemas", "list", "l").stdout
    assert json.loads(run("link", "schemas", "list", "l", "-o", "json").stdout)["data"][0]["promoted"] is True


def test_a_secret_is_not_given_on_the_command_line(run):
    for name in ("basic.auth.password", "bearer.auth.token", "ssl.key.password"):
        given = ("link", "create", "l", "--set", f"schema.target.registry.{name}=x")
        assert "others see a secret on a command line" in run(*given, code=2).stderr


def test_a_check_is_an_exit_code(server, run, pair):
    server.do(pair.linked)
    assert run("link", "schemas", "check", "l").stdout == "no mirror topics\n"
    server.do(lambda: server.plane.with_mirror("orders", 1))
    server.plane.target.schema_ids_of = {("orders", 0, 99): frozenset({8, 9})}
    server.plane.target.existing["orders"].ranges = [(0, 100)]
    pair.target.schemas.pop(8)
    rows = [line.split() for line in run("link", "schemas", "check", "l", code=1).stdout.splitlines()]
    assert rows[1] == ["orders", "2", "8"]
