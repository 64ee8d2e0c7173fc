"""Which quotas are set, to what, and what is left alone."""

from __future__ import annotations

import pytest

from gateway.access.rules import quotas
from gateway.access.rules.quotas import (
    QuotaOptions,
    QuotaRow,
    QuotaState,
    TooManyQuotas,
    notes,
    plan_quotas,
    require_factors,
    scaled,
)
from gateway.kafka.rules.quota import EntityType, QuotaEntityPart, QuotaKey

RATE = "producer_byte_rate"


def quota(key: str = RATE, **parts: str | None) -> QuotaKey:
    entity = tuple(QuotaEntityPart(EntityType(kind.replace("_", "-")), name) for kind, name in parts.items())
    return QuotaKey(entity, key)


ALICE = quota(user="alice")
APP = quota(client_id="app")
BOTH = quota(user="alice", client_id="app")
ADDRESS = quota("connection_creation_rate", ip="10.0.0.1")
ANY_ADDRESS = quota("connection_creation_rate", ip=None)
ANYBODY = quota(user=None)


def one(source: QuotaKey, present: float | None = None, rules: str = "DEFAULT", **options) -> QuotaRow:
    target = {} if present is None else {source: present}
    (row,) = plan_quotas({source: 100.0}, target, rules, QuotaOptions(**options))
    return row


@pytest.mark.parametrize("key", [ALICE, APP, BOTH, ADDRESS, ANYBODY])
def test_every_entity_is_copied(key):
    row = one(key, factor=2.0)
    assert (row.state, row.target, row.wanted) == (QuotaState.MISSING, key, 200.0)


def test_what_is_the_same_is_left():
    assert one(ALICE, 100.0).state is QuotaState.SAME
    assert one(ALICE, 200.0, factor=2.0).state is QuotaState.SAME


def test_what_the_target_has_of_its_own_stays_unless_asked():
    assert one(ALICE, 7.0).state is QuotaState.DIFFERS
    assert one(ALICE, 7.0, overwrite=True).state is QuotaState.OVERWRITE
    assert plan_quotas({}, {ALICE: 7.0}, "DEFAULT", QuotaOptions(overwrite=True)) == []


def test_a_factor_of_one_key():
    mutations = quota("controller_mutation_rate", user="alice")
    row = one(mutations, factor=2.0, factors={"controller_mutation_rate": 1.0})
    assert row.wanted == 100.0


@pytest.mark.parametrize(
    ("key", "value", "factor", "found"),
    [
        (RATE, 1000.0, 0.3333, 333.0),
        (RATE, 1.0, 0.001, 1.0),
        ("connection_creation_rate", 3.0, 0.5, 2.0),
        ("request_percentage", 1.0, 0.5, 0.5),
        ("request_percentage", 0.0, 2.0, None),
        (RATE, 1e308, 1e308, None),
    ],
)
def test_numbers_are_what_brokers_take(key, value, factor, found):
    assert scaled(key, value, factor) == found


def test_users_are_named_by_the_mapping_rules():
    row = one(BOTH, rules="RULE:User:(.*)/User:prod-$1/")
    assert row.target == quota(user="prod-alice", client_id="app")
    assert one(BOTH, rules="RULE:User:b/User:c/").state is QuotaState.PRINCIPAL_NOT_MAPPED
    assert one(ANYBODY, rules="RULE:User:b/User:c/").state is QuotaState.MISSING


def test_two_quotas_do_not_become_one():
    source = {ALICE: 1.0, quota(user="bob"): 2.0}
    rows = plan_quotas(source, {}, "RULE:User:.*/User:app/", QuotaOptions())
    assert {row.state for row in rows} == {QuotaState.SAME_NAME}


def test_the_quota_of_all_addresses_waits_to_be_asked_for():
    assert one(ANY_ADDRESS).state is QuotaState.GATEWAY_ADDRESS
    assert one(ANY_ADDRESS, default_ip=True).state is QuotaState.MISSING


def test_notes():
    def said(key: QuotaKey) -> str:
        return " ".join(notes([one(key, default_ip=True)]))

    assert "the gateway's own, too" in said(ANYBODY)
    assert "do" not in said(ALICE)
    assert "a client's address does not meet them" in said(ADDRESS)


def test_bounds(monkeypatch):
    monkeypatch.setattr(quotas, "MOST_QUOTAS", 1)
    with pytest.raises(TooManyQuotas, match="the source has 2"):
        plan_quotas({ALICE: 1.0, APP: 1.0}, {}, "DEFAULT", QuotaOptions())
    for options in (QuotaOptions(factor=0), QuotaOptions(factors={"x": -1.0}), QuotaOptions(factor=float("nan"))):
        with pytest.raises(ValueError, match="is no number above 0"):
            require_factors(options)
