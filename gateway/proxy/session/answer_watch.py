"""Looks at some of the answers to clients, for the stop rule `client_errors_percent` of migrations.

Answers of a promoted topic pass untouched, and nobody counts errors in them. While a leader asks (`watch`, again and
again, as for a lease) some of them are looked at on their way: one in so many, which is chosen so that some hundred a
second are. One that is looked at stands for all since the one before. While nobody asks, sessions have no watch.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import structlog

from gateway.cutover.write_pause.rules.routing import RoutingTable
from gateway.migration.rules.answer_window import AnswerWindow
from gateway.migration.rules.client_errors import GROUP, TOPIC, AnswerCount, Name
from gateway.proxy.rules.answer_errors import LOOKED_AT, errors_by_topic
from gateway.proxy.session.exchange import Exchange
from protocol.apis import ApiKey, is_flexible
from protocol.errors import MalformedFrame
from protocol.peek import first_string
from protocol.wire import Buffer

_log = structlog.get_logger("lockgate.proxy")
KEPT_S: Final = 30.0
"""For how long a watch goes on that nobody asks for again."""
LOOKS_PER_S: Final = 200
"""Answers that are looked at in a second, about; of one process."""
_OFFSET_COMMIT: Final = int(ApiKey.OFFSET_COMMIT)


class _Asked(NamedTuple):
    """Of one migration. `version`: of the names. `until`: monotonic seconds."""

    version: str
    names: frozenset[Name]
    until: float


class AnswerWatch:
    """Of one process.

    Args:
        switch: told whether answers are to be looked at from now on.
        rng: which answers are looked at: a fixed step would go in step with clients.
    """

    def __init__(
        self,
        *,
        routing: RoutingTable,
        clock: Callable[[], float],
        rng: random.Random,
        switch: Callable[[bool], None] = lambda on: None,
    ) -> None:
        self._routing = routing
        self._clock = clock
        self._rng = rng
        self._switch = switch
        self._asked: dict[str, _Asked] = {}
        self._names: frozenset[Name] = frozenset()
        self._window = AnswerWindow()
        self._step = 1
        self._gap = 1
        self._passed = 0  # answers since the last one that was looked at
        self._second = self._clock()  # when the step was chosen, and since then:
        self._answers = self._looks = 0

    # -- for the leader ------------------------------------------------------------------------------------

    def watch(self, migration: str, version: str, names: frozenset[Name] | None) -> bool:
        """Watch these for `KEPT_S`. `names`: None when they are to be known by their version. False: they are not."""
        now, before = self._clock(), self._asked.get(migration)
        if names is None:
            if before is None or before.version != version:
                return False
            names = before.names
        self._asked[migration] = _Asked(version, names, now + KEPT_S)
        self._look_who_asks(now)
        return True

    def sums(self, migration: str, seconds: float) -> Mapping[Name, AnswerCount]:
        """What was seen of the names of a migration in the last `seconds`."""
        asked = self._asked.get(migration)
        return {} if asked is None else self._window.sums(asked.names, self._clock(), seconds)

    def _look_who_asks(self, now: float) -> None:
        self._asked = {name: one for name, one in self._asked.items() if one.until > now}
        names = frozenset().union(*(one.names for one in self._asked.values()))
        if names == self._names:
            return
        self._names = names
        self._window.keep(names)
        self._switch(bool(names))

    # -- for sessions --------------------------------------------------------------------------------------

    def look(self, client_id: str | None, exchange: Exchange, response: Buffer) -> None:
        """An answer that is on its way to a client, with its size in front; it may be cut off. Never raises."""
        if exchange.api_key not in LOOKED_AT:
            return
        self._passed += 1
        if self._passed < self._gap:
            return
        try:
            self._look(client_id, exchange, response)
        except Exception as error:  # noqa: BLE001 - what is only counted must not cost a client its connection
            _log.exception("an answer could not be looked at", api=exchange.api_key, error=repr(error))
            self._asked.clear()
            self._look_who_asks(self._clock())

    def _look(self, client_id: str | None, exchange: Exchange, response: Buffer) -> None:
        answers, self._passed = self._passed, 0
        now = self._clock()
        self._choose_gap(answers, now)
        found = self._found(exchange, errors_by_topic(exchange.api_key, exchange.api_version, response))
        if found:
            self._window.add(found.items(), answers, client_id, now)

    def _choose_gap(self, answers: int, now: float) -> None:
        """How many answers are left out before the next one is looked at; at random, `step` in the mean."""
        self._answers += answers
        self._looks += 1
        elapsed = now - self._second
        if elapsed >= 1.0:
            self._step = max(1, round(self._answers / elapsed / LOOKS_PER_S))
            self._second, self._answers, self._looks = now, 0, 0
            self._look_who_asks(now)
        elif self._looks >= LOOKS_PER_S:  # more than in the second before: not all of them until it is over
            self._step *= 2
            self._looks = 0
        self._gap = 1 if self._step == 1 else self._rng.randint(1, 2 * self._step - 1)

    def _found(self, exchange: Exchange, errors: Mapping[str | bytes, int]) -> dict[Name, int]:
        """Of what is watched: its error, or 0. Of a commit it is the group, where that is known."""
        if exchange.api_key == _OFFSET_COMMIT and errors:
            group = Name(GROUP, _group_of(exchange))
            if group in self._names:
                return {group: next((code for code in errors.values() if code), 0)}
        ids = self._routing.current.topic_ids
        found: dict[Name, int] = {}
        for topic, code in errors.items():
            name = Name(TOPIC, ids.get(topic, "") if isinstance(topic, bytes) else topic)
            if name in self._names:
                found[name] = code
        return found


def _group_of(exchange: Exchange) -> str:
    """The group of an OffsetCommit whose request was collected; ''."""
    try:
        return first_string(exchange.body, is_flexible(exchange.api_key, exchange.api_version)) or ""
    except MalformedFrame:
        return ""
