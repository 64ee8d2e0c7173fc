"""What a record may be missing for, or be there twice: a failover left it behind, somebody deleted it, it landed late.

The history is told to the checker without what is excused here: a loss by command is no loss.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Any, Final, NamedTuple

from tests.simulation.recorder import SOURCE, TARGET, Op, Recorder

_ON_ITS_WAY_S: Final = 0.3
"""For so long behind a cutover an answer may come to a client that was given before it."""


class LeftBehind(NamedTuple):
    """What one failover left behind on the source alone, and from which offset on. `until`: in seconds, when the
    source's topic was made anew as a copy of the target's. A client may have written the same records again by then:
    they are on both logs since, and nothing of them is excused any more.
    """

    texts: frozenset[str]
    begin: int
    until: float = inf


class BrokenOff(NamedTuple):
    """From where on the source is nobody's copy, since somebody wrote there. `until`: as `LeftBehind`'s."""

    begin: int
    until: float = inf


class Excused:
    """Of one run. `cutover_at`: key -> when its cutover was seen, in seconds; changes as the run goes on. `ack_both`: a
    gateway tells no success before a record is on both clusters.
    """

    def __init__(self, recorder: Recorder, cutover_at: Mapping[str, float], *, ack_both: bool = False) -> None:
        self._ack_both = ack_both
        self._recorder = recorder
        self._cutover_at = cutover_at
        self._left: dict[str, list[LeftBehind]] = {}  # by key, a failover after the other
        self._deleted: dict[str, set[str]] = {}  # key -> records that somebody deleted where they were written
        self._late: dict[str, set[str]] = {}
        self._nobodys = ""
        self._unread_from = inf
        self._gone: dict[str, float] = {}  # topic -> when its owner deleted it
        self._broken_off: dict[str, list[BrokenOff]] = {}  # by key

    def left_behind(self, key: str, values: Iterable[bytes], begin: int) -> None:
        """A failover leaves these records on the source alone, from offset `begin` on."""
        self._left.setdefault(key, []).append(LeftBehind(frozenset(map(_text, values)), begin))

    def made_anew(self, topic: str, now: float) -> None:
        """The source's log is the target's copy from here on: what was left behind is gone, or was written again."""
        for key, ends in self._broken_off.items():
            if key.rpartition("/")[0] == topic:
                self._broken_off[key] = [each._replace(until=min(each.until, now)) for each in ends]
        for key, left in self._left.items():
            if key.rpartition("/")[0] == topic:
                self._left[key] = [each._replace(until=min(each.until, now)) for each in left]

    def deleted(self, key: str, values: Iterable[bytes | None]) -> None:
        """Records are deleted where their topic is written: they may be anywhere, or nowhere."""
        self._deleted.setdefault(key, set()).update(_text(value) for value in values if value is not None)

    def topic_gone(self, topic: str, now: float) -> None:
        """Its owner has deleted a topic on a cluster."""
        self._unread_from = min(self._unread_from, now)
        self._gone.setdefault(topic, now)

    def is_of_gone(self, op: Op) -> bool:
        """It reads a topic that is gone, or commits for it: nobody goes on with that."""
        return op["f"] in ("poll", "commit") and op["time"] / 1e9 > self._unread_from

    def nobodys(self, producer: str) -> None:
        """What this one writes to the source behind a cutover nobody is to miss, nor to find anywhere else."""
        self._nobodys = f"{producer}:"

    def is_nobodys(self, value: bytes | None) -> bool:
        """It is such a record."""
        return bool(self._nobodys) and value is not None and _text(value).startswith(self._nobodys)

    def broken_off(self, key: str, begin: int) -> None:
        """The mirror back is FAILED by such records: from this offset on the source is nobody's copy."""
        if not self._broken_now(key, inf):
            self._broken_off.setdefault(key, []).append(BrokenOff(begin))

    def is_broken_off(self, topic: str) -> bool:
        """It is, and was not made anew since."""
        return any(self._broken_now(key, inf) for key in self._broken_off if key.rpartition("/")[0] == topic)

    def late(self, key: str, text: str) -> None:
        """A write that was not answered landed on the source behind the cutover."""
        self._late.setdefault(key, set()).add(text)

    def known(
        self, side: str, key: str, records: Sequence[tuple[int, str]], at: float = inf
    ) -> Sequence[tuple[int, str]]:
        """Without what a failover left behind on the source, and what landed there late; without what was deleted.

        `at`: when the records were read, in seconds; at the end unless said otherwise.
        """
        left_out = self._deleted.get(key, set())
        if side == SOURCE:
            left = (each.texts for each in self._left_now(key, at))
            left_out = left_out.union(self._late.get(key, ()), *left)
            if self._nobodys:
                begin = min(self._broken_now(key, at), default=inf)
                records = [each for each in records if each[0] < begin]
                left_out = left_out.union(text for _, text in records if text.startswith(self._nobodys))
        return [each for each in records if each[1] not in left_out] if left_out else records

    def excusing(self, op: Op, kept_from: Mapping[str, float]) -> Op:
        """An acknowledged record that a failover left behind, or retention took, may be there or not.

        What was read and committed there of the former was of a log that nobody goes on with.
        """
        if (self._left or self._nobodys) and op["f"] in ("poll", "commit"):
            return self._without_left(op)
        is_sent = op["type"] == "ok" and op["f"] in ("send", "txn")
        if is_sent and (self._left or self._deleted or self._gone or kept_from):
            for part in op["value"]:
                if part[0] != "send":
                    continue
                key, text = part[1], part[2][1]
                left = self._is_left(key, text) and not self._told_wrongly(op, key)
                gone = left or text in self._deleted.get(key, ())
                gone |= op["time"] / 1e9 <= self._gone.get(key.rpartition("/")[0], -1.0) + _ON_ITS_WAY_S
                if gone or op["time"] < kept_from.get(key, -1):
                    return {**op, "type": "unknown", "value": [_unplaced(each) for each in op["value"]]}
        return op

    def _is_left(self, key: str, text: str) -> bool:
        return any(text in each.texts for each in self._left.get(key, ()))

    def _told_wrongly(self, op: Op, key: str) -> bool:
        """By a gateway, of a record's success behind the failover: then nothing may be left behind there any more. With
        `ack: both` what it tells of at any time may not."""
        if self._recorder.sides.get(op["process"]) != TARGET:
            return False
        return self._ack_both or op["time"] / 1e9 > self._cutover_at.get(key, float("inf")) + _ON_ITS_WAY_S

    def _without_left(self, op: Op) -> Op:
        """On the source: a poll without what a failover left behind; a commit up to there at most."""
        if self._recorder.sides.get(op["process"]) != SOURCE:
            return op
        at = op["time"] / 1e9
        if op["f"] == "poll":
            parts = [
                ["poll", {key: self.known(SOURCE, key, found, at) for key, found in part[1].items()}]
                if len(part) > 1
                else part
                for part in op["value"]
            ]
            return {**op, "value": parts}
        begins = {
            key: [*(each.begin for each in self._left_now(key, at)), *self._broken_now(key, at)] for key in op["value"]
        }
        return {**op, "value": {key: min(offset, *begins[key], offset) for key, offset in op["value"].items()}}

    def _broken_now(self, key: str, at: float) -> list[int]:
        """From where on the source's log was nobody's copy at that time; empty when it was one."""
        return [each.begin for each in self._broken_off.get(key, ()) if at <= each.until]

    def _left_now(self, key: str, at: float) -> Iterator[LeftBehind]:
        """What the source's log has at that time of what a failover left behind."""
        return (each for each in self._left.get(key, ()) if at <= each.until)


def _text(value: bytes) -> str:
    return value.decode(errors="replace")


def _unplaced(part: list[Any]) -> list[Any]:
    """A send of which nobody knows where it is."""
    return [part[0], part[1], part[2][1]] if part[0] == "send" and isinstance(part[2], list) else part
