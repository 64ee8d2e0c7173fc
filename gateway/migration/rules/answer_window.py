"""What one process has seen of answers in the last minute, by topic and group. Pure.

Kept in buckets of some seconds, so that what is too old goes as a whole. Bounded by the names that are watched, the
buckets, and the errors that are told apart.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from gateway.migration.rules.client_errors import (
    ERRORS,
    WINDOW_S,
    AnswerCount,
    Failure,
    Name,
    client_shown,
    most_frequent,
)

BUCKET_S: Final = 5.0


class _AnswerCounts:
    """Of one name in one bucket."""

    __slots__ = ("answers", "errors", "failed", "failures", "samples")

    def __init__(self) -> None:
        self.answers = self.failed = self.samples = self.failures = 0
        self.errors: dict[int, tuple[int, str]] = {}

    def add(self, code: int, answers: int, client: str | None) -> None:
        """An answer that stands for so many. `code`: 0, or the error that counts."""
        self.answers += answers
        self.samples += 1
        if not code:
            return
        self.failed += answers
        self.failures += 1
        if code in self.errors or len(self.errors) < ERRORS:
            count, before = self.errors.get(code, (0, ""))
            self.errors[code] = count + answers, client_shown(client) or before

    def merge(self, other: _AnswerCounts) -> None:
        """With what another bucket has, a later one."""
        self.answers += other.answers
        self.failed += other.failed
        self.samples += other.samples
        self.failures += other.failures
        for code, (answers, client) in other.errors.items():
            count, before = self.errors.get(code, (0, ""))
            self.errors[code] = count + answers, client or before

    def count(self) -> AnswerCount:
        """As it is told."""
        errors = (Failure(code, *seen) for code, seen in self.errors.items())
        return AnswerCount(self.answers, self.failed, self.samples, self.failures, most_frequent(errors))


class AnswerWindow:
    """Times are monotonic seconds."""

    def __init__(self) -> None:
        self._buckets: deque[tuple[float, dict[Name, _AnswerCounts]]] = deque()

    def add(self, names: Iterable[tuple[Name, int]], answers: int, client: str | None, now: float) -> None:
        """One answer was looked at, which stands for so many. `names`: what it is about, each with its error or 0."""
        if not self._buckets or now - self._buckets[-1][0] >= BUCKET_S:
            self._buckets.append((now, {}))
            self._drop(now)
        seen = self._buckets[-1][1]
        for name, code in names:
            if name not in seen:
                seen[name] = _AnswerCounts()
            seen[name].add(code, answers, client)

    def sums(self, names: Collection[Name], now: float, seconds: float) -> Mapping[Name, AnswerCount]:
        """Of these names, as far as something was seen of them; of the last `seconds`, `WINDOW_S` at most.

        A bucket that began before is left out whole, so that nothing older counts.
        """
        self._drop(now)
        begins = now - min(seconds, WINDOW_S)
        found: dict[Name, _AnswerCounts] = {}
        for at, bucket in self._buckets:
            if at < begins:
                continue
            for name, seen in bucket.items():
                if name not in names:
                    continue
                if name not in found:
                    found[name] = _AnswerCounts()
                found[name].merge(seen)
        return {name: seen.count() for name, seen in found.items()}

    def keep(self, names: Collection[Name]) -> None:
        """Forget what is watched no more."""
        for _, bucket in self._buckets:
            for name in [name for name in bucket if name not in names]:
                del bucket[name]

    def _drop(self, now: float) -> None:
        while self._buckets and now - self._buckets[0][0] > WINDOW_S:
            self._buckets.popleft()
