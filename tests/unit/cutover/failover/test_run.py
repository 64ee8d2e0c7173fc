"""Failover of one topic, on a control plane in memory."""

from __future__ import annotations

import pytest

from gateway.cutover.failover import run as failover_run
from gateway.cutover.failover.rules.snapshot import FailoverLimits
from gateway.cutover.write_pause.rules.routing import WritePhase
from gateway.errors import Conflict
from gateway.mirror.rules.copy_ends import PartitionEnd
from gateway.state.errors import StoreError, StoreUncertain
from gateway.state.mirror_states import WrongState
from gateway.state.records import MirrorDirection, MirrorError, MirrorRecord, ProducerEntry
from tests.support.control.failback_scene import REVERSE, FailbackScene, S
from tests.support.control.topic_scene import FOLLOWING, TABLE, FakeEnds
from tests.support.fakes.fake_engine import status
from tests.support.waiting import wait_until_async


async def test_failover_without_a_source_counts_what_was_last_seen(scene: FailbackScene) -> None:
    plane = scene.plane
    await scene.set(S.SOURCE_UNAVAILABLE, readable=True)
    scene.ends.down = True
    ends = (100, 107, 0)
    plane.engine.numbers["l", "orders"] = [status(i, source_end=end) for i, end in enumerate(ends)]
    for index in range(3):
        plane.progress.advance("orders", index, 100)
    fetched, behind = (*TABLE[0], ProducerEntry(2**49, 0, 5, 9, 100)), (100, 105)  # the second one waits to be appended
    plane.engine.here["l", "orders"] = {
        index: PartitionEnd(100, 100, fetched, warm=index == 0, following=behind) for index in range(2)
    }
    told = []

    async def clamp(record: MirrorRecord) -> None:
        told.append(record.cutover.stopped_at)

    scene.periods = scene.make(on_failover=[clamp])
    assert (await scene.periods.failover_plan("l", "orders")).not_mirrored == (0, 7, -1)
    assert scene.record.state is S.SOURCE_UNAVAILABLE

    (record,) = await scene.periods.failover("l", ["orders"])

    assert (record.state, record.cutover.stopped_at, record.cutover.not_mirrored) == (
        S.STOPPED,
        (100, 100, 100),
        (0, 7, -1),
    )
    assert (record.cutover.producers, record.cutover.retries_unknown) == (
        TABLE,
        (1, 2),
    )  # one was not read far enough, one elsewhere: nobody is told that his retry is a success there
    assert told == [(100, 100, 100)]
    assert ("l", "orders") not in plane.engine.running
    assert scene.phases[-1] is WritePhase.SWITCHED
    assert WritePhase.PAUSED in scene.phases  # nothing was forwarded between the last append and the cutover


@pytest.mark.parametrize("lost", [False, True])
async def test_failover_waits_for_the_replicas_of_the_copy_for_a_while(
    scene: FailbackScene, monkeypatch: pytest.MonkeyPatch, lost: bool
) -> None:
    """What is above the high watermark may stay or not. A target without replicas holds no failover up for good."""
    monkeypatch.setattr(failover_run, "LIMITS", FailoverLimits(copy_s=0.2))
    await scene.set(S.ACTIVE, readable=True)
    plane, target_ends = scene.plane, FakeEnds({"orders": [100, 100, 100]}, hidden=3)
    plane.engine.here["l", "orders"] = {
        index: PartitionEnd(100, 100, TABLE[index], warm=True, following=FOLLOWING[index]) for index in range(3)
    }

    def replicated(reads: int) -> None:
        target_ends.hidden = 0 if reads > 2 and not lost else 3  # the first one is the plan's

    target_ends.on_read = replicated
    (record,) = await plane.failbacks(
        pauses={"gw": scene.forwarder}, ends=scene.ends, target_ends=target_ends
    ).failover("l", ["orders"])
    assert target_ends.reads > 2
    assert (record.state, record.cutover.stopped_copy_at) == (S.STOPPED, (100, 100, 100))
    assert record.cutover.producers == (((), (), ()) if lost else TABLE)
    assert record.cutover.retries_unknown == ((0, 1, 2) if lost else ())


async def test_failover_does_not_wait_for_writes_to_a_dead_source(scene: FailbackScene) -> None:
    await scene.set(S.ACTIVE, readable=True)
    scene.forwarder.silent = True
    (record,) = await scene.periods.failover("l", ["orders"])
    assert record.state is S.STOPPED


async def test_a_failover_that_cannot_be_stored_goes_back(scene: FailbackScene) -> None:
    await scene.set(S.ACTIVE, readable=True)
    scene.plane.log.failures = [StoreError("no")]
    with pytest.raises(StoreError):
        await scene.periods.failover("l", ["orders"])
    assert scene.record.state is S.ACTIVE
    assert ("l", "orders") in scene.plane.engine.running
    assert scene.phases[-1] is WritePhase.FORWARD


@pytest.mark.parametrize("made", [True, False])
async def test_a_failover_of_unknown_outcome_holds_writes_until_it_is_known(scene: FailbackScene, made: bool) -> None:
    await scene.set(S.ACTIVE, readable=True)
    log = scene.plane.log
    log.failures, log.outcome = [StoreUncertain("no answer")], StoreUncertain("still no answer")
    with pytest.raises(StoreUncertain):
        await scene.periods.failover("l", ["orders"])
    assert scene.phases[-1:] == [WritePhase.PAUSED]
    assert ("l", "orders") not in scene.plane.engine.running

    log.outcome = True if made else StoreError("aborted")
    await wait_until_async(lambda: scene.phases[-1] is not WritePhase.PAUSED)
    assert scene.phases[-1] is (WritePhase.SWITCHED if made else WritePhase.FORWARD)
    assert (("l", "orders") in scene.plane.engine.running) is not made


async def test_what_holds_nothing_yet_is_not_failed_over_to(scene: FailbackScene) -> None:
    await scene.set(S.ACTIVE, readable=False)
    with pytest.raises(Conflict, match="does not hold a record yet"):
        await scene.periods.failover("l", ["orders"])


async def test_failover_of_a_mirror_back_ends_it(scene: FailbackScene) -> None:
    await scene.promoted()
    await scene.periods.reverse("l", ["orders"])
    await scene.until(S.ACTIVE, REVERSE)
    assert (await scene.periods.failover_plan("l", "orders")).not_mirrored == (0, 0, 0)
    (record,) = await scene.periods.failover("l", ["orders"])
    assert (record.state, record.failback.direction) == (S.STOPPED, MirrorDirection.FORWARD)
    assert ("l", "orders") not in scene.plane.engine.running
    with pytest.raises(WrongState, match="STOPPED already"):
        await scene.periods.failover("l", ["orders"])


async def test_a_mirror_that_failed_can_be_failed_over(scene: FailbackScene) -> None:
    await scene.set(S.FAILED, readable=True, error=MirrorError.SOURCE_TOPIC_ID_CHANGED, error_message="gone")
    (record,) = await scene.periods.failover("l", ["orders"])
    assert (record.state, record.error, record.error_message) == (S.STOPPED, MirrorError.NO_ERROR, "")
