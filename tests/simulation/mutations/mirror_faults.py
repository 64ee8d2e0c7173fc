"""Faults of the merging in the simulated fleet: those that show in what clients and logs say in the end.

`tests/mutations/mirror` has these and the others, before the model of one partition: there a position is compared with
what is durable at each step. Here it is when a leader is lost between an append and its replication
(`judge/promises.py`).
"""

from __future__ import annotations

from typing import Any, Final

from gateway.mirror.partition import appender
from tests.mutations.mirror import patches
from tests.simulation.mutations.lives import Event, EventKind, Operation, life, sought
from tests.simulation.mutations.patching import Patching

_LIFE: Final = life(Operation.CREATE, Operation.PROMOTE, pause_s=4.0)
_BEHIND: Final = (Event(EventKind.TARGET_BROKER_PAUSED, 1, "", 0.5, 3.0),)


def answered_by_the_leader_alone(patching: Patching) -> None:
    """Appends go with acks=1: what is acknowledged, and told, is not replicated yet."""

    def build(version: int, transactional_id: str | None, acks: int, timeout_ms: int, topics: Any) -> Any:
        return shipped(version, transactional_id, 1, timeout_ms, topics)

    shipped: Any = patching.replace(appender, "build_restamped_body", build)


MUTATIONS: Final = (
    sought("merge one twice", patches.merge_one_twice, _LIFE, runs=6, events=_BEHIND),
    sought("merged timestamps as deltas", patches.keep_timestamps_as_deltas, _LIFE, runs=6, events=_BEHIND),
    sought("promise before replication", answered_by_the_leader_alone, _LIFE, runs=6, leaders_lost=12),
    sought("promise what is on its way", patches.promise_what_is_on_its_way, _LIFE, runs=6, leaders_lost=12),
    sought("position of a lost append", patches.position_of_a_lost_append, _LIFE, runs=6, leaders_lost=12),
)
