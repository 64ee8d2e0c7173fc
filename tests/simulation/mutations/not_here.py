"""What cannot be found by the simulation, and why. Each is proved elsewhere, as its reason says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NOT_HERE: Final[Mapping[str, str]] = {
    "slow source": "no fault: it gives what forgets writes under a fence something to forget",
    "memory that malloc holds free is given back": "memory is not simulated; `make soak` measures it",
    "time stamps of a clock more than an hour ahead are refused": "the broker model takes any time stamp",
}
