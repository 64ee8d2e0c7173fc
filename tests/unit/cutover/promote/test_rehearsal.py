"""A rehearsal of a promote: all of it but the cutover, and back; what it tells, and what it leaves behind."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.cutover.promote.rules.promote import REHEARSAL
from gateway.cutover.write_pause.rules.routing import WritePhase
from gateway.errors import Conflict
from gateway.state.mirror_states import WrongState
from gateway.state.records import MirrorState
from tests.support.control.control_plane import Plane
from tests.support.control.mirror_records import changed
from tests.support.control.topic_scene import LIMITS, TopicScene, mirrored_topic
from tests.support.waiting import wait_until_async


@pytest.fixture
async def scene(plane: Plane) -> TopicScene:
    return await mirrored_topic(plane)


async def test_it_comes_to_the_cutover_and_goes_back(scene: TopicScene) -> None:
    before = scene.record
    rehearsal = await scene.promoter.rehearse("l", ["orders"])
    assert rehearsal.given_up == ""
    assert rehearsal.bound_s == LIMITS.pause_timeout_s
    assert rehearsal.pause is not None
    assert LIMITS.grace_s <= rehearsal.pause.paused_s < LIMITS.pause_timeout_s
    assert [stall.client_id for stall in rehearsal.pause.stalls] == ["app", "job"]
    assert (rehearsal.pause.clients, list(rehearsal.pause.untold)) == (2, [])
    scene.assert_back()
    assert WritePhase.SWITCHED not in scene.phases
    assert WritePhase.PAUSED in scene.phases
    assert ("stop_mirror", "orders") in scene.plane.engine.log
    assert not any('"STOPPED"' in str(commit) for commit in scene.plane.log.commits)
    unlike = replace(scene.record, cutover=before.cutover, state_since_ms=before.state_since_ms)
    assert unlike == before, "but for the number of the write pause, and since when it is ACTIVE"
    assert scene.held == [("l", "rehearsed")]


async def test_a_promote_after_it_is_as_without(scene: TopicScene) -> None:
    await scene.promoter.rehearse("l", ["orders"])
    (record,) = await scene.promote()
    assert record.state is MirrorState.STOPPED
    assert [topic for topic, _ in scene.forwarder.paused] == ["orders", "orders"]


async def test_the_longest_stalls_come_first_and_who_did_not_say_is_named(scene: TopicScene) -> None:
    scene.forwarder.mute = True
    rehearsal = await scene.promoter.rehearse("l", ["orders"])
    assert rehearsal.pause is not None
    assert (list(rehearsal.pause.stalls), list(rehearsal.pause.untold)) == ([], ["g"])


async def test_it_never_holds_writes_longer_than_its_bound(scene: TopicScene) -> None:
    scene.ends.transactions["orders"] = ("open",)
    began = asyncio.get_running_loop().time()
    rehearsal = await scene.promoter.rehearse("l", ["orders"], 0.05)
    assert rehearsal.bound_s == 0.05
    assert "the end of transaction 'open'" in rehearsal.given_up
    assert rehearsal.pause is not None
    assert rehearsal.pause.paused_s < LIMITS.pause_timeout_s
    assert asyncio.get_running_loop().time() - began < 5
    scene.assert_back()
    assert scene.record.error_message == ""
    assert scene.record.transition_errors == ()
    assert (await scene.promoter.rehearse("l", ["orders"], 9.0)).bound_s == LIMITS.pause_timeout_s


async def test_it_is_given_up_when_its_pause_does_not_begin(scene: TopicScene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.cutover.promote.promoter.BEFORE_PAUSE_S", 0.05)
    scene.advance("orders", 1, 50)
    rehearsal = await scene.promoter.rehearse("l", ["orders"])
    assert "did not begin within 0.05 s: a partition of orders is 50 records behind" in rehearsal.given_up
    assert rehearsal.pause is None
    scene.assert_back()


async def test_a_bypassing_writer_ends_it_as_it_would_end_a_promote(scene: TopicScene) -> None:
    def on_read(number: int) -> None:
        if scene.forwarder.paused:
            scene.ends.ends["orders"][0] += 1

    scene.ends.on_read = on_read
    rehearsal = await scene.promoter.rehearse("l", ["orders"])
    assert "a producer that does not use the gateway wrote to orders" in rehearsal.given_up
    scene.assert_back()


@pytest.mark.parametrize("topics", [("orders",), ("orders", "payments")])
async def test_one_that_was_interrupted_is_given_up(scene: TopicScene, topics: tuple[str, ...]) -> None:
    """By whoever leads next, of a version that knows nothing of rehearsals, too: its set is never whole."""
    if "payments" in topics:
        await scene.mirror("payments")
    for topic in topics:
        record = scene.plane.store.mirrors["l", topic]
        values = {"state": MirrorState.PENDING_STOPPED, "pause_epoch": 3, "promoted_with": (*topics, REHEARSAL)}
        await scene.plane.store.put(changed(record, **values))
    scene.promoter.resume()
    await wait_until_async(lambda: {scene.plane.state(t) for t in topics} == {MirrorState.ACTIVE}, 5, what="ACTIVE")
    assert scene.record.error_message == ""
    assert not scene.record.cutover.promoted_with
    assert scene.forwarder.paused == []
    assert not any('"STOPPED"' in str(commit) for commit in scene.plane.log.commits)


async def test_its_records_say_so_and_nobody_promotes_meanwhile(scene: TopicScene) -> None:
    scene.forwarder.silent = True
    rehearsal = asyncio.create_task(scene.promoter.rehearse("l", ["orders"]))
    await wait_until_async(lambda: scene.record.state is MirrorState.PENDING_STOPPED, 5, what="PENDING_STOPPED")
    assert scene.record.cutover.promoted_with == ("orders", REHEARSAL)
    with pytest.raises(Conflict, match="is being promoted already"):
        await scene.promote()
    assert "writes to orders still in flight at g" in (await rehearsal).given_up
    scene.assert_back()


async def test_what_cannot_be_promoted_is_not_rehearsed(scene: TopicScene) -> None:
    await scene.plane.store.put(replace(scene.record, state=MirrorState.PAUSED))
    with pytest.raises(WrongState, match="resume it first"):
        await scene.promoter.rehearse("l", ["orders"])
    assert scene.forwarder.paused == []


async def test_a_failover_that_comes_while_it_is_checked_goes_first(
    scene: TopicScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever fails a topic over relies on it: what has not begun by then does not begin any more."""
    checked, go_on = asyncio.Event(), asyncio.Event()

    async def check(*_: object) -> None:
        checked.set()
        await go_on.wait()

    monkeypatch.setattr(scene.promoter, "_check_partitions", check)
    rehearsal = asyncio.create_task(scene.promoter.rehearse("l", ["orders"]))
    await checked.wait()
    async with scene.promoter.without("l", "orders"):
        go_on.set()
        assert "is being failed over" in (await rehearsal).given_up
    assert (await rehearsal).pause is None
    assert scene.forwarder.paused == []
    assert scene.record.state is MirrorState.ACTIVE
