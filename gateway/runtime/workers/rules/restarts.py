"""When each of a gateway's processes is started, and when the gateway has ended. Pure.

One that dies is started again: its clients connect anew, to it or to another one. Before all of them have served once,
an end is the gateway's end: a port that is taken or a target that refuses is told at once, as by a gateway of one
process. Later ones are tried again, further and further apart, while the others serve.
"""

from __future__ import annotations

from typing import Final

FIRST_S: Final = 0.5
MOST_S: Final = 10.0
STEADY_S: Final = 60.0
"""Who has lived so long and dies is started as soon as one that dies for the first time."""


class Restarts:
    """Of `count` processes, by index. `now`: monotonic seconds.

    Attributes:
        stopping: they are to end, all of them.
    """

    def __init__(self, count: int) -> None:
        self.stopping = False
        self._count = count
        self._at: dict[int, float] = dict.fromkeys(range(count), 0.0)  # when to start those that do not run
        self._since: dict[int, float] = {}
        self._waits = [FIRST_S] * count
        self._served: set[int] = set()
        self._code = 0

    def due(self, now: float) -> list[int]:
        """Those to be started now."""
        return [] if self.stopping else sorted(index for index, at in self._at.items() if at <= now)

    def wait_s(self, now: float) -> float | None:
        """Until one is due; None: nothing is, until something happens."""
        return None if self.stopping or not self._at else max(0.0, min(self._at.values()) - now)

    def started(self, index: int, now: float) -> None:
        """It runs."""
        self._at.pop(index, None)
        self._since[index] = now

    def stop(self) -> None:
        """They have been told to end: none is started any more."""
        self.stopping = True

    def ended(self, index: int, code: int, *, served: bool, now: float) -> float | None:
        """One has ended, by itself or as it was told.

        Args:
            code: its exit code, negative for a signal.
            served: it had begun to serve.

        Returns:
            After how many seconds it is started again; None: it is not. Then the others are to be stopped (`stopping`).
        """
        lived_s = now - self._since.pop(index, now)
        if served:
            self._served.add(index)
        if self.stopping:
            self._code = self._code or (1 if code else 0)
            return None
        if len(self._served) < self._count:
            self._code, self.stopping = 1, True
            return None
        wait_s = FIRST_S if lived_s >= STEADY_S else self._waits[index]
        self._waits[index] = min(2 * wait_s, MOST_S)
        self._at[index] = now + wait_s
        return wait_s

    def serves(self, index: int) -> None:
        """It has begun to serve."""
        self._served.add(index)

    @property
    def exit_code(self) -> int | None:
        """The gateway's; None while it goes on, or some of its processes have not ended."""
        return self._code if self.stopping and not self._since else None
