"""Failover: writes go to the target at once, whatever the source does. What it may lose is said in numbers.

Of a mirror to the target it is the flip without the source: what was not mirrored yet stays behind there. Of a mirror
back it only ends the mirror: the target is written already, and stays so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass

import structlog

from gateway.control.context import ControlContext
from gateway.control.errors import Conflict, ControlError
from gateway.control.failover_ends import FailoverEnds, KnownProducers, known_producers, left_behind, warmed
from gateway.control.lifted_configs import restore_configs
from gateway.control.measure import Measure
from gateway.control.source_ends import SourceEnds
from gateway.control.store import ProducerFenced, StoreError, StoreUncertain
from gateway.control.until_known import until_known
from gateway.domain.mirror_states import MirrorOperation, apply, is_mirroring, require
from gateway.domain.ports import Fences
from gateway.domain.records import MirrorDirection, MirrorError, MirrorRecord, MirrorState
from gateway.domain.routing_build import written_on_target
from gateway.domain.way_home import handed_over
from gateway.domain.ways import at_its_end
from gateway.domain.write_holds import Hold, HoldKind
from gateway.net.errors import NetError

_FENCE_S = 2.0  # what is in flight to a source that does not answer is not waited for longer
_STOP_S = 15.0
_log = structlog.get_logger("lockgate.failover")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverPlan:
    """What a failover now would leave behind: `not_mirrored[p]` records, -1 where nobody knows."""

    record: MirrorRecord
    not_mirrored: tuple[int, ...]


class Failover:
    """Fails mirror topics over. `fences`: every live gateway's forwarder. `ends`: what the numbers are made of."""

    def __init__(
        self, context: ControlContext, measure: Measure, ends: SourceEnds, fences: Mapping[str, Fences]
    ) -> None:
        self._context = context
        self._measure = measure
        self.ends = FailoverEnds(context, measure, ends)
        self._fences = fences

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
        ends = await self.ends.of_source(record)
        return FailoverPlan(record=record, not_mirrored=left_behind(ends, await self.ends.mirrored(record)))

    async def run(self, link: str, topic: str) -> MirrorRecord:
        """Fail one topic over; it is STOPPED when this returns.

        A promote that is under way is ended first; one that has flipped by then was faster, and nothing is left to do.
        None begins before this has ended, its outcome known.

        Raises:
            NotFound, WrongState, Conflict, TargetUnreachable, StoreError: nothing was changed.
            StoreUncertain: whether it was stored is not known yet; writes are held until it is.
        """
        before = self._context.mirror(link, topic)
        require(MirrorOperation.FAILOVER, before)
        async with AsyncExitStack() as alone:
            await alone.enter_async_context(self._context.without_promote(link, topic))
            async with self._context.locks.hold(f"mirror/{topic}"):
                record = self._context.mirror(link, topic)
                if record != before and record.state is MirrorState.STOPPED:
                    return record
                require(MirrorOperation.FAILOVER, record)
                if written_on_target(record) != written_on_target(before):
                    raise Conflict(f"mirror topic '{topic}' has changed sides meanwhile; look at it, and try again")
                if written_on_target(record):
                    return await self._end_way_back(record)
                self._require_readable(record)
                async with self._context.claimed(link, topic):
                    new = await self._flip(record, alone)
        await self._after(new)
        return new

    def _require_readable(self, record: MirrorRecord) -> None:
        if not record.settled or not record.created:
            raise Conflict(
                f"mirror topic '{record.mirror_topic}' does not hold a record yet: there is nothing to fail over to"
            )

    # -- a mirror to the target --------------------------------------------------------------------------------

    async def _flip(self, record: MirrorRecord, alone: AsyncExitStack) -> MirrorRecord:
        """`alone`: what keeps other operations away; kept for as long as the outcome is unknown."""
        context, topic = self._context, record.mirror_topic
        ends, answered = await self.ends.read(record)
        if answered:
            await warmed(context, record)
        hold = Hold(topic, context.publisher.next_epoch(record), context.store.term, HoldKind.FAILOVER)
        context.publisher.fence([hold])
        try:
            new = await self._under_the_fence(record, hold, ends, answered)
        except ProducerFenced:
            raise  # it may be written: the hold ends when the next leader's assignment tells
        except (StoreUncertain, asyncio.CancelledError):
            context.background.spawn(self._when_known(record, hold, alone.pop_all()), f"failover {record.link} {topic}")
            raise
        except BaseException:
            self._go_on(record, hold)
            raise
        context.publisher.unfence([hold])
        return new

    async def _under_the_fence(
        self, record: MirrorRecord, hold: Hold, ends: Sequence[int], answered: bool
    ) -> MirrorRecord:
        context = self._context
        await self._hold_everywhere(hold)
        await asyncio.gather(*(self._drain(fences, hold) for fences in self._fences.values()))
        if answered:  # what was written until the hold is left behind, too
            ends = [max(pair) for pair in zip(ends, await self.ends.of_source(record), strict=True)]
        seen = known_producers(context, record)
        try:
            async with asyncio.timeout(_STOP_S):
                await self._measure.stop(record)
        except TimeoutError:
            raise Conflict("the mirror's appends to the target were not answered in time; try again") from None
        copied = await self.ends.copied(record)
        mirrored = [at for at, _ in copied]
        left = left_behind(ends, mirrored)
        return await self._persist(mirrored, [end for _, end in copied], left, seen, record, hold.epoch)

    async def _when_known(self, record: MirrorRecord, hold: Hold, alone: AsyncExitStack) -> None:
        """The flip is written, or it is not: until somebody knows nobody may write to the source, nor promote."""
        _log.warning("writes are held until it is known whether the failover is stored", topic=record.mirror_topic)
        async with alone:
            if await until_known(self._context.store):  # else the next leader knows
                self._go_on(record, hold)

    def _go_on(self, record: MirrorRecord, hold: Hold) -> None:
        """As the record says now. No promote of the topic runs that would not have its mirror begun anew."""
        current = self._context.store.mirrors.get((record.link, record.mirror_topic))
        if current is not None and is_mirroring(current.state):
            self._context.engine.start_mirror(current)
        self._context.publisher.unfence([hold])

    async def _hold_everywhere(self, hold: Hold) -> None:
        """Whoever may write to the source must have stopped: two clusters would be written for one partition."""
        asked = {name: fences.hold_writes(hold.topic, hold.epoch) for name, fences in self._fences.items()}
        for name, outcome in zip(asked, await asyncio.gather(*asked.values(), return_exceptions=True), strict=True):
            if isinstance(outcome, Exception):
                raise Conflict(
                    f"gateway '{name}' does not stop writing to mirror topic '{hold.topic}' on the source: "
                    f"{outcome}; if it has certainly stopped: lockgate gateway forget {name}"
                )

    async def _drain(self, fences: Fences, hold: Hold) -> None:
        """What is in flight to the source may still be answered, for a moment."""
        with suppress(TimeoutError, OSError, NetError):
            async with asyncio.timeout(_FENCE_S):
                await fences.fence(hold.topic, hold.epoch)

    async def _persist(
        self,
        mirrored: Sequence[int],
        copied: Sequence[int],
        left: tuple[int, ...],
        seen: KnownProducers,
        record: MirrorRecord,
        epoch: int,
    ) -> MirrorRecord:
        old = self._context.mirror(record.link, record.mirror_topic)
        now_ms = self._context.now_ms()
        new = apply(
            MirrorOperation.FAILOVER,
            old,
            now_ms,
            stopped_at=tuple(mirrored),
            stopped_copy_at=tuple(copied),
            producers=handed_over(old, seen.tables),
            retries_unknown=seen.missing,
            flipped_ms=now_ms,
            fence_epoch=epoch,
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
