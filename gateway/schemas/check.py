"""Asks whether the ids that mirrored records have are known to the target's registry: the schema gate's question.

Records are looked at where they were copied to, on the target: the first record of the last batch of each partition,
and of its first one. So the mirror has no part in it. Whoever asks is told; nothing is changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from gateway.cutover.write_pause.rules.routing_build import written_on_target
from gateway.errors import Conflict
from gateway.operations.cluster_access import ClusterAccess
from gateway.operations.cluster_errors import target_errors
from gateway.operations.records import Records
from gateway.schemas.look import AT_ONCE
from gateway.schemas.rules.gate import SeenIds, TopicIds, judged
from gateway.schemas.schema_sync import SchemaSync
from gateway.state.records import MirrorRecord

MAX_PARTITIONS: Final = 2_000
"""That one check looks at."""

Ranges: TypeAlias = dict[tuple[str, int], tuple[int, int]]
"""(mirror topic, partition) -> where its log begins and ends."""


class SchemaCheck:
    """Of all links."""

    def __init__(self, *, records: Records, target: ClusterAccess, sync: SchemaSync) -> None:
        self._records = records
        self._target = target
        self._sync = sync

    async def check(self, name: str, topic: str = "") -> Sequence[TopicIds]:
        """The ids that were seen in the link's mirror topics, or in one of them, and those that the target lacks.

        Raises:
            NotFound: no such link, or no such mirror topic.
            Conflict: it has too many partitions; name a topic.
            BadRequest, SourceUnreachable, TargetUnreachable: as `SchemaSync.plan`.
        """
        self._records.link(name)
        topics = [self._records.mirror(name, topic)] if topic else self.mirrored(name)
        partitions = {mirror.mirror_topic: len(mirror.starts) for mirror in topics}
        if sum(partitions.values()) > MAX_PARTITIONS:
            raise Conflict(
                f"{sum(partitions.values())} partitions, {MAX_PARTITIONS} are possible at once: name a topic"
            )
        seen = SeenIds()
        await self.sample(partitions, seen, {})
        known, of_source = await self._sync.known(name, seen.all())
        return judged(seen, known, of_source)

    async def sample(self, partitions: Mapping[str, int], seen: SeenIds, ranges: Ranges) -> None:
        """Note the ids in the first records of some batches of these topics (partitions by mirror topic).

        Args:
            ranges: of what was looked at before; a partition whose log is still the same is left out. Written to.

        Raises:
            TargetUnreachable, Conflict: the target does not tell.
        """
        slots = asyncio.Semaphore(AT_ONCE)

        async def look(of_topic: str, partition: int, offset: int) -> None:
            async with slots:
                seen.saw(of_topic, await self._target.schema_ids(of_topic, partition, offset))

        with target_errors():
            work, found = [], {}
            for of_topic, count in partitions.items():
                seen.saw(of_topic, ())
                for partition, (start, end) in enumerate(await self._target.log_ranges(of_topic, count)):
                    before = ranges.get((of_topic, partition))
                    if end > start and before != (start, end):
                        offsets = {end - 1} if before is not None and before[0] == start else {start, end - 1}
                        work += [look(of_topic, partition, offset) for offset in sorted(offsets)]
                        found[of_topic, partition] = (start, end)
            await asyncio.gather(*work)
        ranges.update(found)

    def mirrored(self, name: str) -> list[MirrorRecord]:
        """The link's mirror topics that are not written on the target."""
        mirrors = self._records.store.mirrors.items()
        return [mirror for (link, _), mirror in mirrors if link == name and not written_on_target(mirror)]
