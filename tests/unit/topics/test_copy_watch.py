"""A mirror topic that others delete or create anew on the target is found out; a broker that lags proves nothing."""

from __future__ import annotations

import pytest

from gateway.operations.deleted_mirrors import DeletedMirrors
from gateway.state.records import MirrorError, MirrorState
from gateway.topics.copy_differences import CopyDifferences
from gateway.topics.copy_watch import LOOK_EVERY_S, CopyWatch
from gateway.topics.rules.copy_watch import PATIENCE_S
from tests.support.control.mirror_records import changed
from tests.support.waiting import wait_until_async

KEY = ("l", "orders")


class Looking:
    def __init__(self, plane) -> None:
        self.now = 0.0
        self.watch = CopyWatch(
            differences=CopyDifferences(DeletedMirrors()),
            records=plane.parts.records,
            sources=plane.parts.sources,
            target=plane.target,
            measure=plane.parts.measure,
            background=plane.parts.background,
            clock=lambda: self.now,
        )

    async def for_long(self) -> None:
        await self.watch.look()
        self.now += PATIENCE_S
        await self.watch.look()


async def test_deleted(plane):
    await plane.with_mirror()
    plane.target.deletes("orders", "")
    await Looking(plane).for_long()
    record = plane.store.mirrors[KEY]
    assert (record.state, record.error) == (MirrorState.FAILED, MirrorError.TARGET_TOPIC_MAY_BE_DELETED)
    assert "`mirror repair`" in record.error_message
    await wait_until_async(lambda: KEY not in plane.engine.running)


async def test_created_anew(plane):
    await plane.with_mirror()
    plane.target.deletes("orders", "")
    plane.target.add("orders", 3)
    await Looking(plane).for_long()
    assert plane.store.mirrors[KEY].error is MirrorError.TARGET_TOPIC_ID_CHANGED


async def test_a_broker_that_lags_is_no_proof(plane, monkeypatch):
    await plane.with_mirror()
    looking = Looking(plane)

    async def nothing(names):
        return {}

    monkeypatch.setattr(plane.target, "topics", nothing)
    for _ in range(5):
        await looking.for_long()
    assert plane.state() is MirrorState.ACTIVE
    assert plane.target.calls.count("is_absent") >= 3


async def test_a_target_that_is_down_says_nothing(plane):
    await plane.with_mirror()
    looking = Looking(plane)
    plane.target.down = True
    await looking.for_long()
    assert plane.state() is MirrorState.ACTIVE


async def test_a_promote_that_waits_for_a_copy_that_is_gone_is_ended(plane):
    """It would wait for as long as the topic's mirror does: for ever."""
    record = await plane.with_mirror()
    await plane.by_hand(changed(record, state=MirrorState.PENDING_STOPPED))
    plane.target.deletes("orders", "")
    await Looking(plane).for_long()
    assert plane.state() is MirrorState.FAILED


@pytest.mark.parametrize("state", [MirrorState.STOPPED, MirrorState.FAILED, MirrorState.PENDING_MIRROR])
async def test_others_are_left_alone(plane, state):
    record = await plane.with_mirror()
    await plane.by_hand(changed(record, state=state))
    plane.target.deletes("orders", "")
    await Looking(plane).for_long()
    assert plane.state() is state


async def test_a_paused_one_too(plane):
    await plane.with_mirror()
    await plane.service.mirrors.pause(*KEY)
    plane.target.deletes("orders", "")
    await Looking(plane).for_long()
    assert plane.state() is MirrorState.FAILED


async def test_what_rests_is_looked_at_less_often(plane):
    await plane.with_mirror()
    looking = Looking(plane)
    await looking.watch.look()
    plane.target.calls.clear()
    for _ in range(60):  # five minutes
        looking.now += LOOK_EVERY_S
        await looking.watch.look()
    assert 8 <= plane.target.calls.count("topics") <= 14
    plane.target.calls.clear()
    await plane.with_mirror("clicks")
    plane.target.calls.clear()
    await looking.watch.look()
    assert plane.target.calls.count("topics") == 1
