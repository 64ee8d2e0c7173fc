"""What each fault does to the simulated world, and how it is undone. All of them keep Kafka's own promises.

A fault strikes in the middle of whatever runs: the process that is killed dies at its next `await`, what it has written
to sockets by then is on its way.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, Literal, Protocol

from gateway.state.topic import TOPIC, TRANSACTIONAL_ID
from tests.simulation.fleet.gateway_node import GatewayNode, NotServing
from tests.simulation.kafka.cluster import ClusterModel
from tests.simulation.kernel.loop import SimLoop
from tests.simulation.kernel.network import Segment
from tests.simulation.plan import GROUP, Fault, FaultKind

FLEET_GROUP: Final = "__lockgate.fleet"
_STARTS: Final = 4
_START_AGAIN_S: Final = 1.0

Undo = Callable[[], Coroutine[Any, Any, None]]


class Scene(Protocol):
    """What faults need of the world."""

    loop: SimLoop
    source: ClusterModel
    target: ClusterModel
    fleet_name: str
    """How the names of its gateways begin."""
    asked_as_source: str
    """How the names of those begin whom the gateways ask for the source: its brokers, or other gateways before them."""

    def leader(self) -> GatewayNode | None:
        """The gateway that leads the fleet, while one is known to."""

    def followers(self) -> list[GatewayNode]:
        """The other gateways that run."""

    def soon(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run something beside the story; its end is awaited before the run is judged."""

    def troubled(self) -> bool:
        """Asked by one of those: something else is not undone yet."""

    async def hold(self, seconds: float) -> None:
        """What is broken stays so: for so long, or until a moment after the operation is done."""

    async def join(self) -> None:
        """One gateway more, for a while: partitions are assigned anew."""

    def living(self, cluster: ClusterModel) -> set[int]:
        """Brokers of a cluster that may be killed now: at most one is down at a time."""

    def topics(self) -> tuple[str, ...]:
        """Topics of the run, for faults that need one."""


class Faults:
    """Strikes. `dice`: chooses whom."""

    def __init__(self, scene: Scene, dice: random.Random) -> None:
        self._scene = scene
        self._dice = dice
        self._do: Mapping[FaultKind, Callable[[Fault], str]] = {
            FaultKind.LEADER_LEAVES: lambda f: self._leave(scene.leader(), f),
            FaultKind.LEADER_KILLED: lambda f: self._kill(scene.leader(), f),
            FaultKind.LEADER_PAUSED: lambda f: self._pause(scene.leader(), f),
            FaultKind.FOLLOWER_LEAVES: lambda f: self._leave(self._follower(), f),
            FaultKind.FOLLOWER_KILLED: lambda f: self._kill(self._follower(), f),
            FaultKind.FOLLOWER_PAUSED: lambda f: self._pause(self._follower(), f),
            FaultKind.PARTITION_MOVES: self._rebalance,
            FaultKind.GATEWAY_JOINS: self._join,
            FaultKind.TARGET_COORDINATOR_MOVES: lambda f: self._coordinators(scene.target),
            FaultKind.SOURCE_COORDINATOR_MOVES: lambda f: self._coordinators(scene.source),
            FaultKind.SOURCE_LEADER_MOVES: lambda f: self._move(scene.source),
            FaultKind.TARGET_LEADER_MOVES: lambda f: self._move(scene.target),
            FaultKind.SOURCE_LEADER_LOST: lambda f: self._lose(scene.source, f),
            FaultKind.TARGET_LEADER_LOST: lambda f: self._lose(scene.target, f),
            FaultKind.ANSWER_LOST_SOURCE: lambda f: self._lose_answer(scene.asked_as_source, f),
            FaultKind.ANSWER_LOST_TARGET: lambda f: self._lose_answer(f"{scene.target.name}-", f),
            FaultKind.ANSWER_LOST_PEER: lambda f: self._lose_answer(scene.fleet_name, f),
            FaultKind.CUT_FROM_TARGET: self._cut,
            FaultKind.CLOCK_JUMPS: self._jump,
        }

    def strike(self, fault: Fault) -> str:
        """Do it now. Returns what was done, '' when there was nobody to do it to."""
        return self._do[fault.kind](fault)

    # -- gateways --------------------------------------------------------------------------------------------------

    def _follower(self) -> GatewayNode | None:
        found = self._scene.followers()
        return self._dice.choice(found) if found else None

    def _leave(self, gateway: GatewayNode | None, fault: Fault) -> str:
        if gateway is None:
            return ""
        self._scene.soon(_restarted(self._scene, gateway, gateway.stop, fault.hold_s), f"restart {gateway.name}")
        return f"{gateway.name} is stopped in order, and started again"

    def _kill(self, gateway: GatewayNode | None, fault: Fault) -> str:
        if gateway is None:
            return ""
        gateway.kill()
        self._scene.soon(_restarted(self._scene, gateway, None, fault.hold_s), f"start {gateway.name}")
        return f"{gateway.name} is killed, and started again after {fault.hold_s:g} s at most"

    def _pause(self, gateway: GatewayNode | None, fault: Fault) -> str:
        if gateway is None:
            return ""
        gateway.pause()
        self._scene.soon(_woken(self._scene, gateway, fault.hold_s), f"wake {gateway.name}")
        return f"{gateway.name} is paused for {fault.hold_s:g} s at most"

    def _rebalance(self, fault: Fault) -> str:
        """A follower is away for just long enough that its partitions go elsewhere, and come back."""
        gateway = self._follower()
        if gateway is None:
            return ""
        self._scene.soon(_restarted(self._scene, gateway, gateway.stop, 0.0), f"restart {gateway.name}")
        return f"{gateway.name} leaves and comes back at once: partitions move"

    def _join(self, fault: Fault) -> str:
        self._scene.soon(self._scene.join(), "join")
        return "one more gateway joins"

    def _jump(self, fault: Fault) -> str:
        gateway = self._scene.leader() or self._follower()
        if gateway is None:
            return ""
        by_ms = self._dice.choice((-3_600_000, -20_000, 20_000, 1_000_000, 7_200_000))
        gateway.jump_clock(by_ms)
        return f"the clock of {gateway.name} jumps by {by_ms / 1000:g} s"

    # -- clusters --------------------------------------------------------------------------------------------------

    def _partition(self, cluster: ClusterModel) -> tuple[str, int] | None:
        """Of a topic of the run; of the state as long as the target has none."""
        names = cluster.topic_names()
        there = [name for name in self._scene.topics() if name in names] or [name for name in (TOPIC,) if name in names]
        if not there:
            return None
        topic = self._dice.choice(there)
        return topic, self._dice.randrange(len(cluster.topics[topic].partitions))

    def _move(self, cluster: ClusterModel) -> str:
        found = self._partition(cluster)
        if found is None:
            return ""
        cluster.move_leader(*found)
        return f"{cluster.name}: {found[0]}/{found[1]} is led by another broker"

    def _lose(self, cluster: ClusterModel, fault: Fault) -> str:
        """The leader of a partition dies: what was not replicated is lost, which nobody was promised."""
        found = self._partition(cluster)
        if found is None:
            return ""
        broker = cluster.partition(*found).leader_id
        if broker not in self._scene.living(cluster):
            return ""
        cluster.kill_broker(broker)
        self._scene.soon(_broker_back(self._scene, cluster, broker, fault.hold_s), f"start {cluster.name}-{broker}")
        led = f"{found[0]}/{found[1]}"
        return f"{cluster.name}-{broker}, which leads {led}, is killed; back after {fault.hold_s:g} s at most"

    def _coordinators(self, cluster: ClusterModel) -> str:
        for kind, keys in (("group", (FLEET_GROUP, GROUP)), ("transaction", ("tx", TRANSACTIONAL_ID))):
            for key in keys:
                cluster.move_coordinator(key, kind)
        return f"{cluster.name}: coordinators move"

    # -- the network -----------------------------------------------------------------------------------------------

    def _lose_answer(self, prefix: str, fault: Fault) -> str:
        """The next request of the leader to such a node arrives, and its connection breaks before the answer.

        While no leader serves (it is the one that leaves in order) it is another one's.
        """
        gateway = self._scene.leader() or self._follower()
        if gateway is None:
            return ""
        network, name = self._scene.loop.network, gateway.name
        armed: list[str] = []  # whom it has asked since

        def hook(segment: Segment) -> Literal["drop-connection"] | None:
            if (
                segment.from_client
                and segment.src == name
                and segment.dst.startswith(prefix)
                and len(segment.data) > 60
            ):
                armed.append(segment.dst)
            elif not segment.from_client and segment.dst == name and segment.src in armed:
                network.on_segment.remove(hook)
                return "drop-connection"
            return None

        network.on_segment.append(hook)
        return f"the next answer to {gateway.name} from {prefix}* is lost"

    def _cut(self, fault: Fault) -> str:
        gateway = self._scene.leader() or self._follower()
        if gateway is None:
            return ""
        network = self._scene.loop.network
        names = [node for node in self._scene.loop.nodes if node.startswith(f"{self._scene.target.name}-")]
        for name in names:
            network.cut(name, gateway.name)
        self._scene.soon(_healed(self._scene, gateway.name, names, fault.hold_s), f"heal {gateway.name}")
        return f"nothing of the target reaches {gateway.name} for {fault.hold_s:g} s at most"


async def _restarted(scene: Scene, gateway: GatewayNode, stop: Undo | None, after_s: float) -> None:
    if stop is not None:
        await stop()
    await scene.hold(after_s)
    if not gateway.runs:
        await started(scene, gateway)


async def started(scene: Scene, gateway: GatewayNode) -> None:
    """Start a gateway. Who runs it starts it again when it could not start, as systemd and Kubernetes do.

    It may be unable to while something is broken (`StartError` after half a minute in which it reads and writes no
    state). When nothing is, it must start at once.
    """
    for _ in range(_STARTS):
        excused = scene.troubled()
        try:
            await gateway.start()
        except NotServing:
            if not excused:
                raise
            await asyncio.sleep(_START_AGAIN_S)
        else:
            return
    raise NotServing(f"{gateway.name} was started {_STARTS} times in vain")


async def _woken(scene: Scene, gateway: GatewayNode, after_s: float) -> None:
    await scene.hold(after_s)
    gateway.wake()


async def _broker_back(scene: Scene, cluster: ClusterModel, broker: int, after_s: float) -> None:
    await scene.hold(after_s)
    await cluster.start_broker(broker)


async def _healed(scene: Scene, gateway: str, names: list[str], after_s: float) -> None:
    await scene.hold(after_s)
    for name in names:
        scene.loop.network.heal(name, gateway)
