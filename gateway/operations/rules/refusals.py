"""What a cluster or a registry refused to a round: when it is asked for again, and the errors that are shown. Pure.

It is asked for again after one pause, then two, four, eight and so on (`backoff.py`). What nobody asks for any more is
forgotten, so there are never more than a round has to do.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from gateway.operations.rules.backoff import pause_after

ERRORS_KEPT: Final = 32


class TimedError(Protocol):
    """An error as it is shown. `at_ms`: wall clock, when it came last."""

    @property
    def at_ms(self) -> int:
        """See the class."""


K = TypeVar("K", bound=Hashable)
E = TypeVar("E", bound=TimedError)


class Refusal(NamedTuple, Generic[E]):
    """How many `times` in a row. `again_at`: monotonic seconds."""

    times: int
    again_at: float
    error: E


class Refusals(Generic[K, E]):
    """Of one link. Times: monotonic seconds."""

    def __init__(self) -> None:
        self._by_key: dict[K, Refusal[E]] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def keys(self) -> Collection[K]:
        """All that is refused."""
        return self._by_key.keys()

    def add(self, key: K, error: E, now: float, pause_s: float) -> None:
        """It was refused, perhaps once more."""
        times = self._by_key[key].times + 1 if key in self._by_key else 1
        self._by_key[key] = Refusal(times, now + pause_after(times, pause_s), error)

    def are_due(self, key: K, now: float) -> bool:
        """Whether it may be asked for now."""
        return key not in self._by_key or self._by_key[key].again_at <= now

    def forgive(self, key: K) -> None:
        """It was not refused this time."""
        self._by_key.pop(key, None)

    def only(self, keys: Collection[K]) -> None:
        """Forget what nobody asks for any more."""
        self._by_key = {key: refusal for key, refusal in self._by_key.items() if key in keys}

    def youngest(self) -> list[E]:
        """The errors that came last, at most `ERRORS_KEPT`."""
        return sorted((one.error for one in self._by_key.values()), key=lambda error: -error.at_ms)[:ERRORS_KEPT]
