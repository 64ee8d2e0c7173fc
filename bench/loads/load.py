"""What a load is: contestants that take turns in rounds, and the figures of each turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from bench.lab import Lab

Metrics: TypeAlias = dict[str, float]
Turn: TypeAlias = Callable[[float], Metrics]
"""One contestant's turn. Its argument scales the size: 1.0 when it counts, less for a warm-up."""


class Load:
    """Base of all loads.

    `name` is the key in the JSON file, `title` the heading in the table. `share`: about how many seconds it takes in a
    full run on a quiet machine; the budget is divided in this proportion.
    """

    name: str
    title: str
    share: float = 50.0
    warms_up: bool = False
    """Whether an uncounted turn is worth its time where the profile asks for warm-ups."""

    def rounds(self, lab: Lab) -> int:
        """How many rounds at most."""
        return min(3, lab.profile.rounds)

    def least_rounds(self, lab: Lab) -> int:
        """How many rounds there are even when the time is up."""
        return 1

    def prepare(self, lab: Lab) -> None:
        """Before the first turn."""

    def begin_round(self, lab: Lab) -> None:
        """Before each round."""

    def turns(self, lab: Lab) -> Mapping[str, Turn]:
        """Who takes part: name -> turn. The runner rotates the order from round to round."""
        raise NotImplementedError

    def finish(self, lab: Lab) -> None:
        """After the last turn, also when one failed."""
