"""How far a mirror topic is: the engine's numbers while it runs, else what can be said without it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from gateway.control.context import VIEW_S, ControlContext, source_errors, target_errors
from gateway.control.errors import ControlError
from gateway.domain.per_partition import stopped
from gateway.domain.ports import PartitionStatus
from gateway.domain.records import MirrorMode, MirrorRecord, MirrorState

UNKNOWN_MS = -1
_PHASES = {MirrorState.PAUSED: "paused", MirrorState.FAILED: "failed", MirrorState.STOPPED: "stopped"}


class Measure:
    """Numbers of all mirrors. Those of a mirror that was stopped are kept as they were at that moment.

    Attributes:
        catching_up: whether a job copies the mirror, and not the engine; set by `CatchUps`.
    """

    def __init__(self, context: ControlContext) -> None:
        self._context = context
        self._last: dict[tuple[str, str], Sequence[PartitionStatus]] = {}
        self.catching_up: Callable[[MirrorRecord], bool] = lambda mirror: False
        context.on_deleted.append(lambda mirror: self._last.pop((mirror.link, mirror.mirror_topic), None))

    async def stop(self, mirror: MirrorRecord) -> None:
        """Stop the engine's work on a mirror, and keep its numbers."""
        key = (mirror.link, mirror.mirror_topic)
        self._last[key] = self._context.engine.status(*key) or self._last.get(key, ())
        await self._context.engine.stop_mirror(*key)

    def known(self, mirror: MirrorRecord) -> Sequence[PartitionStatus]:
        """Without asking a cluster.

        Raises:
            WrongLength: a STOPPED mirror whose record does not say where all of its partitions ended.
        """
        if mirror.state is MirrorState.STOPPED:
            ends = stopped(mirror) or ((), ())
            return [_stopped(index, *pair) for index, pair in enumerate(zip(*ends, strict=True))]
        key = (mirror.link, mirror.mirror_topic)
        running = self._context.engine.status(*key)
        if running:
            return running
        phase = self._phase_of(mirror)
        return [replace(one, phase=_phase(one, phase), bytes_per_s=0.0) for one in self._last.get(key, ())]

    async def now(self, mirror: MirrorRecord) -> Sequence[PartitionStatus]:
        """As `known`, and the log ends of a mirror that the engine does not run are asked for: its lag changes."""
        known = self.known(mirror)
        running = self._context.engine.status(mirror.link, mirror.mirror_topic)
        if running or not (mirror.state in (MirrorState.PAUSED, MirrorState.FAILED) or self.catching_up(mirror)):
            return known
        try:
            ends = await self._ends(mirror)
            if mirror.mode is MirrorMode.TRANSLATE:
                mirrored = [offsets.read_to for offsets in await self._context.offset_maps(mirror)]
            else:
                mirrored = [end for _, end in ends]
        except ControlError:
            return known
        before = {one.partition: one for one in known}
        phase = self._phase_of(mirror)
        numbers = enumerate(zip(ends, mirrored, strict=True))
        return [_measured(before.get(index), index, phase, *pair, at) for index, (pair, at) in numbers]

    def _phase_of(self, mirror: MirrorRecord) -> str:
        return "catching_up" if self.catching_up(mirror) else _PHASES.get(mirror.state, "stopped")

    async def _ends(self, mirror: MirrorRecord) -> list[tuple[int, int]]:
        """(origin's end, copy's end) of each partition. In preserve mode the two count the same records."""
        source = await self._context.reach_for_view(self._context.link(mirror.link))
        partitions = len(mirror.starts)
        with source_errors(mirror.link):
            async with asyncio.timeout(VIEW_S):
                source_ends = await source.log_ranges(mirror.source_topic, partitions)
        with target_errors():
            async with asyncio.timeout(VIEW_S):
                target_ends = await self._context.target.log_ranges(mirror.mirror_topic, partitions)
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
        lag_ms=UNKNOWN_MS if lag else 0,
        bytes_per_s=0.0,
        records_total=0 if before is None else before.records_total,
        bytes_total=0 if before is None else before.bytes_total,
        last_error="" if before is None else before.last_error,
        segments=0 if before is None else before.segments,
    )
