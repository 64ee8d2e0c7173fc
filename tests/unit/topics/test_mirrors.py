"""Pause, resume, promote, list, describe."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.errors import BadRequest, Conflict, NotFound
from gateway.kafka.groups import GroupView, MemberView
from gateway.state.errors import StoreError
from gateway.state.mirror_states import WrongState
from gateway.state.records import MirrorDirection, MirrorState
from gateway.topics.clients_not_migrated import Reader
from tests.support.control.mirror_records import changed
from tests.support.fakes.fake_engine import status
from tests.support.waiting import wait_until_async


def member(client_id: str, *topics: str) -> MemberView:
    return MemberView(member_id=f"{client_id}-1", client_id=client_id, host="/10.0.0.1", subscribed=frozenset(topics))


async def mirrored_back(plane, name):
    """As after a promote and a reverse."""
    record = plane.store.mirrors["l", name]
    await plane.by_hand(changed(record, direction=MirrorDirection.REVERSE, stopped_at=(100,) * len(record.starts)))


async def test_pause_and_resume(plane):
    await plane.with_mirror()
    plane.now_ms += 5

    paused = await plane.service.mirrors.pause("l", "orders")
    assert (paused.record.state, paused.record.state_since_ms) == (MirrorState.PAUSED, plane.now_ms)
    assert plane.engine.running == {}

    resumed = await plane.service.mirrors.resume("l", "orders")
    assert resumed.record.state is plane.state() is MirrorState.ACTIVE
    assert plane.engine.log[-2:] == [("stop_mirror", "orders"), ("start_mirror", "orders")]


async def test_wrong_states_change_nothing(plane):
    await plane.with_mirror()

    with pytest.raises(WrongState, match="mirror topic 'orders' is not paused"):
        await plane.service.mirrors.resume("l", "orders")
    await plane.service.mirrors.pause("l", "orders")
    log = list(plane.engine.log)
    with pytest.raises(WrongState, match="already PAUSED"):
        await plane.service.mirrors.pause("l", "orders")

    assert plane.engine.log == log
    assert plane.state() is MirrorState.PAUSED


async def test_a_store_that_fails_leaves_the_engine_running(plane):
    await plane.with_mirror()
    plane.log.failures = [StoreError("no")]

    with pytest.raises(StoreError):
        await plane.service.mirrors.pause("l", "orders")

    assert ("l", "orders") in plane.engine.running
    assert plane.state() is MirrorState.ACTIVE


async def test_unknown_names(plane):
    with pytest.raises(NotFound, match="link 'l' does not exist"):
        await plane.service.mirrors.pause("l", "x")
    await plane.with_link()
    with pytest.raises(NotFound, match="link 'l' has no mirror topic 'x'"):
        await plane.service.mirrors.describe("l", "x")
    with pytest.raises(NotFound):
        await plane.service.mirrors.promote("l", ["x"])


async def test_list_by_state(plane):
    await plane.with_mirror("b")
    await plane.with_mirror("a")
    await plane.service.mirrors.pause("l", "b")

    assert [view.record.mirror_topic for view in plane.service.mirrors.list("l")] == ["a", "b"]
    assert [v.record.mirror_topic for v in plane.service.mirrors.list("l", MirrorState.PAUSED)] == ["b"]


async def test_describe_shows_partitions_and_who_has_not_moved(plane):
    await plane.with_mirror()
    plane.engine.numbers["l", "orders"] = [status(0, bypassed_last_minute=4), status(1), status(2, lag=5)]
    plane.source.groups["g"] = GroupView(
        group="g",
        state="Stable",
        type="classic",
        protocol_type="consumer",
        members=(member("app-2", "orders", "x"), member("app-1", "orders"), member("app-3", "x")),
    )

    view = await plane.service.mirrors.describe("l", "orders")

    assert [partition.lag for partition in view.partitions] == [0, 0, 5]
    assert view.clients_not_migrated is not None
    assert view.clients_not_migrated.bypassed_last_minute == 4
    assert view.clients_not_migrated.readers == (Reader("g", "app-1", "/10.0.0.1"), Reader("g", "app-2", "/10.0.0.1"))


async def test_describe_asks_for_all_groups_at_most_every_five_seconds(plane):
    await plane.with_mirror()
    await asyncio.gather(*(plane.service.mirrors.describe("l", "orders") for _ in range(5)))

    assert plane.source.calls.count("group_ids") == 1


async def test_describe_without_the_source_says_what_is_unknown(plane):
    await plane.with_mirror()
    plane.source.down = True

    view = await plane.service.mirrors.describe("l", "orders")

    assert view.clients_not_migrated is not None
    assert view.clients_not_migrated.readers is None
    assert "connection refused" in view.clients_not_migrated.unknown


async def test_a_paused_mirror_is_measured_at_both_ends(plane):
    await plane.with_mirror(partitions=2)
    plane.engine.numbers["l", "orders"] = [status(0, records_total=7), status(1, phase="failed", last_error="gap")]
    await plane.service.mirrors.pause("l", "orders")
    plane.source.existing["orders"].ranges = [(0, 150), (0, 100)]
    plane.target.existing["orders"].ranges = [(0, 100), (0, 100)]

    kept = plane.service.mirrors.list("l")[0].partitions
    now = (await plane.service.mirrors.describe("l", "orders")).partitions

    assert [(p.phase, p.lag, p.bytes_per_s) for p in kept] == [("paused", 0, 0.0), ("failed", 0, 0.0)]
    assert [(p.phase, p.lag, p.lag_ms, p.mirrored_to) for p in now] == [
        ("paused", 50, None, 100),
        ("failed", 0, 0, 100),
    ]
    assert (now[0].records_total, now[1].last_error) == (7, "gap")


async def test_a_paused_mirror_whose_source_is_gone_shows_what_was_known(plane):
    await plane.with_mirror(partitions=1)
    plane.engine.numbers["l", "orders"] = [status(0, lag=3)]
    await plane.service.mirrors.pause("l", "orders")
    plane.source.down = True

    view = await plane.service.mirrors.describe("l", "orders")

    assert [(p.phase, p.lag) for p in view.partitions] == [("paused", 3)]


async def test_promote_returns_when_it_has_begun_and_ends_in_stopped(plane):
    await plane.with_mirror("a")
    await plane.with_mirror("b")
    plane.promoters.gate = asyncio.Event()

    begun = await asyncio.wait_for(plane.service.mirrors.promote("l", ["a", "b", "a"]), 5)

    assert [view.record.state for view in begun] == [MirrorState.PENDING_STOPPED] * 2
    plane.promoters.waits = "lag is 7"
    assert plane.service.mirrors.list("l")[0].waiting_for == "lag is 7"
    assert plane.promoters.asked == [("l", ("a", "b"), False)]
    plane.promoters.gate.set()
    await wait_until_async(lambda: plane.state("a") is plane.state("b") is MirrorState.STOPPED)
    assert [p.mirrored_to for p in plane.service.mirrors.list("l")[0].partitions] == [7, 8, 9]
    plane.promoters.after_cutover = {1: 4}
    assert plane.service.mirrors.list("l")[0].records_after_cutover == {1: 4}


async def test_promote_is_all_or_none(plane):
    await plane.with_mirror("a")
    await plane.with_mirror("b")
    await plane.service.mirrors.pause("l", "b")

    with pytest.raises(WrongState, match="mirror topic 'b' is PAUSED; resume it first"):
        await plane.service.mirrors.promote("l", ["a", "b"])
    with pytest.raises(BadRequest):
        await plane.service.mirrors.promote("l", [])

    assert plane.promoters.asked == []
    assert plane.state("a") is MirrorState.ACTIVE


async def test_a_promote_that_names_the_other_direction_is_refused(plane):
    await plane.with_mirror()

    with pytest.raises(WrongState, match=r"'orders' is written on the source already \(ACTIVE\)"):
        await plane.service.mirrors.promote("l", ["orders"], direction=MirrorDirection.REVERSE)

    assert plane.promoters.asked == []
    await plane.service.mirrors.promote("l", ["orders"])


async def test_a_promote_goes_to_the_target_unless_it_is_said_that_it_goes_home(plane):
    await plane.with_mirror("a")
    await plane.with_mirror("b")
    await mirrored_back(plane, "b")

    with pytest.raises(WrongState, match="'b' is written on the target already, and mirrored back to the source"):
        await plane.service.mirrors.promote("l", ["a", "b"])

    assert plane.promoters.asked == []
    plane.promoters.gate = asyncio.Event()  # its end is the promoter's
    await plane.service.mirrors.promote("l", ["b"], direction=MirrorDirection.REVERSE)
    assert plane.promoters.asked == [("l", ("b",), False)]


async def test_promote_without_the_source_only_by_force(plane):
    mirror = await plane.with_mirror()
    await plane.store.put(replace(mirror, state=MirrorState.SOURCE_UNAVAILABLE))

    with pytest.raises(WrongState, match="source is unavailable"):
        await plane.service.mirrors.promote("l", ["orders"])
    await plane.service.mirrors.promote("l", ["orders"], force=True)
    await wait_until_async(lambda: plane.state() is MirrorState.STOPPED)


async def test_a_promote_that_is_refused_at_once_raises(plane):
    await plane.with_mirror()
    plane.promoters.refusal = Conflict("lag is 7000 records, more than 1000")

    with pytest.raises(Conflict, match="lag is 7000"):
        await plane.service.mirrors.promote("l", ["orders"])

    assert plane.state() is MirrorState.ACTIVE


async def test_why_a_promote_was_aborted_is_shown_until_the_next(plane):
    await plane.with_mirror()
    plane.promoters.gate = asyncio.Event()
    plane.promoters.refusal = Conflict("orders-0: records 10 to 12 bypassed the gateway")
    await plane.service.mirrors.promote("l", ["orders"])
    plane.promoters.gate.set()

    await wait_until_async(lambda: plane.service.mirrors.list("l")[0].promote_error != "")
    view = plane.service.mirrors.list("l")[0]
    assert "bypassed" in view.promote_error
    assert view.record.state is MirrorState.ACTIVE

    plane.promoters.refusal = None
    await plane.service.mirrors.promote("l", ["orders"])
    assert plane.service.mirrors.list("l")[0].promote_error == ""


async def test_a_second_promote_does_not_disturb_the_first(plane):
    await plane.with_mirror()
    checking = asyncio.Event()
    promote = plane.promoters.promote_topics

    async def slow(link, topics, force):
        await checking.wait()  # still ACTIVE: nothing is marked yet
        return await promote(link, topics, force)

    plane.promoters.promote_topics = slow
    first = asyncio.create_task(plane.service.mirrors.promote("l", ["orders"]))
    await wait_until_async(lambda: plane.service.mirrors._promoting)

    with pytest.raises(Conflict, match="being promoted already"):
        await plane.service.mirrors.promote("l", ["orders"])
    checking.set()
    await first

    await wait_until_async(lambda: plane.state() is MirrorState.STOPPED)
    assert plane.service.mirrors.list("l")[0].promote_error == ""


async def test_deleting_a_link_forgets_what_was_known_of_its_mirrors(plane):
    await plane.with_mirror()
    plane.promoters.refusal = Conflict("no")
    with pytest.raises(Conflict):
        await plane.service.mirrors.promote("l", ["orders"])
    await plane.service.links.delete("l", force=True)
    del plane.target.existing["orders"]
    plane.promoters.refusal = None

    await plane.with_mirror()

    assert plane.service.mirrors.list("l")[0].promote_error == ""


async def test_a_record_that_does_not_say_where_its_partitions_ended_is_shown_with_that(plane):
    """And the others are, too."""
    await plane.with_mirror("a")
    await plane.with_mirror("b")
    broken = changed(plane.store.mirrors["l", "a"], state=MirrorState.STOPPED, stopped_at=(7, 8))
    await plane.store.put(broken)
    shown, other = plane.service.mirrors.list("l")
    assert "2 entries in stopped_at, the topic 3 partitions" in shown.waiting_for
    assert not shown.partitions
    assert not other.waiting_for
    assert (await plane.service.mirrors.describe("l", "a")).waiting_for == shown.waiting_for
