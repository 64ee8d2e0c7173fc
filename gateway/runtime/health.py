"""What must be so for a gateway to serve, for /health and /ready.

`state`: the state topic is read, up to where the fleet's assignment stands. `listeners`: clients can connect. `lease`:
this gateway is in its fleet and may write to sources. `target`: the cluster answers. `listeners` is about this
process; the others come and go with the target.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """Facts of this moment.

    Attributes:
        read_error: why the state topic could not be read last; '' when it could.
        applied, wanted: offsets of the state topic: what is in the views, what the assignment stands on.
        closed_ports: of listeners that should be open.
        admitted: the fleet has assigned this gateway its part.
        lease_left_s: seconds; 0 when it may not write to sources.
        fleet_trouble: why the fleet's coordinator does not agree with this gateway; '' while it does.
        target_error: why the target could not be reached last; '' when it could.
        stopping: it has begun to stop.
    """

    read_error: str = ""
    applied: int = 0
    wanted: int = 0
    closed_ports: Collection[str] = ()
    admitted: bool = True
    lease_left_s: float = 1.0
    fleet_trouble: str = ""
    target_error: str = ""
    stopping: bool = False


def checks(vitals: Vitals) -> dict[str, str]:
    """Name of a check -> '' or one line that says why it fails."""
    return {
        "state": _state(vitals),
        "listeners": _listeners(vitals),
        "lease": _lease(vitals),
        "target": vitals.target_error,
    }


_NOT_READY: Final = {
    "target": "target unreachable",
    "lease": "no lease: nothing is written to sources",
    "state": "the state topic is not read",
    "listeners": "not listening on all ports",
}


def not_ready(found: Mapping[str, str], *, serving: bool, stopping: bool) -> str:
    """Why clients should not be sent here, in words that whoever asks may read; '' when they should.

    Args:
        found: what `checks` found.
        serving: the start has come to its end.
    """
    if stopping:
        return "draining"
    if not serving:
        return "starting"
    return next((told for name, told in _NOT_READY.items() if found.get(name)), "")


def _state(vitals: Vitals) -> str:
    if vitals.read_error:
        return f"the state topic cannot be read: {vitals.read_error}"
    if vitals.applied < vitals.wanted:
        return f"the state topic is read up to offset {vitals.applied}, the fleet is at {vitals.wanted}"
    return ""


def _listeners(vitals: Vitals) -> str:
    if vitals.stopping:
        return "this gateway stops"
    return f"not listening: {', '.join(sorted(vitals.closed_ports))}" if vitals.closed_ports else ""


def _lease(vitals: Vitals) -> str:
    if vitals.lease_left_s > 0:
        return ""
    why = f": {vitals.fleet_trouble}" if vitals.fleet_trouble else ""
    if not vitals.admitted:
        return f"the fleet has not admitted this gateway yet{why}"
    return f"the lease is over, and nothing is written to sources{why}"
