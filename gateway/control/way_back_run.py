"""One run of a way back: gather a snapshot, ask `domain/way_back.py` for the step, take it, again.

All I/O of the ways back begins here, one method per step. What outlives the process is the record alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace

import structlog

from gateway.control.access import ClusterAccess
from gateway.control.context import ControlContext, source_errors
from gateway.control.copy_setup import PreparedCopy, create_topic_anew, delete_old_topic, own_configs, prepare_copy
from gateway.control.errors import ControlError, NotFound, SourceUnreachable, TargetUnreachable
from gateway.control.lifted_configs import restore_configs
from gateway.control.old_source import read_old_source
from gateway.control.source_ends import SourceEnds
from gateway.control.store import ProducerFenced, StoreError
from gateway.control.way_back_records import store_recreated, synchronized
from gateway.domain.mirror_states import MirrorOperation, WrongState
from gateway.domain.records import MirrorError, MirrorRecord, MirrorState
from gateway.domain.routing import Phase, RoutingTable
from gateway.domain.way_back import LOOK_AGAIN_S, next_step
from gateway.domain.way_back_snapshot import (
    OldSource,
    WayBackSnapshot,
    WayBackStep,
    WayBackStepKind,
    WayBackViolated,
)
from gateway.net.errors import BrokerError, NetError

_AGAIN_S = 0.5
_log = structlog.get_logger("lockgate.way_back")


@dataclass(frozen=True, slots=True, kw_only=True)
class WayBackTools:
    """What every run uses. `patience_s`: how long a reverse waits for a source that does not answer."""

    context: ControlContext
    routing: RoutingTable
    ends: SourceEnds
    patience_s: float = 30.0
    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


class WayBackRun:
    """Brings one topic from whatever step of a way back it is in to the end. `waiting_for` is for `describe`."""

    def __init__(self, tools: WayBackTools, link: str, topic: str) -> None:
        self._tools = tools
        self._context = tools.context
        self._link = link
        self._topic = topic
        self._source: OldSource | None = None
        self._copy: PreparedCopy | None = None
        self._unreachable_since: float | None = None
        self._source_error = ""
        self._gave_up = ""
        self._trouble_told = ""
        self._log = _log.bind(link=link, topic=topic)
        self.waiting_for = ""
        self._actions: Mapping[WayBackStepKind, Callable[[WayBackStep], Awaitable[None]]] = {
            WayBackStepKind.WAIT: self._wait,
            WayBackStepKind.READ_SOURCE: self._read_source,
            WayBackStepKind.PREPARE: self._prepare,
            WayBackStepKind.RESTORE_CONFIGS: self._restore_configs,
            WayBackStepKind.SYNCHRONIZED: self._synchronized,
            WayBackStepKind.ABORT: self._abort,
            WayBackStepKind.KEEP: self._keep,
            WayBackStepKind.DELETE: self._delete,
            WayBackStepKind.CREATE: self._create,
            WayBackStepKind.RECREATED: self._recreated,
            WayBackStepKind.FAIL: self._fail,
            WayBackStepKind.START: self._start,
            WayBackStepKind.BEGIN: self._begin,
        }

    async def run(self) -> None:
        """Until the topic is in a state that is none of a way back. Trouble is waited out, or ends in the record."""
        while True:
            try:
                step = self._next()
            except NotFound:
                return  # the link was deleted, by force
            if step.kind is WayBackStepKind.DONE:
                break
            self.waiting_for = step.reason
            try:
                await self._actions[step.kind](step)
            except ProducerFenced:
                raise  # the process stops; its successor goes on from the record
            except (SourceUnreachable, TargetUnreachable, NetError, StoreError, TimeoutError, OSError) as exc:
                await self._trouble(exc)
            except WrongState:
                continue  # an operator was faster; the record says what is next
            except ControlError as exc:
                self._gave_up = self._gave_up or str(exc)
            except Exception as exc:
                self._log.exception("a way back broke off")
                if self._gave_up:
                    raise
                self._gave_up = f"{type(exc).__name__}: {exc}"
        self.waiting_for = ""

    def _next(self) -> WayBackStep:
        record = self._record()
        route = self._tools.routing.current.topics.get(self._topic)
        since = self._unreachable_since
        statuses = self._context.engine.status(self._link, self._topic)
        snapshot = WayBackSnapshot(
            record=record,
            phase=Phase.FORWARD if route is None else route.phase,
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
        except WayBackViolated as exc:  # a bug, here or elsewhere: nothing is done until it is over
            if str(exc) != self._trouble_told:
                self._trouble_told = str(exc)
                self._log.error("a way back must not go on", error=str(exc))
            return WayBackStep(WayBackStepKind.WAIT, f"held back, by a bug: {exc}")

    def _record(self) -> MirrorRecord:
        return self._context.mirror(self._link, self._topic)

    async def _trouble(self, exc: Exception) -> None:
        """A cluster does not answer, or the state cannot be written: do the step once more, a little later."""
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
            self._log.warning("a way back waits", error=message)
        self.waiting_for = message
        await self._tools.sleep(_AGAIN_S)
        self._source = None

    async def _wait(self, _: WayBackStep) -> None:
        await self._tools.sleep(LOOK_AGAIN_S)
        self._source = None
        if self._unreachable_since is not None:
            await self._reach()
            self._unreachable_since, self._source_error = None, ""

    async def _reach(self) -> ClusterAccess:
        """The link's source, which answers."""
        access = await self._context.sources.reach(self._context.link(self._link))
        with source_errors(self._link):
            await access.topics([self._record().source_topic])
        return access

    async def _change(self, operation: MirrorOperation, **changes: object) -> None:
        await self._context.change(self._link, self._topic, operation, **changes)

    # -- both clusters compared, the copy prepared -------------------------------------------------------------

    async def _read_source(self, _: WayBackStep) -> None:
        record = self._record()
        reverses = record.state is MirrorState.PENDING_SYNCHRONIZE
        self._source = await read_old_source(self._context, self._tools.ends, record, compared=reverses)
        self._unreachable_since, self._source_error = None, ""

    async def _keep(self, _: WayBackStep) -> None:
        record = self._record()
        source = await self._reach()
        kept = await own_configs(self._context, record, source)
        topic_id = record.source_topic_id
        if record.state is MirrorState.PENDING_SETUP_FOR_RESTORE and self._source is not None:
            topic_id = topic_id or self._source.topic_id  # of an older version: what is deleted is named before
        await self._context.store.replace(record, replace(record, recreate=kept, source_topic_id=topic_id))

    async def _prepare(self, _: WayBackStep) -> None:
        self._copy = await prepare_copy(self._context, self._record(), await self._reach())

    async def _restore_configs(self, _: WayBackStep) -> None:
        """Home: what was lifted on the source topic while it was a copy is set back."""
        await self._reach()
        with source_errors(self._link):
            await restore_configs(self._context, self._record())

    # -- reverse -----------------------------------------------------------------------------------------------

    async def _synchronized(self, _: WayBackStep) -> None:
        record, copy = self._record(), self._copy
        if copy is None or self._source is None:
            return
        self._context.progress.forget(self._topic)  # they were offsets of the source
        await self._change(MirrorOperation.SYNCHRONIZED, **synchronized(record, copy))

    async def _abort(self, step: WayBackStep) -> None:
        await self._change(MirrorOperation.ABORT_REVERSE, error_message=step.reason, recreate={})

    # -- truncate-and-restore ----------------------------------------------------------------------------------

    async def _delete(self, _: WayBackStep) -> None:
        record = self._record()
        await delete_old_topic(self._context, record, await self._reach())
        self._log.info("old source topic deleted", source_topic=record.source_topic)
        await self._tools.sleep(LOOK_AGAIN_S)
        self._source = None

    async def _create(self, _: WayBackStep) -> None:
        await create_topic_anew(self._context, self._record(), await self._reach())
        await self._tools.sleep(LOOK_AGAIN_S)
        self._source = None

    async def _recreated(self, _: WayBackStep) -> None:
        source, copy = self._source, self._copy
        if source is None or copy is None:
            return
        self._context.progress.forget(self._topic)
        new = await store_recreated(self._context, self._record, source, copy)
        self._log.info("mirror state", new=new.state.value)

    async def _fail(self, step: WayBackStep) -> None:
        await self._change(MirrorOperation.FAIL, error=MirrorError.INTERNAL_ERROR, error_message=step.reason)

    # -- the mirror begins -------------------------------------------------------------------------------------

    async def _start(self, _: WayBackStep) -> None:
        async with self._context.locks.hold(f"mirror/{self._topic}"):
            record = self._record()
            if record.state in (MirrorState.PENDING_MIRROR, MirrorState.PENDING_RESTORE_MIRROR):
                self._context.engine.start_mirror(record)
        if not self._context.engine.status(self._link, self._topic):
            await self._tools.sleep(LOOK_AGAIN_S)  # a job copies the topic: its lease will end

    async def _begin(self, _: WayBackStep) -> None:
        record = self._record()
        changes: dict[str, object] = {"error_message": ""}
        if not record.is_reverse and self._copy is not None:
            changes["restore_configs"] = dict(self._copy.configs.restore)
        paused = record.then_pause and record.state is MirrorState.PENDING_MIRROR
        operation = MirrorOperation.BEGIN_PAUSED if paused else MirrorOperation.BEGIN_MIRROR
        await self._change(operation, then_pause=False, recreate={}, **changes)
