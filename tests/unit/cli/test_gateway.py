from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.cli import api

UP = {
    "name": "one",
    "role": "node",
    "state": "up",
    "leads": True,
    "peer": "10.0.0.1:4000",
    "lease_s": 600.0,
    "lease_left_s": None,
    "mirror_partitions": 3,
    "admitted_ms": 1,
}
LOST = UP | {"name": "two", "state": "lost", "leads": False, "lease_left_s": 540.0, "mirror_partitions": 0}
FORGET = {
    "kind": "LockgateForgetPlan",
    "name": "two",
    "refused": "",
    "processes": ["two", "two#2"],
    "lease_left_s": 540.0,
}
THERE = FORGET | {"name": "one", "refused": "gateway 'one' is there: stop it first", "processes": []}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    seen: list[tuple[str, str]] = []

    def call(_: api.Api, method: str, path: str, body: Any = None, params: Any = None) -> Any:
        seen.append((method, path))
        if params == {"validate_only": "true"}:
            return THERE if path.endswith("/one") else FORGET
        if method == "DELETE":
            return None
        return {"data": [UP, LOST]} if path == "/v3/gateways" else LOST

    monkeypatch.setattr(api.Api, "_call", call)
    return seen


def test_list_names_the_leader_and_who_is_lost(run, asked):
    rows = [row.rstrip() for row in run("gateway", "list").stdout.splitlines()]
    assert rows[1].split()[:5] == ["one", "up", "node", "leads", "3"]
    assert rows[4].endswith("promotes wait until it is back, or its lease is over in 9 min 0 s")
    assert json.loads(run("gateway", "list", "-o", "json").stdout)["data"] == [UP, LOST]


def test_describe_says_what_a_lost_gateway_means(run, asked):
    shown = run("gateway", "describe", "two").stdout
    for words in ("two", "lost", "10.0.0.1:4000", "10 min 0 s", "9 min 0 s"):
        assert words in shown


def test_forget(run, asked):
    assert run("gateway", "forget", "a b:9292").stdout == "forgotten a b:9292\n"
    assert asked == [("DELETE", "/v3/gateways/a%20b%3A9292")]


def test_what_forget_would_mean(run, asked):
    shown = run("gateway", "forget", "two", "--dry-run").stdout
    assert shown == (
        "would forget two, two#2; promotes wait for it for 9 min 0 s otherwise. Whether it has stopped you must know\n"
    )
    refused = run("gateway", "forget", "one", "--dry-run", code=1)
    assert refused.stderr == "error: gateway 'one' is there: stop it first\n"
    assert json.loads(run("gateway", "forget", "two", "--dry-run", "-o", "json").stdout) == FORGET
