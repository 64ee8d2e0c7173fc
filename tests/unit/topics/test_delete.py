"""Deleting one mirror topic: what is gone then, what stays, and what a kill of the leader leaves to the next."""

from __future__ import annotations

import asyncio

import pytest

from gateway.cutover.write_pause.rules.cutovers_seen import RETRIED_S
from gateway.errors import Conflict, NotFound, TargetUnreachable
from gateway.kafka.connection.errors import BrokerError, ClusterUnavailable
from gateway.kafka.groups import GroupView, MemberView
from gateway.state.errors import ProducerFenced, StoreError, StoreUncertain
from gateway.state.records import Deletion, GroupRecord, MirrorState, ProducerEntry
from protocol.errors import ErrorCode
from tests.support.control.control_plane import Plane
from tests.support.control.mirror_records import changed
from tests.support.waiting import wait_until_async

KEY = ("l", "orders")


async def failed(plane, topic: str = "orders"):
    record = await plane.with_mirror(topic)
    await plane.by_hand(changed(record, state=MirrorState.FAILED))
    await plane.parts.engine.stop_mirror("l", topic)


async def delete(plane, topic="orders", **how):
    await plane.service.mirror_deletion.delete("l", topic, **how)


def is_gone(plane, topic="orders"):
    return ("l", topic) not in plane.store.mirrors and topic not in plane.routing.current.topics


async def test_a_failed_mirror_goes_alone_with_its_topic(plane):
    await failed(plane)
    await plane.with_mirror("clicks")

    await delete(plane, topic_too=True)

    assert is_gone(plane)
    assert "orders" not in plane.target.existing
    assert "orders" in plane.source.existing
    assert ("l", "clicks") in plane.engine.running
    assert "clicks" in plane.target.existing


async def test_the_topic_stays_unless_it_is_asked_for(plane):
    record = await plane.with_mirror()
    await plane.by_hand(changed(record, state=MirrorState.STOPPED))

    await delete(plane)

    assert is_gone(plane)
    assert plane.target.existing["orders"].info.topic_id == record.mirror_topic_id
    await plane.service.links.delete("l")  # nothing of it is left


async def test_one_that_is_mirrored_takes_force(plane):
    await plane.with_mirror()
    with pytest.raises(Conflict, match="what clients of the gateway write to it would go to the target"):
        await delete(plane)
    assert ("l", "orders") in plane.engine.running
    assert plane.store.mirrors[KEY].deletion is Deletion.NONE

    await delete(plane, force=True)

    assert is_gone(plane)
    assert ("l", "orders") not in plane.engine.running


async def test_a_failed_one_whose_source_topic_is_gone_needs_none(plane):
    await failed(plane)
    del plane.source.existing["orders"]
    await delete(plane)
    assert is_gone(plane)


async def test_a_source_that_does_not_say_so_is_not_gone(plane):
    await failed(plane)
    plane.source.down = True
    with pytest.raises(Conflict, match="is FAILED: what clients"):
        await delete(plane)


async def test_groups_at_their_gates(plane):
    record = await plane.with_mirror()
    await plane.by_hand(changed(record, state=MirrorState.STOPPED), GroupRecord(link="l", group="g"))
    member = MemberView(member_id="m", client_id="c", host="h", subscribed=frozenset(["orders"]))
    plane.source.groups["g"] = GroupView(
        group="g", state="Stable", type="classic", protocol_type="consumer", members=(member,)
    )
    with pytest.raises(Conflict, match=r"groups that are not promoted \(g\)"):
        await delete(plane)
    plane.source.down = True
    with pytest.raises(Conflict, match="may be read on the source by groups that wait"):
        await delete(plane)
    plane.source.down = False
    plane.source.groups.clear()
    await delete(plane)
    assert is_gone(plane)
    assert ("l", "g") in plane.store.groups


async def test_retried_producers(plane):
    record = await plane.with_mirror()
    entries = ((ProducerEntry(1, 0, 0, 4, 95),), (), ())
    await plane.by_hand(changed(record, state=MirrorState.STOPPED, producers=entries))
    with pytest.raises(Conflict, match="may still get retries of batches"):
        await delete(plane)
    plane.clock_s += RETRIED_S + 1
    await delete(plane)
    assert is_gone(plane)


async def test_a_running_promote_is_never_cut_off(plane):
    record = await plane.with_mirror()
    await plane.by_hand(changed(record, state=MirrorState.PENDING_STOPPED))
    with pytest.raises(Conflict, match="is being promoted"):
        await delete(plane, force=True)


@pytest.mark.parametrize("is_begun", [True, False])
async def test_nor_is_one_that_is_about_to_begin(plane, monkeypatch, is_begun):
    """What keeps promotes away from a topic ends one that runs: nobody may come to that."""
    await plane.with_mirror()
    plane.promoters.gate = asyncio.Event()
    if is_begun:
        await plane.service.mirrors.promote("l", ["orders"])
    else:
        monkeypatch.setattr(plane.service.mirrors, "_promoting", {KEY})

    def ends_it(link: str, topic: str) -> None:
        raise AssertionError("the promote was cut off")

    monkeypatch.setattr(plane.service.mirror_deletion, "_without_promote", ends_it)
    with pytest.raises(Conflict, match="is being promoted; wait for its end"):
        await delete(plane, force=True)
    assert plane.store.mirrors[KEY].deletion is Deletion.NONE


async def test_only_the_very_topic_is_deleted(plane):
    await failed(plane)
    plane.target.deletes("orders", "")
    other = plane.target.add("orders", 3, ends=7)

    await delete(plane, topic_too=True)

    assert is_gone(plane)
    assert plane.target.existing["orders"] is other


async def test_a_target_that_refuses_leaves_all_as_it_was(plane):
    await plane.with_mirror()
    plane.target.refuse["delete_topic"] = BrokerError(ErrorCode.TOPIC_DELETION_DISABLED, "TOPIC_DELETION_DISABLED")

    with pytest.raises(Conflict, match="TOPIC_DELETION_DISABLED"):
        await delete(plane, topic_too=True)

    record = plane.store.mirrors[KEY]
    assert record.deletion is Deletion.NONE
    assert record.transition_errors[-1].operation == "delete"
    assert ("l", "orders") in plane.engine.running


async def test_a_target_that_is_down_is_waited_for(plane, monkeypatch):
    monkeypatch.setattr("gateway.topics.delete._AGAIN_S", 0.01)
    await failed(plane)
    plane.target.refuse["delete_topic"] = ClusterUnavailable("no answer")
    with pytest.raises(TargetUnreachable):
        await delete(plane, topic_too=True)
    assert plane.store.mirrors[KEY].deletion is Deletion.TOPIC
    with pytest.raises(Conflict, match="is being deleted"):
        await plane.service.mirrors.pause("l", "orders")
    with pytest.raises(Conflict, match="is being deleted"):
        await plane.service.mirrors.create("l", "orders")
    with pytest.raises(Conflict, match="is being deleted"):
        await plane.service.failbacks.failover("l", ["orders"])

    plane.target.refuse.clear()
    await wait_until_async(lambda: is_gone(plane))
    assert "orders" not in plane.target.existing


@pytest.mark.parametrize("topic_too", [True, False])
@pytest.mark.parametrize("step", ["intent", "topic", "record"])
async def test_the_next_leader_goes_on_from_every_step(plane, step, topic_too):
    if step == "topic" and not topic_too:
        return
    await failed(plane)
    if step == "intent":
        intent = changed(plane.store.mirrors[KEY], deletion=Deletion.TOPIC if topic_too else Deletion.RECORD)
        await plane.store.put(intent)
    elif step == "topic":  # killed between the deletion of the topic and that of the record
        await plane.store.put(changed(plane.store.mirrors[KEY], deletion=Deletion.TOPIC))
        plane.target.deletes("orders", plane.store.mirrors[KEY].mirror_topic_id)
    else:
        await delete(plane, topic_too=topic_too, force=True)
    successor = Plane(plane.log.kept, clusters_of=plane)
    try:
        await successor.start()
        await wait_until_async(lambda: is_gone(successor))
        assert ("orders" in plane.target.existing) is not topic_too
        assert ("l", "orders") not in successor.engine.running
    finally:
        await successor.close()


async def test_it_is_mirrored_nowhere_once_it_is_begun(plane):
    record = await plane.with_mirror()
    await plane.store.put(changed(record, deletion=Deletion.TOPIC))
    plane.target.refuse["delete_topic"] = ClusterUnavailable("no answer")
    successor = Plane(plane.log.kept, clusters_of=plane)
    try:
        await successor.start()
        await wait_until_async(lambda: plane.target.calls.count("delete_topic"))
        assert ("start_mirror", "orders") not in successor.engine.log
    finally:
        await successor.close()


async def test_an_unknown_outcome_comes_to_its_end(plane, monkeypatch):
    monkeypatch.setattr("gateway.topics.delete._AGAIN_S", 0.01)
    await failed(plane)
    plane.log.failures = [StoreUncertain("who knows")]
    with pytest.raises(StoreUncertain):
        await delete(plane, topic_too=True)
    await wait_until_async(lambda: is_gone(plane) or plane.store.mirrors[KEY].deletion is Deletion.NONE)


async def test_a_store_that_fails_changes_nothing(plane):
    await failed(plane)
    plane.log.failures = [StoreError("no")]
    with pytest.raises(StoreError):
        await delete(plane, topic_too=True)
    assert "orders" in plane.target.existing


async def test_a_leader_that_is_one_no_more_leaves_it_to_the_next(plane):
    await failed(plane)
    plane.log.failures = [ProducerFenced("another")]
    with pytest.raises(ProducerFenced):
        await delete(plane, topic_too=True)
    assert "orders" in plane.target.existing


async def test_a_dry_run_changes_nothing(plane):
    await plane.with_mirror()
    plan = await plane.service.mirror_deletion.plan("l", "orders")
    assert plan.refused.startswith("mirror topic 'orders' is ACTIVE")
    assert not (await plane.service.mirror_deletion.plan("l", "orders", topic_too=True)).refused
    assert ("l", "orders") in plane.engine.running


async def test_unknown_names(plane):
    await plane.with_link()
    with pytest.raises(NotFound, match="no mirror topic 'orders'"):
        await delete(plane)


async def test_a_name_can_be_mirrored_again(plane):
    await failed(plane)
    before = plane.store.mirrors[KEY].mirror_id
    await delete(plane, topic_too=True)
    await plane.service.mirrors.create("l", "orders")
    assert plane.store.mirrors[KEY].mirror_id > before
