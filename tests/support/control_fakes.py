"""A control plane without Kafka: clusters in memory, a state log in memory, an engine that only remembers."""

from __future__ import annotations

import json
import queue
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gateway.control.access import TopicInfo
from gateway.control.errors import SourceUnreachable
from gateway.control.service import ControlService
from gateway.control.source_ends import LogEnds
from gateway.control.sources import Sources
from gateway.control.state_reader import WRITER_KEY, Entry
from gateway.control.state_topic import TOPIC, Change
from gateway.control.store import StateStore
from gateway.control.store_errors import ProducerFenced, StoreError, StoreUncertain
from gateway.control.ways_back import WaysBack
from gateway.domain.gates import GroupGates
from gateway.domain.mirror_states import MirrorOperation
from gateway.domain.ports import PartitionStatus
from gateway.domain.progress import MirrorProgress
from gateway.domain.records import (
    GroupRecord,
    GroupState,
    LinkRecord,
    MirrorRecord,
    MirrorState,
    PartitionStart,
    ProducerEntry,
)
from gateway.domain.routing import RoutingTable
from gateway.net.commits import Committed
from gateway.net.config import ClusterConfig
from gateway.net.errors import BrokerError, ClusterUnavailable
from gateway.net.groups import DEAD, GroupView

SOURCE = "source:9092"
TARGET = "target:9092"
PROPERTIES = {"bootstrap.servers": SOURCE}

# What a broker of 4.3 and one of 3.9 say of a topic nobody configured.
TARGET_CONFIGS = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "max.message.bytes": "1048588",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "message.timestamp.after.max.ms": "3600000",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "delete.retention.ms": "86400000",
    "min.compaction.lag.ms": "0",
    "max.compaction.lag.ms": "9223372036854775807",
    "segment.bytes": "1073741824",
}
SOURCE_CONFIGS = TARGET_CONFIGS | {
    "message.timestamp.after.max.ms": "9223372036854775807",
    "message.timestamp.difference.max.ms": "9223372036854775807",
    "retention.ms": "86400000",
}


@dataclass
class FakeTopic:
    info: TopicInfo
    configs: dict[str, str]
    ranges: list[tuple[int, int]]


@dataclass
class FakeKafka:
    """A `ClusterAccess`. `down`: every call fails as when nobody answers. `refuse`: call name -> error."""

    id: str
    brokers: int = 3
    defaults: Mapping[str, str] = field(default_factory=lambda: dict(TARGET_CONFIGS))
    existing: dict[str, FakeTopic] = field(default_factory=dict)
    groups: dict[str, GroupView] = field(default_factory=dict)
    offsets: dict[str, dict[tuple[str, int], Committed]] = field(default_factory=dict)
    down: bool = False
    refuse: dict[str, BrokerError] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    closed: int = 0
    ids: int = 0
    before: dict[str, Any] = field(default_factory=dict)
    writers: dict[tuple[str, int], int] = field(default_factory=dict)  # of the last batch of a partition

    @property
    def cluster(self) -> Any:
        return self

    def add(self, name: str, partitions: int = 3, ends: int = 0, **configs: str) -> FakeTopic:
        self.ids += 1
        info = TopicInfo(name, f"{self.id}{self.ids:021d}"[-22:], partitions, min(3, self.brokers))
        values = {key.replace("_", "."): value for key, value in configs.items()}
        topic = FakeTopic(info, {**self.defaults, **values}, [(0, ends)] * partitions)
        self.existing[name] = topic
        return topic

    async def _called(self, name: str) -> None:
        self.calls.append(name)
        if name in self.before:
            await self.before[name]()
        if self.down:
            raise ClusterUnavailable("connection refused")
        if name in self.refuse:
            raise self.refuse[name]

    async def start(self, timeout_s: float | None = None) -> None:
        await self._called("start")

    async def close(self) -> None:
        self.closed += 1

    def cluster_id(self) -> str:
        return self.id

    def broker_count(self) -> int:
        return self.brokers

    def trouble(self) -> str:
        return "connection refused" if self.down else ""

    async def topics(self, names: Iterable[str]) -> Mapping[str, TopicInfo]:
        await self._called("topics")
        return {name: self.existing[name].info for name in names if name in self.existing}

    async def topic_configs(self, names: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        await self._called("topic_configs")
        return {name: dict(self.existing[name].configs) for name in names}

    async def create_topic(
        self, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]
    ) -> None:
        await self._called("create_topic")
        topic = self.add(name, partitions)
        topic.info = replace(topic.info, replication_factor=replication_factor)
        topic.configs.update(configs)

    async def delete_topic(self, name: str) -> None:
        await self._called("delete_topic")
        del self.existing[name]

    async def alter_topic_configs(self, name: str, configs: Mapping[str, str], reset: Collection[str] = ()) -> None:
        await self._called("alter_topic_configs")
        self.existing[name].configs.update({**{config: self.defaults[config] for config in reset}, **configs})

    async def add_partitions(self, name: str, total: int) -> None:
        await self._called("add_partitions")
        topic = self.existing[name]
        topic.info = replace(topic.info, partitions=total)
        topic.ranges += [(0, 0)] * (total - len(topic.ranges))

    async def log_ranges(self, name: str, partitions: int) -> Sequence[tuple[int, int]]:
        await self._called("log_ranges")
        return self.existing[name].ranges[:partitions]

    async def topic_overrides(self, name: str) -> Mapping[str, str]:
        await self._called("topic_overrides")
        configs = self.existing[name].configs
        return {key: value for key, value in configs.items() if self.defaults.get(key) != value}

    async def starts(self, name: str, partitions: int) -> Sequence[PartitionStart]:
        await self._called("starts")
        return [PartitionStart(start, start) for start, _ in self.existing[name].ranges[:partitions]]

    async def last_writer(self, name: str, partition: int, log_end: int) -> int:
        await self._called("last_writer")
        return self.writers.get((name, partition), -1)

    async def log_starts(self, partitions: Mapping[str, int]) -> Mapping[str, Sequence[int]]:
        await self._called("log_starts")
        return {name: [start for start, _ in self.existing[name].ranges[:count]] for name, count in partitions.items()}

    async def delete_records(self, name: str, before: Mapping[int, int]) -> None:
        await self._called("delete_records")
        ranges = self.existing[name].ranges
        for index, offset in before.items():
            ranges[index] = (offset, ranges[index][1])

    async def group_ids(self) -> Sequence[str]:
        await self._called("group_ids")
        return sorted(self.groups)

    async def describe_group(self, group: str) -> GroupView:
        await self._called("describe_group")
        return self.groups.get(group) or GroupView(group=group, state=DEAD, type="", protocol_type="")

    async def committed_offsets(self, group: str) -> Mapping[tuple[str, int], Committed]:
        await self._called("committed_offsets")
        return self.offsets.get(group, {})


class MemoryLog:
    """A `store.Log`. `failures`: raised by the next commits, one each. Share `kept` between logs to reopen."""

    def __init__(self, kept: dict[str, bytes] | None = None) -> None:
        self.kept: dict[str, bytes] = {} if kept is None else kept
        self.failures: list[StoreError | None] = []
        self.commits: list[list[Change]] = []
        self.uncertain: list[Change] = []
        self.settled_as: bool | StoreError = True
        self.is_open = False
        self.end = 0
        self.news: queue.SimpleQueue[Entry] = queue.SimpleQueue()

    def open(self) -> list[Entry]:
        self.is_open = True
        return [self._entry(key, value) for key, value in self.kept.items()]

    def read(self, timeout_s: float) -> list[Entry]:
        try:
            return [self.news.get(timeout=min(timeout_s, 0.05))]
        except queue.Empty:
            return []

    def lead(self) -> int:
        return self.take_over("me")

    def take_over(self, instance: str) -> int:
        """A process of this name leads from now on."""
        entry = self._entry(WRITER_KEY, json.dumps({"v": 1, "instance": instance}).encode())
        self.news.put(entry)
        return entry.offset

    def resign(self) -> None:
        pass

    def commit(self, changes: Sequence[Change]) -> int:
        failure = self.failures.pop(0) if self.failures else None
        if isinstance(failure, StoreUncertain):
            self.uncertain = list(changes)
        if failure is not None:
            raise failure
        return self._keep(changes)

    def settle(self) -> int:
        if isinstance(self.settled_as, StoreError):
            raise self.settled_as
        return self._keep(self.uncertain)

    def close(self) -> None:
        self.is_open = False

    def _entry(self, key: str, value: bytes | None) -> Entry:
        self.end += 1
        return Entry(self.end, key, value)

    def _keep(self, changes: Sequence[Change]) -> int:
        self.commits.append(list(changes))
        for key, value in changes:
            self.end += 1
            if value is None:
                self.kept.pop(key, None)
            else:
                self.kept[key] = value
        return self.end


@dataclass
class FakeEngine:
    """A `MirrorEngine` that remembers what it was told."""

    running: dict[tuple[str, str], MirrorRecord] = field(default_factory=dict)
    links: set[str] = field(default_factory=set)
    log: list[tuple[str, str]] = field(default_factory=list)
    numbers: dict[tuple[str, str], Sequence[PartitionStatus]] = field(default_factory=dict)

    async def start_link(self, link: LinkRecord) -> None:
        self.links.add(link.name)
        self.log.append(("start_link", link.name))

    async def stop_link(self, link: str) -> None:
        self.links.discard(link)
        self.running = {key: mirror for key, mirror in self.running.items() if key[0] != link}
        self.log.append(("stop_link", link))

    def start_mirror(self, mirror: MirrorRecord) -> None:
        assert mirror.link in self.links
        self.running.setdefault((mirror.link, mirror.mirror_topic), mirror)
        self.log.append(("start_mirror", mirror.mirror_topic))

    async def stop_mirror(self, link: str, topic: str) -> None:
        self.running.pop((link, topic), None)
        self.log.append(("stop_mirror", topic))

    def status(self, link: str, topic: str) -> Sequence[PartitionStatus]:
        if (link, topic) not in self.running:
            return ()
        return self.numbers.get((link, topic), ())

    def producer_table(self, link: str, topic: str) -> tuple[tuple[ProducerEntry, ...], ...]:
        return ()

    def producers_known(self, link: str, topic: str) -> bool:
        return True


@dataclass
class FakePromoters:
    """Both promoters. `gate`: awaited between PENDING_STOPPED and the end. `refusal`: raised instead."""

    service: ControlService | None = None
    gate: Any = None
    refusal: Exception | None = None
    waits: str = ""
    asked: list[tuple[str, tuple[str, ...], bool]] = field(default_factory=list)

    async def promote_topics(self, link: str, topics: Sequence[str], force: bool) -> Sequence[MirrorRecord]:
        assert self.service is not None
        self.asked.append((link, tuple(topics), force))
        if self.refusal is not None and self.gate is None:
            raise self.refusal
        context = self.service.context
        operation = MirrorOperation.FORCE_PROMOTE if force else MirrorOperation.PROMOTE
        for topic in topics:
            await context.change(link, topic, operation)
        if self.gate is not None:
            await self.gate.wait()
        end = MirrorOperation.ABORT_PROMOTE if self.refusal else MirrorOperation.COMPLETE_PROMOTE
        done = [await context.change(link, topic, end, stopped_at=(7, 8, 9)) for topic in topics]
        if self.refusal is not None:
            raise self.refusal
        return done


@dataclass
class FakeTopicPromoter:
    shared: FakePromoters

    async def promote(self, link: str, topics: Sequence[str], *, force: bool = False) -> Sequence[MirrorRecord]:
        return await self.shared.promote_topics(link, topics, force)

    def waiting_for(self, link: str, topic: str) -> str:
        return self.shared.waits


@dataclass
class FakeGroupPromoter:
    shared: FakePromoters

    async def promote(self, link: str, group: str, *, force: bool = False) -> GroupRecord:
        return await self._to(link, group, GroupState.PROMOTED)

    async def demote(self, link: str, group: str, *, force: bool = False) -> GroupRecord:
        return await self._to(link, group, GroupState.ACTIVE)

    def waits_for(self, link: str, group: str) -> str:
        return self.shared.waits

    async def _to(self, link: str, group: str, state: GroupState) -> GroupRecord:
        assert self.shared.service is not None
        if self.shared.refusal is not None:
            raise self.shared.refusal
        store = self.shared.service.context.store
        changed = replace(store.groups[link, group], state=state)
        await store.put(changed)
        return changed


@dataclass
class RangeEnds:
    """`control.source_ends.SourceEnds` of a cluster in memory."""

    kafka: FakeKafka

    async def read(self, link: LinkRecord, topics: Mapping[str, int], timeout_s: float) -> Mapping[str, LogEnds]:
        if self.kafka.down:
            raise SourceUnreachable(f"the source of link '{link.name}': connection refused")
        found = {name: tuple(end for _, end in self.kafka.existing[name].ranges[:n]) for name, n in topics.items()}
        return {name: LogEnds(ends, ends, ends) for name, ends in found.items()}


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
        self.starts: tuple[PartitionStart, ...] | None = None
        self.service = ControlService(
            store=self.store,
            target=self.target,
            sources=Sources(self._open),
            routing=self.routing,
            gates=self.gates,
            progress=self.progress,
            plan_start=self._plan_start,
            now_ms=lambda: self.now_ms,
        )
        self.promoters.service = self.service

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


def status(partition: int, **numbers: Any) -> PartitionStatus:
    """A partition that copies and has no lag, unless said otherwise."""
    values: dict[str, Any] = {
        "phase": "copying",
        "source_end": 100,
        "mirrored_to": 100,
        "target_end": 100,
        "lag": 0,
        "lag_ms": 0,
        "bytes_per_s": 1000.0,
    }
    return PartitionStatus(partition=partition, **(values | numbers))


__all__ = ["PROPERTIES", "SOURCE", "FakeKafka", "MemoryLog", "Plane", "ProducerFenced", "status"]
