"""Of the groups that nobody knows: which are being asked about, and which have to wait for their turn.

Any client can name any number of groups. What is asked about at a time is bounded, and so is what waits for its turn:
whoever comes then is held as everybody else is, told to try again, and finds room a little later.
"""

from __future__ import annotations

AT_A_TIME = 256
AT_MOST = 10_000


class Questions:
    """Each group is in one of two places at most."""

    __slots__ = ("_asked", "_later")

    def __init__(self) -> None:
        self._asked: set[str] = set()
        self._later: dict[str, None] = {}

    def add(self, group: str) -> bool:
        """Nobody knows the group. True: ask now; False: it is asked about already, or later, or there is no room."""
        if self.has(group):
            return False
        if len(self._asked) >= AT_A_TIME:
            if len(self._later) < AT_MOST:
                self._later[group] = None
            return False
        self._asked.add(group)
        return True

    def has(self, group: str) -> bool:
        """It is asked about now, or later."""
        return group in self._asked or group in self._later

    def known(self, group: str) -> None:
        """It need not be asked about any more."""
        self._asked.discard(group)
        self._later.pop(group, None)

    def next(self) -> str | None:
        """The group whose turn it is, to be asked about now; None if none is."""
        if not self._later or len(self._asked) >= AT_A_TIME:
            return None
        group = next(iter(self._later))
        del self._later[group]
        self._asked.add(group)
        return group

    def under_way(self) -> list[str]:
        """Those that are asked about now."""
        return list(self._asked)

    def clear(self) -> None:
        """None needs an answer any more."""
        self._asked.clear()
        self._later.clear()
