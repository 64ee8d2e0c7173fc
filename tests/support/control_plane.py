"""A control plane without Kafka: clusters and the state in memory, an engine that only remembers."""

from __future__ import annotations

import time

from gateway.control.gates_by_record import GatesByRecord
from gateway.control.service import ControlService
from gateway.control.sources import Sources
from gateway.control.state_topic import TOPIC
from gateway.control.store import StateStore
from gateway.control.ways_back import WaysBack
from gateway.domain.gates import GroupGates
from gateway.domain.progress import MirrorProgress
from gateway.domain.records import LinkRecord, MirrorRecord, MirrorState, PartitionStart
from gateway.domain.routing import RoutingTable
from gateway.net.config import ClusterConfig
from gateway.net.errors import ClusterUnavailable
from gateway.net.host import Host
from tests.support.fake_engine import FakeEngine
from tests.support.fake_kafka import SOURCE_CONFIGS, FakeKafka, RangeEnds
from tests.support.fake_promoters import FakeGroupPromoter, FakePromoters, FakeTopicPromoter
from tests.support.memory_log import MemoryLog

SOURCE = "source:9092"
TARGET = "target:9092"
PROPERTIES = {"bootstrap.servers": SOURCE}


class Plane:
    """A started control plane and everything it stands on."""

    def __init__(self, kept: dict[str, bytes] | None = None, clusters_of: Plane | None = None) -> None:
        """`kept` and `clusters_of`: what an earlier process left behind."""
        self.source: FakeKafka = clusters_of.source if clusters_of else FakeKafka("S", defaults=SOURCE_CONFIGS)
        self.target: FakeKafka = clusters_of.target if clusters_of else FakeKafka("T")
        if clusters_of is None:
            self.target.add(TOPIC, 1)
        self.reachable = {SOURCE: self.source, TARGET: self.target}
        self.log = MemoryLog(kept)
        self.store = StateStore({"bootstrap.servers": TARGET}, log=self.log)
        self.routing = RoutingTable()
        self.gates = GroupGates()
        self.progress = MirrorProgress()
        self.engine = FakeEngine()
        self.promoters = FakePromoters()
        self.now_ms = 1_000_000
        self.clock_s = 0.0
        self.starts: tuple[PartitionStart, ...] | None = None
        self.service = ControlService(
            store=self.store,
            target=self.target,
            sources=Sources(self._open),
            routing=self.routing,
            gates=self.gates,
            progress=self.progress,
            plan_start=self._plan_start,
            host=Host(wall_ms=lambda: self.now_ms, monotonic=lambda: time.monotonic() + self.clock_s),
        )
        self.promoters.service = self.service
        GatesByRecord(self.store, self.gates)

    def _open(self, config: ClusterConfig) -> FakeKafka:
        host, port = config.bootstrap[0]
        return self.reachable[f"{host}:{port}"]

    async def _plan_start(
        self, link: LinkRecord, topic: str, partitions: int, timestamp: int
    ) -> tuple[PartitionStart, ...]:
        if self.source.down:
            raise ClusterUnavailable("connection refused")
        return self.starts or (PartitionStart(0, 0),) * partitions

    async def start(self) -> None:
        await self.store.open()
        await self.store.lead()
        self.service.restore()
        await self.service.start(
            engine=self.engine,
            topic_promoter=FakeTopicPromoter(self.promoters),
            group_promoter=FakeGroupPromoter(self.promoters),
        )
        self.service.ways_back = WaysBack(
            context=self.service.context,
            measure=self.service.measure,
            routing=self.routing,
            fences={},
            ends=RangeEnds(self.source),
        )

    async def close(self) -> None:
        await self.service.close()
        await self.service.context.sources.close()
        await self.store.close()

    async def with_link(self, name: str = "l", **configs: str) -> LinkRecord:
        await self.service.links.create(name, {**PROPERTIES, **configs})
        return self.store.links[name]

    async def with_mirror(self, topic: str = "orders", partitions: int = 3, ends: int = 100) -> MirrorRecord:
        if "l" not in self.store.links:
            await self.with_link()
        self.source.add(topic, partitions, ends)
        await self.service.mirrors.create("l", topic)
        return self.store.mirrors["l", topic]

    def state(self, topic: str = "orders") -> MirrorState:
        return self.store.mirrors["l", topic].state
