"""How many members of groups wait at gates for one principal: what is over the limit waits without being counted."""

from __future__ import annotations


class WaiterCounts:
    """Counts by principal (by address where there is none). `uncounted`: requests that waited beyond the limit."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._of: dict[str, int] = {}
        self.uncounted = 0

    def take(self, who: str, waiters: int) -> bool:
        """Whether so many more may wait; they count until `give_back`."""
        count = self._of.get(who, 0) + waiters
        if count > self._most:
            self.uncounted += 1
            return False
        self._of[who] = count
        return True

    def give_back(self, who: str, waiters: int) -> None:
        """So many that were taken wait no more."""
        count = self._of.get(who, 0) - waiters
        if count > 0:
            self._of[who] = count
        else:
            self._of.pop(who, None)
