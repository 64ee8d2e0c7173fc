"""Faults of the merging in the simulated fleet: those that show in what clients and logs say in the end.

`tests/mutations/mirror` has these and the others, before the model of one partition: there a position is compared with
what is durable at each step. Here it is when a leader is lost between an append and its replication
(`judge/promises.py`).
"""

from __future__ import annotations

from typing import Any, Final

from gateway.mirror.partition import appender
from gateway.mirror.partition.rules.fetch_cursor import FetchCursor
from tests.mutations.mirror import patches
from tests.simulation.mutations.lives import Event, EventKind, Fault, FaultKind, Operation, life, sought
from tests.simulation.mutations.patching import Patching
from tests.simulation.plan import PLAIN, Act

_LIFE: Final = life(Operation.CREATE, Operation.PROMOTE, pause_s=4.0)
_BEHIND: Final = (Event(EventKind.TARGET_BROKER_PAUSED, 1, "", 0.5, 3.0),)
_HAS_JUST_BEGUN: Final = (*life(Operation.CREATE, pause_s=12.0), Act(1, Operation.PROMOTE, PLAIN, "", 0.5))


def answered_by_the_leader_alone(patching: Patching) -> None:
    """Appends go with acks=1: what is acknowledged, and told, is not replicated yet."""

    def build(version: int, transactional_id: str | None, acks: int, timeout_ms: int, topics: Any) -> Any:
        return shipped(version, transactional_id, 1, timeout_ms, topics)

    shipped: Any = patching.replace(appender, "build_restamped_body", build)


def carry_a_table_with_a_gap(patching: Patching) -> None:
    """A gateway that has only just begun a partition hands over what it has read of its producers, and the next one
    takes it for all."""

    def read_from(cursor: Any, position: int) -> int:
        return shipped(cursor, position) if cursor.carried_to is None else position - 1

    shipped = patching.replace(FetchCursor, "_read_from", read_from)
    patching.replace(FetchCursor, "table_read_to", property(lambda cursor: cursor.position))


MUTATIONS: Final = (
    sought("merge one twice", patches.merge_one_twice, _LIFE, runs=6, events=_BEHIND),
    sought("merged timestamps as deltas", patches.keep_timestamps_as_deltas, _LIFE, runs=6, events=_BEHIND),
    sought("promise before replication", answered_by_the_leader_alone, _LIFE, runs=6, leaders_lost=12),
    sought("promise what is on its way", patches.promise_what_is_on_its_way, _LIFE, runs=6, leaders_lost=12),
    sought("position of a lost append", patches.position_of_a_lost_append, _LIFE, runs=6, leaders_lost=12),
    # The follower is back at once, and gets its partition from the leader, which has only just begun it and reads
    # slowly; the promote takes it away again. Producers get no answers, and send the same once more behind the cutover.
    sought(
        "a table with a gap is carried over",
        carry_a_table_with_a_gap,
        _HAS_JUST_BEGUN,
        runs=4,
        gateways=2,
        rate_per_s=100.0,
        faults=[Fault(FaultKind.FOLLOWER_KILLED, 0, "", 10.0, 1.2)],
        events=[Event(EventKind.ANSWERS_LOST, 0, "", 9.0, 14.0), Event(EventKind.SOURCE_NARROW, 0, "", 10.0, 12.0)],
    ),
)
