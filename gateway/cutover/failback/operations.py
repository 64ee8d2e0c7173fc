"""The operations that lead back: reverse, truncate-and-restore, failover; and those that a restart interrupted.

Put together by `control_parts.py`, and wired by `runtime/term.py`:

    failbacks.resume()                                 # goes on with what a restart interrupted; returns at once

Its tasks run in `background` and end with `service.close`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from gateway.cutover.failback.records import begun
from gateway.cutover.failback.rules.failback import records_after_cutover, why_not_reversed
from gateway.cutover.failback.run import FailbackTools
from gateway.cutover.failback.runs import FailbackRuns
from gateway.cutover.failover.operations import Alone, Failover, FailoverPlan
from gateway.errors import BadRequest, Conflict
from gateway.operations.cluster_errors import target_errors
from gateway.operations.upstream import require_origins
from gateway.state.mirror_states import MirrorOperation, require
from gateway.state.records import MirrorError, MirrorRecord
from gateway.state.store import StoreConflict
from gateway.transport.background import Background

_LOOK_S = 10.0
_WATCH_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlan:
    """What a truncate-and-restore would throw away, per partition of the failback destination.

    `divergent`: records beyond the common point: nobody has them but the failback destination. `older`: records from
    before the target's log start: the target has deleted them. `refilled`: records that the target will give it.
    """

    record: MirrorRecord
    divergent: Mapping[int, int]
    older: Mapping[int, int]
    refilled: int


class Failbacks:
    """`tools`: what every run uses."""

    def __init__(self, tools: FailbackTools, *, runs: FailbackRuns, failover: Failover, background: Background) -> None:
        self._records = tools.records
        self._sources = tools.sources
        self._target = tools.target
        self._engine = tools.engine
        self._locks = tools.locks
        self._lifted = tools.lifted
        self._destinations = tools.destinations
        self._runs = runs
        self._failover = failover
        self._background = background

    def resume(self) -> None:
        """Go on with every failback that the end of a process interrupted; returns at once."""
        self._runs.resume()
        self._background.every(_WATCH_S, self._failover.ends.look, "ends of mirrors that rest")

    @property
    def without_promote(self) -> Alone:
        """A block for whose time no promote and no failover of the topic runs: see `Failover`."""
        return self._failover.without_promote

    def trouble(self, link: str, topic: str) -> Exception | None:
        """What the run of the topic meets again and again just now; None when it goes on, or none runs."""
        return self._runs.trouble(link, topic)

    def waiting_for(self, link: str, topic: str) -> str:
        """What a failover or a failback of the topic waits for; '' when none runs."""
        return self._failover.waiting_for(link, topic) or self._runs.waiting_for(link, topic)

    # -- reverse -----------------------------------------------------------------------------------------------

    async def reverse(
        self, link: str, topics: Sequence[str], *, pause: bool = False, undo_until_ms: int = 0
    ) -> Sequence[MirrorRecord]:
        """Begin to mirror STOPPED topics back to the source; it goes on after this returns.

        `undo_until_ms`: it is kept until then, and ends by itself (`undo.py`); 0: somebody has asked for it.

        Raises:
            BadRequest, NotFound, WrongState: nothing was changed.
            Conflict: the logs differ: with the number of records that only the source has.
            SourceUnreachable: it cannot be known whether they do.
        """
        names = _names(topics)
        records = [self._records.mirror(link, name) for name in names]
        for record in records:
            require(MirrorOperation.REVERSE, record)
            await self._set_back(record)
        await self._require_alike(records)
        for name in names:
            asked = partial(begun, then_pause=pause, undo_until_ms=undo_until_ms)
            await self._records.change(link, name, MirrorOperation.REVERSE, asked, error_message="")
            self._runs.go_on(link, name)
        return [self._records.mirror(link, name) for name in names]

    async def check_reverse(self, link: str, topic: str) -> None:
        """What `reverse` of a STOPPED topic refuses, and nothing else: both logs are compared. Raises as it does."""
        record = self._records.mirror(link, topic)
        require(MirrorOperation.REVERSE, record)
        await self._require_alike([record], note=False)

    async def _require_alike(self, records: Sequence[MirrorRecord], *, note: bool = True) -> None:
        await require_origins(self._records, self._sources, records, by_writers=False, note=note)
        for record in records:
            source = await self._destinations.read(record, compared=True)
            if reason := why_not_reversed(record, source):
                raise Conflict(f"mirror topic '{record.mirror_topic}' cannot be reversed: {reason}")

    # -- truncate-and-restore ----------------------------------------------------------------------------------

    async def restore_plan(self, link: str, topic: str) -> RestorePlan:
        """What it would throw away.

        Raises:
            NotFound, WrongState, SourceUnreachable, TargetUnreachable, Conflict: it would be refused.
        """
        record = self._records.mirror(link, topic)
        require(MirrorOperation.RESTORE, record)
        source = await self._destinations.read(record)
        partitions = len(source.log_end_offsets)
        access = await self._sources.reach(self._records.link(link))
        async with asyncio.timeout(_LOOK_S):
            old = await access.log_ranges(record.source_topic, partitions) if source.present else ()
            with target_errors():
                new = await self._target.log_ranges(record.mirror_topic, max(partitions, len(record.starts)))
        older = {
            partition: min(source_end, target_start) - source_start
            for partition, ((source_start, source_end), (target_start, _)) in enumerate(zip(old, new, strict=False))
            if min(source_end, target_start) > source_start
        }
        return RestorePlan(
            record=record,
            divergent=records_after_cutover(record, source),
            older=older,
            refilled=sum(end - start for start, end in new),
        )

    async def restore(self, link: str, topics: Sequence[str]) -> Sequence[MirrorRecord]:
        """Delete the failback destinations, create them anew and fill them from the target; goes on after this returns.

        Raises:
            BadRequest, NotFound, WrongState, SourceUnreachable, Conflict: nothing was changed.
        """
        names = _names(topics)
        for name in names:
            record = self._records.mirror(link, name)
            require(MirrorOperation.RESTORE, record)
            await require_origins(self._records, self._sources, [record], by_writers=False)
            await self._set_back(record)
            await self._destinations.read(record)  # a source that does not answer: not begun
        for name in names:
            async with self._locks.hold(f"mirror/{name}"):
                require(MirrorOperation.RESTORE, self._records.mirror(link, name))  # still: what is stopped stays so
                await self._engine.stop_mirror(link, name)
                await self._records.change(
                    link,
                    name,
                    MirrorOperation.RESTORE,
                    begun,
                    error=MirrorError.NO_ERROR,
                    error_message="",
                )
            self._runs.go_on(link, name)
        return [self._records.mirror(link, name) for name in names]

    # -- failover ----------------------------------------------------------------------------------------------

    async def leave(self, limit_s: float) -> None:
        """This gateway is about to stop: see `Failover.leave`. What leads back goes on from its records elsewhere."""
        await self._failover.leave(limit_s)

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
                await self._lifted.restore(record)
            record = self._records.mirror(record.link, record.mirror_topic)


def _names(topics: Sequence[str]) -> list[str]:
    if not topics:
        raise BadRequest("no topic was named")
    return list(dict.fromkeys(topics))
