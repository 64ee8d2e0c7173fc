"""The reverse of topics that are still mirrored: first the promote, then the reverse, as one operation.

The promote's first step stores that a reverse follows (`then_reverse` in the record). The leader, this gateway or the
next one, continues when the topic is STOPPED. A promote that is given up drops the intent. If the reverse is refused,
or the source has not answered for `PATIENCE_S`, the topic stays STOPPED, and its transition errors say why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

import structlog

from gateway.cutover.failback.operations import Failbacks
from gateway.errors import BadRequest, Conflict, ControlError, NotFound, SourceUnreachable, TargetUnreachable
from gateway.operations.records import Records
from gateway.state.mirror_states import MirrorOperation, WrongState, require_same_bytes
from gateway.state.records import MirrorDirection, MirrorRecord, MirrorState, ThenReverse
from gateway.state.store import StateStore, StoreError
from gateway.state.transition_errors import code_of, with_error
from gateway.topics.mirrors import Mirrors

PATIENCE_S: Final = 300.0
"""As long as a link is retried before it counts as failed (`cluster.link.retry.timeout.ms`)."""

_log = structlog.get_logger("lockgate.failback")


class Reversals:
    """Promotes and reverses topics. `clock`: monotonic seconds."""

    def __init__(self, *, records: Records, mirrors: Mirrors, failbacks: Failbacks, clock: Callable[[], float]) -> None:
        self._records = records
        self._store: StateStore = records.store
        self._mirrors = mirrors
        self._failbacks = failbacks
        self._clock = clock
        self._since: dict[tuple[str, str], float] = {}
        self._looked = -1
        self._waits: dict[tuple[str, str], str] = {}

    async def reverse(
        self, link: str, topics: Sequence[str], *, pause: bool = False, force: bool = False
    ) -> Sequence[MirrorRecord]:
        """Reverse STOPPED topics, or promote and then reverse mirrored ones; it continues after this returns.

        `force`: for the promote. All topics must be of one kind.

        Raises:
            BadRequest, NotFound, WrongState, Conflict, SourceUnreachable, TargetUnreachable: nothing was begun.
        """
        if not topics:
            raise BadRequest("no topic was named")
        names = list(dict.fromkeys(topics))
        records = [self._records.mirror(link, name) for name in names]
        require_one_kind(records)
        if records[0].state is MirrorState.STOPPED:
            return await self._failbacks.reverse(link, names, pause=pause)
        for record in records:
            require_same_bytes(record)
            if record.is_reverse:
                raise WrongState(f"mirror topic '{record.mirror_topic}' is mirrored back already ({record.state})")
        then = ThenReverse.PAUSE if pause else ThenReverse.START
        views = await self._mirrors.promote(
            link, names, force=force, direction=MirrorDirection.FORWARD, then_reverse=then
        )
        self._looked = -1
        return [view.record for view in views]

    def waiting_for(self, link: str, topic: str) -> str:
        """What the reverse after a promote waits for; '' when there is none."""
        return self._waits.get((link, topic), "")

    async def look(self) -> None:
        """Once a second: reverse the topics whose promote asked for it. Costs nothing while no record changes."""
        due = [record for record in self._store.mirrors.values() if _is_due(record)] if self._has_news() else []
        for record in due:
            await self._go_on(record)
        keys = {(record.link, record.mirror_topic) for record in due}
        self._since = {key: since for key, since in self._since.items() if key in keys}
        self._waits = {key: wait for key, wait in self._waits.items() if key in keys}
        if due:
            self._looked = -1  # look again until none is left

    def _has_news(self) -> bool:
        looked, self._looked = self._looked, self._store.applied
        return looked != self._looked

    async def _go_on(self, record: MirrorRecord) -> None:
        key = record.link, record.mirror_topic
        since = self._since.setdefault(key, self._clock())
        try:
            pause = record.cutover.then_reverse is ThenReverse.PAUSE
            await self._failbacks.reverse(record.link, [record.mirror_topic], pause=pause)
        except (SourceUnreachable, TargetUnreachable, StoreError, TimeoutError, OSError) as exc:
            self._waits[key] = f"the reverse waits: {str(exc) or 'no answer in time'}"
            if self._clock() - since >= PATIENCE_S:
                await self._give_up(record, exc)
        except NotFound:
            return
        except (ControlError, WrongState) as exc:
            await self._give_up(record, exc)

    async def _give_up(self, record: MirrorRecord, reason: Exception) -> None:
        current = self._store.mirrors.get((record.link, record.mirror_topic))
        if current is None or not _is_due(current):
            return
        text = str(reason) or type(reason).__name__
        _log.warning("promoted, but not reversed", link=record.link, topic=record.mirror_topic, reason=text)
        now_ms = self._records.now_ms()
        new = with_error(current, MirrorOperation.REVERSE, text, now_ms, code_of(reason))
        new = replace(new, cutover=replace(new.cutover, then_reverse=ThenReverse.NO), error_message=text)
        try:
            await self._store.replace(current, new)
        except StoreError as exc:
            _log.info("the end of a reverse is not stored yet", reason=str(exc))


def require_one_kind(records: Iterable[MirrorRecord]) -> None:
    """Raises Conflict when some of the topics are STOPPED, and others must be promoted first."""
    of_kind = {record.state is MirrorState.STOPPED: record.mirror_topic for record in records}
    if len(of_kind) > 1:
        raise Conflict(
            f"mirror topic '{of_kind[True]}' is STOPPED, '{of_kind[False]}' is to be promoted first: reverse them one "
            "after the other"
        )


def _is_due(record: MirrorRecord) -> bool:
    return record.state is MirrorState.STOPPED and record.cutover.then_reverse is not ThenReverse.NO
