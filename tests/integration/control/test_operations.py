"""The operations between two real clusters; only the mirror engine is a fake."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import nullcontext

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from gateway.control_parts import ControlParts, config_sync, failback_tools, failbacks
from gateway.control_plane import ControlService
from gateway.cutover.failback.runs import FailbackRuns
from gateway.cutover.write_pause.rules.routing import RoutingTable
from gateway.devcluster import DevCluster
from gateway.errors import BadRequest, Conflict, NotFound, SourceUnreachable
from gateway.groups.gate.rules.gates import GroupGates
from gateway.groups.reports import GroupReports
from gateway.kafka import admin
from gateway.kafka.connection.config import ClusterConfig
from gateway.kafka.logs.log_excerpt import Shortened
from gateway.kafka.rules.topic_configs import LIFTED, OWN
from gateway.mirror.partition.log_start import plan_start
from gateway.mirror.rules.progress import MirrorProgress
from gateway.operations.net_access import NetAccess
from gateway.operations.sources import Sources
from gateway.state.records import LinkRecord, MirrorState, PartitionStart
from gateway.state.store import StateStore
from gateway.state.topic import StateTopic
from gateway.topics.source_topics import UnmirroredTopics
from tests.support.fakes.fake_engine import FakeEngine
from tests.support.fakes.fake_promoters import FakeGroupPromoter, FakePromoters, FakeTopicPromoter
from tests.support.waiting import wait_until_async

LONG_MAX = str(2**63 - 1)


def _alone(link: str, topic: str) -> nullcontext[None]:
    return nullcontext()


class Control:
    """A control plane on the two session clusters with a state topic of its own."""

    def __init__(self, target: DevCluster) -> None:
        config = ClusterConfig.from_client_properties({"bootstrap.servers": target.bootstrap})
        self.state = f"state-{uuid.uuid4().hex[:12]}"
        self.target = NetAccess(config)
        log = StateTopic(config, uuid.uuid4().hex, topic=self.state, transactional_id=self.state)
        self.store = StateStore(config, log=log)
        self.engine = FakeEngine()
        self.routing = RoutingTable()
        self.sources = Sources(NetAccess)

    async def start(self) -> None:
        await self.target.start()
        await self.store.open()
        await self.store.lead()
        self.parts = parts = ControlParts(
            store=self.store,
            target=self.target,
            sources=self.sources,
            routing=self.routing,
            gates=GroupGates(),
            progress=MirrorProgress(),
            engine=self.engine,
        )
        promoters, tools = FakePromoters(parts.records), failback_tools(parts)
        nothing = FailbackRuns(tools, parts.background)
        self.service = ControlService(
            parts,
            topic_promoter=FakeTopicPromoter(promoters),
            group_promoter=FakeGroupPromoter(promoters),
            group_reports=GroupReports(),
            failbacks=failbacks(
                parts, tools, nothing, pauses={}, without_promote=_alone, overridden=_alone, landing_s=0.0
            ),
            plan_start=self._plan_start,
            state_topic=self.state,
        )
        self.service.restore()
        await self.service.start()

    async def close(self) -> None:
        await self.service.close()
        await self.sources.close()
        await self.store.close()
        await self.target.close()

    async def _plan_start(
        self, link: LinkRecord, topic: str, partitions: int, timestamp: int
    ) -> tuple[PartitionStart, ...]:
        return await plan_start(self.sources.clusters[link.name], topic, timestamp, partitions=range(partitions))


@pytest.fixture
async def control(target: DevCluster) -> AsyncIterator[Control]:
    made = Control(target)
    await made.start()
    yield made
    await made.close()


@pytest.fixture
async def linked(control: Control, source: DevCluster) -> Control:
    await control.service.links.create("l", {"bootstrap.servers": source.bootstrap})
    return control


async def create_topic(cluster: DevCluster, topic: str, partitions: int = 2, **configs: str) -> None:
    client = AdminClient({"bootstrap.servers": cluster.bootstrap})
    values = {key.replace("_", "."): value for key, value in configs.items()}
    future = client.create_topics([NewTopic(topic, partitions, 1, config=values)])[topic]
    await asyncio.to_thread(future.result, 30)

    async def visible() -> bool:  # a broker learns of what its controller has created a little later
        found = (await asyncio.to_thread(client.list_topics, timeout=10)).topics.get(topic)
        return found is not None and len(found.partitions) == partitions

    await wait_until_async(visible, what=f"topic {topic}")


async def produce(cluster: DevCluster, topic: str, count: int) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap)
    await producer.start()
    try:
        for number in range(count):
            await producer.send_and_wait(topic, str(number).encode(), partition=0)
    finally:
        await producer.stop()


async def test_link_reads_the_cluster_ids_and_knows_its_own_target(control, source, target):
    view = await control.service.links.create("l", {"bootstrap.servers": source.bootstrap})

    assert len(view.record.source_cluster_id) == 22
    assert view.record.source_cluster_id != control.target.cluster_id()
    with pytest.raises(BadRequest, match="is the target cluster itself"):
        await control.service.links.create("m", {"bootstrap.servers": target.bootstrap})


async def test_a_source_that_is_not_there(control, unused_port):
    with pytest.raises(SourceUnreachable, match="is not reachable"):
        await control.service.links.create(
            "l", {"bootstrap.servers": f"127.0.0.1:{unused_port()}", "default.api.timeout.ms": "1000"}
        )

    assert not control.store.links


async def test_create_a_mirror(linked, source, topic):
    await create_topic(
        source, topic, 3, retention_ms="123456", max_message_bytes="2000000", message_timestamp_before_max_ms="7777"
    )
    await produce(source, topic, 5)

    view = await linked.service.mirrors.create("l", topic)

    record = view.record
    info = (await linked.target.topics([topic]))[topic]
    assert (info.partitions, info.replication_factor) == (3, 1)
    assert info.topic_id == record.mirror_topic_id != record.source_topic_id
    assert len(record.source_topic_id) == 22
    configs = (await linked.target.topic_configs([topic]))[topic]
    assert {name: configs[name] for name in LIFTED} == LIFTED
    assert configs["message.timestamp.before.max.ms"] == configs["message.timestamp.after.max.ms"] == LONG_MAX
    assert record.restore_configs == {
        "message.timestamp.before.max.ms": "7777",
        "message.timestamp.after.max.ms": LONG_MAX,
        "message.timestamp.type": "CreateTime",
        "max.message.bytes": "2000000",
        "compression.type": OWN,
        "retention.ms": "123456",
        "retention.bytes": "-1",
    }
    assert record.starts == (PartitionStart(0, 0),) * 3
    assert linked.engine.running["l", topic] == record
    assert topic in linked.routing.current.topics
    assert list(linked.routing.current.topic_ids.values()) == [topic]


async def test_records_of_both_clusters_side_by_side(linked, source, target, topic):
    for cluster in (source, target):
        await create_topic(cluster, topic, 1)
    await linked.service.mirrors.create("l", topic)
    await produce(source, topic, 12)
    await produce(target, topic, 11)

    found = await linked.service.messages.read("l", topic, 0, None, 3, 1, "ann")
    assert (found.source_range, found.target_range) == ((0, 12), (0, 11))
    assert [(pair.offset, pair.source.value, pair.is_equal) for pair in found.pairs] == [
        (9, Shortened(1, b"9"), True),
        (10, Shortened(2, b"1"), True),
        (11, Shortened(2, b"1"), False),  # not on the target
    ]
    first = await linked.service.messages.read("l", topic, 0, 0, 2, 1, "ann")
    assert [(pair.offset, pair.is_equal) for pair in first.pairs] == [(0, True), (1, True)]


async def test_refusals_leave_the_target_as_it_was(linked, source, target, topic):
    await create_topic(source, f"{topic}-taken")
    await create_topic(target, f"{topic}-taken")
    await produce(target, f"{topic}-taken", 1)
    await create_topic(source, f"{topic}-grown", 3)
    await create_topic(target, f"{topic}-grown", 2)
    before = set((await linked.target.cluster.refresh(None)).topics)

    for name, error, message in [
        (topic, NotFound, "does not exist on the source"),
        (f"{topic}-taken", Conflict, "other data"),
        (f"{topic}-grown", Conflict, "2 partitions"),
    ]:
        with pytest.raises(error, match=message):
            await linked.service.mirrors.create("l", name)

    assert set((await linked.target.cluster.refresh(None)).topics) == before
    assert not linked.store.mirrors


async def test_an_empty_topic_of_a_crashed_create_is_taken_over(linked, source, target, topic):
    await create_topic(source, topic, retention_ms="5000")
    await create_topic(target, topic)

    await linked.service.mirrors.create("l", topic)

    assert (await linked.target.topic_configs([topic]))[topic]["retention.ms"] == "-1"
    assert linked.store.mirrors["l", topic].restore_configs["retention.ms"] == "5000"


async def test_configs_and_partitions_follow_the_source(linked, source, topic):
    await create_topic(source, topic, 2)
    await linked.service.mirrors.create("l", topic)
    cluster = linked.sources.clusters["l"]
    change = admin.TopicConfigChange({"delete.retention.ms": "4242", "segment.bytes": "1048576"})
    assert await admin.alter_topic_configs(cluster, {topic: change}) == {}
    await admin.create_partitions(cluster, topic, 4)
    sync = config_sync(linked.parts)

    async def followed() -> bool:
        await sync.sync_link(linked.store.links["l"])
        return len(linked.store.mirrors["l", topic].starts) == 4

    await wait_until_async(followed)

    configs = (await linked.target.topic_configs([topic]))[topic]
    assert configs["delete.retention.ms"] == "4242"
    assert configs["segment.bytes"] != "1048576"
    assert (await linked.target.topics([topic]))[topic].partitions == 4
    assert len(linked.engine.running["l", topic].starts) == 4


async def test_who_has_not_moved_and_groups(linked, source, topic):
    await create_topic(source, topic, 1)
    await produce(source, topic, 3)
    await linked.service.mirrors.create("l", topic)
    group = f"g/{topic}"
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=source.bootstrap, group_id=group, client_id="billing", auto_offset_reset="earliest"
    )
    await consumer.start()
    try:
        for _ in range(2):
            await consumer.getone()
        await consumer.commit()

        view = await linked.service.mirrors.describe("l", topic)
        declared = await linked.service.groups.create("l", group)
        described = await linked.service.groups.describe("l", group)
    finally:
        await consumer.stop()

    assert view.clients_not_migrated is not None
    assert view.clients_not_migrated.readers is not None
    assert [(reader.group, reader.client_id) for reader in view.clients_not_migrated.readers] == [(group, "billing")]
    assert view.clients_not_migrated.readers[0].host
    assert declared.source is not None
    assert [member.topics for member in declared.source.members] == [{topic}]
    assert described.offsets is not None
    assert {key: committed.offset for key, committed in described.offsets.items()} == {(topic, 0): 2}
    with pytest.raises(NotFound, match="does not exist on the source"):
        await linked.service.groups.create("l", f"no-{group}")


async def test_a_paused_mirror_shows_its_growing_lag(linked, source, topic):
    await create_topic(source, topic, 1)
    await linked.service.mirrors.create("l", topic)
    await linked.service.mirrors.pause("l", topic)
    await produce(source, topic, 7)

    view = await linked.service.mirrors.describe("l", topic)

    assert view.record.state is MirrorState.PAUSED
    assert [(p.phase, p.source_end, p.mirrored_to, p.lag) for p in view.partitions] == [("paused", 7, 0, 7)]


async def test_topics_that_must_not_be_created_by_passing_through(linked, source, topic):
    await create_topic(source, f"{topic}-there")
    await create_topic(source, f"{topic}-mirrored")
    await linked.service.mirrors.create("l", f"{topic}-mirrored")

    found = await UnmirroredTopics(linked.store, linked.sources).exists_unmirrored(
        [f"{topic}-there", f"{topic}-mirrored", f"{topic}-new"]
    )

    assert found == {f"{topic}-there": "l"}
