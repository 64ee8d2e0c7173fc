"""Trends: what lag, throughput and pauses of an object were, in the last hour and since it began. Pure.

Bounded, whatever happens: an object has the same few numbers of `SERIES`, a number has two rings, a ring has `POINTS`
points at most, and there are `OBJECTS` objects. The ring of the hour drops what is older than that. The other one drops
nothing: when it is full, each two of its points become one, so its points are the longer the older the whole is.

A point of which nothing was heard is NaN here and null for others: a gap, never a zero.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

POINTS: Final = 120
HOUR_STEP_MS: Final = 30_000
WHOLE_STEP_MS: Final = 60_000
OBJECTS: Final = 2000
HOUR: Final = "hour"
WHOLE: Final = "whole"

SERIES: Final[Mapping[str, tuple[str, ...]]] = {
    "link": ("lag", "bytes_per_s", "pause_ms"),
    "topic": ("lag", "bytes_per_s", "pause_ms"),
    "group": ("lag",),
}
"""Kind of an object -> what is kept of it. Of two points the higher one counts, of throughput the mean."""
_MEAN: Final = "bytes_per_s"

Levels = Mapping[str, Sequence[float | None]]
"""`kind/link/name` (of a link `link/name`) -> the numbers of its `SERIES`, as they are now."""


class TrendPoints(NamedTuple):
    """`values[i]` is of the `step_ms` from `since_ms + i * step_ms` on; null is a gap."""

    since_ms: int
    step_ms: int
    values: Sequence[float | None]


class TrendRing:
    """One number in one resolution. `grows`: when it is full it becomes coarser, else it forgets its oldest point."""

    __slots__ = ("_count", "_first", "_grows", "_mean", "_step", "_values")

    def __init__(self, step_ms: int, *, grows: bool, mean: bool) -> None:
        self._step = step_ms
        self._grows = grows
        self._mean = mean
        self._first = 0  # since_ms / step_ms
        self._values = array("f")
        self._count = 0  # of what the newest point is the mean of

    @property
    def points(self) -> TrendPoints:
        """All, the newest included."""
        return TrendPoints(self._first * self._step, self._step, [_shown(each) for each in self._values])

    def add(self, at_ms: int, value: float | None) -> None:
        """What was heard then; null: nothing. What is older than the newest point is no news."""
        at = self._room(at_ms)
        if at < 0 or value is None:
            return
        before = self._values[at]
        if math.isnan(before):
            self._values[at], self._count = value, 1
        elif self._mean:
            self._count += 1
            self._values[at] = before + (value - before) / self._count
        else:
            self._values[at] = max(before, value)

    def _room(self, at_ms: int) -> int:
        """The place of a time, which is the last one; -1 when the clock was ahead before."""
        index = at_ms // self._step
        if not self._values or (index - self._first >= 2 * POINTS and not self._grows):
            self._first, self._values = index, array("f")
        while self._grows and index - self._first >= POINTS:
            self._coarsen()
            index = at_ms // self._step
        missing = index - self._first + 1 - len(self._values)
        if missing < 0:
            return -1
        if missing:
            self._values.extend([math.nan] * missing)
            self._count = 0
        if len(self._values) > POINTS:
            spare = len(self._values) - POINTS
            del self._values[:spare]
            self._first += spare
        return len(self._values) - 1

    def _coarsen(self) -> None:
        values = self._values
        if self._first % 2:
            values.insert(0, math.nan)
        if len(values) % 2:
            values.append(math.nan)
        pairs = zip(values[::2], values[1::2], strict=True)
        self._values = array("f", [_merged(one, other, mean=self._mean) for one, other in pairs])
        self._first //= 2
        self._step *= 2
        self._count = 1

    def join(self, said: TrendPoints) -> None:
        """What another gateway has of the same number: where nothing was heard here, that counts."""
        other = TrendRing(said.step_ms, grows=self._grows, mean=self._mean)
        other._first = said.since_ms // said.step_ms
        other._values = array("f", [math.nan if each is None else each for each in said.values[-POINTS:]])
        if not other._values:
            return
        while self._grows and self._values and self._step != other._step:
            (self if self._step < other._step else other)._coarsen()
        if not self._values:
            self._step = other._step
        both = [ring for ring in (other, self) if ring._values]
        first = min(ring._first for ring in both)
        end = max(ring._first + len(ring._values) for ring in both)
        if not self._grows:
            first = max(first, end - POINTS)
        self._values, self._first = _overlaid(both, first, end), first
        while self._grows and len(self._values) > POINTS:
            self._coarsen()


def _overlaid(rings: Iterable[TrendRing], first: int, end: int) -> array[float]:
    """Of several rings of one step; what is known in a later one counts."""
    values = array("f", [math.nan] * (end - first))
    for ring in rings:
        for at, value in enumerate(ring._values, ring._first - first):
            if at >= 0 and not math.isnan(value):
                values[at] = value
    return values


def _merged(one: float, other: float, *, mean: bool) -> float:
    if math.isnan(one) or math.isnan(other):
        return other if math.isnan(one) else one
    return (one + other) / 2 if mean else max(one, other)


def _shown(value: float) -> float | None:
    """Seven digits are what is kept; of counts no fraction is shown."""
    return None if math.isnan(value) else round(value)


class Trend:
    """All of one object: by the names of its series, in both resolutions."""

    __slots__ = ("rings",)

    def __init__(self, kind: str) -> None:
        self.rings: dict[str, dict[str, TrendRing]] = {
            HOUR: {name: TrendRing(HOUR_STEP_MS, grows=False, mean=name == _MEAN) for name in SERIES[kind]},
            WHOLE: {name: TrendRing(WHOLE_STEP_MS, grows=True, mean=name == _MEAN) for name in SERIES[kind]},
        }

    def points(self, span: str) -> dict[str, TrendPoints]:
        """Name of the series -> its points."""
        return {name: ring.points for name, ring in self.rings[span].items()}


class Trends:
    """Of all objects."""

    def __init__(self) -> None:
        self._of: dict[str, Trend] = {}

    def __len__(self) -> int:
        return len(self._of)

    def add(self, at_ms: int, levels: Levels) -> None:
        """What is heard of all objects at one time. Those that are not in it are gone, and are forgotten."""
        for key in [key for key in self._of if key not in levels]:
            del self._of[key]
        for key, values in levels.items():
            trend = self._kept(key)
            if trend is None:
                continue
            for rings in trend.rings.values():
                for ring, value in zip(rings.values(), values, strict=False):
                    ring.add(at_ms, value)

    def _kept(self, key: str) -> Trend | None:
        kind = key.partition("/")[0]
        if key not in self._of and kind in SERIES and len(self._of) < OBJECTS:
            self._of[key] = Trend(kind)
        return self._of.get(key)

    def keys(self, prefix: str = "") -> list[str]:
        """Of objects that have a trend, in order."""
        return sorted(key for key in self._of if key.startswith(prefix))

    def of(self, key: str, span: str) -> dict[str, TrendPoints]:
        """Of one object; nothing when there is no such."""
        trend = self._of.get(key)
        return {} if trend is None else trend.points(span)

    # -- for a gateway that begins -------------------------------------------------------------------------------

    def told(self, after: str, most: int) -> dict[str, Any]:
        """The next `most` objects behind a key, as JSON: key -> span -> series -> [since, step, values]."""
        keys = [key for key in self.keys() if key > after][:most]
        return {
            key: {span: {name: list(points) for name, points in self.of(key, span).items()} for span in (HOUR, WHOLE)}
            for key in keys
        }

    def join(self, said: Mapping[str, Any]) -> None:
        """What another gateway has told. Raises ValueError, KeyError or TypeError when it is of another version."""
        for key, spans in said.items():
            trend = self._kept(str(key))
            if trend is None:
                continue
            for span, rings in trend.rings.items():
                for name, ring in rings.items():
                    since_ms, step_ms, values = spans[span][name]
                    ring.join(TrendPoints(int(since_ms), int(step_ms), values))
