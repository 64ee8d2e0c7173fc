"""Which partitions a heartbeat tells of though nothing became of them. Pure.

Heartbeats tell what has moved. That is not enough: one may be dropped, a gateway may come later, and a position does
not count where the mirror's record is not known yet. So all is told again, in turn: some of it each second, and all of
it at once, in pieces, when somebody is there who has not heard it. What is told costs by the second, then, and not by
how many partitions there are; and less with each turn in which nothing has happened.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.mirror.rules.mirror_partition import MirrorPartition

PIECE: Final = 500
"""Partitions in one heartbeat. There is a piece a second at first: 4,000 partitions are told again within 8 s."""

SLOWEST: Final = 8
"""At rest there is a piece in so many seconds: the pause between two doubles with each turn."""


class Rotation:
    """Of the partitions that are mirrored here."""

    def __init__(self) -> None:
        self._here: frozenset[MirrorPartition] = frozenset()
        self._order: list[MirrorPartition] = []  # with some that are here no more, until the next turn
        self._next = 0
        self._owed = 0
        self._owes_all = False
        self._pause = 1  # of regular times, one is taken
        self._passed = 0

    def everything(self) -> None:
        """Somebody is there who has heard nothing of them."""
        self._owes_all = True

    def piece(
        self, here: frozenset[MirrorPartition], *, regular: bool, at_rest: bool = True
    ) -> Sequence[MirrorPartition]:
        """For the next heartbeat.

        Args:
            here: what is mirrored here now.
            regular: it is the time for a piece, whether or not somebody has still to hear of them.
            at_rest: nothing becomes of any of them.
        """
        if here is not self._here or self._owes_all or not at_rest:
            self._pause = 1
        if here is not self._here:
            self._order += sorted(here - self._here)
            self._here = here
        if self._owes_all:
            self._owed, self._owes_all = len(self._order), False
        if self._owed <= 0 and not (regular and self._is_time()):
            return ()
        if self._next >= len(self._order):
            self._pause = min(2 * self._pause, SLOWEST)
            self._next = 0
            self._order = list(dict.fromkeys(each for each in self._order if each in here))
        found = self._order[self._next : self._next + PIECE]
        self._next += len(found)
        self._owed -= len(found)
        return [each for each in found if each in here]

    def _is_time(self) -> bool:
        self._passed += 1
        if self._passed < self._pause:
            return False
        self._passed = 0
        return True
