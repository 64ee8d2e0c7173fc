"""How long something has still to go, by how fast what is left becomes less. Pure: times are arguments, in seconds."""

from __future__ import annotations

from collections import deque
from typing import Final

_WINDOW_S: Final = 20.0


class Pace:
    """Of one thing that is waited for. What is left may become more for a while: a source goes on growing."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, float]] = deque()

    def seen(self, now_s: float, left: float) -> None:
        """So much was left then."""
        self._seen.append((now_s, left))
        while len(self._seen) > 2 and now_s - self._seen[1][0] >= _WINDOW_S:
            self._seen.popleft()

    @property
    def per_s(self) -> float | None:
        """By how much it becomes less in a second; None while nobody can tell."""
        if len(self._seen) < 2:
            return None
        (began, first), (now, last) = self._seen[0], self._seen[-1]
        return (first - last) / (now - began) if now > began else None

    @property
    def to_go_s(self) -> float | None:
        """None while nobody can tell, or as long as it does not become less."""
        speed = self.per_s
        return self._seen[-1][1] / speed if speed is not None and speed > 0 else None
