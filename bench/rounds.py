"""Loads one after the other, contestants in rotation, within a budget of time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from bench.errors import BenchError
from bench.lab import Lab
from bench.loads.load import Load, Turn
from bench.proc import load_average
from bench.stats import Sample, Samples
from gateway.devcluster import DevClusterError

_WARM_UP: Final = 0.1


class Runner:
    """Runs loads. One that fails does not keep the others from being measured.

    Args:
        lab: what is up.
        samples: takes what was measured.
        failures: takes load -> why it could not be measured.
        say: takes one line of progress.
        began: when the run began (monotonic), for the budget.
    """

    def __init__(
        self, lab: Lab, samples: Samples, failures: dict[str, str], say: Callable[[str], None], began: float
    ) -> None:
        self._lab = lab
        self._samples = samples
        self._failures = failures
        self._say = say
        self._began = began

    def run(self, loads: Sequence[Load]) -> None:
        """Run them in this order. A load that ends early leaves its time to the later ones."""
        total = sum(load.share for load in loads)
        start, done = time.monotonic() - self._began, 0.0
        for load in loads:
            done += load.share
            until = start + (self._lab.profile.budget_s - start) * done / total
            try:
                self._measure(load, until)
            except (BenchError, DevClusterError) as error:
                self._failures[load.name] = str(error)
                self._say(f"{load.name}: FAILED: {error}")

    def _measure(self, load: Load, until: float) -> None:
        lab = self._lab
        try:
            load.prepare(lab)
            turns = load.turns(lab)
            if load.warms_up and lab.profile.warm_up:
                for turn in turns.values():
                    turn(_WARM_UP)
            for number in range(load.rounds(lab)):
                before = self._elapsed()
                load.begin_round(lab)
                self._round(load, number, turns)
                spent = self._elapsed() - before
                if number + 1 >= load.least_rounds(lab) and self._elapsed() + spent > until:
                    break
        finally:
            load.finish(lab)

    def _round(self, load: Load, number: int, turns: Mapping[str, Turn]) -> None:
        for name in rotated(list(turns), number):
            began = time.monotonic()
            metrics = turns[name](1.0)
            self._samples.add(Sample(load.name, number, name, metrics, load_average()))
            shown = " ".join(f"{key}={value:.4g}" for key, value in metrics.items())
            self._say(f"{load.name} round {number + 1} {name}: {shown} ({time.monotonic() - began:.1f} s)")

    def _elapsed(self) -> float:
        return time.monotonic() - self._began


def rotated(names: Sequence[str], by: int) -> list[str]:
    """The names, with another one first in each round."""
    by %= max(1, len(names))
    return [*names[by:], *names[:by]]
