"""Client quotas over clusters in memory: what is set, and what stays."""

from __future__ import annotations

import pytest

from gateway.access.quotas import Quotas
from gateway.access.rules.quotas import QuotaOptions, QuotaState
from gateway.errors import BadRequest, TargetUnreachable
from gateway.kafka.access.quotas import IN_A_REQUEST
from gateway.kafka.connection.errors import ClusterUnavailable
from gateway.kafka.rules.quota import EntityType, QuotaEntityPart, QuotaKey


def quota(user: str) -> QuotaKey:
    return QuotaKey((QuotaEntityPart(EntityType.USER, user),), "producer_byte_rate")


@pytest.fixture
async def quotas(plane) -> Quotas:
    await plane.with_link()
    plane.source.quotas_there = {quota("alice"): 100.0, quota("bob"): 200.0}
    found: Quotas = plane.service.quotas
    return found


async def test_missing_ones_are_set_once(plane, quotas):
    plane.target.quotas_there = {quota("bob"): 7.0, quota("own"): 1.0}
    done = await quotas.apply("l", QuotaOptions(factor=0.5))
    assert {row.source: row.state for row in done.rows} == {
        quota("alice"): QuotaState.SET,
        quota("bob"): QuotaState.DIFFERS,
    }
    assert done.own == 1
    assert plane.target.quotas_there == {quota("alice"): 50.0, quota("bob"): 7.0, quota("own"): 1.0}
    again = await quotas.apply("l", QuotaOptions(factor=0.5))
    assert again.count(QuotaState.SAME) == 1
    assert len(plane.target.quota_requests) == 1


async def test_what_differs_is_set_when_asked_for(plane, quotas):
    plane.target.quotas_there = {quota("bob"): 7.0}
    await quotas.apply("l", QuotaOptions(overwrite=True))
    assert plane.target.quotas_there == plane.source.quotas_there


async def test_a_plan_changes_nothing(plane, quotas):
    plan = await quotas.plan("l", QuotaOptions())
    assert plan.count(QuotaState.MISSING) == 2
    assert plane.target.quota_requests == []


async def test_requests_are_bounded_and_a_refusal_holds_no_other_up(plane, quotas):
    plane.source.quotas_there = {quota(f"u{index}"): 1.0 for index in range(IN_A_REQUEST + 1)}
    plane.target.refused_users = {"u0"}
    done = await quotas.apply("l", QuotaOptions())
    assert sorted(map(len, plane.target.quota_requests)) == [1, IN_A_REQUEST]
    assert (done.count(QuotaState.SET), done.count(QuotaState.REFUSED)) == (IN_A_REQUEST, 1)


async def test_refusals(plane, quotas):
    with pytest.raises(BadRequest, match="factor: 0 is no number above 0"):
        await quotas.plan("l", QuotaOptions(factor=0))
    plane.target.refuse["set_quotas"] = ClusterUnavailable("gone")
    with pytest.raises(TargetUnreachable, match="gone"):
        await quotas.apply("l", QuotaOptions())


async def test_one_that_somebody_sets_meanwhile_stays(plane, quotas, monkeypatch):
    plane.source.quotas_there = {quota(f"u{index:03}"): 1.0 for index in range(IN_A_REQUEST + 1)}
    theirs, set_quotas = {quota(f"u{IN_A_REQUEST:03}"): 7.0}, plane.target.set_quotas

    async def and_somebody_else(wanted):
        plane.target.quotas_there.update(theirs)
        return await set_quotas(wanted)

    monkeypatch.setattr(plane.target, "set_quotas", and_somebody_else)
    done = await quotas.apply("l", QuotaOptions())
    assert (done.count(QuotaState.SET), done.count(QuotaState.DIFFERS)) == (IN_A_REQUEST, 1)
    assert plane.target.quotas_there[quota(f"u{IN_A_REQUEST:03}")] == 7.0
