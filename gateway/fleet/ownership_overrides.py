"""A topic that the leader mirrors itself for a while, whoever did so before: with positions and producers at hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

from gateway.fleet.mirror_map import MirrorMap
from gateway.mirror.interface import OwnedMirrors, PartitionStatus
from gateway.mirror.rules.mirror_partition import MirrorPartition
from gateway.state.records import MirrorRecord

OVERRIDE_S: Final = 3.0
_CATCH_UP_S: Final = 0.5
_LOOK_S: Final = 0.01


class OwnershipOverrides:
    """Args.

    here: what is mirrored in this process.
    status: of all partitions of a mirror, wherever they are mirrored.
    decide: to be called when `known.overridden` has changed.
    """

    def __init__(
        self,
        known: MirrorMap,
        engine: OwnedMirrors,
        here: Callable[[], frozenset[MirrorPartition]],
        status: Callable[[MirrorRecord], Sequence[PartitionStatus]],
        decide: Callable[[], None],
    ) -> None:
        self._known = known
        self._engine = engine
        self._here = here
        self._status = status
        self._decide = decide

    @asynccontextmanager
    async def take(self, link: str, topic: str) -> AsyncIterator[None]:
        """For the time of the block mirror the topic here. Who does not hand it over in OVERRIDE_S is not waited
        for."""
        mirror = self._engine.started_as(link, topic)
        known = () if mirror is None else self._status(mirror)
        ends = {one.partition: one.source_end for one in known if one.source_end is not None}
        moves = not self._known.of(link, topic) <= self._here()
        self._known.overridden.add((link, topic))
        try:
            self._decide()
            if moves:
                await _until(lambda: self._has_begun(link, topic), OVERRIDE_S)
                await _until(lambda: self._has_come_to(link, topic, ends), _CATCH_UP_S)
            yield
        finally:
            self._known.overridden.discard((link, topic))
            self._decide()

    def _has_begun(self, link: str, topic: str) -> bool:
        """All partitions of the topic are mirrored here, and it is known how far; or the topic is not mirrored."""
        statuses = self._statuses(link, topic)
        return self._known.of(link, topic) <= self._here() and all(one.phase != "starting" for one in statuses)

    def _statuses(self, link: str, topic: str) -> Sequence[PartitionStatus]:
        mirror = self._engine.started_as(link, topic)
        return () if mirror is None else self._engine.status(mirror)

    def _has_come_to(self, link: str, topic: str, ends: Mapping[int, int]) -> bool:
        """What was interrupted by the move is made up for. Of a source that is gone it never is.

        Of a partition of which nobody has told the source's end, the end that is seen from here counts.
        """
        statuses = {one.partition: one for one in self._statuses(link, topic)}
        wanted = [statuses.get(each.partition) for each in self._known.of(link, topic)]
        return all(one is not None and _has_come_to(one, ends.get(one.partition)) for one in wanted)


def _has_come_to(here: PartitionStatus, end: int | None) -> bool:
    goal = here.source_end if end is None else end
    return goal is not None and here.mirrored_to is not None and here.mirrored_to >= goal


async def _until(condition: Callable[[], bool], limit_s: float) -> None:
    for _ in range(round(limit_s / _LOOK_S)):
        if condition():
            return
        await asyncio.sleep(_LOOK_S)
