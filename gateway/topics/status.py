"""How far a mirror topic is: the engine's numbers while it runs, else what can be said without it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from gateway.errors import ControlError
from gateway.mirror.interface import MirrorEngine, PartitionStatus
from gateway.operations.cluster_access import ClusterAccess
from gateway.operations.cluster_errors import source_errors, target_errors
from gateway.operations.deleted_mirrors import DeletedMirrors
from gateway.operations.offset_translation import OffsetMaps
from gateway.operations.records import Records
from gateway.operations.sources import VIEW_S, SourcesForViews
from gateway.state.link_config import parse
from gateway.state.mirror_states import is_mirroring, tag_of
from gateway.state.per_partition import stopped
from gateway.state.records import MirrorRecord, MirrorState

_PHASES = {MirrorState.PAUSED: "paused", MirrorState.FAILED: "failed", MirrorState.STOPPED: "stopped"}


class Measure:
    """Numbers of all mirrors. Those of a mirror that was stopped are kept as they were at that moment.

    Attributes:
        catching_up: whether a job copies the mirror, and not the engine; set by `CatchUps`.
    """

    def __init__(
        self,
        *,
        records: Records,
        engine: MirrorEngine,
        target: ClusterAccess,
        views: SourcesForViews,
        maps: OffsetMaps,
        deleted: DeletedMirrors,
    ) -> None:
        self._records = records
        self._engine = engine
        self._target = target
        self._views = views
        self._maps = maps
        self._last: dict[tuple[str, str], tuple[str, Sequence[PartitionStatus]]] = {}
        self.catching_up: Callable[[MirrorRecord], bool] = lambda mirror: False
        deleted.subscribe(lambda mirror: self._last.pop((mirror.link, mirror.mirror_topic), None))

    async def stop(self, mirror: MirrorRecord) -> None:
        """Stop the engine's work on a mirror, and keep its numbers."""
        key = (mirror.link, mirror.mirror_topic)
        if running := self._engine.status(mirror):  # of one that does not run, what was kept before stays
            self._last[key] = tag_of(mirror), running
        await self._engine.stop_mirror(*key)

    def known(self, mirror: MirrorRecord) -> Sequence[PartitionStatus]:
        """Without asking a cluster.

        Raises:
            WrongLength: a STOPPED mirror whose record does not say where all of its partitions ended.
        """
        if mirror.state is MirrorState.STOPPED:
            ends = stopped(mirror) or ((), ())
            return [_stopped(index, *pair) for index, pair in enumerate(zip(*ends, strict=True))]
        running = self._engine.status(mirror)
        if running and not self._is_paused(mirror):
            return running
        if running:
            return [replace(one, phase=_phase(one, "paused"), bytes_per_s=0.0) for one in running]
        phase = self._phase_of(mirror)
        return [replace(one, phase=_phase(one, phase), bytes_per_s=0.0) for one in self._kept(mirror)]

    def _kept(self, mirror: MirrorRecord) -> Sequence[PartitionStatus]:
        """The numbers of this very mirror; another way of the topic counts in other offsets."""
        tag, kept = self._last.get((mirror.link, mirror.mirror_topic), ("", ()))
        return kept if tag == tag_of(mirror) else ()

    async def now(self, mirror: MirrorRecord) -> Sequence[PartitionStatus]:
        """As `known`, and the log ends of a mirror that the engine does not run are asked for: its lag changes."""
        known = self.known(mirror)
        running, paused = self._engine.status(mirror), self._is_paused(mirror)
        stands = mirror.state in (MirrorState.PAUSED, MirrorState.FAILED) or self.catching_up(mirror)
        if (running and not paused) or not (stands or paused):
            return known
        try:
            translated = await self._maps.is_translated(mirror)
            ends = await self._ends(mirror)
            if translated:
                mirrored = [offsets.read_to for offsets in await self._maps.read(mirror)]
            else:
                mirrored = [end for _, end in ends]
        except ControlError:
            return known
        before = {one.partition: one for one in known}
        phase = self._phase_of(mirror)
        numbers = enumerate(zip(ends, mirrored, strict=True))
        return [_measured(before.get(index), index, phase, *pair, at) for index, (pair, at) in numbers]

    def _phase_of(self, mirror: MirrorRecord) -> str:
        if self.catching_up(mirror):
            return "catching_up"
        return "paused" if self._is_paused(mirror) else _PHASES.get(mirror.state, "stopped")

    def _is_paused(self, mirror: MirrorRecord) -> bool:
        """Its link is: what the engine knows of the source's end is old, and nothing is copied."""
        link = self._records.store.links.get(mirror.link)
        return link is not None and parse(link.configs).paused and is_mirroring(mirror.state)

    async def _ends(self, mirror: MirrorRecord) -> list[tuple[int, int]]:
        """(origin's end, copy's end) of each partition. In preserve mode the two count the same records."""
        source = await self._views.reach(self._records.link(mirror.link))
        partitions = len(mirror.starts)
        with source_errors(mirror.link):
            async with asyncio.timeout(VIEW_S):
                source_ends = await source.log_ranges(mirror.source_topic, partitions)
        with target_errors():
            async with asyncio.timeout(VIEW_S):
                target_ends = await self._target.log_ranges(mirror.mirror_topic, partitions)
        ends = [
            (source_end, target_end) for (_, source_end), (_, target_end) in zip(source_ends, target_ends, strict=True)
        ]
        return [pair[::-1] for pair in ends] if mirror.is_reverse else ends


def _phase(status: PartitionStatus, phase: str) -> str:
    return status.phase if status.phase == "failed" else phase


def _stopped(index: int, end: int, copy_end: int) -> PartitionStatus:
    return PartitionStatus(
        partition=index,
        phase="stopped",
        source_end=end,
        mirrored_to=end,
        target_end=copy_end,
        lag=0,
        lag_ms=0,
        bytes_per_s=0.0,
    )


def _measured(
    before: PartitionStatus | None, index: int, phase: str, source_end: int, target_end: int, mirrored_to: int
) -> PartitionStatus:
    lag = max(0, source_end - mirrored_to)
    return PartitionStatus(
        partition=index,
        phase=phase if before is None else _phase(before, phase),
        source_end=source_end,
        mirrored_to=mirrored_to,
        target_end=target_end,
        lag=lag,
        lag_ms=None if lag else 0,
        bytes_per_s=0.0,
        records_total=0 if before is None else before.records_total,
        bytes_total=0 if before is None else before.bytes_total,
        last_error="" if before is None else before.last_error,
        segments=0 if before is None else before.segments,
    )
