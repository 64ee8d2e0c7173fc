"""A mirror topic that was promoted and goes back, or fails over, on a control plane in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from gateway.cutover.failback.operations import Failbacks
from gateway.cutover.failover.run import OnFailover
from gateway.cutover.write_pause.rules.routing import WritePhase
from gateway.kafka.rules.topic_configs import set_back
from gateway.state.records import MirrorDirection, MirrorRecord, MirrorState
from tests.support.control.control_plane import Plane
from tests.support.control.mirror_records import changed
from tests.support.control.topic_scene import FakeEnds, FakeForwarder
from tests.support.fakes.fake_engine import status
from tests.support.waiting import wait_until_async

S = MirrorState
REVERSE: Final = MirrorDirection.REVERSE
ENDS: Final = [100, 100, 100]
COPY_ENDS: Final = [60, 60, 60]


class FailbackScene:
    """A plane with one mirror of three partitions, level at 100."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.ends = FakeEnds({"orders": list(ENDS)})
        self.forwarder = FakeForwarder(plane)
        self.phases: list[WritePhase] = []
        plane.routing.subscribe(lambda routing, _changed: self.phases.append(routing.topics["orders"].phase))
        self.periods = self.make()

    def make(self, on_failover: Sequence[OnFailover] = ()) -> Failbacks:
        return self.plane.failbacks(
            pauses={"gw": self.forwarder}, ends=self.ends, on_failover=on_failover, patience_s=0.3
        )

    @property
    def record(self) -> MirrorRecord:
        return self.plane.store.mirrors["l", "orders"]

    async def set(self, state: MirrorState, **changes: Any) -> None:
        await self.plane.by_hand(changed(self.record, state=state, **changes))

    async def promoted(self) -> None:
        """STOPPED at 100, as a promote leaves it."""
        await self.plane.engine.stop_mirror("l", "orders")
        values, _ = set_back(self.record.restore_configs)
        self.plane.target.existing["orders"].configs.update(values)
        ends = {"stopped_at": tuple(ENDS), "stopped_copy_at": tuple(COPY_ENDS)}
        await self.set(S.STOPPED, **ends, restore_configs={}, readable=True, cutover_ms=1)
        self.phases.clear()

    async def until(self, state: MirrorState, direction: MirrorDirection = MirrorDirection.FORWARD) -> None:
        for index in range(3):
            self.plane.engine.numbers["l", "orders"] = [status(i) for i in range(index + 1)]
        await wait_until_async(lambda: (self.record.state, self.record.failback.direction) == (state, direction), 10)
