"""The operations that lead back: reverse, truncate-and-restore, failover; and those that a restart interrupted.

Built by `control_parts.py`, and wired by `runtime/term.py`:

    failbacks.resume()                                 # continues what a restart interrupted; returns immediately

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
    """What a truncate-and-restore would discard, per partition of the failback destination.

    `divergent`: records beyond the common point, which only the failback destination has. `older`: records from before
    the target's log start, which the target has deleted. `refilled`: records that it will get from the target.
    """

    record: MirrorRecord
    divergent: Mapping[int, int]
    older: Mapping[int, int]
    refilled: int


class Failbacks:
    """The operations. `tools`: shared by all runs."""

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
        """Continue every failback that the end of a process interrupted; returns immediately."""
        self._runs.resume()
        self._background.every(_WATCH_S, self._failover.ends.look, "ends of mirrors that rest")

    @property
    def without_promote(self) -> Alone:
        """A block during which no promote and no failover of the topic runs: see `Failover`."""
        return self._failover.without_promote

    def trouble(self, link: str, topic: str) -> Exception | None:
        """The error that the topic's run meets again and again; None when it proceeds, or none runs."""
        return self._runs.trouble(link, topic)

    def waiting_for(self, link: str, topic: str) -> str:
        """What a failover or a failback of the topic waits for; '' when none runs."""
        return self._failover.waiting_for(link, topic) or self._runs.waiting_for(link, topic)

    # -- reverse -----------------------------------------------------------------------------------------------

    async def reverse(
        self, link: str, topics: Sequence[str], *, pause: bool = False, undo_until_ms: int = 0
    ) -> Sequence[MirrorRecord]:
        """Begin to mirror STOPPED topics back to the source; it continues after this returns.

        `undo_until_ms`: the mirror back is kept until then, and ends automatically (`undo.py`); 0: an operator asked
        for it, and it has no end.

        Raises:
            BadRequest, NotFound, WrongState: nothing was changed.
            Conflict: the logs differ; tells how many records only the source has.
            SourceUnreachable: whether they differ is unknown.
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
        """The checks of `reverse` for a STOPPED topic; compares both logs. Raises as `reverse`."""
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
        """What a truncate-and-restore would discard.

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
        """Delete the failback destinations, recreate and fill them from the target; continues after this returns.

        Raises:
            BadRequest, NotFound, WrongState, SourceUnreachable, Conflict: nothing was changed.
        """
        names = _names(topics)
        for name in names:
            record = self._records.mirror(link, name)
            require(MirrorOperation.RESTORE, record)
            await require_origins(self._records, self._sources, [record], by_writers=False)
            await self._set_back(record)
            await self._destinations.read(record)  # if the source does not answer, it does not begin
        for name in names:
            async with self._locks.hold(f"mirror/{name}"):
                require(MirrorOperation.RESTORE, self._records.mirror(link, name))  # again: the stop is final
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
        """This gateway is about to stop: see `Failover.leave`. The next leader continues failbacks by their records."""
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
        """Restore the target's own configs, the last step of a promote, before the topic becomes an origin."""
        while not record.is_reverse and record.restore_configs:
            with target_errors(), suppress(StoreConflict):  # the promote itself was faster
                await self._lifted.restore(record)
            record = self._records.mirror(record.link, record.mirror_topic)


def _names(topics: Sequence[str]) -> list[str]:
    if not topics:
        raise BadRequest("no topic was named")
    return list(dict.fromkeys(topics))
