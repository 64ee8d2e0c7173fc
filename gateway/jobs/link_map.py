"""How the offsets of a link's mirror topics relate on the two clusters: its offset maps, read by the driver.

The map topic is read whole, into 8 bytes a breakpoint; nothing is written to it. Of a partition it says where the
source is to be read on. Where each offset is on the other cluster is told by `period_maps`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from pyspark.sql import DataFrame

from gateway.jobs.link_plan import LinkPlan
from gateway.jobs.source.mirrors import MirrorSpec
from gateway.jobs.topic_ranges import LogRanges
from gateway.kafka.cluster import Cluster
from gateway.kafka.topic_partition import TopicPartition
from gateway.mirror.offset_map.rules.ledger import Change, OffsetLedger
from gateway.mirror.offset_map.rules.offset_map import Breakpoint
from gateway.mirror.offset_map.topic import LinkMaps
from gateway.transport.tasks import Tasks

SegmentsOf = Callable[[LogRanges], DataFrame]
"""Makes SEGMENTS from the target's logs as they stand, by source topic and partition."""

_AT_ONCE: Final = 16


class MapReader:
    """Reads the offset maps of one link. Used on one event loop; `close` ends what it has begun."""

    def __init__(self, target: Cluster, link: str) -> None:
        self._target = target
        self._tasks = Tasks()
        self._maps = ReadOnlyMaps(target, link, self._tasks)

    async def close(self) -> None:
        """End everything."""
        await self._tasks.close()

    async def positions(
        self, mirrors: Iterable[MirrorSpec], target_ends: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """The source offset to read on from, by source topic and partition.

        Args:
            target_ends: the target's log ends, by source topic and partition.

        Raises:
            NetError, ProtocolError, MapFormatError: the map cannot be read.
            ValueError: a log that the map does not explain.
        """
        ledgers = await self._ledgers(mirrors, target_ends)
        try:
            return {
                key: ledger.map.position(target_ends[key]) if _differ(ledger) else target_ends[key]
                for key, ledger in ledgers.items()
            }
        except LookupError as exc:
            raise ValueError(f"the offset map does not go with the target's log: {exc}") from None

    async def _ledgers(
        self, mirrors: Iterable[MirrorSpec], target_ends: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetLedger]:
        """Of all partitions that are in `target_ends`, decided up to there."""
        slots = asyncio.Semaphore(_AT_ONCE)
        found: dict[TopicPartition, OffsetLedger] = {}
        await self._maps.catch_up()  # once for all of them

        async def decide(mirror: MirrorSpec, index: int, end: int) -> None:
            ledger = self._maps.ledger(mirror.map_key(index), Breakpoint(*mirror.implied[index]))
            if ledger.undecided(end):
                async with slots:
                    await self._maps.decide(ledger, self._target, mirror.mirror_topic, index, end)
            else:
                ledger.decide_below(end, {})
            ledger.map.end = end
            found[mirror.source_topic, index] = ledger

        async with asyncio.TaskGroup() as group:
            for mirror in mirrors:
                for index in range(len(mirror.starts)):
                    if (mirror.source_topic, index) in target_ends:
                        group.create_task(decide(mirror, index, target_ends[mirror.source_topic, index]))
        return found


async def open_maps(target: Cluster, plan: LinkPlan) -> MapReader:
    """A reader of the link's offset maps."""
    return MapReader(target, plan.link)


class ReadOnlyMaps(LinkMaps):
    """What is found out is kept here and not written down: that is for those who append."""

    def append(self, changes: Sequence[Change], done: Callable[[], None], error: Callable[[str], None]) -> None:
        """Not written."""
        done()


def _differ(ledger: OffsetLedger) -> bool:
    """Offsets differ from the start on, or a breakpoint says so."""
    last = ledger.map.last
    return ledger.used or (last is not None and last.source != last.target)
