"""The offset maps of all mirror periods of a link's mirror topics, as the gateway itself reads them.

The map is asked of mirrors in mode preserve, too: the record of one whose offsets have just come to differ is behind
its map for a moment, and for longer where nobody mirrors it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from gateway.jobs.audit import asked_periods
from gateway.jobs.link_map import ReadOnlyMaps
from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.errors import NetError
from gateway.kafka.topic_partition import TopicPartition
from gateway.mirror.offset_map.reader import read_offset_map
from gateway.mirror.offset_map.rules.offset_map import OffsetMap
from gateway.mirror.rules.period import map_key, period_of
from gateway.state.records import MirrorMode, MirrorRecord
from gateway.transport.tasks import Tasks
from protocol.errors import ProtocolError

_AT_ONCE: Final = 16
_UNREAD: Final = "its offset map cannot be read: {}"
_NO_LINK: Final = 0  # the number of a link is in producer ids alone


class PeriodMapReader:
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
        self, records: Mapping[str, MirrorRecord], copy_ends: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, tuple[OffsetMap, ...] | str]:
        """The maps of each partition's mirror periods, the present one last, or why they cannot be read; () in mode
        preserve, as long as the map says nothing else.

        Args:
            records: by source topic.
            copy_ends: the log ends of the present copies, which were read just before.
        """
        slots = asyncio.Semaphore(_AT_ONCE)
        preserved = [record for record in records.values() if _is_preserved(record)]
        unread = await self._read_topic() if preserved else ""

        async def one(key: TopicPartition, record: MirrorRecord) -> Sequence[OffsetMap] | str:
            if record.mode is MirrorMode.PRESERVE:
                return unread or self._differ(record, key[1]) if _is_preserved(record) else ()
            async with slots:
                try:
                    return await self._periods(record, key[1], copy_ends[key])
                except (NetError, ProtocolError, ValueError, LookupError) as exc:
                    return _UNREAD.format(exc)

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

    async def _read_topic(self) -> str:
        """The map topic, once for all mirrors in mode preserve; or why it cannot be read."""
        try:
            await self._maps.catch_up()
        except (NetError, ProtocolError, ValueError) as exc:
            return _UNREAD.format(exc)
        return ""

    def _differ(self, record: MirrorRecord, index: int) -> Sequence[OffsetMap] | str:
        """What the map says of a partition in mode preserve, which is nothing."""
        if not self._maps.is_used(map_key(record, index)):
            return ()
        return (
            f"the gateway calls the offsets of mirror topic '{record.mirror_topic}' equal (mode preserve), and its "
            f"offset map says that they differ; `mirror describe {record.mirror_topic}` until it shows mode translate, "
            "then try again"
        )

    async def _periods(self, record: MirrorRecord, index: int, copy_end: int) -> list[OffsetMap]:
        chain = asked_periods.periods(record)
        return [
            await self._period(
                period, index, copy_end if asked_periods.is_live(record) and number == len(chain) - 1 else None
            )
            for number, period in enumerate(chain)
        ]

    async def _period(self, record: MirrorRecord, index: int, live_end: int | None) -> OffsetMap:
        """Args: `live_end`: of a way that goes on; None where its record says how it ended."""
        copies = self._source if record.is_reverse else self._target
        end, read_to = live_end, None
        if end is None:
            ended = asked_periods.ends_of_way(record)
            read_to, end = ended[0][index], ended[1][index]
        return await read_offset_map(self._maps, copies, period_of(record, _NO_LINK), index, end, read_to)


def _is_preserved(record: MirrorRecord) -> bool:
    """In mode preserve, by a record that may be behind: where a mirror has ended its record says itself, by both ends,
    whether offsets are equal."""
    return record.mode is MirrorMode.PRESERVE and asked_periods.is_live(record)
