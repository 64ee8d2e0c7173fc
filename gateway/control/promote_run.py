"""One run of a topic promote: gather a snapshot, ask `domain/promote.py` for the step, take it, again.

One method per step. What is known lives in PromoteMemory; what outlives the process is the record alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import structlog

from gateway.control.errors import Conflict, ControlError, TargetUnreachable
from gateway.control.lifted_configs import restore_configs
from gateway.control.promote_fence import PromoteFence
from gateway.control.promote_gather import Gatherer, PromoteTools
from gateway.control.store import ProducerFenced, StoreConflict, StoreError, StoreUncertain
from gateway.control.until_known import until_known
from gateway.domain.copy_ends import CopyEnds
from gateway.domain.mirror_states import MirrorOperation, apply
from gateway.domain.promote import next_step
from gateway.domain.promote_checks import InvariantViolated
from gateway.domain.promote_memory import PromoteMemory
from gateway.domain.promote_snapshot import Step, StepKind
from gateway.domain.records import MirrorRecord, MirrorState
from gateway.domain.topic_configs import stamps_itself
from gateway.domain.way_home import stopped
from gateway.net.errors import NetError

_AWAIT_MIRROR_S = 0.05  # then the source is read again, so that a bypassing writer shows
_STORE_AGAIN_S = 0.25
_INTERRUPTIBLE = frozenset({StepKind.WAIT, StepKind.FENCE, StepKind.READ_ENDS, StepKind.AWAIT_MIRROR})
"""They only wait, and change nothing that a promote that is given up does not take back."""

_T = TypeVar("_T")
_log = structlog.get_logger("lockgate.promote")


class LeftToTheNext(Conflict):
    """The gateway leaves; whoever leads next goes on with the promote."""


class PromoteRun:
    """Promotes a set of mirror topics of one link. `waiting_for` is for `describe`."""

    def __init__(self, tools: PromoteTools, link: str, topics: Sequence[str], operation: MirrorOperation) -> None:
        self._tools = tools
        self._context = tools.context
        self._link = link
        self._topics = tuple(topics)
        self._operation = operation
        self._memory = PromoteMemory(topics)
        self._gather = Gatherer(tools, link, topics, self._memory)
        self._fence = PromoteFence(tools, link, topics, self._memory)
        self._leaving = ""
        self._log = _log.bind(link=link, topics=list(topics))
        self._interruptible: asyncio.Future[object] | None = None
        self.waiting_for = ""
        self._actions: Mapping[StepKind, Callable[[Step], Coroutine[Any, Any, None]]] = {
            StepKind.MARK_PENDING: self._mark_pending,
            StepKind.WAIT: self._wait,
            StepKind.FENCE: self._hold,
            StepKind.READ_ENDS: self._read_ends,
            StepKind.AWAIT_MIRROR: self._await_mirror,
            StepKind.STOP_MIRROR: self._stop_mirror,
            StepKind.READ_COPY: self._read_copy,
            StepKind.PERSIST_STOPPED: self._persist_stopped,
            StepKind.PUBLISH_SWITCHED: self._publish_switched,
            StepKind.RESTORE_CONFIGS: self._restore_configs,
            StepKind.UNFENCE: self._unfence,
            StepKind.MARK_ACTIVE: self._mark_active,
        }

    async def run(self) -> None:
        """Until all topics are STOPPED.

        Raises:
            Conflict: given up, with the reason; the topics are unfenced and in the state before.
            TargetUnreachable: the state could not be written; nothing was begun.
        """
        try:
            while (step := await self._next()).kind is not StepKind.DONE:
                self.waiting_for = step.reason
                self._stay(step)
                action = self._actions[step.kind](step)
                await (self._unless_ended(action) if step.kind in _INTERRUPTIBLE else action)
        except (ProducerFenced, LeftToTheNext):
            raise  # the successor goes on from the record
        except Exception:
            await self._let_go()
            raise
        if step.reason:  # without one it has flipped, whatever was asked of it meanwhile
            raise Conflict(self._memory.gave_up or step.reason)

    def leave(self, reason: str) -> None:
        """This gateway is about to stop: writes that are held are held to the end of it, none are from now on."""
        self._leaving = reason

    def _stay(self, step: Step) -> None:
        """Raises LeftToTheNext when the gateway leaves and nothing is held yet: the next leader goes on."""
        begins = step.kind in (StepKind.MARK_PENDING, StepKind.WAIT, StepKind.FENCE)
        if self._leaving and begins and self._memory.fenced_at is None:
            raise LeftToTheNext(self._leaving)

    @property
    def committing(self) -> bool:
        """The flip was tried, and what became of it is not known yet."""
        return self._memory.committing

    def end(self, reason: str) -> None:
        """Give up as soon as that can be done, unless it has flipped; `run` returns when it is over."""
        self._memory.give_up(reason)
        if self._interruptible is not None:
            self._interruptible.cancel()

    async def _next(self) -> Step:
        while (snapshot := await self._unless_ended(self._gather.snapshot())) is None:
            continue  # once given up, a snapshot asks nobody
        return next_step(snapshot, self._tools.limits)

    async def _unless_ended(self, work: Coroutine[Any, Any, _T]) -> _T | None:
        """What it returns; None when `end` was called meanwhile."""
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
        """Something went wrong that no step expects: hold no writes for it, once it is known that nothing flipped."""
        if self._memory.committing:
            self._log.error("the promote broke off in its commit; writes stay held until it is known what became of it")
            if not await until_known(self._context.store):
                return  # the next leader knows
            self._memory.committing = False
            if not any(record.state is MirrorState.PENDING_STOPPED for record in self._gather.records()):
                await self._publish_switched(Step(StepKind.PUBLISH_SWITCHED))
                return
        if self._memory.fenced_at is not None:
            self._abort_fence()
            await self._mark_active(Step(StepKind.MARK_ACTIVE, "the promote broke off; see the gateway's log"))

    # -- before the fence ----------------------------------------------------------------------------------

    async def _wait(self, step: Step) -> None:
        await self._tools.sleep(step.delay_s)

    async def _mark_pending(self, _: Step) -> None:
        async with self._context.locks.hold(*(f"mirror/{topic}" for topic in self._topics)):
            old = self._gather.records()
            new = [self._pending(record) for record in old]
            try:
                await self._context.store.put(*new, guard=lambda: self._require_unchanged(old))
            except ProducerFenced:
                raise
            except StoreError as exc:
                resumed = any(record.state is MirrorState.PENDING_STOPPED for record in old)
                if not resumed and not isinstance(exc, StoreConflict | StoreUncertain):
                    raise TargetUnreachable(f"the promote could not be begun: {exc}") from exc
                self._log.info("promote not begun yet", reason=str(exc))
                await self._tools.sleep(_STORE_AGAIN_S)
                return
        for record in new:
            self._memory.marked(record.mirror_topic, record.fence_epoch)
        self._log.info("mirror state", new=MirrorState.PENDING_STOPPED.value)

    def _pending(self, record: MirrorRecord) -> MirrorRecord:
        """The record with the next epoch. One that is PENDING_STOPPED keeps its time: it names its set."""
        epoch = self._context.publisher.next_epoch(record)
        if record.state is MirrorState.PENDING_STOPPED:
            return replace(record, fence_epoch=epoch)
        return apply(self._operation, record, self._context.now_ms(), fence_epoch=epoch)

    def _require_unchanged(self, old: Sequence[MirrorRecord]) -> None:
        if any(self._context.mirror(self._link, record.mirror_topic) != record for record in old):
            raise StoreConflict("the mirror was changed by another operation meanwhile")

    # -- under the fence -----------------------------------------------------------------------------------

    async def _hold(self, _: Step) -> None:
        await self._fence.hold(self._gather.records())

    async def _read_ends(self, step: Step) -> None:
        if step.delay_s:
            await self._tools.sleep(step.delay_s)
        for topic, reading in (await self._gather.read(max(0.01, self._fence.left_s()))).items():
            self._memory.read(topic, reading)

    async def _await_mirror(self, step: Step) -> None:
        await self._gather.mirrored(_AWAIT_MIRROR_S)
        await self._read_ends(step)

    async def _stop_mirror(self, _: Step) -> None:
        engine, link = self._context.engine, self._link
        found: dict[str, CopyEnds] = {}
        for record in self._gather.records():  # before the stop: afterwards the engine knows nothing of the topic
            ends = engine.ends(record)
            if ends is None:
                standing = engine.standing(record)
                self._memory.give_up(
                    f"the mirror of {record.mirror_topic} is not whole under the fence: partitions not mirrored by "
                    f"this gateway {list(standing.absent)}, with producers that are not all known {list(standing.cold)}"
                )
                return
            found[record.mirror_topic] = ends
        try:
            async with asyncio.timeout(max(0.0, self._fence.left_s())):
                await asyncio.gather(*(engine.stop_mirror(link, topic) for topic in self._topics))
        except TimeoutError:
            self._memory.give_up("the mirror's appends to the copy were not answered in time")
            return
        for topic, ends in found.items():
            self._memory.mirror_stopped(topic, ends)

    async def _read_copy(self, step: Step) -> None:
        if step.delay_s:
            await self._tools.sleep(step.delay_s)
        await self._gather.read_copies(max(0.01, self._fence.left_s()))

    async def _persist_stopped(self, _: Step) -> None:
        old = self._gather.records()
        new = [self._stopped(record) for record in old]
        self._memory.committing = True
        try:
            await self._context.store.put(*new, guard=lambda: self._require_unchanged(old))
        except StoreUncertain as exc:
            self._log.warning("whether the flip was persisted is not known yet; writes stay held", reason=str(exc))
            await self._tools.sleep(_STORE_AGAIN_S)
            return
        except ProducerFenced:
            raise
        except StoreError as exc:  # nothing was written
            self._memory.committing = False
            self._log.warning("the flip was not persisted", reason=str(exc))
            await self._tools.sleep(0.01)
            return
        self._memory.committing = False
        await self._restore_timestamp_types()
        await self._publish_switched(Step(StepKind.PUBLISH_SWITCHED))

    async def _restore_timestamp_types(self) -> None:
        """A LogAppendTime topic is one again before it is written to: its routes are held until the fence ends."""
        for record in self._gather.records():
            if stamps_itself(record.restore_configs):
                await self._restored(record)

    def _stopped(self, record: MirrorRecord) -> MirrorRecord:
        handed = self._memory.handed(record.mirror_topic)
        if handed is None:
            raise InvariantViolated(f"flip of {record.mirror_topic} without the answer of its mirror")
        return stopped(record, handed.mirrored, handed.copied, handed.producers, self._context.now_ms())

    # -- after the flip ------------------------------------------------------------------------------------

    async def _publish_switched(self, _: Step) -> None:
        """The store's change has published the routes already; what is left is the mark of the fence."""
        held_s = self._fence.release("stopped")
        if held_s is not None:
            new = MirrorState.PENDING_MIRROR if self._gather.homeward else MirrorState.STOPPED
            self._log.info("mirror state", new=new.value, fenced_ms=round(held_s * 1000, 1))
        if self._gather.homeward:
            for topic in self._topics:
                self._context.progress.forget(topic)  # they were offsets of the target
                self._context.go_on(self._link, topic)

    async def _restore_configs(self, _: Step) -> None:
        for record in self._gather.records():
            if not await self._restored(record):
                self._memory.restore_later = True

    async def _restored(self, record: MirrorRecord) -> bool:
        try:
            await restore_configs(self._context, record)
        except (ControlError, NetError, StoreError, TimeoutError, OSError) as exc:
            self._log.warning("topic configs not restored yet", topic=record.mirror_topic, error=str(exc))
            return False
        return True

    # -- the way back --------------------------------------------------------------------------------------

    async def _unfence(self, step: Step) -> None:
        self._memory.give_up(step.reason)
        self._abort_fence()

    def _abort_fence(self) -> None:
        for topic in self._topics:
            if self._memory.handed(topic) is not None:  # it begins anew, where its copy ends: perhaps further back
                self._context.progress.forget(topic)
        self._fence.release("aborted")
        for record in self._gather.records():
            if record.state is MirrorState.PENDING_STOPPED:
                self._context.engine.start_mirror(record)  # one that runs is left as it is

    async def _mark_active(self, step: Step) -> None:
        self._memory.give_up(step.reason)
        old = [record for record in self._gather.records() if record.state is MirrorState.PENDING_STOPPED]
        now_ms = self._context.now_ms()
        new = [apply(MirrorOperation.ABORT_PROMOTE, record, now_ms, error_message=step.reason) for record in old]
        try:
            await self._context.store.put(*new, guard=lambda: self._require_unchanged(old))
        except ProducerFenced:
            raise
        except StoreError as exc:
            self._log.warning("the end of the promote was not persisted yet", error=str(exc))
            await self._tools.sleep(_STORE_AGAIN_S)
            return
        self._log.warning("mirror state", new=MirrorState.ACTIVE.value, reason=step.reason)
