"""Time that a test makes."""

from __future__ import annotations

import pytest

from tests.support import waiting


class Clock:
    """Time that only goes on while somebody sleeps."""

    def __init__(self) -> None:
        self.now, self.looks = 0.0, 0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def look(self) -> bool:
        self.looks += 1
        return False


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(waiting, "time", made)
    return made
