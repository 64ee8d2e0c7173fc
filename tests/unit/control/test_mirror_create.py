"""Creating a mirror topic: checked whole before the first change, and undone when a change fails."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.control.errors import BadRequest, Conflict, NotFound, SourceUnreachable, TargetUnreachable
from gateway.control.store_errors import StoreError
from gateway.domain.records import MirrorMode, MirrorRecord, MirrorState, PartitionStart
from gateway.domain.routing import Phase
from gateway.domain.topic_configs import LIFTED, OWN
from gateway.net.errors import BrokerError
from tests.support.control_plane import Plane
from tests.support.fake_kafka import FakeKafka
from tests.support.waiting import wait_until_async

LONG_MAX = str(2**63 - 1)
POLICY_VIOLATION = 44


async def refused(plane: Plane, error: type[Exception], message: str, topic: str = "orders") -> None:
    before = dict(plane.log.kept)
    topics = set(plane.target.existing)
    with pytest.raises(error, match=message):
        await plane.service.mirrors.create("l", topic)
    assert plane.log.kept == before
    assert set(plane.target.existing) == topics
    assert plane.routing.current.topics == {}
    assert plane.engine.running == {}


async def test_create(plane):
    await plane.with_link()
    source = plane.source.add("orders", 3, 100, retention_ms="5000", message_timestamp_difference_max_ms="700")
    plane.starts = (PartitionStart(5, 3), PartitionStart(0, 0), PartitionStart(9, 9))

    view = await plane.service.mirrors.create("l", "orders")

    record = plane.store.mirrors["l", "orders"]
    target = plane.target.existing["orders"]
    assert view.record == record
    assert (record.source_topic, record.mirror_topic, record.mirror_id) == ("orders", "orders", 1)
    assert (record.source_topic_id, record.mirror_topic_id) == (source.info.topic_id, target.info.topic_id)
    assert (record.state, record.state_since_ms, record.mode) == (
        MirrorState.ACTIVE,
        plane.now_ms,
        MirrorMode.PRESERVE,
    )
    assert record.mode_reason
    assert record.starts == plane.starts
    assert not record.settled
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
    assert (route.phase, route.settled) == (Phase.FORWARD, False)


async def test_the_route_is_there_before_the_topic_is(plane):
    """A producer that finds the topic on the target between its creation and its record would fork it."""
    await plane.with_link()
    plane.source.add("orders")
    seen = []

    async def look() -> None:
        seen.append(plane.routing.current.topics["orders"])

    plane.target.before["create_topic"] = look
    await plane.service.mirrors.create("l", "orders")

    assert [(route.phase, route.settled) for route in seen] == [(Phase.FORWARD, False)]


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


async def test_a_store_that_fails_takes_the_new_topic_back(plane):
    await plane.with_link()
    plane.source.add("orders")
    plane.log.failures = [None, StoreError("no")]

    await refused(plane, StoreError, "no")
    assert "create_topic" in plane.target.calls


async def test_a_store_that_fails_does_not_delete_a_topic_that_was_there(plane):
    await plane.with_link()
    plane.source.add("orders")
    plane.target.add("orders")
    plane.log.failures = [StoreError("no")]

    await refused(plane, StoreError, "no")
    assert "orders" in plane.target.existing


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


async def test_of_two_creates_at_once_one_wins_and_ids_differ(plane):
    await plane.with_link()
    for topic in ("a", "b", "c"):
        plane.source.add(topic)

    results = await asyncio.gather(
        *(plane.service.mirrors.create("l", topic) for topic in ("a", "b", "a", "c")), return_exceptions=True
    )

    assert [type(result) for result in results if isinstance(result, Exception)] == [Conflict]
    assert sorted(mirror.mirror_id for mirror in plane.store.mirrors.values()) == [1, 2, 3]


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
    assert again.routing.current.topics["orders"].phase is Phase.FORWARD
    await wait_until_async(lambda: ("l", "orders") in again.engine.running, 10, what="the mirror runs")
    record = again.store.mirrors["l", "orders"]
    assert record.created
    assert record.mirror_topic_id == again.target.existing["orders"].info.topic_id
    await again.close()


@pytest.mark.parametrize("names", [("clicks", ""), ("", "usa_clicks"), ("clicks", "usa_clicks")])
async def test_a_prefix_names_the_mirror_topic(plane, names):
    await plane.with_link(**{"link.prefix": "usa_"})
    plane.source.add("clicks", 2, ends=5)

    await plane.service.mirrors.create("l", *names)

    record = plane.store.mirrors["l", "usa_clicks"]
    assert (record.source_topic, record.mirror_topic) == ("clicks", "usa_clicks")
    assert record.source_topic_id == plane.source.existing["clicks"].info.topic_id
    assert record.mirror_topic_id == plane.target.existing["usa_clicks"].info.topic_id
    assert plane.target.existing["usa_clicks"].info.partitions == 2
    route = plane.routing.current.topics["usa_clicks"]
    assert (route.source_topic, route.mirror_topic) == ("clicks", "usa_clicks")


async def test_a_name_that_is_not_prefix_and_source_topic_is_refused(plane):
    await plane.with_link(**{"link.prefix": "usa_"})
    plane.source.add("clicks")

    for names in (("clicks", "clicks"), ("clicks", "eu_clicks"), ("", "clicks")):
        with pytest.raises(BadRequest, match="'usa_clicks', not "):
            await plane.service.mirrors.create("l", *names)
    with pytest.raises(BadRequest, match="internal"):
        await plane.service.mirrors.create("l", "__consumer_offsets")


async def test_two_links_mirror_topics_of_one_name_under_their_prefixes(plane):
    await plane.with_link("a", **{"link.prefix": "usa_"})
    await plane.with_link("b", **{"link.prefix": "eu_"})
    plane.source.add("clicks")

    await plane.service.mirrors.create("a", "clicks")
    await plane.service.mirrors.create("b", "clicks")

    assert set(plane.store.mirrors) == {("a", "usa_clicks"), ("b", "eu_clicks")}


async def test_a_create_under_a_prefix_that_a_crash_cut_short_is_finished(plane):
    await plane.with_link(**{"link.prefix": "usa_"})
    plane.source.add("clicks", 2)
    intent = MirrorRecord(link="l", source_topic="clicks", mirror_topic="usa_clicks", mirror_id=0, created=False)
    await plane.store.put(intent)

    await plane.service.mirrors.resume_create(intent)

    assert plane.store.mirrors["l", "usa_clicks"].created
    assert set(plane.target.existing) >= {"usa_clicks"}
