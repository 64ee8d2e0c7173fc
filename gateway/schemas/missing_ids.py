"""Ids that mirrors wait for, which write ids anew: the schema sync is asked for them on demand.

Partitions wait at whichever gateway mirrors them, and say so in their status, which the leader hears. It asks the sync
for what is missing: at once when it is seen, then after 5 s, twice as long each time, and every 5 minutes at last: a
round asks both registries for every subject. Rounds come by themselves, too (`schema.sync.ms`). What the sync has found
is in the state topic, so the waiting gateway reads it there, and its partition goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from gateway.mirror.interface import MirrorEngine
from gateway.operations.records import Records
from gateway.schemas.rules.gate import named
from gateway.schemas.schema_sync import SchemaSync
from gateway.state.mirror_states import is_mirroring
from gateway.state.records import MirrorRecord

AGAIN_S: Final = 5.0
AGAIN_AT_MOST_S: Final = 300.0


@dataclass(slots=True)
class _Asked:
    """When an id is asked for next (monotonic seconds), and how long that was after the last time."""

    at: float
    after_s: float


class MissingIds:
    """Of all links, while this gateway leads. `clock`: monotonic seconds."""

    def __init__(self, *, records: Records, engine: MirrorEngine, sync: SchemaSync, clock: Callable[[], float]) -> None:
        self._records = records
        self._engine = engine
        self._sync = sync
        self._clock = clock
        self._asked: dict[tuple[str, int], _Asked] = {}

    def of(self, link: str, topic: str) -> tuple[int, ...]:
        """Ids that partitions of a mirror topic wait for."""
        mirror = self._records.store.mirrors.get((link, topic))
        return () if mirror is None or not _writes_ids(mirror) else self._missing(mirror)

    def waits(self, link: str, topics: Sequence[str]) -> str:
        """Why a promote of these mirror topics must wait, '' when it need not: under a write pause the mirror would."""
        for topic in topics:
            if missing := self.of(link, topic):
                return f"{named(missing)} in the id map, which records of {topic} have"
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
            asked = self._asked.setdefault(key, _Asked(now, AGAIN_S))
            if now >= asked.at:
                self._asked[key] = _Asked(now + asked.after_s, min(2 * asked.after_s, AGAIN_AT_MOST_S))
                due.setdefault(key[0], []).append(key[1])
        for link, ids in due.items():
            self._sync.wanted(link, ids)

    def _missing(self, mirror: MirrorRecord) -> tuple[int, ...]:
        statuses = self._engine.status(mirror)
        return tuple(sorted({one for status in statuses for one in status.missing_ids}))


def _writes_ids(mirror: MirrorRecord) -> bool:
    return bool(mirror.translates_ids) and is_mirroring(mirror.state)
