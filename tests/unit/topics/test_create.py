"""Creating a mirror topic: what it makes, and what is checked whole before the first change."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from gateway.cutover.write_pause.rules.routing import WritePhase
from gateway.errors import BadRequest, Conflict, NotFound, SourceUnreachable, TargetUnreachable
from gateway.kafka.commits import Committed
from gateway.kafka.connection.errors import BrokerError
from gateway.kafka.rules.topic_configs import LIFTED, OWN
from gateway.state.producer_ids import first_mirror_id
from gateway.state.records import (
    CarriedOffset,
    GroupRecord,
    GroupState,
    MirrorError,
    MirrorMode,
    MirrorState,
    PartitionStart,
)
from gateway.topics.plan import NAMES_S
from gateway.topics.rules.repair import RepairAction
from protocol.errors import ErrorCode
from tests.support.control.control_plane import Plane
from tests.support.control.mirror_records import changed
from tests.support.control.refused_create import refused
from tests.support.fakes.fake_kafka import FakeKafka

LONG_MAX = str(2**63 - 1)

POLICY_VIOLATION = 44


async def test_create(plane):
    await plane.with_link()
    source = plane.source.add("orders", 3, 100, retention_ms="5000", message_timestamp_difference_max_ms="700")
    plane.starts = (PartitionStart(5, 3), PartitionStart(0, 0), PartitionStart(9, 9))

    view = await plane.service.mirrors.create("l", "orders")

    record = plane.store.mirrors["l", "orders"]
    target = plane.target.existing["orders"]
    assert view.record == record
    assert (record.source_topic, record.mirror_topic, record.mirror_id) == ("orders", "orders", first_mirror_id("T"))
    assert (record.source_topic_id, record.mirror_topic_id) == (source.info.topic_id, target.info.topic_id)
    assert (record.state, record.state_since_ms, record.mode) == (
        MirrorState.ACTIVE,
        plane.now_ms,
        MirrorMode.PRESERVE,
    )
    assert record.mode_reason
    assert record.starts == plane.starts
    assert not record.readable
    assert (target.info.partitions, target.info.replication_factor) == (3, 3)
    assert target.configs["delete.retention.ms"] == "86400000"
    assert {name: target.configs[name] for name in LIFTED} == LIFTED
    assert target.configs["message.timestamp.before.max.ms"] == LONG_MAX
    assert target.configs["message.timestamp.after.max.ms"] == LONG_MAX
    assert record.restore_configs == {
        "message.timestamp.before.max.ms": "700",
        "message.timestamp.after.max.ms": "700",
        "message.timestamp.type": "CreateTime",
        "max.message.bytes": "1048588",
        "compression.type": OWN,
        "retention.ms": "5000",
        "retention.bytes": "-1",
    }
    assert plane.engine.running["l", "orders"] == record
    route = plane.routing.current.topics["orders"]
    assert (route.phase, route.readable) == (WritePhase.FORWARD, False)


async def test_the_route_is_there_before_the_topic_is(plane):
    """A producer that finds the topic on the target between its creation and its record would fork it."""
    await plane.with_link()
    plane.source.add("orders")
    seen = []

    async def look() -> None:
        seen.append(plane.routing.current.topics["orders"])

    plane.target.before["create_topic"] = look
    await plane.service.mirrors.create("l", "orders")

    assert [(route.phase, route.readable) for route in seen] == [(WritePhase.FORWARD, False)]


async def test_unknown_link_and_topic(plane):
    with pytest.raises(NotFound, match="link 'l' does not exist"):
        await plane.service.mirrors.create("l", "orders")
    await plane.with_link()
    await refused(plane, NotFound, "topic 'orders' does not exist on the source of link 'l'")


async def test_a_topic_that_a_broker_does_not_know_yet(plane):
    """Created a moment ago, asked of another broker: found when asked again."""
    await plane.with_link()
    plane.source.add("orders", partitions=2)
    known, asked = plane.source.existing.pop("orders"), 0

    async def learn():
        nonlocal asked
        asked += 1
        if asked == 2:
            plane.source.existing["orders"] = known

    plane.source.before["topics"] = learn
    record = await plane.service.mirrors.create("l", "orders")
    assert len(record.record.starts) == 2
    assert asked >= 2


async def test_a_topic_whose_configs_a_broker_does_not_know_yet(plane):
    """As above: one broker has named it, another one is asked for its configs."""
    await plane.with_link()
    plane.source.add("orders", partitions=2)
    asked = 0

    async def learn():
        nonlocal asked
        asked += 1
        if asked == 1:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "describe configs of topic orders: unknown")

    plane.source.before["topic_configs"] = learn
    record = await plane.service.mirrors.create("l", "orders")
    assert len(record.record.starts) == 2
    assert asked == 2


@pytest.mark.parametrize("topic", ["__consumer_offsets", "_confluent-metrics"])
async def test_internal_topics(plane, topic):
    await plane.with_link()
    plane.source.add(topic)

    await refused(plane, BadRequest, "internal", topic)


async def test_topics_that_the_source_calls_internal(plane):
    await plane.with_link()
    plane.source.add("orders")
    plane.source.existing["orders"].info = replace(plane.source.existing["orders"].info, internal=True)

    await refused(plane, BadRequest, "internal")


async def test_bad_and_other_names(plane):
    await plane.with_link()
    plane.source.add("orders")

    await refused(plane, BadRequest, "topic name", "a/b")
    with pytest.raises(BadRequest, match="has the name of its source topic"):
        await plane.service.mirrors.create("l", "orders", "copy")


@pytest.mark.parametrize("policy", ["compact", "delete,compact"])
async def test_a_compacted_topic_is_translated(plane, policy):
    await plane.with_link()
    plane.source.add("orders", cleanup_policy=policy)

    await plane.service.mirrors.create("l", "orders")

    record = plane.store.mirrors["l", "orders"]
    assert (record.mode, record.compacted) == (MirrorMode.TRANSLATE, True)
    assert "cleanup.policy is compact" in record.mode_reason
    assert all(start.is_translated for start in record.starts)


async def test_a_compacted_topic_where_offsets_must_be_equal(plane):
    await plane.with_link(**{"mirror.offsets": "preserve"})
    plane.source.add("orders", cleanup_policy="compact")

    await refused(plane, BadRequest, "cannot be mirrored while mirror.offsets is preserve: .*compact")


async def test_a_topic_is_mirrored_once_over_all_links(plane):
    await plane.with_mirror()
    other = plane.reachable["other:9092"] = FakeKafka("O")
    other.add("orders")
    await plane.service.links.create("other", {"bootstrap.servers": "other:9092"})

    for link in ("l", "other"):
        with pytest.raises(Conflict, match=r"already a mirror topic of link 'l' \(ACTIVE\)"):
            await plane.service.mirrors.create(link, "orders")


async def test_unreachable_clusters(plane):
    await plane.with_link()
    plane.source.add("orders")
    plane.source.down = True
    await refused(plane, SourceUnreachable, "the source of link 'l': connection refused")

    plane.source.down, plane.target.down = False, True
    await refused(plane, TargetUnreachable, "the target cluster: connection refused")


async def test_a_target_that_refuses(plane):
    await plane.with_link()
    plane.source.add("orders")
    plane.target.refuse["create_topic"] = BrokerError(POLICY_VIOLATION, "too many partitions")

    await refused(plane, Conflict, "the target cluster refuses: too many partitions")


async def test_replication_factor(plane):
    plane.target.brokers = 1
    await plane.with_mirror()
    assert plane.target.existing["orders"].info.replication_factor == 1

    plane.reachable["other:9092"] = FakeKafka("O")
    plane.reachable["other:9092"].add("more")
    await plane.service.links.create("r", {"bootstrap.servers": "other:9092", "replication.factor": "2"})
    with pytest.raises(BadRequest, match=r"replication\.factor is 2, but the target has 1 broker"):
        await plane.service.mirrors.create("r", "more")
    plane.target.brokers = 3
    await plane.service.mirrors.create("r", "more")
    assert plane.target.existing["more"].info.replication_factor == 2


async def test_a_promoted_group_with_offsets_of_the_topic_forbids_its_mirror(plane):
    """It reads on the target already: nobody could carry its offsets over, and it would begin anew there."""
    await plane.with_mirror("orders")
    plane.source.add("payments", 1, 100)
    await plane.store.put(GroupRecord(link="l", group="g", state=GroupState.PROMOTED))
    plane.source.offsets["g"] = {("payments", 0): Committed(70, -1, "")}

    with pytest.raises(
        Conflict, match=r"group 'g' is promoted, and stands at offset 70 of partition 0 of topic 'payments'"
    ):
        await plane.service.mirrors.create("l", "payments")

    assert ("l", "payments") not in plane.store.mirrors
    assert "payments" not in plane.target.existing
    assert "payments" not in plane.routing.current.topics

    await plane.store.put(replace(plane.store.groups["l", "g"], state=GroupState.ACTIVE))
    assert (await plane.service.mirrors.create("l", "payments")).record.created


@pytest.mark.parametrize(
    ("carried", "on_target", "said"),
    [
        ((CarriedOffset("orders", 0, 40, 40),), {}, "offset 40 of partition 0 of topic 'orders' where it was promoted"),
        ((), {("orders", 2): Committed(80, -1, "")}, "offset 80 of partition 2 of topic 'orders' on the target"),
    ],
)
async def test_nor_is_its_copy_deleted_to_be_made_anew(plane, carried, on_target, said):
    """On the source its offsets have expired, a week after its last member left: its members read on at the target."""
    record = await plane.with_mirror()
    await plane.store.put(GroupRecord(link="l", group="g", state=GroupState.PROMOTED, offsets=carried))
    plane.target.offsets["g"] = on_target
    plane.source.offsets["g"] = {}
    failed = changed(record, state=MirrorState.FAILED, error=MirrorError.TARGET_DIVERGED, error_message="why")
    await plane.by_hand(failed)
    with pytest.raises(BadRequest, match=re.escape(said)):
        await plane.service.mirror_repair.repair("l", "orders", RepairAction.RECREATE)
    assert plane.store.mirrors["l", "orders"] == failed
    plan = await plane.service.mirror_deletion.plan("l", "orders", topic_too=True)
    assert "is read on the target by promoted groups (g)" in plan.refused


async def test_a_promoted_group_that_never_read_the_topic_does_not(plane):
    await plane.with_mirror("orders")
    plane.source.add("payments", 1, 100)
    await plane.store.put(GroupRecord(link="l", group="g", state=GroupState.PROMOTED))
    plane.source.offsets["g"] = {("orders", 0): Committed(70, -1, "")}

    assert (await plane.service.mirrors.create("l", "payments")).record.created


async def test_the_names_that_the_target_knows_are_asked_for_once_in_a_while(plane: Plane) -> None:
    await plane.with_link()
    for topic in ("a", "b", "c"):
        plane.source.add(topic, 1)
    await plane.service.mirrors.create("l", "a")
    plane.target.calls.clear()
    await plane.service.mirrors.create("l", "b")
    assert "topic_configs" not in plane.target.calls
    plane.clock_s += NAMES_S
    await plane.service.mirrors.create("l", "c")
    assert plane.target.calls.count("topic_configs") == 1
