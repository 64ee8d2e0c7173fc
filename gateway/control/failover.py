"""Failover: writes go to the target at once, whatever the source does. What it may lose is said in numbers.

Of a mirror to the target it is the flip without the source: what was not mirrored yet stays behind there. Of a mirror
back it only ends the mirror: the target is written already, and stays so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import structlog

from gateway.control.context import ControlContext, target_errors
from gateway.control.errors import Conflict, ControlError
from gateway.control.lifted_configs import restore_configs
from gateway.control.measure import Measure
from gateway.control.source_ends import SourceEnds
from gateway.control.store import ProducerFenced, StoreError
from gateway.domain.mirror_states import MirrorOperation, apply, require
from gateway.domain.ports import Fences
from gateway.domain.records import MirrorDirection, MirrorError, MirrorMode, MirrorRecord, MirrorState
from gateway.domain.routing_build import written_on_target
from gateway.domain.way_home import Producers, handed_over
from gateway.domain.ways import at_its_end
from gateway.net.errors import NetError

UNKNOWN = -1
_LOOK_S = 1.5  # a source that is known to answer is asked for its ends; it may be dying
_FENCE_S = 2.0  # what is in flight to a source that does not answer is not waited for longer
_STOP_S = 15.0
_log = structlog.get_logger("lockgate.failover")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverPlan:
    """What a failover now would leave behind: `not_mirrored[p]` records, -1 where nobody knows."""

    record: MirrorRecord
    not_mirrored: tuple[int, ...]


class Failover:
    """Fails mirror topics over. `fences`: every live gateway's forwarder."""

    def __init__(
        self, context: ControlContext, measure: Measure, ends: SourceEnds, fences: Mapping[str, Fences]
    ) -> None:
        self._context = context
        self._measure = measure
        self._ends = ends
        self._fences = fences
        self._seen: dict[tuple[str, str], tuple[int, ...]] = {}
        context.on_deleted.append(lambda mirror: self._seen.pop((mirror.link, mirror.mirror_topic), None))

    async def plan(self, link: str, topic: str) -> FailoverPlan:
        """What it would lose.

        Raises:
            NotFound, WrongState, Conflict: it would be refused.
        """
        record = self._context.mirror(link, topic)
        require(MirrorOperation.FAILOVER, record)
        if written_on_target(record):
            return FailoverPlan(record=record, not_mirrored=(0,) * len(record.starts))
        self._require_readable(record)
        ends = await self._source_ends(record)
        return FailoverPlan(record=record, not_mirrored=_left_behind(ends, await self._mirrored(record)))

    async def run(self, link: str, topic: str) -> MirrorRecord:
        """Fail one topic over; it is STOPPED when this returns.

        Raises:
            NotFound, WrongState, Conflict, TargetUnreachable, StoreError: nothing was changed.
        """
        async with self._context.locks.hold(f"mirror/{topic}"):
            record = self._context.mirror(link, topic)
            require(MirrorOperation.FAILOVER, record)
            if written_on_target(record):
                return await self._end_way_back(record)
            self._require_readable(record)
            async with self._context.claimed(link, topic):
                new = await self._flip(record)
        await self._after(new)
        return new

    def _require_readable(self, record: MirrorRecord) -> None:
        if not record.settled or not record.created:
            raise Conflict(
                f"mirror topic '{record.mirror_topic}' does not hold a record yet: there is nothing to fail over to"
            )

    # -- a mirror to the target --------------------------------------------------------------------------------

    async def _flip(self, record: MirrorRecord) -> MirrorRecord:
        context, key = self._context, (record.link, record.mirror_topic)
        ends, answered = await self._read_ends(record)
        context.publisher.fence([record.mirror_topic])
        try:
            await self._hold_everywhere(record)
            await asyncio.gather(*(self._drain(fences, record) for fences in self._fences.values()))
            if answered:  # what was written until the hold is left behind, too
                ends = [max(pair) for pair in zip(ends, await self._source_ends(record), strict=True)]
            seen = context.engine.producer_table(*key)
            try:
                async with asyncio.timeout(_STOP_S):
                    await self._measure.stop(record)
            except TimeoutError:
                raise Conflict("the mirror's appends to the target were not answered in time; try again") from None
            mirrored = await self._mirrored(record)
            with target_errors():
                copied = await context.target.log_ranges(record.mirror_topic, len(record.starts))
            return await self._persist(mirrored, [end for _, end in copied], _left_behind(ends, mirrored), seen, record)
        except BaseException:
            current = context.store.mirrors.get(key)
            if current is not None and _runs(current):
                context.engine.start_mirror(current)
            raise
        finally:
            context.publisher.unfence([record.mirror_topic])

    async def _hold_everywhere(self, record: MirrorRecord) -> None:
        """Whoever may write to the source must have stopped: two clusters would be written for one partition."""
        asked = {name: fences.hold_writes(record.mirror_topic, _epoch(record)) for name, fences in self._fences.items()}
        for name, outcome in zip(asked, await asyncio.gather(*asked.values(), return_exceptions=True), strict=True):
            if isinstance(outcome, Exception):
                raise Conflict(
                    f"gateway '{name}' does not stop writing to mirror topic '{record.mirror_topic}' on the source: "
                    f"{outcome}; if it has certainly stopped: lockgate gateway forget {name}"
                )

    async def _drain(self, fences: Fences, record: MirrorRecord) -> None:
        """What is in flight to the source may still be answered, for a moment."""
        with suppress(TimeoutError, OSError, NetError):
            async with asyncio.timeout(_FENCE_S):
                await fences.fence(record.mirror_topic, _epoch(record))

    async def _persist(
        self,
        mirrored: Sequence[int],
        copied: Sequence[int],
        left: tuple[int, ...],
        seen: Producers,
        record: MirrorRecord,
    ) -> MirrorRecord:
        old = self._context.mirror(record.link, record.mirror_topic)
        now_ms = self._context.now_ms()
        new = apply(
            MirrorOperation.FAILOVER,
            old,
            now_ms,
            stopped_at=tuple(mirrored),
            stopped_copy_at=tuple(copied),
            producers=handed_over(old, seen, now_ms),
            flipped_ms=now_ms,
            fence_epoch=_epoch(record),
            not_mirrored=left,
            error=MirrorError.NO_ERROR,
            error_message="",
        )
        await self._context.store.replace(old, new)
        _log.warning(
            "mirror topic failed over", link=old.link, topic=old.mirror_topic, old=old.state, not_mirrored=left
        )
        return new

    async def _after(self, record: MirrorRecord) -> None:
        """What can be done once the target is written; all of it is tried again later by those who look after it."""
        try:
            await restore_configs(self._context, record)
        except ProducerFenced:
            raise
        except (NetError, StoreError, TimeoutError, OSError) as exc:
            _log.warning("topic configs not restored yet", topic=record.mirror_topic, error=str(exc))
        for hook in self._context.on_failover:
            try:
                await hook(record)
            except (ControlError, NetError, StoreError, TimeoutError, OSError) as exc:
                _log.error("after the failover", topic=record.mirror_topic, error=str(exc))

    # -- a mirror back -----------------------------------------------------------------------------------------

    async def _end_way_back(self, record: MirrorRecord) -> MirrorRecord:
        """Nothing is lost: the target has all. The source keeps what was mirrored back to it so far."""
        context = self._context
        await self._measure.stop(record)
        new = await context.change(
            record.link,
            record.mirror_topic,
            MirrorOperation.FAILOVER,
            direction=MirrorDirection.FORWARD,
            **at_its_end(record),
            not_mirrored=(),
            then_pause=False,
            recreate={},
            restore_configs={},
            error=MirrorError.NO_ERROR,
            error_message="the way back was ended by a failover",
        )
        context.progress.forget(record.mirror_topic)
        return new

    # -- numbers -----------------------------------------------------------------------------------------------

    async def _mirrored(self, record: MirrorRecord) -> tuple[int, ...]:
        """Per partition the source offset up to which the target has everything."""
        topic, partitions = record.mirror_topic, len(record.starts)
        if record.mode is MirrorMode.PRESERVE and not self._context.turned_translated(record.link, topic):
            # The log itself: what other gateways have appended may not have been told here yet.
            with target_errors():
                return tuple(end for _, end in await self._context.target.log_ranges(topic, partitions))
        known = [self._context.progress.position(topic, partition) for partition in range(partitions)]
        if all(position is not None for position in known):
            return tuple(position or 0 for position in known)
        with target_errors():
            return tuple(found.read_to for found in await self._context.offset_maps(record))

    async def look(self) -> None:
        """Remember where the logs of mirrors end that the engine does not watch now, while their sources answer."""
        for mirror in list(self._context.store.mirrors.values()):
            if mirror.state in (MirrorState.PAUSED, MirrorState.FAILED) and not written_on_target(mirror):
                await self._source_ends(mirror)

    async def _source_ends(self, record: MirrorRecord) -> list[int]:
        """The source's ends as it tells them now, else as they were last seen; -1 where nobody saw them."""
        return (await self._read_ends(record))[0]

    async def _read_ends(self, record: MirrorRecord) -> tuple[list[int], bool]:
        """As `_source_ends`, and whether the source has answered."""
        key, partitions = (record.link, record.mirror_topic), len(record.starts)
        engine = {status.partition: status.source_end for status in self._measure.known(record)}
        before = self._seen.get(key, ())
        known = [
            max(engine.get(partition, UNKNOWN), before[partition] if partition < len(before) else UNKNOWN)
            for partition in range(partitions)
        ]
        health = self._context.health.get(record.link)
        if health is not None and not health.available:
            return known, False
        try:
            async with asyncio.timeout(_LOOK_S):
                link = self._context.link(record.link)
                found = await self._ends.read(link, {record.source_topic: partitions}, _LOOK_S)
        except (ControlError, TimeoutError):
            return known, False
        told = found[record.source_topic]
        tops = told.log_ends if told.log_ends is not None else told.high_watermarks
        self._seen[key] = tuple(tops)
        return [max(pair) for pair in zip(known, tops, strict=True)], True


def _left_behind(ends: Sequence[int], mirrored: Sequence[int]) -> tuple[int, ...]:
    """Records on the source beyond what was mirrored. An end below that was never really seen."""
    return tuple(end - at if end >= at else UNKNOWN for end, at in zip(ends, mirrored, strict=True))


def _epoch(record: MirrorRecord) -> int:
    """Of the failover's own fence."""
    return record.fence_epoch + 1


def _runs(record: MirrorRecord) -> bool:
    return record.state in (MirrorState.ACTIVE, MirrorState.SOURCE_UNAVAILABLE)
