"""The operations that lead back: reverse, truncate-and-restore, failover; and those that a restart interrupted.

Wired by `app/term.py`, after `service.start`:

    ways = WaysBack(context=service.context, measure=service.measure, routing=routing, fences=...)
    service.ways_back = ways
    ways.resume()                                 # goes on with what a restart interrupted; returns at once

Its tasks run in `context.background` and end with `service.close`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import structlog

from gateway.control.context import ControlContext, target_errors
from gateway.control.errors import BadRequest, Conflict
from gateway.control.failover import Failover, FailoverPlan
from gateway.control.lifted_configs import restore_configs
from gateway.control.measure import Measure
from gateway.control.old_source import read_old_source
from gateway.control.source_ends import NetSourceEnds, SourceEnds
from gateway.control.store import StoreConflict
from gateway.control.way_back_run import WayBackRun, WayBackTools
from gateway.domain.mirror_states import MirrorOperation, require
from gateway.domain.ports import Fences
from gateway.domain.records import MirrorDirection, MirrorError, MirrorRecord
from gateway.domain.routing import RoutingTable
from gateway.domain.way_back import late_records, why_not_reversed
from gateway.domain.way_back_snapshot import UNDER_WAY

_LOOK_S = 10.0
_WATCH_S = 5.0
_log = structlog.get_logger("lockgate.way_back")


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlan:
    """What a truncate-and-restore would throw away, per partition of the old source topic.

    `divergent`: records beyond the common point: nobody has them but the old source. `older`: records from before the
    target's log start: the target has deleted them. `refilled`: records that the target will give it.
    """

    record: MirrorRecord
    divergent: Mapping[int, int]
    older: Mapping[int, int]
    refilled: int


class WaysBack:
    """One run per topic at most. `fences`: every live gateway's forwarder, by the gateway's name."""

    def __init__(
        self,
        *,
        context: ControlContext,
        measure: Measure,
        routing: RoutingTable,
        fences: Mapping[str, Fences],
        ends: SourceEnds | None = None,
        tools: Callable[..., WayBackTools] = WayBackTools,
    ) -> None:
        self._context = context
        self._ends = ends or NetSourceEnds(context.sources)
        self._tools = tools(context=context, routing=routing, ends=self._ends, clock=context.clock)
        self._failover = Failover(context, measure, self._ends, fences)
        self._running: dict[tuple[str, str], WayBackRun] = {}
        context.go_on = self._go_on
        context.way_back_waits = self._waiting_for

    def resume(self) -> None:
        """Go on with every way back that the end of a process interrupted; returns at once."""
        for (link, topic), mirror in list(self._context.store.mirrors.items()):
            if mirror.state in UNDER_WAY:
                self._go_on(link, topic)
        self._context.background.every(_WATCH_S, self._failover.ends.look, "ends of mirrors that rest")

    # -- reverse -----------------------------------------------------------------------------------------------

    async def reverse(self, link: str, topics: Sequence[str], *, pause: bool = False) -> Sequence[MirrorRecord]:
        """Begin to mirror STOPPED topics back to the source; it goes on after this returns.

        Raises:
            BadRequest, NotFound, WrongState: nothing was changed.
            Conflict: the logs differ: with the number of records that only the source has.
            SourceUnreachable: it cannot be known whether they do.
        """
        names = _names(topics)
        records = [self._context.mirror(link, name) for name in names]
        for record in records:
            require(MirrorOperation.REVERSE, record)
            await self._set_back(record)
        for record in records:
            source = await read_old_source(self._context, self._ends, record, compared=True)
            if reason := why_not_reversed(record, source):
                raise Conflict(f"mirror topic '{record.mirror_topic}' cannot be reversed: {reason}")
        for name in names:
            await self._context.change(
                link, name, MirrorOperation.REVERSE, then_pause=pause, recreate={}, error_message=""
            )
            self._go_on(link, name)
        return [self._context.mirror(link, name) for name in names]

    # -- truncate-and-restore ----------------------------------------------------------------------------------

    async def restore_plan(self, link: str, topic: str) -> RestorePlan:
        """What it would throw away.

        Raises:
            NotFound, WrongState, SourceUnreachable, TargetUnreachable, Conflict: it would be refused.
        """
        context, record = self._context, self._context.mirror(link, topic)
        require(MirrorOperation.RESTORE, record)
        source = await read_old_source(context, self._ends, record)
        partitions = len(source.tops)
        access = await context.sources.reach(context.link(link))
        async with asyncio.timeout(_LOOK_S):
            old = await access.log_ranges(record.source_topic, partitions) if source.present else ()
            with target_errors():
                new = await context.target.log_ranges(record.mirror_topic, max(partitions, len(record.starts)))
        older = {
            partition: min(source_end, target_start) - source_start
            for partition, ((source_start, source_end), (target_start, _)) in enumerate(zip(old, new, strict=False))
            if min(source_end, target_start) > source_start
        }
        return RestorePlan(
            record=record,
            divergent=late_records(record, source),
            older=older,
            refilled=sum(end - start for start, end in new),
        )

    async def restore(self, link: str, topics: Sequence[str]) -> Sequence[MirrorRecord]:
        """Delete the old source topics, create them anew and fill them from the target; goes on after this returns.

        Raises:
            BadRequest, NotFound, WrongState, SourceUnreachable, Conflict: nothing was changed.
        """
        names = _names(topics)
        for name in names:
            record = self._context.mirror(link, name)
            require(MirrorOperation.RESTORE, record)
            await self._set_back(record)
            await read_old_source(self._context, self._ends, record)  # a source that does not answer: not begun
        for name in names:
            async with self._context.locks.hold(f"mirror/{name}"):
                await self._context.engine.stop_mirror(link, name)
                await self._context.change(
                    link,
                    name,
                    MirrorOperation.RESTORE,
                    direction=MirrorDirection.REVERSE,
                    recreate={},
                    then_pause=False,
                    error=MirrorError.NO_ERROR,
                    error_message="",
                )
            self._go_on(link, name)
        return [self._context.mirror(link, name) for name in names]

    # -- failover ----------------------------------------------------------------------------------------------

    async def failover_plan(self, link: str, topic: str) -> FailoverPlan:
        """See `Failover.plan`."""
        return await self._failover.plan(link, topic)

    async def failover(self, link: str, topics: Sequence[str]) -> Sequence[MirrorRecord]:
        """Fail the topics over, one after the other; all are checked before the first is changed."""
        names = _names(topics)
        for name in names:
            await self._failover.plan(link, name)
        return [await self._failover.run(link, name) for name in names]

    async def _set_back(self, record: MirrorRecord) -> None:
        """The target must have its own configs back before it becomes an origin: the last act of a promote."""
        while not record.is_reverse and record.restore_configs:
            with target_errors(), suppress(StoreConflict):  # the promote itself was faster
                await restore_configs(self._context, record)
            record = self._context.mirror(record.link, record.mirror_topic)

    # -- runs --------------------------------------------------------------------------------------------------

    def _waiting_for(self, link: str, topic: str) -> str:
        run = self._running.get((link, topic))
        return run.waiting_for if run is not None else ""

    def _go_on(self, link: str, topic: str) -> None:
        """Start a run for the topic, unless one goes on with it already."""
        key = (link, topic)
        if key not in self._running:
            self._running[key] = run = WayBackRun(self._tools, link, topic)
            self._context.background.spawn(self._run(key, run), f"way back {link} {topic}")

    async def _run(self, key: tuple[str, str], run: WayBackRun) -> None:
        try:
            await run.run()
        finally:
            del self._running[key]
        mirror = self._context.store.mirrors.get(key)
        if mirror is not None:
            _log.info("way back ended", link=key[0], topic=key[1], state=mirror.state, reason=mirror.error_message)


def _names(topics: Sequence[str]) -> list[str]:
    if not topics:
        raise BadRequest("no topic was named")
    return list(dict.fromkeys(topics))
