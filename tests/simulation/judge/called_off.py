"""Whether a promote that was called off has stayed so: the answer of whoever was asked, against the records.

A promote of a topic is told from the next one by its records: it begins where one is PENDING_STOPPED that was not, and
ends where it is so no more. What was asked for and has no record yet when it is called off is the next one, if no
other request for a promote can have begun that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from gateway.state.records import MirrorRecord, MirrorState
from tests.simulation.judge.findings import Findings
from tests.simulation.judge.state import side_of
from tests.simulation.recorder import SOURCE, TARGET

_IS_NOT: Final = re.compile(r"mirror topic '([^']+)' is (?:promoted already|not being promoted).* written on the (\w+)")


class CallOffAsked(NamedTuple):
    """How things stood when a promote was called off.

    sides: topic -> where it was written. under_way: topic -> the number of its promote, by its records. begun: topic ->
    how many there had been. requests: for promotes, until then; `alone`: one of them is not answered yet. seen: how
    many records; lost: how often the state had been lost.
    """

    sides: Mapping[str, str]
    under_way: Mapping[str, int]
    begun: Mapping[str, int]
    requests: int
    alone: bool
    seen: int
    lost: int


@dataclass
class CallOffClaims:
    """What was said of promotes that were called off. `requests`: for promotes, that the operator has sent by now."""

    findings: Findings
    requests: int = 0
    _begun: dict[str, int] = field(default_factory=dict)
    _now: dict[str, tuple[str, bool]] = field(default_factory=dict)  # where it is written; whether it is at rest
    _requests_at: dict[tuple[str, int], int] = field(default_factory=dict)
    _ended: dict[tuple[str, int], str] = field(default_factory=dict)  # on which side
    _off: list[tuple[CallOffAsked, str]] = field(default_factory=list)
    _rested: list[tuple[str, str]] = field(default_factory=list)  # topics, and the side, by record; "" under a promote
    _lost: int = 0

    def seen(self, before: MirrorRecord | None, said: MirrorRecord, now: float) -> None:
        """A record of a mirror; in their order."""
        topic, side = said.mirror_topic, side_of(said)
        was = before is not None and before.state is MirrorState.PENDING_STOPPED
        pends = said.state is MirrorState.PENDING_STOPPED
        if pends and not was:
            self._begun[topic] = self._begun.get(topic, 0) + 1
            self._requests_at[topic, self._begun[topic]] = self.requests
        elif was and not pends and not said.cutover.not_mirrored:
            self._ended[topic, self._begun.get(topic, 0)] = side
        self._now[topic] = side, not pends
        self._rested.append((topic, "" if pends else side))
        self._judge(now)

    def state_lost(self) -> None:
        """With the last records, perhaps those of what was said: nobody is held to it."""
        self._lost += 1
        self._off.clear()

    def asked(self, open_requests: int) -> CallOffAsked:
        """A promote is called off now. `open_requests`: for promotes, that were not answered."""
        return CallOffAsked(
            {topic: side for topic, (side, _) in self._now.items()},
            {topic: self._begun.get(topic, 0) for topic, (_, rests) in self._now.items() if not rests},
            dict(self._begun),
            self.requests,
            open_requests == 1,
            len(self._rested),
            self._lost,
        )

    def called_off(self, asked: CallOffAsked, topics: Sequence[str], now: float) -> None:
        """That is what was said of these topics: the promote of then cuts none of them over."""
        if asked.lost == self._lost:
            self._off += [(asked, topic) for topic in topics if topic in asked.sides]
            self._judge(now)

    def is_so(self, asked: CallOffAsked, topic: str, side: str) -> bool:
        """The topic was seen where it is said to be written, and not being promoted, then or later."""
        at_rest = topic not in asked.under_way and asked.sides.get(topic) == side
        return at_rest or asked.lost != self._lost or (topic, side) in self._rested[asked.seen :]

    def wrong(self, topic: str, what: str, now: float) -> None:
        """What was said was not so."""
        self.findings.add("claims_wrong", topic, what, now)

    def _judge(self, now: float) -> None:
        for asked, topic in self._off:
            side = asked.sides[topic]
            for number in self._meant(asked, topic):
                if self._ended.get((topic, number), side) != side:
                    self.wrong(topic, f"its promote number {number} was said to be called off, and has cut over", now)

    def _meant(self, asked: CallOffAsked, topic: str) -> Iterator[int]:
        if topic in asked.under_way:
            yield asked.under_way[topic]
        elif asked.alone:
            following = asked.begun.get(topic, 0) + 1
            if self._requests_at.get((topic, following)) == asked.requests:
                yield following


def said_to_be(answer: Any) -> tuple[str, str] | None:
    """The topic, and where it is written, in the answer that there is nothing to call off; None in any other."""
    message = answer.get("message", "") if isinstance(answer, dict) else ""
    found = _IS_NOT.search(message)
    return (found[1], TARGET if found[2] == "target" else SOURCE) if found else None
