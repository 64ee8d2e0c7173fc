"""What a history says, sorted by what it is said of: logs by key and side, writes by key, readers. Values only."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from itertools import pairwise
from typing import Any, NamedTuple

Value = str | int
NEVER = 1 << 62  # a line number after every other


class HistoryError(Exception):
    """The history is not of the documented form; the message names the line."""


class Outcome(IntEnum):
    """How a write ended."""

    UNKNOWN = 0
    OK = 1
    FAIL = 2


class Write:
    """One record that was sent. `invoked` and `ended` are line numbers."""

    __slots__ = ("ended", "invoked", "outcome")

    def __init__(self, invoked: int) -> None:
        self.invoked = invoked
        self.ended = NEVER
        self.outcome = Outcome.UNKNOWN


class SideLog:
    """A partition's log on one side, as far as readers of committed data and acknowledgements told.

    `values` by offset and `offsets` by record are each other's inverse but for faults. `told`: what acknowledgements
    said; at the end, those that nobody contradicted are put to the others. `seen`: line of the first
    read, by record. `final`: what the log held at the end, read in `pieces` of (start, end).
    """

    __slots__ = ("_order", "_sorted_at", "final", "offsets", "pieces", "seen", "told", "values")

    def __init__(self) -> None:
        self.values: dict[int, Value] = {}
        self.offsets: dict[Value, int] = {}
        self.told: dict[Value, int] = {}
        self.seen: dict[Value, int] = {}
        self.final: set[Value] = set()
        self.pieces: list[tuple[int, int]] = []
        self._order: list[int] = []
        self._sorted_at = -1

    @property
    def order(self) -> list[int]:
        """Every known offset, ascending."""
        if self._sorted_at != len(self.values):
            self._order = sorted(self.values)
            self._sorted_at = len(self.values)
        return self._order

    @property
    def complete(self) -> bool:
        """True when the whole log was read at the end.

        Raises:
            HistoryError: the pieces do not join up.
        """
        pieces = sorted(self.pieces)
        for (_, end), (start, _) in pairwise(pieces):
            if start > end:
                raise HistoryError(f"the final log has an offset gap from {end} to {start}")
        return bool(pieces)

    @property
    def start(self) -> int:
        """Where the log began when it was read at the end: what was before was deleted by retention."""
        return min((start for start, _ in self.pieces), default=0)


@dataclass(slots=True)
class Process:
    """A client, as its `open` said."""

    name: str
    side: str = ""
    group: str | None = None
    earliest: bool = False
    committed_only: bool = True
    ordered: bool = True
    commits: bool = True

    @property
    def reader(self) -> tuple[str, str]:
        """Whose position a poll moves: the group's, or the process's own."""
        return ("process", self.name) if self.group is None else ("group", self.group)


class Poll(NamedTuple):
    """What one operation read of a key: offsets in the order of the answer."""

    process: Process
    line: int
    offsets: list[int]


class Reset(NamedTuple):
    """The process's position in the key is not what it was: assigned, revoked, or an operation without an answer."""

    process: Process


class CommitBegun(NamedTuple):
    """A commit was sent."""

    process: Process
    line: int
    offset: int


class CommitEnded(NamedTuple):
    """A commit was answered, or never will be. `line` is its `invoke`'s."""

    process: Process
    line: int
    outcome: Outcome


ReaderEvent = Poll | Reset | CommitBegun | CommitEnded


class Change(NamedTuple):
    """A cutover of a key or a move of a group. Lines of `invoke` and `ok`; `ended` is NEVER when it is not known."""

    to: str
    invoked: int
    ended: int


@dataclass(slots=True)
class Topic:
    """What `setup` says of a topic."""

    preserve: bool = False
    compacted: bool = False


@dataclass(slots=True)
class Model:
    """Everything a history says."""

    home: str = ""
    topics: dict[str, Topic] = field(default_factory=dict)
    group_homes: dict[str, str] = field(default_factory=dict)
    migrates: bool = False  # `setup` named a home: sides of groups and partitions are judged
    logs: dict[str, dict[str, SideLog]] = field(default_factory=dict)  # key -> side
    writes: dict[str, dict[Value, Write]] = field(default_factory=dict)  # key -> record
    sends: dict[tuple[str, str], list[Value]] = field(default_factory=dict)  # (process, key), ordered processes only
    readers: dict[tuple[tuple[str, str], str], list[ReaderEvent]] = field(default_factory=dict)
    cutovers: dict[str, list[Change]] = field(default_factory=dict)
    processes: dict[str, Process] = field(default_factory=dict)
    operations: dict[str, int] = field(default_factory=lambda: {"ok": 0, "fail": 0, "unknown": 0})
    resent: set[tuple[str, Value]] = field(default_factory=set)  # (key, record)
    mirrored: dict[str, tuple[str, str]] = field(
        default_factory=dict
    )  # key -> (origin, copy) that was level at the end
    nemeses: int = 0
    direct: str = ""  # `setup`: clients of this side talk to its brokers, until their group is first seen elsewhere
    left: dict[str, int] = field(default_factory=dict)  # group -> the line of its first member elsewhere

    def log(self, key: str, side: str) -> SideLog:
        """The key's log on a side."""
        sides = self.logs.setdefault(key, {})
        found = sides.get(side)
        if found is None:
            found = sides[side] = SideLog()
        return found

    def is_direct(self, process: Process, line: int) -> bool:
        """Whether a member's group was with the brokers of `direct` alone up to this line."""
        return process.side == self.direct and process.group is not None and line < self.left.get(process.group, NEVER)

    def topic(self, key: str) -> Topic:
        """The settings of a key's topic."""
        return self.topics.get(key.rpartition("/")[0]) or Topic()

    def home_of(self, key: str) -> str | None:
        """The side on which the key is written at the end; None while a cutover may or may not have happened."""
        home: str | None = self.home
        for cutover in self.cutovers.get(key, ()):
            home = cutover.to if cutover.ended != NEVER else (cutover.to if home == cutover.to else None)
        return home


Op = dict[str, Any]
