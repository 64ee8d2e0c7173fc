"""Consumer lag on both clusters: what is asked, of how many groups, and what is not known."""

from __future__ import annotations

from gateway.groups.lag import GroupLags
from gateway.groups.reports import GroupReports
from gateway.kafka.commits import Committed
from gateway.state.records import GroupRecord, MirrorState
from tests.support.fakes.fake_engine import status
from tests.support.waiting import wait_until_async


def lags_of(plane, at_most=10, interval_s=30.0):
    return GroupLags(
        records=plane.parts.records,
        views=plane.parts.views,
        target=plane.target,
        running=plane.engine.status,
        reports=plane.service.group_reports,
        interval_s=interval_s,
        at_most=at_most,
    )


async def test_both_sides_by_what_the_mirror_knows(plane):
    await plane.with_mirror("orders", partitions=2)
    await plane.by_hand(GroupRecord(link="l", group="g"))
    plane.engine.numbers["l", "orders"] = [
        status(0, source_end=100, target_end=90),
        status(1, source_end=50, target_end=50),
    ]
    plane.source.offsets["g"] = {("orders", 0): Committed(95, -1, ""), ("other", 0): Committed(1, -1, "")}
    plane.target.offsets["g"] = {("orders", 0): Committed(80, -1, ""), ("orders", 1): Committed(50, -1, "")}
    await lags_of(plane).look()
    (found,) = plane.service.group_reports.lags.values()
    assert (dict(found.source), dict(found.target)) == ({"orders": 5}, {"orders": 10})
    (numbers,) = plane.service.numbers().groups
    assert (dict(numbers.source_lag), dict(numbers.target_lag)) == ({"orders": 5}, {"orders": 10})


async def test_a_topic_that_is_not_mirrored_now_is_asked_about(plane):
    await plane.with_mirror("orders", partitions=1, ends=70)
    await plane.service.mirrors.promote("l", ["orders"])
    await wait_until_async(lambda: plane.state() is MirrorState.STOPPED)
    await plane.by_hand(GroupRecord(link="l", group="g"))
    plane.source.offsets["g"] = {("orders", 0): Committed(60, -1, "")}
    await lags_of(plane).look()
    assert dict(plane.service.group_reports.lags["l", "g"].source) == {"orders": 10}


async def test_a_cluster_that_does_not_tell_has_no_lag(plane):
    await plane.with_mirror("orders", partitions=1)
    await plane.by_hand(GroupRecord(link="l", group="g"))
    plane.engine.numbers["l", "orders"] = [status(0, source_end=100, target_end=90)]
    plane.target.offsets["g"] = {("orders", 0): Committed(80, -1, "")}
    plane.source.down = True
    await lags_of(plane).look()
    found = plane.service.group_reports.lags["l", "g"]
    assert (dict(found.source), dict(found.target)) == ({}, {"orders": 10})


async def test_each_group_has_its_turn(plane):
    await plane.with_link()
    for number in range(5):
        await plane.by_hand(GroupRecord(link="l", group=f"g{number}"))
    lags, seen = lags_of(plane, at_most=2), []
    for _ in range(3):
        plane.service.group_reports.lags.clear()
        await lags.look()
        seen.append(sorted(group for _, group in plane.service.group_reports.lags))
    assert seen == [["g0", "g1"], ["g2", "g3"], ["g0", "g4"]]


async def test_a_group_that_is_gone_is_forgotten(plane):
    await plane.with_link()
    plane.service.group_reports.lags["l", "gone"] = GroupReports().lags.get(("", ""))
    await lags_of(plane).look()
    assert not plane.service.group_reports.lags
