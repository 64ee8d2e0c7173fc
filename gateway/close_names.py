"""Which name somebody may have meant who misspelt one. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice
from typing import Final

LOOKED_AT: Final = 5_000
"""Names that are compared: a fleet may have 100,000 topics, and each costs 20 µs."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """` (did you mean 'orders'?)`, or '' where nothing is near, or the name itself is there: then another is amiss."""
    lowered = {one.lower(): one for one in islice(known, LOOKED_AT)}
    if lowered.get(name.lower()) == name:
        return ""
    found = get_close_matches(name.lower(), lowered, n=1, cutoff=0.6)
    return f" (did you mean '{lowered[found[0]]}'?)" if found else ""
