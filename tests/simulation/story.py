"""A run as a story: what happened, where, in the order of the virtual clock. Two runs of one seed tell the same one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

QUIET: Final = frozenset({"listening", "assigned"})


class Line(NamedTuple):
    """`at`: virtual seconds since the run began. `who`: the node."""

    at: float
    who: str
    what: str

    def __str__(self) -> str:
        return f"{self.at:10.4f}  {self.who:<12} {self.what}"


class Story:
    """Collects lines. `clock`: virtual seconds. `listener`: hears each line at once, for `--follow`."""

    def __init__(self, clock: Callable[[], float], listener: Callable[[Line], None] | None = None) -> None:
        self._clock = clock
        self._began = clock()
        self._listener = listener
        self.lines: list[Line] = []

    def tell(self, who: str, what: str) -> None:
        """One thing that happened now."""
        line = Line(self._clock() - self._began, who, what)
        self.lines.append(line)
        if self._listener is not None:
            self._listener(line)

    def digest(self) -> str:
        """The same for the same story."""
        digest = hashlib.sha256()
        for line in self.lines:
            digest.update(f"{line}\n".encode())
        return digest.hexdigest()[:16]


def first_difference(one: Iterable[Line], other: Iterable[Line]) -> str:
    """Where two stories part, '' when they do not."""
    left, right = list(one), list(other)
    for number, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return f"line {number}:\n  {a}\n  {b}"
    if len(left) != len(right):
        longer = left if len(left) > len(right) else right
        return f"line {min(len(left), len(right))}: only one goes on with\n  {longer[min(len(left), len(right))]}"
    return ""
