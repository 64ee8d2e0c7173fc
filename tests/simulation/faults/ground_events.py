"""Events of the ground that a fleet stands on: its own topics, and the cluster that keeps them (`plan.EventKind`).

These break Kafka's promises: an unclean election, or a disk that is lost where it was the only one.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from gateway.state.topic import TOPIC
from tests.simulation.faults.stage import Stage
from tests.simulation.kafka.cluster import ClusterModel
from tests.simulation.plan import Event, EventKind

_MOST_LOST: Final = 12
"""Records of a log, markers of transactions among them."""


class GroundEvents:
    """`table`: as `NetworkEvents.table`."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.table: Mapping[EventKind, Callable[[Event], str]] = {EventKind.STATE_LOST: self._state_lost}

    def _state_lost(self, event: Event) -> str:
        """The broker dies: one that lives on would tell of what it has until it hears of the next leader."""
        target = self._stage.target
        if TOPIC not in target.topic_names():
            return ""
        partition = target.partition(TOPIC, 0)
        broker, end = partition.leader_id, target.log_range(TOPIC, 0)[1]
        if broker not in self._stage.living(target):
            return ""
        lost = 1 + int(event.hold_s * 100) % _MOST_LOST
        target.kill_broker(broker)
        if target.move_leader(TOPIC, 0, lose=lost) is None:
            return ""
        self._stage.soon(_started(self._stage, target, broker, event.hold_s), f"start target-{broker}")
        kept = target.log_range(TOPIC, 0)[1]
        self._stage.state_lost(kept)
        return f"target-{broker}, which leads the state, dies, and the next one ends at {kept} and not at {end}"


def _started(stage: Stage, target: ClusterModel, broker: int, after_s: float) -> Coroutine[Any, Any, None]:
    async def back() -> None:
        await stage.hold(after_s)
        await target.start_broker(broker)

    return back()
