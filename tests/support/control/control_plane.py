"""A control plane without Kafka: clusters and the state in memory, an engine that only remembers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from unittest.mock import patch

from gateway.control_parts import ControlParts, failback_tools, failbacks
from gateway.control_plane import ControlService
from gateway.cutover.failback.operations import Failbacks
from gateway.cutover.failback.runs import FailbackRuns
from gateway.cutover.failover.operations import Alone
from gateway.cutover.failover.run import OnFailover
from gateway.cutover.write_pause.interface import Coverage, PausesWrites
from gateway.cutover.write_pause.rules.routing import RoutingTable
from gateway.groups.gate.by_record import GatesByRecord
from gateway.groups.gate.rules.gates import GroupGates
from gateway.groups.reports import GroupReports
from gateway.kafka.connection.config import ClusterConfig
from gateway.kafka.connection.errors import ClusterUnavailable
from gateway.mirror.rules.progress import MirrorProgress
from gateway.operations.origin_ends import SourceEnds
from gateway.operations.sources import Sources
from gateway.state import store as store_module
from gateway.state.codec import Record
from gateway.state.mirror_states import tag_of
from gateway.state.records import LinkRecord, MirrorRecord, MirrorState, PartitionStart
from gateway.state.store import StateStore
from gateway.state.topic import TOPIC
from gateway.transport.host import Host
from tests.support.fakes.fake_engine import FakeEngine
from tests.support.fakes.fake_kafka import SOURCE_CONFIGS, FakeKafka, RangeEnds
from tests.support.fakes.fake_promoters import FakeGroupPromoter, FakePromoters, FakeTopicPromoter
from tests.support.fakes.memory_log import MemoryLog

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
        self.now_ms = 1_000_000
        self.clock_s = 0.0
        self.pauses: dict[str, PausesWrites] = {}  # of the gateways whose writes a failover of `service` pauses
        self.starts: tuple[PartitionStart, ...] | None = None
        self.sources = Sources(self._open)
        self.store.subscribe(lambda: self.sources.only(self.store.links))
        self.parts = ControlParts(
            store=self.store,
            target=self.target,
            sources=self.sources,
            routing=self.routing,
            gates=self.gates,
            progress=self.progress,
            engine=self.engine,
            host=Host(wall_ms=lambda: self.now_ms, monotonic=lambda: asyncio.get_running_loop().time() + self.clock_s),
        )
        self.promoters = FakePromoters(self.parts.records)
        self.service = ControlService(
            self.parts,
            topic_promoter=FakeTopicPromoter(self.promoters),
            group_promoter=FakeGroupPromoter(self.promoters),
            group_reports=GroupReports(),
            failbacks=self.failbacks(pauses=self.pauses, ends=RangeEnds(self.source)),
            plan_start=self._plan_start,
        )
        GatesByRecord(self.store, self.gates)

    def failbacks(
        self,
        *,
        pauses: Mapping[str, PausesWrites],
        ends: SourceEnds,
        without_promote: Alone = lambda link, topic: nullcontext(),
        on_failover: Sequence[OnFailover] = (),
        patience_s: float = 30.0,
        target_ends: SourceEnds | None = None,
        landing_s: float = 0.0,
        coverage: Coverage | None = None,
    ) -> Failbacks:
        """With runs of their own; those that `service` has are others."""
        tools = failback_tools(self.parts, ends=ends, patience_s=patience_s)
        return failbacks(
            self.parts,
            tools,
            FailbackRuns(tools, self.parts.background),
            pauses=pauses,
            without_promote=without_promote,
            overridden=lambda link, topic: nullcontext(),
            landing_s=landing_s,
            coverage=coverage,
            on_failover=on_failover,
            ends=ends,
            target_ends=target_ends or RangeEnds(self.target),
        )

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
        await self.service.start()

    async def close(self) -> None:
        await self.service.close()
        await self.parts.sources.close()
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

    async def by_hand(self, *records: Record) -> None:
        """Store what a scene begins with, in whatever state: past the table of a mirror's states."""
        with patch.object(store_module, "check_write", lambda stored, new: None):
            await self.store.put(*records)
        for record in records:
            if isinstance(record, MirrorRecord):
                self._run_as(record)

    def _run_as(self, record: MirrorRecord) -> None:
        """What runs as another mirror of the topic goes on as this one."""
        key = record.link, record.mirror_topic
        running = self.engine.running.get(key)
        if running is not None and tag_of(running) != tag_of(record):
            self.engine.running[key] = record

    def state(self, topic: str = "orders") -> MirrorState:
        return self.store.mirrors["l", topic].state
