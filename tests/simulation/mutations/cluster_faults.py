"""Faults that show when the clusters are unsteady: see `faults/cluster_events.py`."""

from __future__ import annotations

from typing import Any, Final

from gateway.fleet.rules.group import FleetGroupState, GroupRefused
from tests.simulation.mutations.lives import Event, EventKind, Operation, life, sought
from tests.simulation.mutations.patching import Patching


def any_code_is_final(patching: Patching) -> None:
    """What no member can act by is taken for a refusal of the group: every gateway stops, since all ask one broker."""

    def refused(self: Any, refusal: str) -> None:
        raise GroupRefused(refusal)

    patching.replace(FleetGroupState, "_not_understood", refused)


_THERE: Final = life(Operation.CREATE, Operation.PROMOTE, pause_s=1.0)

MUTATIONS: Final = (
    sought(
        "clusters: a code that nobody knows is final",
        any_code_is_final,
        _THERE,
        runs=2,
        events=[Event(EventKind.COORDINATOR_REFUSES, 1, "mark_pending", 0.0, 8.0)],
    ),
)
