"""Calls promotes off: first in the record, so that no leader continues them, then the run; then waits for the end.

The topics named by `rules/call_off.py` go back as one. Paused writes resume on the former cluster. A promote without a
record yet is known to this process alone: it is called off when its run is over.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

import structlog

from gateway.cutover.promote.rules.call_off import WAS_CALLED_OFF, goes_back, why_not
from gateway.cutover.promote.run import PromoteRun
from gateway.cutover.write_pause.rules.routing_build import written_on_target
from gateway.errors import BadRequest, Conflict, TargetUnreachable
from gateway.operations.records import Records
from gateway.state.promote_sets import called_off, groups_among, is_called_off
from gateway.state.records import MirrorRecord, MirrorState
from gateway.state.store import ProducerFenced, StoreConflict, StoreError, StoreUncertain
from gateway.transport.locks import KeyedLocks

_log = structlog.get_logger("lockgate.promote")

Key = tuple[str, str]

GivesUp = Callable[[str, tuple[str, ...], tuple[str, ...]], Awaitable[None]]
"""(link, topics, groups): gives up a promote that is in the records and has no run here."""


class Claim(NamedTuple):
    """A requested promote. `run`: None while its checks are made."""

    topics: tuple[str, ...]
    run: PromoteRun | None


class CallOffs:
    """The call-offs of one promoter.

    Args:
        claims: its promotes; `changed` is notified of changes.
        within_s: how long to wait until the topics are back.
    """

    def __init__(
        self,
        *,
        records: Records,
        locks: KeyedLocks,
        claims: Mapping[Key, Claim],
        changed: asyncio.Condition,
        gives_up: GivesUp,
        within_s: float,
    ) -> None:
        self._records = records
        self._store = records.store
        self._locks = locks
        self._claims = claims
        self._changed = changed
        self._gives_up = gives_up
        self._within_s = within_s
        self._asked: Counter[Key] = Counter()

    def is_asked(self, link: str, topics: Sequence[str]) -> bool:
        """One of the topics is being called off: a run that begins now must end immediately."""
        return any(self._asked[link, topic] for topic in topics)

    def require_none(self, link: str, topics: Sequence[str]) -> None:
        """Keep a new promote from beginning while an earlier one of the topic is being called off.

        Raises:
            Conflict: one of them is being called off.
        """
        if asked := [topic for topic in topics if self._asked[link, topic]]:
            raise Conflict(f"the last promote of mirror topic '{asked[0]}' is being called off; ask again in a moment")

    def plan(self, link: str, topics: Sequence[str]) -> Sequence[str]:
        """The mirror topics that would go back; see `call_off` for what it raises. Changes nothing."""
        if not topics:
            raise BadRequest("no topic was named whose promote is to be called off")
        named = [self._records.mirror(link, name) for name in dict.fromkeys(topics)]
        begun = {
            topic: claim.topics
            for (of_link, topic), claim in self._claims.items()
            if of_link == link and (claim.run is None or not claim.run.has_cut_over)
        }
        return goes_back(named, [one for one in self._store.mirrors.values() if one.link == link], begun)

    async def call_off(self, link: str, topics: Sequence[str]) -> Sequence[str]:
        """Call off the promotes of these topics and of their sets; returns all their names once they are back.

        A topic whose record says that it is called off, and that is not back in time, goes back later automatically.

        Raises:
            BadRequest: no topic. NotFound: no such link, or mirror.
            Conflict: one of them is not being promoted, or has just cut over; or its end is not known yet.
            TargetUnreachable: it could not be stored, so the promote goes on.
        """
        names = self.plan(link, topics)
        before = {name: written_on_target(self._records.mirror(link, name)) for name in names}
        keys = [(link, name) for name in names]
        self._asked.update(keys)
        _log.info("promote is called off", link=link, topics=names)
        try:
            async with asyncio.timeout(self._within_s):
                await self._back(link, names)
        except TimeoutError:
            _log.warning("a promote that was called off is not back yet", link=link, topics=names)
        finally:
            self._asked.subtract(keys)
            self._asked += Counter()  # drops zero counts
        self._require_back(link, names, before)
        return names

    async def _back(self, link: str, names: Sequence[str]) -> None:
        while True:
            pending = await self._marked(link, names)
            runs = [claim.run for name in names if (claim := self._claims.get((link, name))) is not None]
            for run in filter(None, runs):
                run.end(WAS_CALLED_OFF)
            if runs:
                async with self._changed:
                    await self._changed.wait_for(lambda: not any((link, name) in self._claims for name in names))
            elif pending:
                sets = {mirror.cutover.promoted_with for mirror in pending}
                for one in sets:
                    left = tuple(m.mirror_topic for m in pending if m.cutover.promoted_with == one)
                    await self._gives_up(link, left, groups_among(one))
            else:
                return

    async def _marked(self, link: str, names: Sequence[str]) -> Sequence[MirrorRecord]:
        """Write into the records of running promotes that they are called off. Returns these records."""
        async with self._locks.hold(*(f"mirror/{name}" for name in names)):
            while pending := self._pending(link, names):
                old = [mirror for mirror in pending if not is_called_off(mirror)]
                if not old:
                    break
                try:
                    await self._store.put(*map(called_off, old), guard=self._store.unchanged(old))
                except StoreConflict:
                    continue  # it has cut over, or is back
                except ProducerFenced:
                    raise
                except StoreUncertain as exc:
                    raise TargetUnreachable(
                        f"whether the promote is called off is not known, ask again: {exc}"
                    ) from exc
                except StoreError as exc:
                    raise TargetUnreachable(f"the promote could not be called off, and goes on: {exc}") from exc
            return pending

    def _pending(self, link: str, names: Sequence[str]) -> Sequence[MirrorRecord]:
        found = [self._store.mirrors.get((link, name)) for name in names]
        return [one for one in found if one is not None and one.state is MirrorState.PENDING_STOPPED]

    def _require_back(self, link: str, names: Sequence[str], before: Mapping[str, bool]) -> None:
        for name in names:
            mirror = self._records.mirror(link, name)
            if written_on_target(mirror) is not before[name]:
                raise Conflict(why_not(mirror))
            claim = self._claims.get((link, name))
            under_way = mirror.state is MirrorState.PENDING_STOPPED or claim is not None
            if under_way and not is_called_off(mirror):
                raise Conflict(
                    f"the promote of mirror topic '{name}' is not called off yet, and may cut over; ask again"
                )
