"""The offset maps of all ways of a link's mirror topics, as the gateway itself reads them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from gateway.domain.mirror_way import way_of
from gateway.domain.offset_map import OffsetMap
from gateway.domain.records import MirrorMode, MirrorRecord
from gateway.jobs.audit import asked_ways
from gateway.jobs.link_map import ReadOnlyMaps
from gateway.net.cluster import Cluster
from gateway.net.errors import NetError
from gateway.net.routed import Partition
from gateway.replication.offset_maps import read_offset_map
from gateway.replication.tasks import Tasks
from protocol.errors import ProtocolError

_AT_ONCE: Final = 16
_NO_LINK: Final = 0  # the number of a link is in producer ids alone


class WayMaps:
    """Reads maps on one event loop; `close` ends what it has begun."""

    def __init__(self, source: Cluster, target: Cluster, link: str) -> None:
        self._source = source
        self._target = target
        self._tasks = Tasks()
        self._maps = ReadOnlyMaps(target, link, self._tasks)

    async def close(self) -> None:
        """End everything."""
        await self._tasks.close()

    async def read(
        self, records: Mapping[str, MirrorRecord], copy_ends: Mapping[Partition, int]
    ) -> dict[Partition, tuple[OffsetMap, ...] | str]:
        """The maps of each partition's ways, the present one last, or why they cannot be read; () in mode preserve.

        Args:
            records: by source topic.
            copy_ends: the log ends of the present copies, which were read just before.
        """
        slots = asyncio.Semaphore(_AT_ONCE)

        async def one(key: Partition, record: MirrorRecord) -> Sequence[OffsetMap] | str:
            if record.mode is MirrorMode.PRESERVE:
                return ()
            async with slots:
                try:
                    return await self._ways(record, key[1], copy_ends[key])
                except (NetError, ProtocolError, ValueError, LookupError) as exc:
                    return f"its offset map cannot be read: {exc}"

        wanted = {
            (topic, index): record
            for topic, record in records.items()
            for index in range(len(record.starts))
            if (topic, index) in copy_ends
        }
        answers = await asyncio.gather(*(one(key, record) for key, record in wanted.items()))
        return {
            key: answer if isinstance(answer, str) else tuple(answer)
            for key, answer in zip(wanted, answers, strict=True)
        }

    async def _ways(self, record: MirrorRecord, index: int, copy_end: int) -> list[OffsetMap]:
        chain = asked_ways.ways(record)
        return [
            await self._way(way, index, copy_end if asked_ways.is_live(record) and number == len(chain) - 1 else None)
            for number, way in enumerate(chain)
        ]

    async def _way(self, record: MirrorRecord, index: int, live_end: int | None) -> OffsetMap:
        """Args: `live_end`: of a way that goes on; None where its record says how it ended."""
        copies = self._source if record.is_reverse else self._target
        end, read_to = live_end, None
        if end is None:
            ended = asked_ways.ended(record)
            read_to, end = ended[0][index], ended[1][index]
        return await read_offset_map(self._maps, copies, way_of(record, _NO_LINK), index, end, read_to)
