"""One run of a failover: gather a snapshot, ask `cutover/failover/rules/failover.py` for the step, take it, repeat.

All I/O of a failover begins here, one method per step. Only the record outlives the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import structlog

from gateway.cutover.failover.ends import FailoverEnds, known_producers
from gateway.cutover.failover.rules.failover import failback_ended, failed_over, next_step
from gateway.cutover.failover.rules.memory import FailoverMemory
from gateway.cutover.failover.rules.snapshot import FailoverLimits, FailoverStep, FailoverStepKind
from gateway.cutover.write_pause.interface import Coverage, PausesWrites
from gateway.cutover.write_pause.publisher import RoutingPublisher
from gateway.cutover.write_pause.rules.routing import RoutingTable, WritePhase
from gateway.cutover.write_pause.rules.write_pause import Pause
from gateway.errors import Conflict, ControlError
from gateway.kafka.connection.errors import NetError
from gateway.mirror.interface import MirrorEngine
from gateway.mirror.rules.progress import MirrorProgress
from gateway.operations.records import Records
from gateway.state.mirror_states import is_mirroring
from gateway.state.records import MirrorRecord
from gateway.state.store import ProducerFenced, StoreConflict, StoreError, StoreUncertain, until_known
from gateway.topics.lifted_configs import WAITS_FOR_STAMPS, LiftedConfigs
from gateway.topics.status import Measure

LIMITS = FailoverLimits()
_K = FailoverStepKind
_FOLLOWS = frozenset({_K.RESTORE_CONFIGS, _K.TELL_GROUPS, _K.DONE})
"""By these steps, writes go where they go from now on."""
_log = structlog.get_logger("lockgate.failover")


OnFailover = Callable[[MirrorRecord], Awaitable[None]]
"""Receives the mirror after a failover, once clients write to the target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverTools:
    """Shared by all runs. `pauses`: every live gateway's forwarder, by the gateway's name; a live mapping.
    `earliest_stop`: by `clock`; by then a killed predecessor's appends in flight have landed. `landing_s`: how long
    those of another gateway may land after it has left.
    """

    records: Records
    engine: MirrorEngine
    publisher: RoutingPublisher
    progress: MirrorProgress
    lifted: LiftedConfigs
    clock: Callable[[], float]
    measure: Measure
    routing: RoutingTable
    pauses: Mapping[str, PausesWrites]
    ends: FailoverEnds
    earliest_stop: float
    landing_s: float
    coverage: Coverage | None = None  # None: this gateway is the only one
    on_failover: Sequence[OnFailover] = ()


class FailoverRun:
    """Fails one topic over, or takes everything back. `waiting_for` is for `describe`."""

    def __init__(self, tools: FailoverTools, began: MirrorRecord) -> None:
        self._tools = tools
        self._store = tools.records.store
        self._key = (began.link, began.mirror_topic)
        self._memory = FailoverMemory(began)
        self._pause: Pause | None = None
        self._failure: Exception | None = None
        self._fenced = False
        self._log = _log.bind(link=began.link, topic=began.mirror_topic)
        self.waiting_for = ""
        self._actions: Mapping[FailoverStepKind, Callable[[FailoverStep], Awaitable[None]]] = {
            _K.WAIT: self._wait,
            _K.READ_SOURCE: self._read_source,
            _K.PAUSE_WRITES: self._pause_everywhere,
            _K.DRAIN: self._drain,
            _K.READ_LAST: self._read_source,
            _K.STOP_MIRROR: self._stop_mirror,
            _K.READ_COPY: self._read_copy,
            _K.PERSIST: self._persist,
            _K.SETTLE: self._settle,
            _K.TAKE_BACK: self._take_back,
            _K.RELEASE: self._release,
            _K.RESTORE_CONFIGS: self._restore_configs,
            _K.TELL_GROUPS: self._tell_groups,
        }

    @property
    def outcome_unknown(self) -> bool:
        """`cutover` ended before it was known what is stored, and must be called again."""
        return self._memory.committing and not self._fenced

    async def cutover(self) -> None:
        """Run until the topic is STOPPED, and its writes go to the target.

        Raises:
            Conflict, ControlError, StoreError: given up, with the reason; mirror and writes are as before.
            StoreUncertain, CancelledError: the outcome is unknown.
            ProducerFenced: another gateway leads; its assignment ends the pause.
        """
        try:
            step = await self._until(_FOLLOWS)
        except ProducerFenced:
            self._fenced = True
            raise
        except StoreUncertain:
            raise
        except asyncio.CancelledError:
            self._memory.give_up("the failover was cut short")
            self._memory.committing = True  # a write in progress may have been stored
            raise
        except Exception:
            await self._let_go()
            raise
        if step.reason and step.kind is _K.DONE:
            raise self._failure or Conflict(step.reason)

    async def finish(self) -> None:
        """Take the steps after the cutover; if one fails, the loops that watch STOPPED topics try it again later."""
        await self._until(frozenset({_K.DONE}))

    async def _until(self, kinds: frozenset[FailoverStepKind]) -> FailoverStep:
        try:
            while (step := self._next()).kind not in kinds:
                self.waiting_for = step.reason
                if step.delay_s:
                    await asyncio.sleep(step.delay_s)
                await self._actions[step.kind](step)
        finally:
            self.waiting_for = ""
        return step

    def _next(self) -> FailoverStep:
        record = self._record()
        route = self._tools.routing.current.topics.get(record.mirror_topic)
        snapshot = self._memory.snapshot(
            self._tools.clock(),
            record,
            WritePhase.FORWARD if route is None else route.phase,
            frozenset(self._tools.pauses),
            self._tools.engine.running_partitions(record).cold,
            self._earliest_stop(),
        )
        return next_step(snapshot, LIMITS)

    def _earliest_stop(self) -> float:
        coverage, earliest = self._tools.coverage, self._tools.earliest_stop
        return earliest if coverage is None else max(earliest, coverage.last_departure() + self._tools.landing_s)

    def _record(self) -> MirrorRecord:
        return self._tools.records.mirror(*self._key)

    async def _let_go(self) -> None:
        """After an unexpected error: resume writes, once it is known what is stored."""
        if self._memory.committing and not await until_known(self._store):
            return  # the next leader knows
        self._memory.committing = False
        self._as_recorded()

    def _as_recorded(self) -> None:
        """Restart the mirror if the record says that it runs, and end the pause. No promote of the topic interferes."""
        current = self._store.mirrors.get(self._key)
        if current is not None and is_mirroring(current.state):
            self._tools.engine.start_mirror(current)
        if self._pause is not None:
            self._tools.publisher.resume([self._pause])

    # -- before the cutover -------------------------------------------------------------------------------------------

    async def _wait(self, _: FailoverStep) -> None:
        """Does nothing: the step's delay has already passed."""

    async def _read_source(self, _: FailoverStep) -> None:
        reading = await self._tools.ends.read(self._record())
        self._memory.source_read(reading, self._tools.clock())

    async def _pause_everywhere(self, step: FailoverStep) -> None:
        """Pause the writes of every gateway: otherwise clients could write one partition on both clusters."""
        record = self._record()
        if self._pause is None:
            epoch = self._tools.publisher.next_epoch(record)
            self._pause = Pause(record.mirror_topic, epoch, self._store.term)
            self._tools.publisher.pause([self._pause])
            self._memory.pause_began(self._tools.clock())
        pause = self._pause
        asked = {name: _acknowledged(pauses, pause, step.limit_s) for name, pauses in self._tools.pauses.items()}
        paused = []
        for name, outcome in zip(asked, await asyncio.gather(*asked.values()), strict=True):
            if outcome is None:
                paused.append(name)
                continue
            self._memory.give_up(
                f"gateway '{name}' does not stop writing to mirror topic '{pause.topic}' on the source: "
                f"{outcome}; if it has certainly stopped: lockgate gateway forget {name}"
            )
        self._memory.paused(paused)

    async def _drain(self, step: FailoverStep) -> None:
        """Give the source a moment to answer writes in flight; after that their answers are dropped."""
        pause, asked = self._pause, dict(self._tools.pauses)
        if pause is None:
            raise AssertionError("what is in flight is waited for without a pause")
        outcomes = await asyncio.gather(*(_drained(pauses, pause, step.limit_s) for pauses in asked.values()))
        for name, outcome in zip(asked, outcomes, strict=True):
            if outcome is not None:
                self._memory.give_up(
                    f"gateway '{name}' may still acknowledge writes to mirror topic '{pause.topic}' on the source: "
                    f"{outcome}; if it has certainly stopped: lockgate gateway forget {name}"
                )
        self._memory.drained(name for name, outcome in zip(asked, outcomes, strict=True) if outcome is None)

    async def _stop_mirror(self, step: FailoverStep) -> None:
        record = self._record()
        seen = None if self._memory.on_target else known_producers(self._tools.engine, record)
        try:
            async with asyncio.timeout(step.limit_s):
                await self._tools.measure.stop(record)
        except TimeoutError:
            self._memory.give_up("the mirror's appends to the target were not answered in time; try again")
        self._memory.mirror_stopped(seen)

    async def _read_copy(self, step: FailoverStep) -> None:
        now = self._tools.clock()
        try:
            async with asyncio.timeout(step.limit_s):
                found = await self._tools.ends.copied(self._record())
        except (ControlError, TimeoutError) as exc:
            self._memory.copy_read(None, str(exc) or "no answer in time", now)
        else:
            self._memory.copy_read(found, "", now)

    async def _persist(self, _: FailoverStep) -> None:
        old = self._record()
        new = self._stopped(old)
        self._memory.storing(self._tools.clock())
        try:
            await self._store.replace(old, new)
        except (StoreUncertain, ProducerFenced):
            raise
        except StoreConflict:  # another operation has changed the record: read it again
            self._memory.known()
        except StoreError as exc:  # nothing was written
            self._memory.known()
            self._failure = exc
            self._memory.give_up(str(exc) or "the failover was not stored")
        else:
            self._memory.known()
            self._log.warning("mirror topic failed over", old=old.state, not_mirrored=new.cutover.not_mirrored)

    def _stopped(self, old: MirrorRecord) -> MirrorRecord:
        memory, now_ms = self._memory, self._tools.records.now_ms()
        if memory.on_target:
            return failback_ended(old, now_ms)
        copy = tuple(one for one in memory.copy or () if one is not None)
        if memory.producers is None or self._pause is None:
            raise AssertionError("a cutover is stored without its pause, or what is known of producers")
        return failed_over(
            old, copy, memory.reading(), memory.producers, self._pause.epoch, now_ms, self._store.most_batches
        )

    async def _settle(self, _: FailoverStep) -> None:
        """Find out whether the cutover is stored: until then no gateway may write to the source, and none promotes."""
        try:
            await self._store.resolve_outcome()
        except ProducerFenced:
            raise
        except StoreError as exc:
            self._log.info("whether the failover is stored is not known yet; writes are paused", reason=str(exc))
            return
        self._memory.known()
        self._memory.give_up("the failover was not stored")  # has no effect if it is

    async def _take_back(self, step: FailoverStep) -> None:
        """Put mirror and writes back as the record says."""
        self._log.warning("the failover was given up", reason=step.reason)
        self._memory.give_up(step.reason)
        self._as_recorded()
        self._memory.taken_back = True

    # -- after the cutover --------------------------------------------------------------------------------------------

    async def _release(self, _: FailoverStep) -> None:
        """End the pause. The store's change has already published the route."""
        if self._pause is not None:
            self._tools.publisher.resume([self._pause])
        if self._memory.on_target:
            self._tools.progress.forget(self._key[1])  # the positions were offsets of the target
        self._memory.released = True

    async def _restore_configs(self, _: FailoverStep) -> None:
        self._memory.restored = True
        if self._record().cutover.unstamped:
            self.waiting_for = WAITS_FOR_STAMPS
        try:
            await self._tools.lifted.restore(self._record())
        except ProducerFenced:
            raise
        except (ControlError, NetError, StoreError, TimeoutError, OSError) as exc:
            self._log.warning("topic configs not restored yet", error=str(exc))

    async def _tell_groups(self, _: FailoverStep) -> None:
        self._memory.told = True
        for hook in self._tools.on_failover:
            try:
                await hook(self._record())
            except (ControlError, NetError, StoreError, TimeoutError, OSError) as exc:
                self._log.error("after the failover", error=str(exc))


async def _acknowledged(pauses: PausesWrites, pause: Pause, limit_s: float) -> str | None:
    """Why a gateway is not known to have paused its writes; None when it is."""
    try:
        async with asyncio.timeout(limit_s):
            await pauses.pause(pause)
    except Exception as exc:  # noqa: BLE001 - whatever it is, the failover does not go on without this gateway
        return str(exc) or "no answer in time"
    return None


async def _drained(pauses: PausesWrites, pause: Pause, limit_s: float) -> str | None:
    """Why a gateway may still pass on an answer of the source; None when it does not."""
    with suppress(TimeoutError, OSError, NetError):
        async with asyncio.timeout(limit_s):
            await pauses.drain(pause)
            return None
    try:
        async with asyncio.timeout(limit_s):
            await pauses.cut(pause)
    except (TimeoutError, OSError, NetError) as exc:
        return str(exc) or "no answer in time"
    return None
