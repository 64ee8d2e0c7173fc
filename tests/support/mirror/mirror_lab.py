"""The mirror engine between two real clusters, without a control plane."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from gateway.kafka.admin import create_topic
from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.config import ClusterConfig
from gateway.kafka.offsets import EARLIEST, LATEST, list_offsets
from gateway.mirror.engine.engine import Engine
from gateway.mirror.interface import PartitionStatus
from gateway.mirror.partition.log_start import plan_start
from gateway.mirror.rules.progress import MirrorProgress
from gateway.state.records import LinkRecord, MirrorError, MirrorRecord
from tests.support.waiting import wait_until_async

LINK = "lab"


@dataclass
class EventLog:
    """What the engine told the control plane."""

    failures: list[tuple[str, int, MirrorError, str]] = field(default_factory=list)
    readable: list[str] = field(default_factory=list)
    lost: list[tuple[str, int, int, int]] = field(default_factory=list)
    availability: list[bool] = field(default_factory=list)
    translated: dict[str, str] = field(default_factory=dict)

    def partition_failed(self, link: str, topic: str, partition: int, error: MirrorError, message: str) -> None:
        self.failures.append((topic, partition, error, message))

    def source_available(self, link: str, available: bool, message: str, *, refused: bool = False) -> None:
        if self.availability[-1:] != [available]:  # told again for another reason
            self.availability.append(available)

    def records_lost(self, link: str, topic: str, partition: int, first: int, following: int) -> None:
        self.lost.append((topic, partition, first, following))

    def topic_readable(self, link: str, topic: str) -> None:
        self.readable.append(topic)

    def topic_translated(self, link: str, topic: str, reason: str) -> None:
        self.translated[topic] = reason


@dataclass
class Lab:
    """An engine with one link."""

    engine: Engine
    source: Cluster
    target: Cluster
    events: EventLog
    progress: MirrorProgress

    async def record(self, topic: str, spec: int = EARLIEST, **configs: str) -> MirrorRecord:
        """Plan a mirror and create its topic on the target, as the control plane does. `configs` take `_` for `.`."""
        starts = await plan_start(self.source, topic, spec)
        named = {name.replace("_", "."): value for name, value in configs.items()}
        await create_topic(self.target, topic, partitions=len(starts), configs=named)
        return MirrorRecord(
            link=LINK,
            source_topic=topic,
            mirror_topic=topic,
            mirror_id=random.Random(topic).randrange(2**31),
            source_topic_id=self.source.view.topics[topic].id_text,
            starts=starts,
        )

    async def mirror(self, topic: str, spec: int = EARLIEST, **configs: str) -> MirrorRecord:
        """Plan, create and start a mirror."""
        record = await self.record(topic, spec, **configs)
        self.engine.start_mirror(record)
        return record

    def status(self, topic: str) -> list[PartitionStatus]:
        mirror = self.engine.started_as(LINK, topic)
        return [] if mirror is None else list(self.engine.status(mirror))

    async def caught_up(self, topic: str, deadline: float = 60.0) -> None:
        """Wait until every record that the source has now is mirrored."""
        partitions = dict.fromkeys(range(len(self.status(topic))), LATEST)
        found = await list_offsets(self.source, {topic: partitions})
        ends = {index: found[topic, index].offset for index in partitions}

        def reached() -> bool:
            assert not self.events.failures, self.events.failures
            return all(
                one.phase == "copying" and one.mirrored_to is not None and one.mirrored_to >= ends[one.partition]
                for one in self.status(topic)
            )

        await wait_until_async(reached, deadline, what=f"the mirror of {topic} at {ends}")

    async def failure(self, deadline: float = 30.0) -> tuple[MirrorError, str]:
        """Wait for a partition to fail."""
        await wait_until_async(lambda: bool(self.events.failures), deadline, what="a failed partition")
        _, _, error, message = self.events.failures[0]
        return error, message


def cluster(bootstrap: str) -> Cluster:
    return Cluster(
        ClusterConfig.from_client_properties(
            {"bootstrap.servers": bootstrap, "request.timeout.ms": "5000", "reconnect.backoff.max.ms": "500"}
        )
    )


@asynccontextmanager
async def mirror_lab(
    source: str, target: str, *, direct_source: str = "", direct_target: str = "", configs: Mapping[str, str] = {}
) -> AsyncIterator[Lab]:
    """An engine between two bootstrap addresses; the lab's own questions go to the direct ones."""
    planner, sink = cluster(direct_source or source), cluster(target)
    events, progress = EventLog(), MirrorProgress()
    engine = Engine(sink, progress, events, connect=lambda link: cluster(link.client["bootstrap.servers"]))
    try:
        await asyncio.gather(planner.start(), sink.start())
        await engine.start_link(
            LinkRecord(
                name=LINK, link_id=7, source_cluster_id="", client={"bootstrap.servers": source}, configs=configs
            )
        )
        yield Lab(engine, planner, sink, events, progress)
    finally:
        await engine.close()
        await asyncio.gather(planner.close(), sink.close())
