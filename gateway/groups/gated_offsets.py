"""What a group that waits at its gate has committed: its offsets are the source's until it is promoted.

Asked for tools that look at a group (`kafka-consumer-groups --describe`, lag exporters). They take whatever is answered
for all groups that they name, so one group that is told to be asked again blinds them for the others. Where offsets of
a topic are equal on both clusters those of the source are told; where they are translated, that they are not known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

import structlog

from gateway.errors import ControlError
from gateway.kafka.commits import Committed
from gateway.kafka.connection.errors import NetError
from gateway.kafka.topic_partition import TopicPartition
from gateway.operations.sources import Sources
from gateway.state.records import GroupRecord, GroupState, MirrorMode
from gateway.state.views import StateViews

ANSWER_S: Final = 3.0
"""Within the timeout of tools, which is 5 s by default."""
_AT_ONCE: Final = 8
_log = structlog.get_logger("lockgate.control")

Held = Mapping[TopicPartition, Committed | None]
"""By mirror topic; None: where that is on the target is not known."""


class GatedOffsets:
    """Implements `SourceOffsets` of the proxy's handlers."""

    def __init__(self, views: StateViews, sources: Sources) -> None:
        self._views = views
        self._sources = sources
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def of(self, group: str) -> Held | None:
        """Within `ANSWER_S`; None where the source does not answer, or the group does not wait any more."""
        record = next((one for one in self._views.groups.values() if one.group == group), None)
        if record is None or record.state is GroupState.PROMOTED:
            return None
        try:
            async with asyncio.timeout(ANSWER_S), self._slots:
                return await self._read(record)
        except (ControlError, NetError, TimeoutError, OSError) as exc:
            _log.debug("offsets of a group are not read", link=record.link, group=group, reason=str(exc))
            return None

    async def _read(self, record: GroupRecord) -> Held | None:
        link = self._views.links.get(record.link)
        if link is None:
            return None
        access = await self._sources.reach(link)
        committed = await access.committed_offsets(record.source_name)
        mirrors = {one.source_topic: one for (name, _), one in self._views.mirrors.items() if name == record.link}
        return {
            (mirrors[topic].mirror_topic, partition): value if mirrors[topic].mode is MirrorMode.PRESERVE else None
            for (topic, partition), value in sorted(committed.items())
            if topic in mirrors
        }
