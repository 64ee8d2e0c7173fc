"""One run of a way back: gather a snapshot, ask `domain/way_back.py` for the step, take it, again.

All I/O of the ways back is here, one method per step. What outlives the process is the record alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace

import structlog

from gateway.control.access import ClusterAccess, TopicInfo
from gateway.control.context import ControlContext, source_errors, target_errors
from gateway.control.errors import Conflict, ControlError, NotFound, SourceUnreachable, TargetUnreachable
from gateway.control.old_source import read_old_source
from gateway.control.promote_run import restore_configs
from gateway.control.source_ends import SourceEnds
from gateway.control.store import ProducerFenced, StoreError
from gateway.domain import link_config
from gateway.domain.mirror_states import MirrorOperation, WrongState, apply
from gateway.domain.records import (
    NOT_PADDED,
    MirrorDirection,
    MirrorError,
    MirrorMode,
    MirrorRecord,
    MirrorState,
    PartitionStart,
    SequenceRecord,
)
from gateway.domain.routing import Phase, RoutingTable
from gateway.domain.topic_configs import SyncedConfigs, config_changes, synced_configs
from gateway.domain.way_back import (
    LOOK_AGAIN_S,
    OldSource,
    WayBackSnapshot,
    WayBackStep,
    WayBackStepKind,
    next_step,
    stopped_at,
)
from gateway.net.errors import BrokerError, NetError
from protocol.errors import ErrorCode

_REPLICAS = "replication.factor"
_AGAIN_S = 0.5
_log = structlog.get_logger("lockgate.way_back")


@dataclass(frozen=True, slots=True, kw_only=True)
class WayBackTools:
    """What every run uses. `patience_s`: how long a reverse waits for a source that does not answer."""

    context: ControlContext
    routing: RoutingTable
    ends: SourceEnds
    patience_s: float = 30.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


class WayBackRun:
    """Brings one topic from whatever step of a way back it is in to the end. `waiting_for` is for `describe`."""

    def __init__(self, tools: WayBackTools, link: str, topic: str) -> None:
        self._tools = tools
        self._context = tools.context
        self._link = link
        self._topic = topic
        self._source: OldSource | None = None
        self._synced: SyncedConfigs | None = None
        self._partitions = 0
        self._starts: tuple[PartitionStart, ...] = ()
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
            prepared=self._synced is not None,
            running=bool(statuses),
            copying=bool(statuses) and all(status.phase == "copying" for status in statuses),
            gave_up=self._gave_up,
        )
        return next_step(snapshot, patience_s=self._tools.patience_s)

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
        self._source = await read_old_source(self._context, self._tools.ends, record)
        self._unreachable_since, self._source_error = None, ""

    async def _keep(self, _: WayBackStep) -> None:
        """Remember what the copy has of configs of its own, before a mirror changes or a deletion takes them.

        Of an old source topic that is gone already, what the target has.
        """
        record, target = self._record(), self._context.target
        if record.state is MirrorState.PENDING_MIRROR:
            access, name = target, record.mirror_topic
        else:
            access, name = await self._reach(), record.source_topic
        replicas_at_most = max(1, access.broker_count())
        with target_errors() if access is target else source_errors(self._link):
            found = (await access.topics([name])).get(name)
            kept = {} if found is None else dict(await access.topic_overrides(name))
        if found is None:
            with target_errors():
                found = await _topic(target, record.mirror_topic)
                kept = dict(await target.topic_overrides(record.mirror_topic))
        kept[_REPLICAS] = str(min(found.replication_factor, replicas_at_most))
        await self._context.store.replace(record, replace(record, recreate=kept))

    async def _prepare(self, _: WayBackStep) -> None:
        """Give the copy the configs that a copy needs, and the partitions that its origin has."""
        record, target = self._record(), self._context.target
        source = await self._reach()
        include = link_config.parse(self._context.link(self._link).configs).sync_include
        origin, copy = (target, source) if record.is_reverse or _to_be_reverse(record) else (source, target)
        names = record.source_topic, record.mirror_topic
        origin_topic, copy_topic = (names[1], names[0]) if origin is target else names
        with target_errors() if origin is target else source_errors(self._link):
            partitions = (await _topic(origin, origin_topic)).partitions
            origin_configs = (await origin.topic_configs([origin_topic]))[origin_topic]
        with source_errors(self._link) if origin is target else target_errors():
            has = (await _topic(copy, copy_topic)).partitions
            if has > partitions:
                raise Conflict(f"topic {copy_topic} has {has} partitions, but is to be a copy of one with {partitions}")
            present = (await copy.topic_configs([copy_topic]))[copy_topic]
            synced = synced_configs(origin_configs, present, include, record.recreate)
            changes = config_changes(synced.apply, present)
            if changes:
                await copy.alter_topic_configs(copy_topic, changes)
            if has < partitions:
                await copy.add_partitions(copy_topic, partitions)
        if record.state is MirrorState.PENDING_SETUP_FOR_RESTORE:
            with target_errors():
                starts = await target.starts(origin_topic, partitions)
            translated = record.mode is MirrorMode.TRANSLATE
            self._starts = tuple(replace(at, pad_to=NOT_PADDED) if translated else at for at in starts)
        self._partitions = partitions
        self._synced = synced

    async def _restore_configs(self, _: WayBackStep) -> None:
        """Home: what was lifted on the source topic while it was a copy is set back."""
        await self._reach()
        with source_errors(self._link):
            await restore_configs(self._context, self._record())

    # -- reverse -----------------------------------------------------------------------------------------------

    async def _synchronized(self, _: WayBackStep) -> None:
        record, synced, source = self._record(), self._synced, self._source
        if synced is None or source is None:
            return
        self._context.progress.forget(self._topic)  # they were offsets of the source
        await self._change(
            MirrorOperation.SYNCHRONIZED,
            direction=MirrorDirection.REVERSE,
            handed_over_at=stopped_at(record, source)[: self._partitions],
            handed_over_from=_filled(record.stopped_copy_at, self._partitions),
            starts=record.starts + (PartitionStart(0, 0),) * (self._partitions - len(record.starts)),
            reverse_starts=(),
            restore_configs=dict(synced.restore),
            recreate={},
            error=MirrorError.NO_ERROR,
            error_message="",
        )

    async def _abort(self, step: WayBackStep) -> None:
        await self._change(MirrorOperation.ABORT_REVERSE, error_message=step.reason, recreate={})

    # -- truncate-and-restore ----------------------------------------------------------------------------------

    async def _delete(self, _: WayBackStep) -> None:
        record = self._record()
        source = await self._reach()
        try:
            with source_errors(self._link):
                await source.delete_topic(record.source_topic)
        except Conflict as exc:
            if not _says(exc, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                raise
        self._log.info("old source topic deleted", source_topic=record.source_topic)
        await self._tools.sleep(LOOK_AGAIN_S)
        self._source = None

    async def _create(self, _: WayBackStep) -> None:
        record = self._record()
        source = await self._reach()
        configs = dict(record.recreate)
        replicas = int(configs.pop(_REPLICAS, "1"))
        with target_errors():
            partitions = (await _topic(self._context.target, record.mirror_topic)).partitions
        try:
            with source_errors(self._link):
                await source.create_topic(record.source_topic, partitions, replicas, configs)
        except Conflict as exc:
            if not _says(exc, ErrorCode.TOPIC_ALREADY_EXISTS):  # the old one is still going
                raise
        await self._tools.sleep(LOOK_AGAIN_S)
        self._source = None

    async def _recreated(self, _: WayBackStep) -> None:
        """A new mirror id: producer ids and offset map of the old copy mean nothing in the new one."""
        source, synced, context = self._source, self._synced, self._context
        if source is None or synced is None:
            return
        context.progress.forget(self._topic)
        async with context.locks.hold("sequence/mirror"):
            old = self._record()
            mirror_id = context.store.sequences.get("mirror", SequenceRecord("mirror", 0)).last + 1
            new = apply(
                MirrorOperation.RECREATED,
                old,
                context.now_ms(),
                mirror_id=mirror_id,
                source_topic_id=source.topic_id,
                starts=(old.starts + self._starts)[: self._partitions],
                reverse_starts=self._starts,
                handed_over_at=(0,) * self._partitions,
                handed_over_from=(),
                restore_configs=dict(synced.restore),
                stopped_at=(),
                stopped_copy_at=(),
                not_mirrored=(),
                recreate={},
                error=MirrorError.NO_ERROR,
                error_message="",
            )

            def unchanged() -> None:
                if self._record() != old:
                    raise WrongState("changed meanwhile")

            await context.store.put(new, SequenceRecord("mirror", mirror_id), guard=unchanged)
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
        if not record.is_reverse and self._synced is not None:
            changes["restore_configs"] = dict(self._synced.restore)
        paused = record.then_pause and record.state is MirrorState.PENDING_MIRROR
        operation = MirrorOperation.BEGIN_PAUSED if paused else MirrorOperation.BEGIN_MIRROR
        await self._change(operation, then_pause=False, recreate={}, **changes)


async def _topic(access: ClusterAccess, name: str) -> TopicInfo:
    found = (await access.topics([name])).get(name)
    if found is None:
        raise Conflict(f"topic {name} does not exist any more")
    return found


def _filled(ends: tuple[int, ...], partitions: int) -> tuple[int, ...]:
    """With 0 for partitions that came later; () where offsets are equal, which says the same."""
    return ends + (0,) * (partitions - len(ends)) if ends else ()


def _to_be_reverse(record: MirrorRecord) -> bool:
    return record.state is MirrorState.PENDING_SYNCHRONIZE


def _says(exc: Conflict, code: ErrorCode) -> bool:
    cause = exc.__cause__
    return isinstance(cause, BrokerError) and cause.code == code
