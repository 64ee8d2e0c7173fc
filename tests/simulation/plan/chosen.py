"""Which seeds a run of so many has. Pure.

The systematic ones come first, so that a run of all of them goes through every pair. Of those behind them one of six is
of the seeds from FURTHER_FROM on, which have more in them and take longer.
"""

from __future__ import annotations

from typing import Final

from tests.simulation.plan.by_seed import systematic_runs
from tests.simulation.plan.wider import FURTHER_FROM

_EVERY: Final = 6


def chosen(count: int) -> list[int]:
    """The first so many."""
    return [_nth(number) for number in range(count)]


def _nth(number: int) -> int:
    behind, which = divmod(number - systematic_runs(), _EVERY)
    return FURTHER_FROM + behind if systematic_runs() <= number < FURTHER_FROM and not which else number
