"""Failover: moves a topic's writes to the target without waiting for the source, and counts what it may lose.

For a mirror to the target it is a cutover without the source: records not mirrored yet stay behind there. A failover of
a mirror back only ends the mirror: clients already write to the target, and continue to. `failover/rules/failover.py`
decides each step; this file has the operations, and keeps other operations on the topic away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass

import structlog

from gateway.cutover.failover.ends import known_producers
from gateway.cutover.failover.rules.failover import left_behind, too_many, why_not
from gateway.cutover.failover.run import FailoverRun, FailoverTools
from gateway.cutover.write_pause.rules.routing_build import written_on_target
from gateway.errors import Conflict, ControlError
from gateway.fleet.rules.leases import CATCH_UP_LEASE_S
from gateway.operations.records import require_kept
from gateway.state.mirror_states import MirrorOperation, require
from gateway.state.records import MirrorRecord, MirrorState
from gateway.state.store import ProducerFenced, StoreError
from gateway.transport.background import Background
from gateway.transport.locks import KeyedLocks

_log = structlog.get_logger("lockgate.failover")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverPlan:
    """What a failover now would leave behind: `not_mirrored[p]` records, -1 if unknown.

    `exact`: the source itself answered; else it may have more. `retries_unknown`: partitions with too many producers to
    hand over: a batch retried over the failover may be appended twice.
    """

    record: MirrorRecord
    not_mirrored: tuple[int, ...]
    exact: bool
    retries_unknown: tuple[int, ...] = ()


Alone = Callable[[str, str], AbstractAsyncContextManager[None]]
"""(link, mirror topic) -> a block during which a condition on the topic holds."""


class Failover:
    """Fails mirror topics over. `ends`: the source of the counts.

    `without_promote`: a block in which no promote of the topic runs; a running one is ended first, or completes.
    Raises Conflict when its end is not known in time. `overridden`: a block in which this gateway mirrors the topic,
    whichever gateway did before.
    """

    def __init__(
        self,
        tools: FailoverTools,
        *,
        without_promote: Alone,
        overridden: Alone,
        locks: KeyedLocks,
        background: Background,
    ) -> None:
        self._tools = tools
        self._records = tools.records
        self.ends = tools.ends
        self.without_promote = without_promote
        self._overridden = overridden
        self._locks = locks
        self._background = background
        self._running: dict[tuple[str, str], FailoverRun] = {}
        self._leaving = ""
        self._over = asyncio.Event()

    def waiting_for(self, link: str, topic: str) -> str:
        """What a failover of the topic waits for; '' when none runs."""
        run = self._running.get((link, topic))
        return "" if run is None or not run.waiting_for else f"being failed over: {run.waiting_for}"

    async def plan(self, link: str, topic: str) -> FailoverPlan:
        """What a failover would lose.

        Raises:
            NotFound, WrongState, Conflict, TargetUnreachable: it would be refused.
        """
        record = self._records.mirror(link, topic)
        require_kept(record)
        require(MirrorOperation.FAILOVER, record)
        if written_on_target(record):
            return FailoverPlan(record=record, not_mirrored=(0,) * len(record.starts), exact=True)
        _require_readable(record)
        self._require_no_job(record)
        source = await self.ends.read(record)
        left = left_behind(source.ends, await self.ends.on_the_copy(record))
        known = known_producers(self._tools.engine, record)
        return FailoverPlan(
            record=record,
            not_mirrored=left,
            exact=source.answered,
            retries_unknown=too_many(known, self._records.store.most_batches),
        )

    async def run(self, link: str, topic: str) -> MirrorRecord:
        """Fail one topic over; it is STOPPED when this returns.

        A running promote is ended first; if it has cut over by then, nothing is left to do. No promote begins before
        this operation has ended and its outcome is known.

        Raises:
            NotFound, WrongState, Conflict, TargetUnreachable, StoreError: nothing was changed.
            StoreUncertain: whether it was stored is not known yet; writes are paused until it is.
        """
        before = self._records.mirror(link, topic)
        require(MirrorOperation.FAILOVER, before)
        if self._leaving:
            raise Conflict(f"{self._leaving}; ask again in a moment")
        async with AsyncExitStack() as alone:
            await alone.enter_async_context(self.without_promote(link, topic))
            async with self._locks.hold(f"mirror/{topic}"):
                record = self._records.mirror(link, topic)
                if record != before and record.state is MirrorState.STOPPED:
                    return record
                require_kept(record)
                require(MirrorOperation.FAILOVER, record)
                if written_on_target(record) != written_on_target(before):
                    raise Conflict(f"mirror topic '{topic}' has changed sides meanwhile; look at it, and try again")
                _require_readable(record)
                self._require_no_job(record)
                self._running[link, topic] = run = FailoverRun(self._tools, record)
                try:
                    await self._cut_over(run, record)
                except BaseException:
                    self._left(run, (link, topic), alone)
                    raise
        try:
            await run.finish()
        finally:
            self._ended((link, topic))
        return self._records.mirror(link, topic)

    async def leave(self, limit_s: float) -> None:
        """This gateway is about to stop: wait, at most `limit_s`, until running failovers have ended; none begins now.

        To be called before partitions are given away: the record needs what the mirror knows of source and producers.
        """
        self._leaving = "this gateway is being stopped"
        try:
            async with asyncio.timeout(limit_s):
                while self._running:
                    self._over.clear()
                    await self._over.wait()
        except TimeoutError:
            _log.warning("failovers are not over yet", topics=sorted(topic for _, topic in self._running))

    def _require_no_job(self, record: MirrorRecord) -> None:
        """Refuse while a job copies the topic: it would keep appending, after clients' writes to the target."""
        if self._tools.measure.catching_up(record):
            raise Conflict(
                f"a job copies mirror topic '{record.mirror_topic}' now, and would append to what clients write to "
                f"the target: stop the job, and ask again (one that was killed is waited for {CATCH_UP_LEASE_S:g} s)"
            )

    def _ended(self, key: tuple[str, str]) -> None:
        self._running.pop(key, None)
        self._over.set()

    async def _cut_over(self, run: FailoverRun, record: MirrorRecord) -> None:
        if written_on_target(record):
            await run.cutover()
            return
        async with self._overridden(record.link, record.mirror_topic):
            await run.cutover()

    def _left(self, run: FailoverRun, key: tuple[str, str], alone: AsyncExitStack) -> None:
        """The run ended without a cutover, or its outcome is unknown: then keep other operations away (`alone`) until
        it is known."""
        if run.outcome_unknown:
            self._background.spawn(self._when_known(run, key, alone.pop_all()), f"failover {' '.join(key)}")
        else:
            self._ended(key)

    async def _when_known(self, run: FailoverRun, key: tuple[str, str], alone: AsyncExitStack) -> None:
        """Finish a run whose outcome was unknown. Its caller does not hear of the result any more."""
        _log.warning("writes are paused until it is known whether the failover is stored", link=key[0], topic=key[1])
        try:
            async with alone:
                await run.cutover()
            await run.finish()
        except ProducerFenced:
            _log.info("the failover is left to the next leader", link=key[0], topic=key[1])
        except (ControlError, StoreError) as exc:
            _log.warning("the failover was not stored", link=key[0], topic=key[1], reason=str(exc))
        finally:
            self._ended(key)


def _require_readable(record: MirrorRecord) -> None:
    if refused := why_not(record):
        raise Conflict(refused)
