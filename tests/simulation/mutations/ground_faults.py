"""Faults of how the fleet stands on its own topics: see `faults/ground_events.py`."""

from __future__ import annotations

from typing import Any, Final

from gateway.state.recovery import FollowedState
from tests.simulation.mutations.lives import Event, EventKind, Fault, FaultKind, Operation, life, sought
from tests.simulation.mutations.patching import Patching

_TWELVE_LOST: Final = 3.59


def _write_nothing_again(patching: Patching) -> None:
    """Gateways that know of a promote go on by it, and those that begin later know of none."""

    async def forget(self: Any) -> None:
        self._lost = {}

    patching.replace(FollowedState, "_write_lost", forget)


MUTATIONS: Final = (
    sought(
        "ground: what the state topic has lost is not written again",
        _write_nothing_again,
        life(Operation.CREATE, Operation.PROMOTE, Operation.REVERSE, pause_s=16.0),
        runs=6,
        events=[Event(EventKind.STATE_LOST, 1, "restore_configs", 0.2, _TWELVE_LOST)],
        faults=[
            Fault(FaultKind.FOLLOWER_KILLED, 1, "restore_configs", 1.0, 0.5),
            Fault(FaultKind.LEADER_KILLED, 1, "restore_configs", 4.0, 0.5),
            Fault(FaultKind.FOLLOWER_KILLED, 1, "restore_configs", 8.0, 0.5),
            Fault(FaultKind.LEADER_KILLED, 1, "restore_configs", 12.0, 0.5),
        ],
    ),
)
