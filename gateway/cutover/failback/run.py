"""One run of a failback: gather a snapshot, ask `cutover/failback/rules/failback.py` for the step, take it, repeat.

All I/O of the failbacks begins here, one method per step. Only the record outlives the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace

import structlog

from gateway.cutover.failback.copy_setup import (
    CopyGone,
    PreparedCopy,
    create_topic_anew,
    delete_old_topic,
    own_configs,
    prepare_copy,
)
from gateway.cutover.failback.destination import FailbackDestinations
from gateway.cutover.failback.records import begun, not_begun, store_recreated, synchronized
from gateway.cutover.failback.rules.failback import LOOK_AGAIN_S, next_step
from gateway.cutover.failback.rules.snapshot import (
    FailbackDestination,
    FailbackSnapshot,
    FailbackStep,
    FailbackStepKind,
    FailbackViolated,
)
from gateway.cutover.write_pause.rules.routing import RoutingTable, WritePhase
from gateway.errors import ControlError, NotFound, SourceUnreachable, TargetUnreachable
from gateway.kafka.connection.errors import BrokerError, NetError
from gateway.mirror.interface import MirrorEngine
from gateway.mirror.rules.progress import MirrorProgress
from gateway.operations.cluster_access import ClusterAccess
from gateway.operations.cluster_errors import source_errors
from gateway.operations.door import Door
from gateway.operations.records import Records
from gateway.operations.sources import Sources
from gateway.state import link_config
from gateway.state.mirror_states import MirrorOperation, WrongState
from gateway.state.records import MirrorError, MirrorRecord, MirrorState
from gateway.state.store import ProducerFenced, StoreError
from gateway.state.transition_errors import TransitionErrorCode, code_of, with_error
from gateway.topics.lifted_configs import LiftedConfigs
from gateway.transport.locks import KeyedLocks

_AGAIN_S = 0.5
_log = structlog.get_logger("lockgate.failback")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailbackTools:
    """Shared by all runs. `patience_s`: how long a reverse waits for a source that does not answer."""

    records: Records
    sources: Sources
    target: ClusterAccess
    engine: MirrorEngine
    progress: MirrorProgress
    destinations: FailbackDestinations
    lifted: LiftedConfigs
    door: Door
    locks: KeyedLocks
    routing: RoutingTable
    patience_s: float = 30.0
    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


class FailbackRun:
    """Takes one topic from any step of a failback to the end.

    `waiting_for` is for `describe`; `trouble`: the error of the last step, None when it succeeded.
    """

    def __init__(self, tools: FailbackTools, link: str, topic: str) -> None:
        self._tools = tools
        self._store = tools.records.store
        self._link = link
        self._topic = topic
        self._source: FailbackDestination | None = None
        self._copy: PreparedCopy | None = None
        self._unreachable_since: float | None = None
        self._source_error = ""
        self._gave_up = ""
        self._trouble_told = ""
        self._log = _log.bind(link=link, topic=topic)
        self.waiting_for = ""
        self.trouble: Exception | None = None
        self._actions: Mapping[FailbackStepKind, Callable[[FailbackStep], Awaitable[None]]] = {
            FailbackStepKind.WAIT: self._wait,
            FailbackStepKind.READ_SOURCE: self._read_source,
            FailbackStepKind.PREPARE: self._prepare,
            FailbackStepKind.RESTORE_CONFIGS: self._restore_configs,
            FailbackStepKind.SYNCHRONIZED: self._synchronized,
            FailbackStepKind.ABORT: self._abort,
            FailbackStepKind.KEEP: self._keep,
            FailbackStepKind.DELETE: self._delete,
            FailbackStepKind.CREATE: self._create,
            FailbackStepKind.RECREATED: self._recreated,
            FailbackStepKind.FAIL: self._fail,
            FailbackStepKind.START: self._start,
            FailbackStepKind.BEGIN: self._begin,
        }

    async def run(self) -> None:
        """Run until the topic is in no state of a failback. Errors are waited out, or end in the record."""
        while True:
            try:
                step = self._next()
            except NotFound:
                return  # the link was deleted, by force
            if step.kind is FailbackStepKind.DONE:
                break
            self.waiting_for = step.reason
            try:
                await self._actions[step.kind](step)
                self.trouble = None
            except ProducerFenced:
                raise  # the process stops; the next leader continues from the record
            except (SourceUnreachable, TargetUnreachable, NetError, StoreError, TimeoutError, OSError) as exc:
                self.trouble = exc
                await self._trouble(exc)
            except WrongState:
                continue  # an operator was faster; the record says what is next
            except ControlError as exc:
                self.trouble = exc
                self._gave_up = self._gave_up or str(exc)
            except Exception as exc:
                self._log.exception("a failback broke off")
                if self._gave_up:
                    raise
                self._gave_up = f"{type(exc).__name__}: {exc}"
        self.waiting_for = ""

    def _next(self) -> FailbackStep:
        record = self._record()
        route = self._tools.routing.current.topics.get(self._topic)
        since = self._unreachable_since
        statuses = self._tools.engine.status(record)
        snapshot = FailbackSnapshot(
            record=record,
            phase=WritePhase.FORWARD if route is None else route.phase,
            source=self._source,
            unreachable_s=0.0 if since is None else max(self._tools.clock() - since, 1e-9),
            source_error=self._source_error,
            prepared=self._copy is not None,
            running=bool(statuses),
            copying=len(statuses) == len(record.starts) and all(status.phase == "copying" for status in statuses),
            gave_up=self._gave_up,
        )
        try:
            return next_step(snapshot, patience_s=self._tools.patience_s)
        except FailbackViolated as exc:  # a bug, here or elsewhere: take no step until it is over
            if str(exc) != self._trouble_told:
                self._trouble_told = str(exc)
                self._log.error("a failback must not go on", error=str(exc))
            return FailbackStep(FailbackStepKind.WAIT, f"held back, by a bug: {exc}")

    def _record(self) -> MirrorRecord:
        return self._tools.records.mirror(self._link, self._topic)

    async def _trouble(self, exc: Exception) -> None:
        """A cluster does not answer, or the state cannot be written: repeat the step a little later."""
        if isinstance(exc, BrokerError):
            self._gave_up = self._gave_up or str(exc)
            return
        message = str(exc) or "no answer in time"
        if isinstance(exc, SourceUnreachable):
            if self._unreachable_since is None:
                self._unreachable_since = self._tools.clock()
            self._source_error = message
        if message != self._trouble_told:
            self._trouble_told = message
            self._log.warning("a failback waits", error=message)
        self.waiting_for = message
        await self._tools.sleep(_AGAIN_S)
        self._source = None

    async def _wait(self, _: FailbackStep) -> None:
        await self._tools.sleep(LOOK_AGAIN_S)
        self._source = None
        if self._unreachable_since is not None:
            await self._reach()
            self._unreachable_since, self._source_error = None, ""

    async def _reach(self) -> ClusterAccess:
        """The link's source, after it has answered."""
        access = await self._tools.sources.reach(self._tools.records.link(self._link))
        with source_errors(self._link):
            await access.topics([self._record().source_topic])
        return access

    async def _change(
        self,
        operation: MirrorOperation,
        edited: Callable[[MirrorRecord], MirrorRecord] = lambda record: record,
        **changes: object,
    ) -> None:
        await self._tools.records.change(self._link, self._topic, operation, edited, **changes)

    # -- compare both clusters, prepare the copy ---------------------------------------------------------------

    async def _read_source(self, _: FailbackStep) -> None:
        record = self._record()
        reverses = record.state is MirrorState.PENDING_SYNCHRONIZE
        self._source = await self._tools.destinations.read(record, compared=reverses)
        self._unreachable_since, self._source_error = None, ""

    async def _keep(self, _: FailbackStep) -> None:
        record = self._record()
        source = await self._reach()
        kept = await own_configs(self._tools.target, record, source)
        topic_id = record.source_topic_id
        if record.state is MirrorState.PENDING_SETUP_FOR_RESTORE and self._source is not None:
            topic_id = topic_id or self._source.topic_id  # an older record: name what is to be deleted
        new = replace(record, failback=replace(record.failback, recreate=kept), source_topic_id=topic_id)
        await self._store.replace(record, new)

    async def _prepare(self, _: FailbackStep) -> None:
        include = link_config.parse(self._tools.records.link(self._link).configs).sync_include
        self._copy = await prepare_copy(
            self._tools.target, self._record(), await self._reach(), include, self._tools.door, self._tools.lifted
        )

    async def _restore_configs(self, _: FailbackStep) -> None:
        """After the failback: restore the configs that were lifted on the source topic while it was a copy."""
        await self._reach()
        with source_errors(self._link):
            await self._tools.lifted.restore(self._record())

    # -- reverse -----------------------------------------------------------------------------------------------

    async def _synchronized(self, _: FailbackStep) -> None:
        copy = self._copy
        if copy is None or self._source is None:
            return
        self._tools.progress.forget(self._topic)  # the positions were offsets of the source
        await self._change(MirrorOperation.SYNCHRONIZED, lambda record: synchronized(record, copy))

    async def _abort(self, step: FailbackStep) -> None:
        def aborted(record: MirrorRecord) -> MirrorRecord:
            again = self._unreachable_since is not None
            return with_error(
                not_begun(record, again=again),
                MirrorOperation.REVERSE,
                step.reason,
                self._tools.records.now_ms(),
                self._code(),
            )

        await self._change(MirrorOperation.ABORT_REVERSE, aborted, error_message=step.reason)

    def _code(self) -> TransitionErrorCode:
        """The code of the last error."""
        return TransitionErrorCode.STATE_ERROR if self.trouble is None else code_of(self.trouble)

    # -- truncate-and-restore ----------------------------------------------------------------------------------

    async def _delete(self, _: FailbackStep) -> None:
        record = self._record()
        await delete_old_topic(record, await self._reach(), self._tools.door)
        self._log.info("failback destination deleted", source_topic=record.source_topic)
        await self._tools.sleep(LOOK_AGAIN_S)
        self._source = None

    async def _create(self, _: FailbackStep) -> None:
        await create_topic_anew(self._tools.target, self._record(), await self._reach(), self._tools.door)
        await self._tools.sleep(LOOK_AGAIN_S)
        self._source = None

    async def _recreated(self, _: FailbackStep) -> None:
        source, copy = self._source, self._copy
        if source is None or copy is None:
            return
        self._tools.progress.forget(self._topic)
        new = await store_recreated(self._tools.records, self._record, source, copy)
        self._log.info("mirror state", new=new.state.value)

    async def _fail(self, step: FailbackStep) -> None:
        def failed(record: MirrorRecord) -> MirrorRecord:
            return with_error(record, record.state.value, step.reason, self._tools.records.now_ms(), self._code())

        await self._change(MirrorOperation.FAIL, failed, error=self._error(), error_message=step.reason)

    def _error(self) -> MirrorError:
        if isinstance(self.trouble, CopyGone):
            return MirrorError.TARGET_TOPIC_MAY_BE_DELETED
        return MirrorError.INTERNAL_ERROR

    # -- the mirror begins -------------------------------------------------------------------------------------

    async def _start(self, _: FailbackStep) -> None:
        async with self._tools.locks.hold(f"mirror/{self._topic}"):
            record = self._record()
            if record.state in (MirrorState.PENDING_MIRROR, MirrorState.PENDING_RESTORE_MIRROR):
                self._tools.engine.start_mirror(record)
        if not self._tools.engine.status(self._record()):
            await self._tools.sleep(LOOK_AGAIN_S)  # a job copies the topic until its lease ends

    async def _begin(self, _: FailbackStep) -> None:
        record = self._record()
        changes: dict[str, object] = {"error_message": ""}
        if not record.is_reverse and self._copy is not None:
            changes["restore_configs"] = dict(self._copy.configs.restore)
        paused = record.failback.then_pause and record.state is MirrorState.PENDING_MIRROR
        operation = MirrorOperation.BEGIN_PAUSED if paused else MirrorOperation.BEGIN_MIRROR

        def as_seen(current: MirrorRecord) -> MirrorRecord:
            if current.failback.then_pause is not record.failback.then_pause:
                raise WrongState("an operator has paused or resumed it meanwhile")
            return begun(current)

        await self._change(operation, as_seen, **changes)
        if paused:  # the operator may have paused it while it was starting
            await self._tools.engine.stop_mirror(self._link, self._topic)
