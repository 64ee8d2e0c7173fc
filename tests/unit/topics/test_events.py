"""What the engine tells becomes records, sooner or later, and each news once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.state.errors import StoreConflict, StoreError
from gateway.state.records import MirrorDirection, MirrorError, MirrorState
from gateway.topics import events as events_module
from tests.support.control.control_plane import Plane
from tests.support.control.mirror_records import changed
from tests.support.fakes.fake_engine import status
from tests.support.waiting import wait_until_async


async def test_a_failed_partition_fails_the_topic_with_the_first_reason(plane):
    await plane.with_mirror()
    plane.engine.numbers["l", "orders"] = [status(0), status(1, phase="failed", last_error="gap at 7"), status(2)]

    plane.service.events.partition_failed("l", "orders", 1, MirrorError.OFFSET_GAP, "gap at 7")
    plane.service.events.partition_failed("l", "orders", 2, MirrorError.TARGET_DIVERGED, "foreign record")

    await wait_until_async(lambda: plane.state() is MirrorState.FAILED)
    record = plane.store.mirrors["l", "orders"]
    assert (record.error, record.error_message) == (MirrorError.OFFSET_GAP, "partition 1: gap at 7")
    await wait_until_async(lambda: not plane.engine.running)
    shown = plane.service.mirrors.list("l")[0].partitions
    assert [(p.phase, p.last_error) for p in shown] == [("failed", ""), ("failed", "gap at 7"), ("failed", "")]


async def test_a_mirror_back_that_has_met_somebody_elses_records_names_the_remedy(plane):
    """It said what it had met, and not what an operator can do."""
    record = await plane.with_mirror()
    await plane.by_hand(changed(record, direction=MirrorDirection.REVERSE, stopped_at=(0, 0, 0)))
    plane.service.events.partition_failed("l", "orders", 1, MirrorError.TARGET_DIVERGED, "landed at offset 9")

    await wait_until_async(lambda: plane.state() is MirrorState.FAILED)
    said = plane.store.mirrors["l", "orders"].error_message
    assert "landed at offset 9; somebody has written to topic orders on the source beside the gateway" in said
    assert "`lockgate mirror undo orders --link l --dry-run` says how many records, where" in said


async def test_the_failure_is_written_once_the_store_can_be_written(plane):
    await plane.with_mirror()
    plane.log.failures = [StoreError("target gone"), StoreError("target gone")]

    plane.service.events.partition_failed("l", "orders", 1, MirrorError.OFFSET_GAP, "gap")

    await wait_until_async(lambda: plane.state() is MirrorState.FAILED)
    assert plane.log.failures == []


async def test_a_lost_source_and_back(plane):
    await plane.with_mirror("a")
    await plane.with_mirror("b")
    await plane.service.mirrors.pause("l", "b")

    plane.service.events.source_available("l", False, "connection refused")
    await wait_until_async(lambda: plane.state("a") is MirrorState.SOURCE_UNAVAILABLE)
    assert plane.state("b") is MirrorState.PAUSED
    link = plane.service.links.describe("l")
    assert (link.state, link.error) == ("UNAVAILABLE", "connection refused")
    assert plane.store.mirrors["l", "a"].error_message == "connection refused"

    plane.service.events.source_available("l", True, "")
    await wait_until_async(lambda: plane.state("a") is MirrorState.ACTIVE)
    assert plane.store.mirrors["l", "a"].error_message == ""
    assert plane.service.links.describe("l").state == "ACTIVE"
    assert ("l", "a") in plane.engine.running


async def test_since_when_a_source_has_not_answered_at_all(plane):
    """One that refuses the link answers; an hour of that is no second of silence."""
    await plane.with_link()

    def told(available, message, *, refused=False):
        plane.clock_s += 100
        plane.service.events.source_available("l", available, message, refused=refused)
        return plane.parts.health["l"].silent_since

    assert told(False, "credentials refused", refused=True) is None
    began = plane.parts.clock()
    first = told(False, "connection refused")
    assert first is not None
    assert first >= began + 100
    assert told(False, "no route to host") == first
    assert told(False, "credentials refused", refused=True) is None
    assert told(True, "") is None


async def test_news_after_a_quiet_time_that_could_not_be_written_are_written_later(plane):
    """Nothing else changes the state then, which would have everything looked at anew."""
    await plane.with_mirror()
    plane.service.events.source_available("l", False, "connection refused")
    await wait_until_async(lambda: plane.state() is MirrorState.SOURCE_UNAVAILABLE)
    await plane.service.events.reconcile()
    plane.log.failures = [StoreError("target gone")]

    plane.service.events.source_available("l", True, "")

    await wait_until_async(lambda: plane.state() is MirrorState.ACTIVE)
    assert plane.log.failures == []


async def test_a_lost_source_is_told_with_the_fault_of_now(plane):
    await plane.with_mirror()
    plane.service.events.source_available("l", False, "connection refused")
    since_ms = plane.service.links.describe("l").state_since_ms
    plane.service.events.source_available("l", False, "certificate has expired")
    link = plane.service.links.describe("l")
    assert (link.state, link.error, link.state_since_ms) == ("UNAVAILABLE", "certificate has expired", since_ms)


async def test_a_promote_is_not_disturbed_by_a_lost_source(plane):
    mirror = await plane.with_mirror()
    await plane.store.put(replace(mirror, state=MirrorState.PENDING_STOPPED))

    plane.service.events.source_available("l", False, "gone")
    await plane.service.events.reconcile()

    assert plane.state() is MirrorState.PENDING_STOPPED


async def test_settled_is_in_force_at_once_and_stored(plane):
    await plane.with_mirror()
    assert not plane.routing.current.topics["orders"].readable

    plane.service.events.topic_readable("l", "orders")

    assert plane.routing.current.topics["orders"].readable
    await wait_until_async(lambda: plane.store.mirrors["l", "orders"].readable)


@pytest.mark.parametrize("state", [MirrorState.STOPPED, MirrorState.FAILED])
async def test_final_states_stay(plane, state):
    mirror = await plane.with_mirror()
    await plane.store.put(replace(mirror, state=state))

    plane.service.events.partition_failed("l", "orders", 0, MirrorError.OFFSET_GAP, "late")
    plane.service.events.source_available("l", False, "gone")
    await plane.service.events.reconcile()

    assert plane.state() is state


async def test_news_of_a_deleted_mirror_do_not_hit_its_successor(plane):
    await plane.with_mirror()
    plane.service.events.partition_failed("l", "orders", 0, MirrorError.OFFSET_GAP, "gap")
    await plane.service.links.delete("l", force=True)
    plane.target.existing.pop("orders", None)

    await plane.with_mirror()
    await plane.service.events.reconcile()

    assert plane.state() is MirrorState.ACTIVE


async def test_source_unavailable_of_an_earlier_life_ends_when_the_source_answers(plane):
    mirror = await plane.with_mirror()
    await plane.store.put(replace(mirror, state=MirrorState.SOURCE_UNAVAILABLE))
    again = Plane(plane.log.kept)

    await again.start()

    await wait_until_async(lambda: again.state() is MirrorState.ACTIVE)
    await again.close()


async def test_source_unavailable_of_an_earlier_life_stays_while_nobody_knows(plane):
    mirror = await plane.with_mirror()
    await plane.store.put(replace(mirror, state=MirrorState.SOURCE_UNAVAILABLE))
    again = Plane(plane.log.kept)
    again.source.down = True
    await again.start()

    await wait_until_async(lambda: "start" in again.source.calls)
    await again.service.events.reconcile()

    assert again.state() is MirrorState.SOURCE_UNAVAILABLE
    assert ("l", "orders") in again.engine.running
    await again.close()


async def test_mirrors_that_come_to_be_readable_together_are_one_write(plane):
    for topic in ("a", "b", "c"):
        await plane.with_mirror(topic)
    before = len(plane.log.commits)
    for topic in ("a", "b", "c"):
        plane.service.events.topic_readable("l", topic)
    await wait_until_async(lambda: all(mirror.readable for mirror in plane.store.mirrors.values()))
    assert [len(commit) for commit in plane.log.commits[before:]] == [3]


async def test_however_many_come_to_be_readable_none_is_written_by_itself(plane, monkeypatch):
    """Nor for another one's sake: only those that share its write are apart from the rest."""
    monkeypatch.setattr(events_module, "_TOGETHER", 4)
    record = await plane.with_mirror("t0")
    topics = [f"t{index}" for index in range(12)]
    await plane.by_hand(*(replace(record, mirror_topic=topic, source_topic=topic) for topic in topics[1:]))
    events, store = plane.service.events, plane.store
    await events.reconcile()
    before = len(plane.log.commits)
    write, tries = store.write, 0

    async def changed_once(*args, **options):
        nonlocal tries
        tries += 1
        if tries == 1:
            raise StoreConflict("t0 was changed by another operation meanwhile; try again")
        await write(*args, **options)

    monkeypatch.setattr(store, "write", changed_once)
    for topic in topics:
        events._readable.add(events._told_of("l", topic))
    await events.reconcile()
    assert all(mirror.readable for mirror in store.mirrors.values())
    assert [len(commit) for commit in plane.log.commits[before:]] == [4, 4, 1, 1, 1, 1]


async def test_mirrors_that_come_to_be_readable_are_written_one_by_one_where_one_has_failed(plane):
    for topic in ("a", "b"):
        await plane.with_mirror(topic)
    plane.service.events.topic_readable("l", "a")
    plane.service.events.topic_readable("l", "b")
    plane.service.events.partition_failed("l", "b", 0, MirrorError.OFFSET_GAP, "gap")
    await wait_until_async(lambda: plane.state("b") is MirrorState.FAILED and plane.store.mirrors["l", "a"].readable)
    assert not plane.store.mirrors["l", "b"].readable


async def test_a_look_is_at_what_has_changed_or_was_told_of(plane, monkeypatch):
    """However many mirrors there are; all of them when a source is lost, or a link changes."""
    record = await plane.with_mirror("a")
    others = [f"t{index}" for index in range(50)]
    await plane.by_hand(*(replace(record, mirror_topic=topic, source_topic=topic) for topic in others))
    events, looked = plane.service.events, []
    reconcile = events._reconcile

    async def look(mirror):
        looked.append(mirror.mirror_topic)
        await reconcile(mirror)

    monkeypatch.setattr(events, "_reconcile", look)
    while looked or events._settled_at != plane.store.applied:
        looked.clear()
        await events.reconcile()

    await plane.store.put(replace(plane.store.mirrors["l", "t7"], error_message="x"))
    events.topic_readable("l", "t9")
    await events.reconcile()
    assert set(looked) == {"t7", "t9"}

    looked.clear()
    plane.service.events.source_available("l", False, "gone")
    await events.reconcile()
    assert set(looked) == {"a", *others}
    assert plane.state("t33") is MirrorState.SOURCE_UNAVAILABLE


async def test_what_could_not_be_written_is_looked_at_again(plane):
    """Those behind it, too, though nothing of them changes meanwhile."""
    for topic in ("a", "b", "c"):
        await plane.with_mirror(topic)
    await plane.service.events.reconcile()
    plane.log.failures = [StoreError("target gone")]

    plane.service.events.source_available("l", False, "gone")

    await wait_until_async(lambda: all(plane.state(each) is MirrorState.SOURCE_UNAVAILABLE for each in ("a", "b", "c")))
    assert plane.log.failures == []
