"""One command from ACTIVE: the promote, then the reverse; whoever leads in between."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from gateway.cutover.failback.reversals import PATIENCE_S
from gateway.errors import BadRequest, Conflict, NotFound
from gateway.state.mirror_states import WrongState
from gateway.state.records import MirrorDirection, MirrorState, ThenReverse
from tests.support.control.control_plane import Plane
from tests.support.control.mirror_records import changed
from tests.support.fakes.fake_engine import status
from tests.support.waiting import wait_until_async

KEY = ("l", "orders")


async def level(plane, **stopped):
    """A mirror whose logs are alike; the fake promote says that they end at 7, 8, 9."""
    record = await plane.with_mirror()
    runs(plane)
    for cluster in (plane.source, plane.target):
        cluster.existing["orders"].ranges = [(0, 7), (0, 8), (0, 9)]
    if stopped:
        record = changed(record, state=MirrorState.STOPPED, stopped_at=(7, 8, 9), **stopped)
        await plane.by_hand(record)
        await plane.parts.engine.stop_mirror(*KEY)
    return record


def runs(plane) -> None:
    """The engine tells of partitions as soon as it is started."""
    plane.engine.numbers[KEY] = [status(partition) for partition in range(3)]


async def reversed_(plane, state=MirrorState.ACTIVE):
    def there() -> bool:
        found = plane.store.mirrors[KEY]
        return found.is_reverse and found.state is state

    await wait_until_async(there)
    return plane.store.mirrors[KEY]


@pytest.mark.parametrize(("pause", "state"), [(False, MirrorState.ACTIVE), (True, MirrorState.PAUSED)])
async def test_from_active(plane, pause, state):
    await level(plane)
    await plane.service.reversals.reverse("l", ["orders"], pause=pause)
    await wait_until_async(lambda: plane.state() is not MirrorState.PENDING_STOPPED)
    await plane.parts.engine.stop_mirror(*KEY)  # as a promote does
    await plane.service.reversals.look()
    record = await reversed_(plane, state)
    assert record.cutover.then_reverse is ThenReverse.NO


async def test_the_intent_is_stored_with_the_first_step(plane):
    await level(plane)
    plane.promoters.gate = asyncio.Event()
    (record,) = await plane.service.reversals.reverse("l", ["orders"], pause=True)
    assert (record.state, record.cutover.then_reverse) == (MirrorState.PENDING_STOPPED, ThenReverse.PAUSE)
    plane.promoters.gate.set()
    await reversed_(plane, MirrorState.PAUSED)


async def test_the_next_leader_goes_on(plane):
    await level(plane, then_reverse=ThenReverse.START)
    await plane.service.close()
    successor = Plane(plane.log.kept, clusters_of=plane)
    runs(successor)
    try:
        await successor.start()
        await reversed_(successor)
    finally:
        await successor.close()


async def test_a_promote_that_is_given_up_takes_it_along(plane):
    await level(plane)
    plane.promoters.gate, plane.promoters.refusal = asyncio.Event(), Conflict("the source went away")
    plane.promoters.gate.set()
    with suppress(Conflict):  # it may be over before the answer
        await plane.service.reversals.reverse("l", ["orders"])
    await wait_until_async(lambda: plane.service.mirrors.view(plane.store.mirrors[KEY]).promote_error)
    record = plane.store.mirrors[KEY]
    assert (record.state, record.cutover.then_reverse) == (MirrorState.ACTIVE, ThenReverse.NO)


async def test_a_reverse_that_is_refused_leaves_it_promoted_and_says_why(plane):
    await level(plane, then_reverse=ThenReverse.START)
    plane.source.existing["orders"].ranges = [(0, 9), (0, 8), (0, 9)]  # somebody wrote beside the gateway
    await plane.service.reversals.look()
    await wait_until_async(lambda: not plane.store.mirrors[KEY].cutover.then_reverse)
    record = plane.store.mirrors[KEY]
    assert record.state is MirrorState.STOPPED
    assert "2 records are on the source and not on the target" in record.transition_errors[-1].error_message


async def test_a_silent_source_is_waited_for_and_not_for_ever(plane):
    await level(plane, then_reverse=ThenReverse.START)
    plane.source.down = True
    await plane.service.reversals.look()
    assert "the reverse waits" in plane.service.reversals.waiting_for(*KEY)
    assert plane.store.mirrors[KEY].cutover.then_reverse
    plane.clock_s += PATIENCE_S
    await plane.service.reversals.look()
    record = plane.store.mirrors[KEY]
    assert (record.state, record.cutover.then_reverse) == (MirrorState.STOPPED, ThenReverse.NO)
    assert record.transition_errors[-1].error_code == "CLUSTER_UNAVAILABLE_ERROR"


async def test_stopped_ones_are_just_reversed(plane):
    await level(plane, pause_epoch=1)
    await plane.service.reversals.reverse("l", ["orders"])
    await reversed_(plane)
    assert plane.promoters.asked == []


async def test_what_is_refused(plane):
    record = await level(plane)
    await plane.with_mirror("clicks")
    with pytest.raises(BadRequest):
        await plane.service.reversals.reverse("l", [])
    with pytest.raises(NotFound):
        await plane.service.reversals.reverse("l", ["x"])
    await plane.by_hand(changed(record, direction=MirrorDirection.REVERSE))
    with pytest.raises(WrongState, match="is mirrored back already"):
        await plane.service.reversals.reverse("l", ["orders"])
    await plane.by_hand(changed(record, state=MirrorState.STOPPED, stopped_at=(7, 8, 9)))
    with pytest.raises(Conflict, match="reverse them one after the other"):
        await plane.service.reversals.reverse("l", ["orders", "clicks"])
    assert plane.promoters.asked == []


@pytest.mark.parametrize("state", [MirrorState.PENDING_SYNCHRONIZE, MirrorState.PENDING_MIRROR])
async def test_pause_and_resume_on_the_way_back(plane, state):
    record = await level(plane)
    await plane.by_hand(changed(record, state=state))
    view = await plane.service.mirrors.pause(*KEY)
    assert (view.record.state, view.record.failback.then_pause) == (state, True)
    view = await plane.service.mirrors.resume(*KEY)
    assert (view.record.state, view.record.failback.then_pause) == (state, False)


async def test_paused_on_the_way_back_it_begins_paused(plane):
    await level(plane, pause_epoch=1)
    plane.target.before["topic_configs"] = (gate := asyncio.Event()).wait
    await plane.service.reversals.reverse("l", ["orders"])
    assert plane.state() is MirrorState.PENDING_SYNCHRONIZE
    await plane.service.mirrors.pause(*KEY)
    gate.set()
    await reversed_(plane, MirrorState.PAUSED)
    assert KEY not in plane.engine.running
