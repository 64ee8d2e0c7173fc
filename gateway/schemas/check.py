"""Asks whether the ids that mirrored records have are known to the target's registry: the schema gate's question.

Records are looked at where they were copied to, on the target: the first record of the last batch of each partition,
and of its first one. So the mirror has no part in it. Whoever asks is told; nothing is changed.

Mirrors that write ids anew wait for ids that the map has not: the schema sync is asked for these on demand. Partitions
wait at whichever gateway mirrors them, and say so in their status, which the leader hears. It asks the sync
for what is missing: at once when it is seen, then after 5 s, twice as long each time, and every 5 minutes at last: a
round asks both registries for every subject. Rounds come by themselves, too (`schema.sync.ms`). What the sync has found
is in the state topic, so the waiting gateway reads it there, and its partition goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from gateway.cutover.write_pause.rules.routing_build import written_on_target
from gateway.errors import Conflict
from gateway.mirror.interface import MirrorEngine
from gateway.operations.cluster_access import ClusterAccess
from gateway.operations.cluster_errors import target_errors
from gateway.operations.records import Records
from gateway.schemas.look import AT_ONCE
from gateway.schemas.rules.gate import SeenIds, TopicIds, ids_by_topic, list_ids
from gateway.schemas.schema_sync import SchemaSync
from gateway.state.mirror_states import is_mirroring
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
        return ids_by_topic(seen, known, of_source)

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


AGAIN_S: Final = 5.0
AGAIN_AT_MOST_S: Final = 300.0


@dataclass(slots=True)
class _IdRequest:
    """When an id is asked for next (monotonic seconds), and how long that was after the last time."""

    at: float
    after_s: float


class MissingIdRequests:
    """Of all links, while this gateway leads. `clock`: monotonic seconds."""

    def __init__(self, *, records: Records, engine: MirrorEngine, sync: SchemaSync, clock: Callable[[], float]) -> None:
        self._records = records
        self._engine = engine
        self._sync = sync
        self._clock = clock
        self._asked: dict[tuple[str, int], _IdRequest] = {}

    def of(self, link: str, topic: str) -> tuple[int, ...]:
        """Ids that partitions of a mirror topic wait for."""
        mirror = self._records.store.mirrors.get((link, topic))
        return () if mirror is None or not _writes_ids(mirror) else self._missing(mirror)

    def waits(self, link: str, topics: Sequence[str]) -> str:
        """Why a promote of these mirror topics must wait, '' when it need not: under a write pause the mirror would."""
        for topic in topics:
            if missing := self.of(link, topic):
                return f"{list_ids(missing)} in the id map, which records of {topic} have"
        return ""

    async def run_due(self) -> None:
        """Once a second."""
        mirrors = [mirror for mirror in self._records.store.mirrors.values() if _writes_ids(mirror)]
        missing = {(mirror.link, one) for mirror in mirrors for one in self._missing(mirror)}
        for gone in self._asked.keys() - missing:
            del self._asked[gone]
        now = self._clock()
        due: dict[str, list[int]] = {}
        for key in missing:
            asked = self._asked.setdefault(key, _IdRequest(now, AGAIN_S))
            if now >= asked.at:
                self._asked[key] = _IdRequest(now + asked.after_s, min(2 * asked.after_s, AGAIN_AT_MOST_S))
                due.setdefault(key[0], []).append(key[1])
        for link, ids in due.items():
            self._sync.wanted(link, ids)

    def _missing(self, mirror: MirrorRecord) -> tuple[int, ...]:
        statuses = self._engine.status(mirror)
        return tuple(sorted({one for status in statuses for one in status.missing_ids}))


def _writes_ids(mirror: MirrorRecord) -> bool:
    return bool(mirror.translates_ids) and is_mirroring(mirror.state)
