"""`lockgate quotas`."""

from __future__ import annotations

import json

import pytest

from gateway.kafka.rules.quota import EntityType, QuotaEntityPart, QuotaKey

ALICE = QuotaKey((QuotaEntityPart(EntityType.USER, "alice"),), "producer_byte_rate")
ANYBODY = QuotaKey((QuotaEntityPart(EntityType.USER, None),), "request_percentage")


@pytest.fixture
def quotas(linked):
    linked.plane.source.quotas_there = {ALICE: 100.0, ANYBODY: 50.0}
    linked.plane.target.quotas_there = {ALICE: 7.0}
    return linked.plane


def test_a_plan_is_a_diff(quotas, run):
    lines = run("quotas", "plan", "--link", "l", "--factor", "2").stdout.splitlines()
    assert lines[0] == "+ user <default>: request_percentage=100 (source 50): MISSING"
    assert lines[1].startswith(
        "! user alice: producer_byte_rate=200 (source 100, the target has 7): DIFFERS, it may be"
    )
    assert lines[-1] == "1 MISSING, 1 DIFFERS, 0 are the target's own"
    assert json.loads(run("quotas", "plan", "--link", "l", "-o", "json").stdout)["counts"]["DIFFERS"] == 1


def test_what_differs_is_set_when_asked_for(quotas, run):
    assert "+ user <default>" in run("quotas", "apply", "--link", "l", "--factor", "request_percentage=2").stdout
    assert quotas.target.quotas_there == {ALICE: 7.0, ANYBODY: 100.0}
    run("quotas", "apply", "--link", "l", "--overwrite", "--dry-run")
    assert quotas.target.quotas_there[ALICE] == 7.0
    run("quotas", "apply", "--link", "l", "--overwrite")
    assert quotas.target.quotas_there == quotas.source.quotas_there


def test_a_refusal_is_the_exit_code(quotas, run):
    quotas.target.refused_users = {"alice"}
    assert "REFUSED, no" in run("quotas", "apply", "--link", "l", "--overwrite", code=1).stdout
    assert run("quotas", "apply", "--link", "l", "--factor", "many", code=2).stderr.startswith("error: --factor many")
    assert "is no number above 0" in run("quotas", "plan", "--link", "l", "--factor", "0", code=1).stderr
