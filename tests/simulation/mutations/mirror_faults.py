"""Faults of the merging in the simulated fleet: those that show in what clients and logs say in the end.

`tests/mutations/mirror` has these and the others, before the model of one partition: there a position is compared with
what is durable at each step, and every leader is lost between an append and its replication sooner or later.
"""

from __future__ import annotations

from typing import Final

from tests.mutations.mirror import patches
from tests.simulation.mutations.lives import Event, EventKind, Operation, life, sought

_LIFE: Final = life(Operation.CREATE, Operation.PROMOTE, pause_s=4.0)
_BEHIND: Final = (Event(EventKind.TARGET_BROKER_PAUSED, 1, "", 0.5, 3.0),)

MUTATIONS: Final = (
    sought("merge one twice", patches.merge_one_twice, _LIFE, runs=6, events=_BEHIND),
    sought("merged timestamps as deltas", patches.keep_timestamps_as_deltas, _LIFE, runs=6, events=_BEHIND),
)
