"""Creates among other things: topics that are on the target already, failures, crashes, and others at the same time."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.api.mirrors.mirror_models import MirrorData
from gateway.cutover.write_pause.rules.routing import WritePhase
from gateway.errors import Conflict, NotFound, TargetUnreachable
from gateway.kafka.connection.errors import BrokerError, ClusterUnavailable
from gateway.kafka.rules.topic_configs import LIFTED
from gateway.state.errors import ProducerFenced, StoreError, StoreUncertain
from gateway.state.producer_ids import first_mirror_id
from gateway.state.records import MirrorState
from protocol.errors import ErrorCode
from tests.support.control.control_plane import Plane
from tests.support.control.refused_create import refused
from tests.support.waiting import wait_until_async


async def test_a_target_topic_with_data_is_left_alone(plane):
    await plane.with_link()
    plane.source.add("orders")
    plane.target.add("orders", 3, ends=1)

    await refused(plane, Conflict, "exists on the target with other data")


async def test_a_target_topic_whose_records_were_deleted_held_data(plane):
    await plane.with_link()
    plane.source.add("orders")
    plane.target.add("orders").ranges = [(0, 0), (0, 0), (7, 7)]

    await refused(plane, Conflict, "other data")


async def test_a_target_topic_with_other_partitions(plane):
    await plane.with_link()
    plane.source.add("orders", 3)
    plane.target.add("orders", 2)

    await refused(plane, Conflict, "2 partitions, on the source it has 3")


async def test_an_empty_target_topic_of_a_crashed_create_is_taken_over(plane):
    await plane.with_link()
    plane.source.add("orders", retention_ms="5000")
    left = plane.target.add("orders", compression_type="zstd", retention_ms="7")

    await plane.service.mirrors.create("l", "orders")

    record = plane.store.mirrors["l", "orders"]
    assert record.mirror_topic_id == left.info.topic_id
    assert {name: plane.target.existing["orders"].configs[name] for name in LIFTED} == LIFTED
    assert (record.restore_configs["compression.type"], record.restore_configs["retention.ms"]) == ("zstd", "5000")
    assert "create_topic" not in plane.target.calls


async def test_a_store_that_fails_at_once_creates_nothing(plane):
    await plane.with_link()
    plane.source.add("orders")
    plane.log.failures = [StoreError("no")]

    await refused(plane, StoreError, "no")
    assert "create_topic" not in plane.target.calls


async def is_finished(plane: Plane) -> None:
    """The mirror runs, on the topic that is on the target, and its writes have never left the source."""
    await wait_until_async(lambda: ("l", "orders") in plane.engine.running, 10, what="the mirror runs")
    record = plane.store.mirrors["l", "orders"]
    assert (record.created, record.state) == (True, MirrorState.ACTIVE)
    assert record.mirror_topic_id == plane.target.existing["orders"].info.topic_id
    assert plane.routing.current.topics["orders"].phase is WritePhase.FORWARD
    assert "delete_topic" not in plane.target.calls


@pytest.mark.parametrize("failure", [StoreError("no"), StoreUncertain("no answer")])
async def test_a_store_that_fails_once_the_topic_is_there_is_gone_on_with(plane, failure):
    """Who deletes the topic may have been deposed, and would delete what the next leader has filled."""
    await plane.with_link()
    plane.source.add("orders")
    plane.log.failures = [None, failure]

    with pytest.raises(StoreError, match="no"):
        await plane.service.mirrors.create("l", "orders")
    await is_finished(plane)
    assert plane.target.calls.count("create_topic") == 1


@pytest.mark.parametrize(
    "failure",
    [
        ClusterUnavailable("no answer within 30 s"),
        BrokerError(ErrorCode.REQUEST_TIMED_OUT, "the broker itself has waited for too long"),
    ],
)
@pytest.mark.parametrize("carried_out", [True, False])
async def test_a_creation_of_unknown_outcome_keeps_the_topic_routed_and_goes_on(plane, failure, carried_out):
    await plane.with_link()
    plane.source.add("orders")
    create, phases = plane.target.create_topic, []
    plane.routing.subscribe(lambda routing, _changed: phases.append(routing.topics["orders"].phase))

    async def unanswered(*args: object) -> None:
        plane.target.create_topic = create
        if carried_out:
            await create(*args)
        raise failure

    plane.target.create_topic = unanswered
    with pytest.raises(TargetUnreachable):
        await plane.service.mirrors.create("l", "orders")
    assert plane.routing.current.topics["orders"].phase is WritePhase.FORWARD
    await is_finished(plane)
    assert set(phases) == {WritePhase.FORWARD}


async def test_a_creation_that_lands_late_is_taken_over(plane):
    """The first request sat in a broker that was paused; a second one finds its topic."""
    await plane.with_link()
    plane.source.add("orders")

    async def late() -> None:
        plane.target.before.clear()
        plane.target.add("orders")
        raise BrokerError(ErrorCode.TOPIC_ALREADY_EXISTS, "it exists")

    plane.target.before["create_topic"] = late
    with pytest.raises(TargetUnreachable, match="has just come to be"):
        await plane.service.mirrors.create("l", "orders")
    await is_finished(plane)


async def test_a_leader_that_was_deposed_in_its_create_undoes_nothing(plane):
    """It was stopped between the topic and the record; the next one has finished the create, and filled the topic."""
    await plane.with_link()
    plane.source.add("orders")
    plane.log.failures = [None, ProducerFenced("another one leads")]
    with pytest.raises(ProducerFenced):
        await plane.service.mirrors.create("l", "orders")
    assert "delete_topic" not in plane.target.calls
    assert "orders" in plane.target.existing
    assert (
        plane.routing.current.topics["orders"].phase is WritePhase.FORWARD
    )  # until it has read what the next one wrote
    assert ("l", "orders") not in plane.engine.running


async def test_the_next_attempt_goes_on_with_a_create_that_was_begun(plane):
    await plane.with_link()
    plane.source.add("orders")
    record = await plane.with_mirror("other")
    intent = replace(record, source_topic="orders", mirror_topic="orders", mirror_id=0, created=False)
    await plane.store.put(intent)

    await plane.service.mirrors.create("l", "orders")
    await is_finished(plane)


async def test_a_refusal_does_not_drop_what_an_earlier_attempt_may_have_created(plane):
    await plane.with_link()
    plane.source.add("orders")
    record = await plane.with_mirror("other")
    await plane.store.put(replace(record, source_topic="orders", mirror_topic="orders", mirror_id=0, created=False))
    plane.target.refuse["create_topic"] = BrokerError(ErrorCode.POLICY_VIOLATION, "not so")

    with pytest.raises(Conflict, match="not so"):
        await plane.service.mirrors.create("l", "orders")
    assert plane.routing.current.topics["orders"].phase is WritePhase.FORWARD


async def test_a_create_that_is_refused_for_a_while_goes_on_by_itself(plane):
    """As when a gateway is waited for whose lease runs on: nobody else would ever go on with it."""
    await plane.with_link()
    plane.source.add("orders")
    record = await plane.with_mirror("other")
    await plane.store.put(replace(record, source_topic="orders", mirror_topic="orders", mirror_id=0, created=False))
    plane.target.refuse["create_topic"] = BrokerError(ErrorCode.POLICY_VIOLATION, "not so")
    finish = asyncio.create_task(plane.service.mirrors.finish_create("l", "orders"))
    await wait_until_async(lambda: "create_topic" in plane.target.calls, 10, what="it was refused")
    del plane.target.refuse["create_topic"]
    await is_finished(plane)
    await finish


async def test_what_is_being_created_takes_no_operations(plane):
    await plane.with_link()
    record = await plane.with_mirror("other")
    await plane.store.put(replace(record, source_topic="orders", mirror_topic="orders", mirror_id=0, created=False))
    mirrors = plane.service.mirrors
    for attempt in (mirrors.promote("l", ["orders"]), mirrors.pause("l", "orders"), mirrors.resume("l", "orders")):
        with pytest.raises(Conflict, match="'orders' is being created"):
            await attempt
    described = await mirrors.describe("l", "orders")
    assert described.waiting_for == "it is being created"
    assert MirrorData.of(described).mirror_status == "PENDING_MIRROR"
    assert [view.record.mirror_topic for view in mirrors.list("l", MirrorState.PENDING_MIRROR)] == ["orders"]
    assert [view.record.mirror_topic for view in mirrors.list("l", MirrorState.ACTIVE)] == ["other"]
    assert plane.service.status().mirrors == {"ACTIVE": 1, "PENDING_MIRROR": 1}


async def test_a_store_that_fails_does_not_delete_a_topic_that_was_there(plane):
    await plane.with_link()
    plane.source.add("orders")
    plane.target.add("orders")
    plane.log.failures = [StoreError("no")]

    await refused(plane, StoreError, "no")
    assert "orders" in plane.target.existing


async def test_of_two_creates_at_once_one_wins_and_ids_differ(plane):
    await plane.with_link()
    for topic in ("a", "b", "c"):
        plane.source.add(topic)

    results = await asyncio.gather(
        *(plane.service.mirrors.create("l", topic) for topic in ("a", "b", "a", "c")), return_exceptions=True
    )

    assert [type(result) for result in results if isinstance(result, Exception)] == [Conflict]
    first = first_mirror_id("T")
    assert sorted(mirror.mirror_id for mirror in plane.store.mirrors.values()) == [first, first + 1, first + 2]


async def test_a_link_is_not_deleted_under_a_create(plane):
    await plane.with_link()
    plane.source.add("orders")

    async def delete() -> None:
        with pytest.raises(Conflict, match="not STOPPED"):
            await plane.service.links.delete("l")

    plane.target.before["create_topic"] = delete
    await plane.service.mirrors.create("l", "orders")
    assert plane.store.mirrors["l", "orders"].created


async def test_a_link_deleted_by_force_ends_the_create(plane):
    await plane.with_link()
    plane.source.add("orders")

    async def delete() -> None:
        await plane.service.links.delete("l", force=True)

    plane.target.before["create_topic"] = delete
    with pytest.raises(NotFound, match="link 'l'"):
        await plane.service.mirrors.create("l", "orders")

    assert "orders" not in plane.target.existing
    assert not plane.store.mirrors
    assert plane.routing.current.topics == {}


@pytest.mark.parametrize("topic_is_there", [True, False])
async def test_a_create_cut_short_by_a_crash_stays_routed_and_is_finished_at_the_next_start(topic_is_there):
    """What is on the target by then must not be written to directly: the source is where writes belong."""
    kept: dict[str, bytes] = {}
    plane = Plane(kept)
    await plane.start()
    await plane.with_link()
    plane.source.add("orders")
    left: dict[str, bytes] = {}

    async def crash() -> None:
        left.update(kept)

    plane.target.before["create_topic"] = crash
    await plane.service.mirrors.create("l", "orders")
    await plane.close()
    if not topic_is_there:
        del plane.target.existing["orders"]

    again = Plane(left, clusters_of=plane)
    await again.start()
    assert again.routing.current.topics["orders"].phase is WritePhase.FORWARD
    await wait_until_async(lambda: ("l", "orders") in again.engine.running, 10, what="the mirror runs")
    record = again.store.mirrors["l", "orders"]
    assert record.created
    assert record.mirror_topic_id == again.target.existing["orders"].info.topic_id
    await again.close()
