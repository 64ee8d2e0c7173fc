"""One run of a topic promote: gather a snapshot, ask `cutover/promote/rules/promote.py` for the step, take it, repeat.

One method per step. PromoteMemory has what the run knows; only the record outlives the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import structlog

from gateway.cutover.failback.rules.failback_promote import stopped
from gateway.cutover.promote.gather import Gatherer, OthersOnly, PromoteTools
from gateway.cutover.promote.group_steps import GroupSteps
from gateway.cutover.promote.pause import DECIDE, PromotePause
from gateway.cutover.promote.rehearsal import PauseRehearsed, stalls_under
from gateway.cutover.promote.rules.call_off import WAS_CALLED_OFF
from gateway.cutover.promote.rules.checks import InvariantViolated
from gateway.cutover.promote.rules.memory import PromoteMemory
from gateway.cutover.promote.rules.promote import REHEARSAL, next_step
from gateway.cutover.promote.rules.snapshot import PromoteStep, StepKind
from gateway.errors import Conflict, TargetUnreachable
from gateway.kafka.rules.names import some_of
from gateway.kafka.rules.topic_configs import stamps_itself
from gateway.mirror.rules.copy_ends import CopyEnds
from gateway.operations.running_mirrors import run_as
from gateway.state.link_config import parse
from gateway.state.mirror_states import MirrorOperation, apply
from gateway.state.promote_sets import is_called_off, name_of, topics_as
from gateway.state.records import MirrorRecord, MirrorState, ThenReverse
from gateway.state.store import ProducerFenced, StoreConflict, StoreError, StoreUncertain, until_known
from gateway.state.transition_errors import with_error
from gateway.topics.lifted_configs import WAITS_FOR_STAMPS

_AWAIT_MIRROR_S = 0.05  # then the source is read again, so that direct writes show
_STORE_AGAIN_S = 0.25
_CONFIGS_MAY_BE_MISSING = "configs that changed right before the promote may be missing, as they could not be read"
_INTERRUPTIBLE = frozenset(
    {
        StepKind.WAIT,
        StepKind.READ_CONFIGS,
        StepKind.SYNC_ACLS,
        StepKind.PAUSE_WRITES,
        StepKind.READ_ENDS,
        StepKind.AWAIT_MIRROR,
        StepKind.LOOK_AT_GROUPS,
        StepKind.HOLD_GROUPS,
    }
)
"""These steps only wait, and change nothing that giving up does not take back. ACLs follow the records."""

_BEGINS = frozenset(
    {
        StepKind.MARK_PENDING,
        StepKind.WAIT,
        StepKind.READ_CONFIGS,
        StepKind.LOOK_AT_GROUPS,
        StepKind.HOLD_GROUPS,
        StepKind.PAUSE_WRITES,
    }
)
"""Before these steps nothing is held: a gateway that stops leaves them to the next leader."""

_T = TypeVar("_T")
_log = structlog.get_logger("lockgate.promote")


class LeftToTheNext(Conflict):
    """This gateway is stopping; the next leader continues the promote."""


class PromoteRun:
    """Promotes a set of mirror topics of one link. `waiting_for` is for `describe`.

    `then_reverse`: what the leader does once they are STOPPED. `groups`: mirror groups that change sides with them.
    `rehearses`: the run goes back where it would cut over, and leaves no error in the records.

    Attributes:
        rehearsed: the write pause of a rehearsal; None before its end, or without one.
        has_cut_over: nothing is taken back any more; the remaining steps follow from the cutover.
    """

    def __init__(
        self,
        tools: PromoteTools,
        link: str,
        topics: Sequence[str],
        operation: MirrorOperation,
        then_reverse: ThenReverse = ThenReverse.NO,
        *,
        groups: Sequence[str] = (),
        rehearses: bool = False,
        keeps: OthersOnly | None = None,
    ) -> None:
        self._tools = tools
        self._store = tools.records.store
        self._link = link
        self._topics = tuple(topics)
        self._operation = operation
        self._then_reverse = then_reverse
        self._memory = PromoteMemory(topics, rehearses=rehearses)
        self.rehearsed: PauseRehearsed | None = None
        forced = operation is MirrorOperation.FORCE_PROMOTE
        self._gather = Gatherer(tools, link, topics, self._memory, groups=groups, forced=forced, keeps=keeps)
        self._group_names = tuple(map(name_of, groups))
        self._pause = PromotePause(tools, link, topics, self._memory)
        self._groups = GroupSteps(tools, topics, self._gather, self._memory, self._pause)
        self._leaving = ""
        self._log = _log.bind(link=link, topics=some_of(topics))
        self._interruptible: asyncio.Future[object] | None = None
        self._configs: asyncio.Task[None] | None = None  # read under the write pause, in parallel
        self.waiting_for = ""
        self.has_cut_over = False
        self._actions: Mapping[StepKind, Callable[[PromoteStep], Coroutine[Any, Any, None]]] = {
            StepKind.MARK_PENDING: self._mark_pending,
            StepKind.WAIT: self._wait,
            StepKind.READ_CONFIGS: self._read_configs,
            StepKind.SYNC_ACLS: self._sync_acls,
            StepKind.PAUSE_WRITES: self._pause_writes,
            StepKind.READ_ENDS: self._read_ends,
            StepKind.AWAIT_MIRROR: self._await_mirror,
            StepKind.STOP_MIRROR: self._stop_mirror,
            StepKind.READ_COPY: self._read_copy,
            StepKind.LOOK_AT_GROUPS: self._groups.look,
            StepKind.HOLD_GROUPS: self._groups.hold,
            StepKind.SHUT_GATES: self._groups.shut,
            StepKind.READ_GROUPS: self._groups.read,
            StepKind.COMMIT_GROUPS: self._groups.commit,
            StepKind.CHECK_GROUPS: self._groups.check,
            StepKind.PERSIST_STOPPED: self._persist_stopped,
            StepKind.PUBLISH_SWITCHED: self._publish_switched,
            StepKind.RESTORE_CONFIGS: self._restore_configs,
            StepKind.RESUME_WRITES: self._resume_writes,
            StepKind.MARK_ACTIVE: self._mark_active,
        }

    async def run(self) -> None:
        """Run until all topics are STOPPED.

        Raises:
            Conflict: given up, with the reason; writes go on, and the topics are in their former state.
            TargetUnreachable: the state could not be written; nothing was begun.
        """
        try:
            if parse(self._tools.records.link(self._link).configs).acl_sync and not self._memory.rehearses:
                self._memory.acls_follow()
            while (step := await self._next()).kind is not StepKind.DONE:
                self.waiting_for = step.reason
                self._stay(step)
                action = self._actions[step.kind](step)
                self._pause.enter(step.kind.value)
                await (self._unless_ended(action) if step.kind in _INTERRUPTIBLE else action)
                self._pause.enter(DECIDE)
        except (ProducerFenced, LeftToTheNext):
            raise  # the next leader continues from the record
        except Exception:
            await self._let_go()
            raise
        finally:
            self._end_configs()
            if self._gather.groups is not None:
                self._gather.groups.release()
        if step.reason:  # without a reason it has cut over, even if it was told to end meanwhile
            raise Conflict(self._memory.gave_up or step.reason)

    def leave(self, reason: str) -> None:
        """This gateway is about to stop: finish a write pause that has begun, but begin none."""
        self._leaving = reason

    def _stay(self, step: PromoteStep) -> None:
        """Raises LeftToTheNext when this gateway stops before a write pause: the next leader continues."""
        begins = step.kind in _BEGINS
        if self._leaving and begins and self._memory.paused_at is None:
            raise LeftToTheNext(self._leaving)

    @property
    def committing(self) -> bool:
        """The cutover was tried, and its outcome is not known yet."""
        return self._memory.committing

    def end(self, reason: str) -> None:
        """Give up as soon as possible, unless it has cut over; `run` returns when the run is over."""
        self._memory.give_up(reason)
        if self._interruptible is not None:
            self._interruptible.cancel()

    async def _next(self) -> PromoteStep:
        while (snapshot := await self._unless_ended(self._gather.snapshot())) is None:
            continue  # once given up, a snapshot asks no cluster
        return next_step(snapshot, self._tools.limits)

    async def _unless_ended(self, work: Coroutine[Any, Any, _T]) -> _T | None:
        """The result of `work`; None when `end` was called meanwhile."""
        task = asyncio.create_task(work, name="promote step")
        self._interruptible = task  # type: ignore[assignment]  # only to be cancelled
        try:
            return await task
        except asyncio.CancelledError:
            run = asyncio.current_task()
            if run is not None and run.cancelling():
                raise
            return None
        finally:
            self._interruptible = None

    async def _let_go(self) -> None:
        """After an unexpected error: resume writes, once it is known that nothing cut over."""
        if self._memory.committing:
            self._log.error(
                "the promote broke off in its commit; writes stay paused until it is known what became of it"
            )
            if not await until_known(self._store):
                return  # the next leader knows
            self._memory.committing = False
            if not any(record.state is MirrorState.PENDING_STOPPED for record in self._gather.records()):
                await self._publish_switched(PromoteStep(StepKind.PUBLISH_SWITCHED))
                return
        if self._memory.paused_at is not None:
            self._abort_pause()
        if any(record.state is MirrorState.PENDING_STOPPED for record in self._gather.records()):
            await self._mark_active(PromoteStep(StepKind.MARK_ACTIVE, "the promote broke off; see the gateway's log"))

    # -- before the write pause ----------------------------------------------------------------------------------

    async def _wait(self, step: PromoteStep) -> None:
        await self._tools.sleep(step.delay_s)

    async def _read_configs(self, step: PromoteStep) -> None:
        if step.delay_s:
            await self._tools.sleep(step.delay_s)
        await self._gather.read_configs()
        if self._memory.config_error:
            self._log.warning("the topic configs of the origin were not read", error=self._memory.config_error)

    async def _sync_acls(self, step: PromoteStep) -> None:
        if step.delay_s:
            await self._tools.sleep(step.delay_s)
        await self._gather.sync_acls()
        if self._memory.acl_error:
            self._log.warning("the ACLs of the target are not up to date", error=self._memory.acl_error)

    async def _mark_pending(self, _: PromoteStep) -> None:
        async with self._tools.locks.hold(*(f"mirror/{topic}" for topic in self._topics)):
            old = self._gather.records()
            epochs = self._tools.publisher.next_epoch
            marked = [replace(one, cutover=replace(one.cutover, pause_epoch=epochs(one))) for one in old]
            names = (*topics_as(marked), *((REHEARSAL,) if self._memory.rehearses else self._group_names))
            new = [self._pending(record, names) for record in marked]
            try:
                await self._store.put(*new, guard=lambda: self._require_as_seen(old))
            except ProducerFenced:
                raise
            except StoreError as exc:
                resumed = any(record.state is MirrorState.PENDING_STOPPED for record in old)
                if not resumed and not isinstance(exc, StoreConflict | StoreUncertain):
                    raise TargetUnreachable(f"the promote could not be begun: {exc}") from exc
                self._log.info("promote not begun yet", reason=str(exc))
                await self._tools.sleep(_STORE_AGAIN_S)
                return
            for record in new:  # an earlier write of added partitions may have had an unknown outcome until now
                await run_as(self._tools.engine, record)
        for record in new:
            self._memory.marked(record.mirror_topic, record.cutover.pause_epoch)
        self._log.info("mirror state", new=MirrorState.PENDING_STOPPED.value)

    def _pending(self, record: MirrorRecord, names: tuple[str, ...]) -> MirrorRecord:
        """The PENDING_STOPPED record of a record with the next epoch. One already PENDING_STOPPED keeps its set."""
        if record.state is MirrorState.PENDING_STOPPED:
            return record
        cutover = replace(record.cutover, promoted_with=names, then_reverse=self._then_reverse)
        return apply(self._operation, record, self._tools.records.now_ms(), cutover=cutover)

    def _require_as_seen(self, old: Sequence[MirrorRecord]) -> None:
        """Raises if a record has changed. A promote does not begin on a paused link; one that had begun continues."""
        self._require_unchanged(old)
        begins = any(record.state is not MirrorState.PENDING_STOPPED for record in old)
        if begins and parse(self._tools.records.link(self._link).configs).paused:
            raise Conflict(f"link '{self._link}' is paused; resume it first: lockgate link resume {self._link}")

    def _require_unchanged(self, old: Sequence[MirrorRecord]) -> None:
        if any(self._tools.records.mirror(self._link, record.mirror_topic) != record for record in old):
            raise StoreConflict("the mirror was changed by another operation meanwhile")

    # -- under the write pause -----------------------------------------------------------------------------------

    async def _pause_writes(self, _: PromoteStep) -> None:
        if self._configs is None:  # no step waits for it; it counts if done by the cutover
            reading = self._gather.read_configs(max(0.01, self._pause.left_s()))
            self._configs = asyncio.create_task(reading, name="last topic configs")
        await self._pause.pause(self._gather.records())

    async def _read_ends(self, step: PromoteStep) -> None:
        if step.delay_s:
            await self._tools.sleep(step.delay_s)
        for topic, reading in (await self._gather.read(max(0.01, self._pause.left_s()))).items():
            self._memory.read(topic, reading)

    async def _await_mirror(self, step: PromoteStep) -> None:
        await self._gather.mirrored(_AWAIT_MIRROR_S)
        await self._read_ends(step)

    async def _stop_mirror(self, _: PromoteStep) -> None:
        engine, link = self._tools.engine, self._link
        found: dict[str, CopyEnds] = {}
        for record in self._gather.records():  # before the stop: afterwards the engine does not know the topic
            ends = engine.ends(record)
            if ends is None:
                running_partitions = engine.running_partitions(record)
                self._memory.give_up(
                    f"the mirror of {record.mirror_topic} is not whole under the write pause: partitions not "
                    f"mirrored by "
                    f"this gateway {list(running_partitions.absent)}, with producers that are not all known "
                    f"{list(running_partitions.cold)}"
                )
                return
            found[record.mirror_topic] = ends
        try:
            async with asyncio.timeout(max(0.0, self._pause.left_s())):
                await asyncio.gather(*(engine.stop_mirror(link, topic) for topic in self._topics))
        except TimeoutError:
            self._memory.give_up("the mirror's appends to the copy were not answered in time")
            return
        for topic, ends in found.items():
            self._memory.mirror_stopped(topic, ends)

    async def _read_copy(self, step: PromoteStep) -> None:
        if step.delay_s:
            await self._tools.sleep(step.delay_s)
        await self._gather.read_copies(max(0.01, self._pause.left_s()))

    async def _persist_stopped(self, _: PromoteStep) -> None:
        self._end_configs()
        old = self._gather.records()
        new = [self._stopped(record) for record in old]
        moving = self._gather.groups
        changes = moving.changes() if moving is not None else ()

        def as_seen() -> None:
            self._require_unchanged(old)
            if any(map(is_called_off, old)):  # since the step was decided, or while its outcome was unknown
                raise StoreConflict("the promote was called off meanwhile")
            if moving is not None:
                moving.require_as_seen([before for before, _ in changes])

        self._memory.committing = True
        try:
            await self._store.put(*new, *(after for _, after in changes), guard=as_seen)
        except StoreUncertain as exc:
            self._log.warning("whether the cutover was persisted is not known yet; writes stay paused", reason=str(exc))
            await self._tools.sleep(_STORE_AGAIN_S)
            return
        except ProducerFenced:
            raise
        except StoreError as exc:  # nothing was written
            self._memory.committing = False
            self._log.warning("the cutover was not persisted", reason=str(exc))
            await self._tools.sleep(0.01)
            return
        self._memory.committing, self.has_cut_over = False, True
        await self._restore_timestamp_types()
        await self._publish_switched(PromoteStep(StepKind.PUBLISH_SWITCHED))

    async def _restore_timestamp_types(self) -> None:
        """Make a LogAppendTime topic one again before its first write: by the record every gateway holds its writes."""
        if waiting := [record for record in self._gather.records() if record.cutover.unstamped]:
            self.waiting_for = WAITS_FOR_STAMPS
            await self._restored(waiting)

    def _stopped(self, record: MirrorRecord) -> MirrorRecord:
        handed = self._memory.handed(record.mirror_topic)
        if handed is None:
            raise InvariantViolated(f"cutover of {record.mirror_topic} without the answer of its mirror")
        new = stopped(record, handed.mirrored, handed.copied, handed.producers, self._tools.records.now_ms())
        keep_ms = 0 if record.is_reverse else self._tools.keep_ms(record)
        until_ms = new.cutover.at_ms + keep_ms if keep_ms else 0
        restore, missing = self._memory.restore_of(record.mirror_topic), self._memory.config_error
        restored = record.restore_configs if restore is None else dict(restore)
        return replace(
            new,
            restore_configs=restored,
            cutover=replace(new.cutover, unstamped=stamps_itself(restored), undo_until_ms=until_ms),
            error_message=f"{_CONFIGS_MAY_BE_MISSING}: {missing}" if missing else new.error_message,
        )

    def _end_configs(self) -> None:
        """Stop reading configs: it is too late for them."""
        if self._configs is not None and not self._configs.done():
            self._configs.cancel()

    # -- after the cutover ------------------------------------------------------------------------------------

    async def _publish_switched(self, _: PromoteStep) -> None:
        """Release the write pause. The store's change has already published the routes."""
        self.has_cut_over = True
        paused_s = self._pause.release("stopped")
        if self._gather.groups is not None:
            self._gather.groups.by_records()
            self._gather.groups.release()
        if paused_s is not None:
            new = MirrorState.PENDING_MIRROR if self._gather.is_failback else MirrorState.STOPPED
            self._log.info("mirror state", new=new.value)
        if self._gather.is_failback:
            for topic in self._topics:
                self._tools.progress.forget(topic)  # the positions were offsets of the target
                self._tools.go_on(self._link, topic)

    async def _restore_configs(self, _: PromoteStep) -> None:
        if not await self._restored(self._gather.records()):
            self._memory.restore_later = True

    async def _restored(self, records: Sequence[MirrorRecord]) -> bool:
        try:
            late = await self._tools.lifted.restore_all(records)
        except StoreError as exc:
            self._log.warning("topic configs not restored yet", error=str(exc))
            return False
        for error in list(late.values())[:1]:
            self._log.warning("topic configs not restored yet", late=some_of(late), error=str(error))
        return not late

    # -- giving up -----------------------------------------------------------------------------------------

    async def _resume_writes(self, step: PromoteStep) -> None:
        self._memory.give_up(step.reason)
        pauses = self._pause.in_force
        paused_s = self._abort_pause()
        if self._memory.rehearses and paused_s is not None:
            self.rehearsed = PauseRehearsed(paused_s, *await stalls_under(self._tools.pauses, pauses))

    def _abort_pause(self) -> float | None:
        """End the pause and restart the mirrors. Returns how many seconds writes were paused; None: not at all."""
        for topic in self._topics:
            if self._memory.handed(topic) is not None:  # it resumes from its copy's end, perhaps further back
                self._tools.progress.begins_anew(topic)
        paused_s = self._pause.release("rehearsed" if self._memory.rehearses else "aborted")
        if self._gather.groups is not None:
            self._gather.groups.resumed()
        for record in self._gather.records():
            if record.state is MirrorState.PENDING_STOPPED:
                self._tools.engine.start_mirror(record)  # does nothing if it runs
        return paused_s

    async def _mark_active(self, step: PromoteStep) -> None:
        self._memory.give_up(step.reason)
        old = [record for record in self._gather.records() if record.state is MirrorState.PENDING_STOPPED]
        now_ms = self._tools.records.now_ms()
        new = [self._given_up(record, step.reason, now_ms) for record in old]
        try:
            await self._store.put(*new, guard=lambda: self._require_unchanged(old))
        except ProducerFenced:
            raise
        except StoreError as exc:
            self._log.warning("the end of the promote was not persisted yet", error=str(exc))
            await self._tools.sleep(_STORE_AGAIN_S)
            return
        log = self._log.info if self._is_asked_for(step.reason) else self._log.warning
        log("mirror state", new=MirrorState.ACTIVE.value, reason=step.reason)

    def _is_asked_for(self, reason: str) -> bool:
        """A rehearsal, however it ended, leaves no error behind, nor does a promote that was called off."""
        return self._memory.rehearses or reason == WAS_CALLED_OFF

    def _given_up(self, record: MirrorRecord, reason: str, now_ms: int) -> MirrorRecord:
        if self._is_asked_for(reason):
            return apply(MirrorOperation.ABORT_PROMOTE, record, now_ms)
        new = apply(MirrorOperation.ABORT_PROMOTE, record, now_ms, error_message=reason)
        return with_error(new, self._operation, reason, now_ms)
