"""Repairing a FAILED mirror: what is found out, what is stored, and what runs then."""

from __future__ import annotations

import asyncio

import pytest

from gateway.errors import BadRequest, Conflict
from gateway.kafka.commits import Committed
from gateway.kafka.connection.errors import ClusterUnavailable
from gateway.state.mirror_states import WrongState
from gateway.state.records import GroupRecord, GroupState, MirrorError, MirrorMode, MirrorState
from gateway.state.store import StoreConflict
from gateway.topics.rules.repair import RepairAction
from tests.support.control.control_plane import Plane
from tests.support.control.mirror_records import changed
from tests.support.waiting import wait_until_async

KEY = ("l", "orders")


async def failed(plane, error: MirrorError = MirrorError.INTERNAL_ERROR, **values):
    record = await plane.with_mirror()
    record = changed(record, state=MirrorState.FAILED, error=error, error_message="why", **values)
    await plane.by_hand(record)
    plane.target.existing["orders"].ranges = [(0, 90)] * 3
    await plane.parts.engine.stop_mirror(*KEY)
    return record


async def repair(plane, action: RepairAction | None = None):
    return await plane.service.mirror_repair.repair(*KEY, action)


def names(plan):
    return [one.action.value for one in plan.repairs if one.possible]


async def test_a_plan_changes_nothing(plane):
    record = await failed(plane)
    plan = await plane.service.mirror_repair.plan(*KEY)
    assert names(plan) == ["resume", "recreate"]
    assert plan.way_out == "`mirror repair` can: resume, recreate"
    assert plane.store.mirrors[KEY] == record
    assert plane.engine.running == {}


async def test_resume(plane):
    await failed(plane)
    done = await repair(plane)
    assert (done.state, done.error, done.error_message) == (MirrorState.ACTIVE, MirrorError.NO_ERROR, "")
    assert done.repairs == 1
    assert plane.engine.running[KEY] == plane.store.mirrors[KEY] == done


async def test_of_two_repairs_at_once_the_second_is_refused_and_stops_nothing(plane):
    await failed(plane)
    answers = await asyncio.gather(repair(plane), repair(plane), return_exceptions=True)
    assert isinstance(answers[1], StoreConflict)
    assert plane.engine.running[KEY] == plane.store.mirrors[KEY] == answers[0]


async def test_what_was_told_before_the_repair_says_nothing_of_it(plane):
    await failed(plane)
    plane.service.events.partition_failed("l", "orders", 1, MirrorError.TARGET_DIVERGED, "long ago")
    await plane.service.events.reconcile()
    await repair(plane)
    await plane.service.events.reconcile()
    assert plane.state() is MirrorState.ACTIVE


@pytest.mark.parametrize("action", [RepairAction.RESUME, RepairAction.RECREATE])
async def test_a_mirror_that_is_repaired_right_behind_its_failure_has_not_failed(plane, monkeypatch, action):
    """Before the records were looked at once more, which is once a second."""
    monkeypatch.setattr("gateway.topics.create._AGAIN_S", 0.01)
    monkeypatch.setattr("gateway.topics.events.together", lambda pause_s, now: 60.0)
    await plane.with_mirror()
    plane.target.existing["orders"].ranges = [(0, 90)] * 3
    plane.service.events.partition_failed("l", "orders", 1, MirrorError.INTERNAL_ERROR, "once")
    await wait_until_async(lambda: plane.state() is MirrorState.FAILED)
    await repair(plane, action)
    await wait_until_async(lambda: plane.store.mirrors[KEY].created)
    await plane.service.events.reconcile()
    assert plane.state() is MirrorState.ACTIVE

    plane.service.events.partition_failed("l", "orders", 2, MirrorError.OFFSET_GAP, "again")
    await wait_until_async(lambda: plane.state() is MirrorState.FAILED)
    assert plane.store.mirrors[KEY].error_message == "partition 2: again"


async def test_translate_goes_on_without_what_was_deleted(plane):
    await failed(plane, MirrorError.SOURCE_RECORDS_DELETED)
    done = await repair(plane)
    assert (done.state, done.goes_on) == (MirrorState.ACTIVE, True)


async def test_a_topic_is_deleted_only_when_that_is_asked_for(plane):
    await failed(plane, MirrorError.TARGET_DIVERGED)
    with pytest.raises(Conflict, match="without deleting a topic: `mirror repair` can: recreate"):
        await repair(plane)
    with pytest.raises(BadRequest, match="by resume: the copy holds records that are not the origin's"):
        await repair(plane, RepairAction.RESUME)
    assert "delete_topic" not in plane.target.calls


async def test_recreate(plane, monkeypatch):
    monkeypatch.setattr("gateway.topics.create._AGAIN_S", 0.01)
    before = await failed(plane, MirrorError.TARGET_DIVERGED, failback_epoch=2, pause_epoch=7)
    intent = await repair(plane, RepairAction.RECREATE)
    assert (intent.created, intent.replaces) == (False, before.mirror_topic_id)
    assert plane.routing.current.topics["orders"].failback_epoch == 2

    await wait_until_async(lambda: plane.store.mirrors[KEY].created)
    done = plane.store.mirrors[KEY]
    assert plane.target.existing["orders"].info.topic_id == done.mirror_topic_id != before.mirror_topic_id
    assert (done.state, done.replaces, done.repairs) == (MirrorState.ACTIVE, "", 1)
    assert done.mirror_id > before.mirror_id
    assert (done.failback.epoch, done.cutover.pause_epoch) == (2, 7)
    await wait_until_async(lambda: plane.engine.running.get(KEY) == done)


async def test_a_copy_created_anew_is_not_translated_by_what_was_told_of_the_one_before(plane, monkeypatch):
    monkeypatch.setattr("gateway.topics.create._AGAIN_S", 0.01)
    await plane.with_mirror()
    plane.service.events.topic_translated(*KEY, "gaps")
    await wait_until_async(lambda: plane.store.mirrors[KEY].mode is MirrorMode.TRANSLATE)
    plane.service.events.partition_failed(*KEY, 1, MirrorError.TARGET_DIVERGED, "once")
    await wait_until_async(lambda: plane.state() is MirrorState.FAILED)
    await repair(plane, RepairAction.RECREATE)
    await wait_until_async(lambda: plane.store.mirrors[KEY].created)
    await plane.service.events.reconcile()
    assert plane.store.mirrors[KEY].mode is MirrorMode.PRESERVE


async def test_a_copy_created_anew_is_not_readable_by_what_was_told_of_the_one_before(plane, monkeypatch):
    """Neither in its record nor to clients: it is being padded to the source's offsets."""
    monkeypatch.setattr("gateway.topics.create._AGAIN_S", 0.01)
    await failed(plane, MirrorError.TARGET_DIVERGED)
    plane.service.events.topic_readable(*KEY)
    await wait_until_async(lambda: plane.store.mirrors[KEY].readable)
    await repair(plane, RepairAction.RECREATE)
    await wait_until_async(lambda: plane.store.mirrors[KEY].created)

    await plane.service.events.reconcile()
    assert not plane.store.mirrors[KEY].readable
    assert not plane.routing.current.topics["orders"].readable

    plane.service.events.topic_readable(*KEY)
    assert plane.routing.current.topics["orders"].readable
    await wait_until_async(lambda: plane.store.mirrors[KEY].readable)


async def test_a_copy_that_others_created_anew_is_deleted_by_the_id_that_was_shown(plane, monkeypatch):
    monkeypatch.setattr("gateway.topics.create._AGAIN_S", 0.01)
    await failed(plane, MirrorError.TARGET_TOPIC_ID_CHANGED)
    plane.target.deletes("orders", "")
    foreign = plane.target.add("orders", 3, ends=5).info.topic_id
    plan = await plane.service.mirror_repair.plan(*KEY)
    assert names(plan) == ["recreate"]
    assert (await repair(plane, RepairAction.RECREATE)).replaces == foreign
    await wait_until_async(lambda: plane.store.mirrors[KEY].created)
    assert plane.store.mirrors[KEY].mirror_topic_id not in (foreign, "")


async def test_a_copy_that_is_gone_is_just_created(plane):
    await failed(plane, MirrorError.TARGET_TOPIC_MAY_BE_DELETED)
    plane.target.deletes("orders", "")
    await repair(plane, RepairAction.RECREATE)
    await wait_until_async(lambda: plane.store.mirrors[KEY].created)
    assert "delete_topic" not in plane.target.calls


@pytest.mark.parametrize("step", ["stored", "deleted", "created"])
async def test_the_next_leader_goes_on_with_a_recreate(plane, step):
    await failed(plane, MirrorError.TARGET_DIVERGED)
    plane.target.refuse["delete_topic"] = ClusterUnavailable("down")
    intent = await repair(plane, RepairAction.RECREATE)
    await plane.service.close()  # the leader is killed
    plane.target.refuse.clear()
    if step != "stored":
        plane.target.deletes("orders", intent.replaces)
    if step == "created":
        plane.target.add("orders", 3)
    successor = Plane(plane.log.kept, clusters_of=plane)
    try:
        await successor.start()
        await wait_until_async(lambda: successor.store.mirrors[KEY].created)
        done = successor.store.mirrors[KEY]
        assert plane.target.existing["orders"].info.topic_id == done.mirror_topic_id != intent.replaces
        await wait_until_async(lambda: KEY in successor.engine.running)
    finally:
        await successor.close()


async def test_a_promoted_reader_forbids_it(plane):
    await failed(plane, MirrorError.TARGET_DIVERGED)
    await plane.by_hand(GroupRecord(link="l", group="g", state=GroupState.PROMOTED))
    plane.source.offsets["g"] = {("orders", 0): Committed(5, 0, "")}
    with pytest.raises(BadRequest, match="group 'g' is promoted"):
        await repair(plane, RepairAction.RECREATE)
    assert plane.state() is MirrorState.FAILED


async def test_a_cluster_that_does_not_answer_makes_it_impossible(plane):
    await failed(plane)
    plane.source.down = True
    plan = await plane.service.mirror_repair.plan(*KEY)
    assert names(plan) == []
    assert "connection refused" in plan.repairs[0].refused


async def test_only_what_has_failed(plane):
    await plane.with_mirror()
    with pytest.raises(WrongState, match="has not FAILED"):
        await plane.service.mirror_repair.plan(*KEY)
