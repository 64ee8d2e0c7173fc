"""Faults of the merging, and of what is told of appends, in the simulated fleet. `tests/mutations/mirror` has them all,
before one partition's model; here are those that a whole fleet shows."""

from __future__ import annotations

from typing import Any, Final

from gateway.mirror.partition import appender
from tests.mutations.mirror import patches
from tests.simulation.mutations.lives import Event, EventKind, Operation, life, sought
from tests.simulation.mutations.patching import Mutation, Patching

_LIFE: Final = life(Operation.CREATE, Operation.PROMOTE, pause_s=4.0)
_BEHIND: Final = (Event(EventKind.TARGET_BROKER_PAUSED, 1, "", 0.5, 3.0),)


def _acknowledged_by_one(patching: Patching) -> None:
    """Appends travel with acks=1: the leader answers before a replica has them."""

    def build(version: int, transactional_id: Any, acks: int, *rest: Any) -> Any:
        return shipped(version, transactional_id, 1, *rest)

    shipped: Any = patching.replace(appender, "build_restamped_body", build)


MUTATIONS: Final = (
    sought("promise what one replica has", _acknowledged_by_one, _LIFE, runs=12, events=_BEHIND),
    sought("merge one twice", patches.merge_one_twice, _LIFE, runs=6, events=_BEHIND),
    sought("merged timestamps as deltas", patches.keep_timestamps_as_deltas, _LIFE, runs=6, events=_BEHIND),
    sought("promise what is on its way", patches.promise_what_is_on_its_way, _LIFE, runs=6, events=_BEHIND),
    sought("position of a lost append", patches.position_of_a_lost_append, _LIFE, runs=6, events=_BEHIND),
    sought("forget what was merged", patches.forget_what_was_merged, _LIFE, runs=6, events=_BEHIND),
)
