"""The names by which the processes of one gateway (`workers`) are members of the fleet. Pure.

The first has the gateway's own name, so that nothing changes for a gateway of one process. The others have its name
and their number: `gw-1`, `gw-1#2`, `gw-1#3`. Each is a member like any other, with a lease of its own, and a write
pause waits for all of them. Operators see the gateway.
"""

from __future__ import annotations

import re
from typing import Final

MARK: Final = "#"
"""No gateway's name may hold it."""

_WORKER: Final = re.compile(rf"(.+){MARK}[0-9]+")


def worker_name(gateway: str, index: int) -> str:
    """Of one of its processes, counted from 0."""
    return gateway if index == 0 else f"{gateway}{MARK}{index + 1}"


def gateway_of(member: str) -> str:
    """The gateway that a member of the fleet belongs to."""
    found = _WORKER.fullmatch(member)
    return member if found is None else found[1]
