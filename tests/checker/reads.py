"""Judges the order in which each reader got the records: nothing skipped, nothing again.

Ranks, not offsets, are compared: a log has offset gaps where markers, aborted and compacted records were. The rank of
an offset is the number of known committed records before it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import islice

from tests.checker.model import (
    CommitBegun,
    CommitEnded,
    Model,
    Outcome,
    Poll,
    Process,
    ReaderEvent,
    Reset,
    SideLog,
)
from tests.checker.verdict import DIRECT, Findings


def judge_polls(model: Model, findings: Findings) -> None:
    """Every reader, key by key."""
    for (reader, key), events in model.readers.items():
        _Follower(model, key, reader, findings).follow(events)


class _Follower:
    """Follows one reader (a process, or a group with its members) through one key."""

    def __init__(self, model: Model, key: str, reader: tuple[str, str], findings: Findings) -> None:
        self._model = model
        self._key = key
        self._reader = f"{reader[0]} {reader[1]}"
        self._findings = findings
        self._skips = not model.topic(key).compacted
        self._last: dict[str, int] = {}  # process -> offset it read last, if it must go on from there
        self._opened: set[str] = set()
        self._committed: tuple[str, int] | None = None  # (side, next offset)
        self._possible: dict[tuple[str, int], tuple[str, int]] = {}  # (process, line) -> the same, may be committed
        self._given: dict[str, list[tuple[str, int]]] = {}  # process -> where it might begin when it was assigned

    def follow(self, events: list[ReaderEvent]) -> None:
        """All events, in the order of the history."""
        for event in events:
            match event:
                case Poll():
                    self._polled(event)
                case Reset(process):
                    self._last.pop(process.name, None)
                    self._opened.add(process.name)
                    self._given[process.name] = self._positions(process)
                case CommitBegun(process, line, offset):
                    self._possible[process.name, line] = (process.side, offset)
                case CommitEnded(process, line, outcome):
                    self._commit_ended(process, line, outcome)

    def _commit_ended(self, process: Process, line: int, outcome: Outcome) -> None:
        position = self._possible.get((process.name, line))
        if position is None:
            return  # a later commit of somebody else's was accepted meanwhile
        if outcome is Outcome.FAIL:
            del self._possible[process.name, line]
        elif outcome is Outcome.OK:  # the coordinator takes no commit of an older generation after this one
            self._committed = position
            self._possible = {key: at for key, at in self._possible.items() if key[0] == process.name and key[1] > line}

    def _polled(self, poll: Poll) -> None:
        process, offsets = poll.process, poll.offsets
        log = self._model.log(self._key, process.side)
        last = self._last.get(process.name)
        if last is not None:
            self._step(log, last, offsets[0], poll, "")
        elif process.group is not None and process.commits:
            self._resumed(process, log, offsets[0], poll)
        last = offsets[0]
        for offset in islice(offsets, 1, None):
            if offset != last + 1:
                self._step(log, last, offset, poll, "int-")
            last = offset
        self._last[process.name] = last

    def _step(self, log: SideLog, last: int, offset: int, poll: Poll, prefix: str) -> None:
        """From `last` the reader came to `offset`."""
        if offset == last + 1:
            return
        if offset <= last:
            self._add(f"{prefix}nonmonotonic-poll", poll, f"got offset {offset} after {last}")
        elif self._skips:
            order = log.order
            left_out = order[bisect_right(order, last) : bisect_left(order, offset)]
            if left_out:
                such = f"{len(left_out)} left out, such as {log.values[left_out[0]]!r} at {left_out[0]}"
                self._add(f"{prefix}poll-skip", poll, f"got offset {offset} after {last}; {such}")

    def _resumed(self, process: Process, log: SideLog, offset: int, poll: Poll) -> None:
        """The first read of a member that was given the partition: where the group's commit says."""
        positions = self._positions(process)
        if not positions:
            return
        # Who hangs behind its assignment loses it to another, and may still read where it was to begin.
        positions += self._given.get(process.name, ())
        ranks = [self._rank(position, process.side, log) for position in positions]
        known = [rank for rank in ranks if rank is not None]
        if not known or len(known) < len(ranks):
            return
        rank = bisect_left(log.order, offset)
        if rank < min(known):
            before = f"{min(known) - rank} records before what was committed"
            self._add("nonmonotonic-poll", poll, f"began at offset {offset}, {before}")
        elif rank > max(known) and self._skips:
            left_out = log.order[max(known)]
            after = f"{rank - max(known)} records after what was committed"
            such = f"left out {log.values[left_out]!r} at {left_out}"
            self._add("poll-skip", poll, f"began at offset {offset}, {after}; {such}")

    def _positions(self, process: Process) -> list[tuple[str, int]]:
        """Where a member may begin that fetches the group's offset now; empty when that is not known."""
        if self._committed is not None:
            return [*self._possible.values(), self._committed]
        return [*self._possible.values(), (process.side, 0)] if process.earliest else []

    def _rank(self, position: tuple[str, int], side: str, log: SideLog) -> int | None:
        """The rank on `side` of the first record from a committed position on; None when it cannot be told."""
        committed_on, at = position
        if committed_on == side or at == 0 or self._model.topic(self._key).preserve:
            return bisect_left(log.order, at)
        other = self._model.log(self._key, committed_on)
        before = bisect_left(other.order, at)
        if before == 0:
            return None
        offset = log.offsets.get(other.values[other.order[before - 1]])
        return None if offset is None else bisect_right(log.order, offset)

    def _add(self, name: str, poll: Poll, what: str) -> None:
        """A finding; of a reader behind which there are only brokers it is theirs, and is counted as such."""
        who = self._reader if poll.process.group is None else f"{self._reader} ({poll.process.name})"
        direct = self._model.is_direct(poll.process, poll.line)
        self._findings.add(DIRECT if direct else name, f"{who} in {self._key}, line {poll.line}: {what}")
