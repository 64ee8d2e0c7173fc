"""When what was refused is asked for again: after one pause, then two, four, eight and so on. Pure."""

from __future__ import annotations

from typing import Final

LONGEST_S: Final = 3600.0
"""The longest time until what was refused is asked for again."""


def pause_after(times: int, pause_s: float) -> float:
    """Seconds until the next attempt. `times`: refusals in a row, 1 and more."""
    return float(min(pause_s * 2.0 ** min(times - 1, 30), max(LONGEST_S, pause_s)))
