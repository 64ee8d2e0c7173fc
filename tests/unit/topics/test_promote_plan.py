"""A dry run of a promote: what blocks it, who has not moved, and how long it needs."""

from __future__ import annotations

import pytest

from gateway.errors import BadRequest, Conflict, NotFound
from gateway.kafka.groups import GroupView, MemberView
from gateway.state.records import MirrorDirection
from gateway.topics.promote_plan import eta_s
from tests.support.control.mirror_records import changed
from tests.support.fakes.fake_engine import status


async def mirrored_back(plane, name):
    """As after a promote and a reverse."""
    record = plane.store.mirrors["l", name]
    await plane.by_hand(changed(record, direction=MirrorDirection.REVERSE, stopped_at=(100,) * len(record.starts)))


async def test_nothing_blocks_it(plane):
    await plane.with_mirror()
    plane.engine.numbers["l", "orders"] = [status(0, bypassed_last_minute=3, waits_for="a transaction"), status(1)]
    member = MemberView(member_id="m", client_id="app", host="h", subscribed=frozenset(["orders"]))
    plane.source.groups["g"] = GroupView(
        group="g", state="Stable", type="classic", protocol_type="consumer", members=(member,)
    )
    plan = await plane.service.promote_plans.plan("l", ["orders"])
    assert plan.blockers == []
    (topic,) = plan.topics
    assert topic.eta_s == 0.0
    assert topic.waits_for[0] == "partition 0: a transaction"
    assert "3 records of the last minute" in topic.waits_for[1]
    assert [reader.client_id for reader in topic.view.clients_not_migrated.readers] == ["app"]
    assert plane.promoters.asked == []


async def test_every_topic_is_said_that_blocks_it(plane):
    await plane.with_mirror("a")
    await plane.with_mirror("b")
    await plane.service.mirrors.pause("l", "a")
    await plane.service.mirrors.pause("l", "b")
    plan = await plane.service.promote_plans.plan("l", ["a", "b"])
    assert [line.split("'")[1] for line in plan.blockers] == ["a", "b"]


async def test_what_the_promoter_refuses(plane):
    await plane.with_mirror()
    plane.promoters.refusal = Conflict("these groups read on the source and are not promoted: g")
    plan = await plane.service.promote_plans.plan("l", ["orders"])
    assert plan.blockers == ["these groups read on the source and are not promoted: g"]


async def test_each_topic_has_its_own_refusal_and_the_set_one_for_the_others(plane):
    for name in ("a", "b", "c"):
        await plane.with_mirror(name)
    await plane.service.mirrors.pause("l", "b")
    plane.promoters.refusal = Conflict("group g reads on the source")
    found = await plane.service.promote_plans.refusals("l", ["a", "b", "nope", "c", "a"])
    assert list(found) == ["a", "b", "nope", "c"]
    assert found["a"] is found["c"] is plane.promoters.refusal
    assert isinstance(found["nope"], NotFound)
    plan = await plane.service.promote_plans.plan("l", ["a", "b", "c"])
    assert [line.split("'")[1] for line in plan.blockers if "group g" not in line] == ["b"]
    assert plan.blockers.count("group g reads on the source") == 1


async def test_of_a_topic_that_is_mirrored_back_only_the_way_home_is_open(plane):
    await mirrored_back(plane, (await plane.with_mirror()).mirror_topic)
    (blocker,) = (await plane.service.promote_plans.plan("l", ["orders"])).blockers
    assert "is written on the target already" in blocker
    assert "lockgate mirror promote orders --failback --link l" in blocker
    home = await plane.service.promote_plans.plan("l", ["orders"], direction=MirrorDirection.REVERSE)
    assert home.blockers == []


async def test_a_paused_link_blocks_it(plane):
    await plane.with_mirror()
    await plane.service.link_updates.pause("l")
    (blocker,) = (await plane.service.promote_plans.plan("l", ["orders"])).blockers
    assert "link 'l' is paused" in blocker
    with pytest.raises(Conflict, match="link 'l' is paused"):
        await plane.service.mirrors.promote("l", ["orders"])


async def test_names(plane):
    await plane.with_link()
    with pytest.raises(NotFound):
        await plane.service.promote_plans.plan("l", ["x"])
    with pytest.raises(BadRequest):
        await plane.service.promote_plans.plan("l", [])


def test_eta():
    moving = status(0, lag=50, bytes_per_s=1000.0, records_total=10, bytes_total=1000)
    assert eta_s([moving]) == pytest.approx(5.0)
    assert eta_s([moving], limit=1) == pytest.approx(5.0 * moving.bytes_per_s)
    assert eta_s([status(0), status(1)]) == 0.0
    assert eta_s([status(0, lag=None)]) is None
    assert eta_s([status(0, lag=5, bytes_per_s=0.0, records_total=10, bytes_total=1000)]) is None
    assert eta_s([]) is None
