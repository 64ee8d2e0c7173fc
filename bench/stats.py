"""Medians, spreads and ratios of interleaved rounds. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median


@dataclass(frozen=True, slots=True)
class Sample:
    """What one contestant did in one round of one load. `load_average`: of the machine when it ended."""

    load: str
    round: int
    contestant: str
    metrics: Mapping[str, float]
    load_average: float = 0.0


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, smallest and largest of `count` values."""

    median: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread | None:
        """None for no values."""
        if not values:
            return None
        return cls(median(values), min(values), max(values), len(values))


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The smallest value with at least `percent` % of the sorted values at or below it.

    Raises:
        ValueError: no values.
    """
    if not ordered:
        raise ValueError("a percentile of nothing")
    rank = math.ceil(len(ordered) * percent / 100)
    return ordered[max(0, rank - 1)]


@dataclass(slots=True)
class Samples:
    """All samples of a run."""

    all: list[Sample] = field(default_factory=list)

    def add(self, sample: Sample) -> None:
        """Keep one more."""
        self.all.append(sample)

    def values(self, load: str, contestant: str, metric: str) -> list[float]:
        """One metric of one contestant, in the order of the rounds."""
        return [
            sample.metrics[metric]
            for sample in self.all
            if sample.load == load and sample.contestant == contestant and metric in sample.metrics
        ]

    def spread(self, load: str, contestant: str, metric: str) -> Spread | None:
        """Median and spread; None when it was not measured."""
        return Spread.of(self.values(load, contestant, metric))

    def ratio(self, load: str, metric: str, above: str, below: str) -> Spread | None:
        """`above` / `below`, round by round: what the machine did at that time is in both."""
        return self._paired(load, metric, above, below, lambda a, b: a / b if b else None)

    def difference(self, load: str, metric: str, left: str, right: str) -> Spread | None:
        """`left` - `right`, round by round."""
        return self._paired(load, metric, left, right, lambda a, b: a - b)

    def _paired(
        self, load: str, metric: str, one: str, other: str, join: Callable[[float, float], float | None]
    ) -> Spread | None:
        rounds: dict[int, dict[str, float]] = {}
        for sample in self.all:
            if sample.load == load and metric in sample.metrics:
                rounds.setdefault(sample.round, {})[sample.contestant] = sample.metrics[metric]
        pairs = [join(row[one], row[other]) for row in rounds.values() if one in row and other in row]
        return Spread.of([value for value in pairs if value is not None])

    def contestants(self, load: str) -> list[str]:
        """Who took part in a load, in the order of the first round."""
        return list(dict.fromkeys(sample.contestant for sample in self.all if sample.load == load))
