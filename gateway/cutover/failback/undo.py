"""Undo: begins, keeps and ends mirrors back as `rules/undo.py` decides, and fails topics back on request.

The leader looks once a second. It uses the operations that people use: a reverse, a pause, a failover, a failback
promote. Between two looks only the record is kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import structlog

from gateway.cutover.failback.operations import Failbacks
from gateway.cutover.failback.rules.undo import UndoSnapshot, UndoStep, UndoStepKind, UndoViolated, next_step
from gateway.cutover.failback.rules.undo_asked import why_not_undone
from gateway.errors import BadRequest, Conflict, ControlError, NotFound, SourceUnreachable, TargetUnreachable
from gateway.kafka.connection.errors import NetError
from gateway.operations.partners import TopicPromoter
from gateway.operations.records import Records
from gateway.state.link_config import parse
from gateway.state.mirror_states import MirrorOperation, WrongState
from gateway.state.records import MirrorDirection, MirrorRecord, MirrorState, Undo
from gateway.state.store import ProducerFenced, StoreConflict, StoreError
from gateway.state.transition_errors import code_of, with_error
from gateway.topics.lifted_configs import LiftedConfigs
from gateway.topics.mirrors import Mirrors, MirrorView

_AT_ONCE: Final = 8
"""How many topics' steps run in parallel."""
_AGAIN_S: Final = 5.0
"""The time between two tries of a step that a cluster has not answered."""
_UNANSWERED: Final = (SourceUnreachable, TargetUnreachable, NetError, StoreError, TimeoutError, OSError)
_K = UndoStepKind
_log = structlog.get_logger("lockgate.failback")

Tells = Callable[[MirrorRecord, str], Awaitable[None]]
"""Receives the new state of an undo: OPEN or OVER."""


async def nobody_listens(record: MirrorRecord, what: str) -> None:
    """Ignores the state."""


@dataclass(slots=True)
class _Trouble:
    """A topic's step that got no answer. `since`, `again`: monotonic seconds."""

    since: float
    again: float
    message: str


class Undos:
    """The undos of all links. `clock`: monotonic seconds."""

    def __init__(
        self,
        *,
        records: Records,
        mirrors: Mirrors,
        failbacks: Failbacks,
        lifted: LiftedConfigs,
        promoter: TopicPromoter,
        clock: Callable[[], float],
        tells: Tells = nobody_listens,
        claimed: Callable[[MirrorRecord], Sequence[str]] = lambda record: (),
    ) -> None:
        """`promoter`: checks what keeps topics from failing back. `claimed`: migrations that would promote the topic
        again afterwards."""
        self._records = records
        self._store = records.store
        self._mirrors = mirrors
        self._failbacks = failbacks
        self._lifted = lifted
        self._promoter = promoter
        self._clock = clock
        self._tells = tells
        self._claimed = claimed
        self._looked = -1
        self._next_ms = 0
        self._troubles: dict[tuple[str, str], _Trouble] = {}
        self._waits: dict[tuple[str, str], str] = {}

    # -- on request ----------------------------------------------------------------------------------------------

    async def undo(
        self,
        link: str,
        topics: Sequence[str],
        *,
        groups: Sequence[str] = (),
        migration: str = "",
        keep_late: bool = False,
        validate_only: bool = False,
    ) -> Sequence[MirrorView]:
        """Fail the topics back as one set, under one write pause; it continues after this returns.

        `groups`: mirror groups that change sides with them. `migration`: the one that asks for it.
        `keep_late`: keep direct writes to the source in place, if possible.

        Raises:
            BadRequest, NotFound, WrongState, Conflict: refused, with the remedy; nothing was begun.
            SourceUnreachable: whether there were direct writes to the source is unknown.
        """
        names = list(dict.fromkeys(topics))
        if not names:
            raise BadRequest("no topic was named")
        # before the states: if late writes made a mirror FAIL, the error is about them
        await self._promoter.require_no_late_writes(link, names, keep=keep_late)
        for name in names:
            record = self._records.mirror(link, name)
            if reason := why_not_undone(record):
                raise Conflict(f"mirror topic '{name}' {reason}")
            if others := [one for one in self._claimed(record) if one != migration]:
                raise Conflict(
                    f"migration '{others[0]}' is RUNNING and would promote mirror topic '{name}' again: "
                    f"lockgate migration undo {others[0]}, or pause it first"
                )
        if validate_only:
            for name in names:
                self._mirrors.require_promotable(link, name, direction=MirrorDirection.REVERSE)
            await self._promoter.check(link, names, groups=groups, keep_late=keep_late)
            return [self._mirrors.view(self._records.mirror(link, name)) for name in names]
        return await self._mirrors.promote(
            link, names, groups=groups, direction=MirrorDirection.REVERSE, keep_late=keep_late
        )

    def waiting_for(self, link: str, topic: str) -> str:
        """What an undo of the topic waits for, before it begins or at its end; '' when it does not."""
        return self._waits.get((link, topic), "")

    # -- automatically -------------------------------------------------------------------------------------------

    async def look(self) -> None:
        """Once a second: take the steps that are due. Costs nothing while no record changes and no time is over."""
        now_ms = self._records.now_ms()
        if self._store.applied == self._looked and now_ms < self._next_ms:
            return
        self._looked, self._next_ms = self._store.applied, now_ms + 3_600_000
        due = []
        for record in list(self._store.mirrors.values()):
            step = self._step(record, now_ms)
            if step.kind is not _K.DONE:
                due.append((record, step))
            elif record.cutover.undo is Undo.OPEN:
                self._next_ms = min(self._next_ms, max(record.cutover.undo_until_ms, now_ms))
        keys = {(record.link, record.mirror_topic) for record, _ in due}
        self._troubles = {key: trouble for key, trouble in self._troubles.items() if key in keys}
        self._waits = {key: wait for key, wait in self._waits.items() if key in keys}
        if due:
            self._next_ms = now_ms  # look again until none is left
            slots = asyncio.Semaphore(_AT_ONCE)
            await asyncio.gather(*(self._take(record, step, slots) for record, step in due))

    def _step(self, record: MirrorRecord, now_ms: int) -> UndoStep:
        stopped = record.state is MirrorState.STOPPED and record.cutover.undo is Undo.NONE
        trouble = self._troubles.get((record.link, record.mirror_topic))
        snapshot = UndoSnapshot(
            record=record,
            now_ms=now_ms,
            held=self._held(record) if stopped else "",
            troubled_s=0.0 if trouble is None else self._clock() - trouble.since,
        )
        try:
            return next_step(snapshot)
        except UndoViolated as exc:  # a bug, here or elsewhere: take no step until it is over
            _log.error("an undo must not go on", error=str(exc))
            return UndoStep(_K.WAIT, f"held back, by a bug: {exc}")

    def _held(self, record: MirrorRecord) -> str:
        if self._mirrors.promoting(record.link, record.mirror_topic):
            return "its promote is not over yet"  # it still restores configs
        link = self._store.links.get(record.link)
        if link is None:
            return "its link is gone"
        return f"its link is paused; lockgate link resume {link.name}" if parse(link.configs).paused else ""

    async def _take(self, record: MirrorRecord, step: UndoStep, slots: asyncio.Semaphore) -> None:
        key, now = (record.link, record.mirror_topic), self._clock()
        if step.kind is _K.WAIT:
            self._waits[key] = f"the undo waits: {step.reason}"
            return
        trouble = self._troubles.get(key)
        if trouble is not None and now < trouble.again and step.kind is not _K.STOP:
            return
        try:
            async with slots:
                await self._actions[step.kind](self, record)
        except ProducerFenced:
            return  # another gateway leads now
        except (NotFound, StoreConflict):
            return  # another operation was faster; the record says what is next
        except _UNANSWERED as exc:
            message = str(exc) or "no answer in time"
            since = now if trouble is None else trouble.since
            self._troubles[key] = _Trouble(since, self._clock() + _AGAIN_S, message)
            self._waits[key] = f"the undo waits: {message}"
        except (ControlError, WrongState) as exc:
            await self._refused(record, step, exc)
        else:
            self._troubles.pop(key, None)
            self._waits.pop(key, None)

    async def _start(self, record: MirrorRecord) -> None:
        until = record.cutover.undo_until_ms
        await self._failbacks.reverse(record.link, [record.mirror_topic], undo_until_ms=until)
        _log.info("undo is open", link=record.link, topic=record.mirror_topic, until_ms=until)
        await self._tells(self._records.mirror(record.link, record.mirror_topic), "OPEN")

    async def _mark(self, record: MirrorRecord) -> None:
        new = replace(record, cutover=replace(record.cutover, undo=Undo.OVER))
        await self._store.replace(record, new)
        _log.info("the time for an undo is over", link=record.link, topic=record.mirror_topic)
        await self._tells(new, "OVER")

    async def _pause(self, record: MirrorRecord) -> None:
        await self._mirrors.pause(record.link, record.mirror_topic)

    async def _restore_configs(self, record: MirrorRecord) -> None:
        await self._lifted.restore(record)

    async def _stop(self, record: MirrorRecord) -> None:
        left = ", ".join(sorted(record.restore_configs))
        await self._failbacks.failover(record.link, [record.mirror_topic])
        if left:
            _log.warning("the source topic keeps configs of a copy", topic=record.source_topic, configs=left)
            await self._note(record, f"topic {record.source_topic} on the source keeps configs of a copy: {left}")

    _actions: Final[Mapping[UndoStepKind, Callable[[Undos, MirrorRecord], Awaitable[None]]]] = {
        _K.START: _start,
        _K.MARK: _mark,
        _K.PAUSE: _pause,
        _K.RESTORE_CONFIGS: _restore_configs,
        _K.STOP: _stop,
    }

    async def _refused(self, record: MirrorRecord, step: UndoStep, reason: Exception) -> None:
        """A refused start is not tried again; a refused step of the end is."""
        text = str(reason) or type(reason).__name__
        key = record.link, record.mirror_topic
        if step.kind is not _K.START:
            trouble = self._troubles.get(key)
            since = self._clock() if trouble is None else trouble.since
            self._troubles[key] = _Trouble(since, self._clock() + _AGAIN_S, text)
            self._waits[key] = f"the undo waits: {text}"
            return
        _log.warning("promoted, and there is no undo", link=record.link, topic=record.mirror_topic, reason=text)
        until = record.cutover.undo_until_ms
        await self._note(record, text, code=reason, undo=Undo.REFUSED, until=until)

    async def _note(
        self,
        record: MirrorRecord,
        text: str,
        *,
        code: Exception | None = None,
        undo: Undo = Undo.NONE,
        until: int = 0,
    ) -> None:
        """Note the text in the topic's transition errors, if it is STOPPED now."""
        current = self._store.mirrors.get((record.link, record.mirror_topic))
        if current is None or current.state is not MirrorState.STOPPED:
            return
        why = code or Conflict(text)
        new = with_error(current, MirrorOperation.REVERSE, text, self._records.now_ms(), code_of(why))
        if undo is not Undo.NONE:
            new = replace(new, cutover=replace(new.cutover, undo=undo, undo_until_ms=until))
        try:
            await self._store.replace(current, new)
        except StoreError as exc:
            _log.info("what became of an undo is not stored yet", reason=str(exc))
