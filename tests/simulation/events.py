"""What happens beside operations and is nobody's fault, or nobody's of the fleet: see `plan.EventKind`.

As a fault, an event strikes in the middle of whatever runs, and what it has begun comes to its end before the next
operation begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, Protocol

from gateway.control.state_topic import TRANSACTIONAL_ID
from gateway.net.cluster import Cluster, NetError
from gateway.net.config import ClusterConfig
from protocol.apis import ApiKey
from protocol.messages import OffsetFetchRequest
from tests.simulation.clients import GroupMember, Producer
from tests.simulation.clients.client import addresses
from tests.simulation.faults import Scene
from tests.simulation.fleet import GatewayNode, NotServing
from tests.simulation.kernel.network import LATENCY_S, Segment
from tests.simulation.operator import LINK, Operator
from tests.simulation.plan import PLAIN, SET, TOPICS, Act, Event, EventKind
from tests.simulation.recorder import SOURCE, TARGET

EARLY: Final = "early"
"""A group that reads the first topic of the set, on the source, and has asked a gateway before it was mirrored."""
_AHEAD_MS: Final = 16 * 60 * 1000
_SLOW_S: Final = 3.0
_NARROW: Final = 4000
_WRITES_S: Final = 1.0
_WAIT_S: Final = 0.05

Answer = Literal["drop-connection"] | None


class Stage(Scene, Protocol):
    """What events need of the world, beside what faults do."""

    gateways: list[GatewayNode]

    @property
    def operator(self) -> Operator:
        """Who asks for operations."""

    @property
    def gateway_bootstrap(self) -> str:
        """Where clients of gateways connect."""

    def act(self) -> Act | None:
        """What goes on now."""

    def producers(self) -> list[str]:
        """Names of the producers' nodes."""

    def member(self, name: str, bootstrap: str, side: str, group: str = ...) -> GroupMember:
        """A member of a group; of the plan's own group it shares the positions."""

    def producer(self, name: str, topic: str, partitions: int, bootstrap: str = ..., side: str = ...) -> Producer:
        """A producer; without a place on the source."""

    def begin(self, producer: Producer) -> None:
        """Start a producer that writes to the end of the run."""


class Events:
    """Strikes.

    Attributes:
        early: the member of the group EARLY, in a run that has it.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._numbers = iter(range(1_000_000))
        self.early: GroupMember | None = None
        self._later: asyncio.Task[None] | None = None
        self._do: Mapping[EventKind, Callable[[Event], str]] = {
            EventKind.GROUP_ASKS: self._group_asks,
            EventKind.ANSWERS_LOST: self._answers_lost,
            EventKind.STATE_UNANSWERED: self._state_unanswered,
            EventKind.STATE_REFUSED: self._state_refused,
            EventKind.PRODUCER_EARLY: self._producer_early,
            EventKind.CREATE_UNANSWERED: self._create_unanswered,
            EventKind.FAILOVER_ASKED: self._failover_asked,
            EventKind.MEMBER_ON_SOURCE: self._member_on_source,
            EventKind.MEMBER_KNOCKS: self._member_knocks,
            EventKind.NAME_TAKEN: self._name_taken,
            EventKind.DELETE_DELAYED: self._delete_delayed,
            EventKind.PARTITIONS_ADDED: self._partitions_added,
            EventKind.TARGET_BROKER_PAUSED: self._target_broker_paused,
            EventKind.SOURCE_SLOW: self._source_slow,
            EventKind.SOURCE_NARROW: self._source_narrow,
            EventKind.CLOCKS_AHEAD: self._clocks_ahead,
        }

    def strike(self, event: Event) -> str:
        """Do it now. Returns what happens, '' when there is nobody to whom it could."""
        return self._do[event.kind](event)

    def members(self) -> list[GroupMember]:
        """Those that read to the end of the run."""
        return [] if self.early is None or self.early.side == SOURCE else [self.early]

    async def created(self, topic: str) -> None:
        """A topic is mirrored: its reader comes to the gateways."""
        if self.early is not None and topic == SET[0]:
            await self.early.restart(self._stage.gateway_bootstrap, TARGET)

    # -- groups ----------------------------------------------------------------------------------------------------

    def _group_asks(self, event: Event) -> str:
        self._stage.soon(self._ask_offsets(), f"ask for {EARLY}")
        return f"group {EARLY} asks a gateway for its offsets"

    async def _ask_offsets(self) -> None:
        """As a tool does, that describes a group."""
        stage = self._stage
        where = [gateway.bootstrap for gateway in stage.gateways if gateway.serves][:1]
        config = ClusterConfig(bootstrap=addresses(",".join(where)), client_id="tool", request_timeout_s=5.0)
        cluster = Cluster(config, rng=stage.loop.random("tool").random)
        group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=EARLY, topics=None)
        try:
            await cluster.start()
            node = await cluster.coordinator(EARLY)
            connection = await cluster.connection(node, "tool", 5.0)
            request = OffsetFetchRequest(group_id=EARLY, topics=None, groups=[group], require_stable=False)
            await connection.request(request, cap=8, timeout_s=5.0)
        except (NetError, OSError, TimeoutError):
            pass  # the gateway has heard it
        finally:
            await cluster.close()

    def _member_on_source(self, event: Event) -> str:
        member = self._stage.member(f"visitor-{next(self._numbers)}", self._stage.source.bootstrap, SOURCE)
        self._stage.soon(self._visit(member, event.hold_s), member.name)
        return f"{member.name} reads on the source for {event.hold_s:g} s"

    def _member_knocks(self, event: Event) -> str:
        where = ",".join(gateway.bootstrap for gateway in self._stage.followers())
        if not where:
            return ""
        member = self._stage.member(f"visitor-{next(self._numbers)}", where, TARGET)
        self._stage.soon(self._visit(member, event.hold_s), member.name)
        return f"{member.name} comes to {where} for {event.hold_s:g} s"

    @staticmethod
    async def _visit(member: GroupMember, for_s: float) -> None:
        member.start()
        await asyncio.sleep(for_s)
        await member.stop()

    def _producer_early(self, event: Event) -> str:
        where = self._stage.gateway_bootstrap
        self._stage.begin(self._stage.producer("early-writer", PLAIN[0], TOPICS[PLAIN[0]], where, TARGET))
        return f"a producer of {PLAIN[0]} comes to the gateways"

    # -- answers ---------------------------------------------------------------------------------------------------

    def _hooked(self, hook: Callable[[Segment], Answer], for_s: float, name: str) -> None:
        self._stage.loop.network.on_segment.append(hook)
        self._stage.soon(self._unhooked(hook, for_s), name)

    async def _unhooked(self, hook: Callable[[Segment], Answer], after_s: float) -> None:
        await asyncio.sleep(after_s)
        self._stage.loop.network.on_segment.remove(hook)

    def _answers_lost(self, event: Event) -> str:
        self._unanswered(lambda data: _is(data, ApiKey.PRODUCE), "gw-", event.hold_s, "producers are answered")
        return f"answers of gateways to producers are lost for {event.hold_s:g} s"

    def _state_unanswered(self, event: Event) -> str:
        self._unanswered(lambda data: _asks(data, ApiKey.END_TXN), "target-", event.hold_s, "commits are answered")
        return f"commits of the state are made, and not answered, for {event.hold_s:g} s"

    def _create_unanswered(self, event: Event) -> str:
        self._unanswered(lambda data: _is(data, ApiKey.CREATE_TOPICS), "target-", event.hold_s, "creates are answered")
        return f"topics of the target are created, and not answered, for {event.hold_s:g} s"

    def _unanswered(self, meant: Callable[[bytes], bool], prefix: str, for_s: float, name: str) -> None:
        armed = set[tuple[str, str]]()

        def hook(segment: Segment) -> Answer:
            if segment.from_client and segment.dst.startswith(prefix) and meant(segment.data):
                armed.add((segment.src, segment.dst))
            elif not segment.from_client and (segment.dst, segment.src) in armed:
                armed.discard((segment.dst, segment.src))
                return "drop-connection"
            return None

        self._hooked(hook, for_s, name)

    def _state_refused(self, event: Event) -> str:
        def hook(segment: Segment) -> Answer:
            asks = segment.from_client and _asks(segment.data, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.PRODUCE)
            return "drop-connection" if asks else None

        self._hooked(hook, event.hold_s, "the state is written")
        return f"the state cannot be written for {event.hold_s:g} s"

    def _delete_delayed(self, event: Event) -> str:
        stage = self._stage

        def hook(segment: Segment) -> Answer:
            if segment.from_client and segment.dst.startswith("source-") and _is(segment.data, ApiKey.DELETE_TOPICS):
                stage.loop.network.on_segment.remove(hook)
                broker = int(segment.dst.removeprefix("source-"))
                stage.source.pause_broker(broker)
                stage.soon(_woken(stage.source, broker, event.hold_s), f"wake {segment.dst}")
            return None

        stage.loop.network.on_segment.append(hook)
        return f"the broker that is asked to delete a topic next is stopped for {event.hold_s:g} s"

    def _source_slow(self, event: Event) -> str:
        self._stage.loop.network.slow("source-*", "gw-*", _SLOW_S)
        self._stage.soon(self._fast(event.hold_s), "the source is fast")
        return f"the source's answers take {_SLOW_S:g} s for {event.hold_s:g} s"

    def _source_narrow(self, event: Event) -> str:
        self._stage.loop.network.slow("source-*", "gw-*", LATENCY_S, _NARROW)
        self._stage.soon(self._fast(event.hold_s), "the source is fast")
        return f"no connection to the source carries more than {_NARROW} bytes/s for {event.hold_s:g} s"

    async def _fast(self, after_s: float) -> None:
        await asyncio.sleep(after_s)
        self._stage.loop.network.fast("source-*", "gw-*")

    # -- clusters and gateways -------------------------------------------------------------------------------------

    def _target_broker_paused(self, event: Event) -> str:
        target = self._stage.target
        if PLAIN[0] not in target.topic_names() or len(self._stage.living(target)) < len(target.brokers):
            return ""
        broker = target.partition(PLAIN[0], 0).leader_id
        target.pause_broker(broker)
        loop = self._stage.loop  # it may go on over the end of the operation
        self._later = loop.spawn(loop.lab, _woken(target, broker, event.hold_s), f"wake target-{broker}")
        return f"target-{broker}, which leads {PLAIN[0]}/0, is stopped for {event.hold_s:g} s"

    def _partitions_added(self, event: Event) -> str:
        source, topic, count = self._stage.source, PLAIN[0], TOPICS[PLAIN[0]]
        if len(source.topics[topic].partitions) != count:
            return ""
        source.add_partitions(source.topics[topic], count + 1)
        producer = self._stage.producer("adder", topic, count + 1)
        producer.keys = [(topic, count)]
        self._stage.soon(_writes(producer), producer.name)
        return f"{topic} has {count + 1} partitions on the source, and the new one is written for {_WRITES_S:g} s"

    def _clocks_ahead(self, event: Event) -> str:
        for gateway in self._stage.followers():
            gateway.jump_clock(_AHEAD_MS)
        return "gateways that follow are 16 min ahead"

    def _failover_asked(self, event: Event) -> str:
        topic = PLAIN[0]
        body = {"mirror_topic_names": [topic]}
        path = f"/v3/links/{LINK}/mirrors:failover"
        self._stage.soon(self._ask(path, body), "failover")
        return f"{topic} is to be failed over"

    async def _ask(self, path: str, body: Any) -> None:
        await self._stage.operator.ask("POST", path, body)

    def _name_taken(self, event: Event) -> str:
        followers = self._stage.followers()
        if not followers:
            return ""
        old = followers[0]
        fleet = {"name": old.name, "lease_s": old.settings.fleet.lease_s}
        twin = GatewayNode(self._stage.loop, f"{old.name}-twin", self._stage.target.bootstrap, {"fleet": fleet})
        self._stage.soon(self._take_name(old, twin, event.hold_s), twin.name)
        return f"{old.name} is cut off from the target, and {twin.name} takes its name"

    async def _take_name(self, old: GatewayNode, twin: GatewayNode, for_s: float) -> None:
        network, targets = self._stage.loop.network, [n for n in self._stage.loop.nodes if n.startswith("target-")]
        for name in targets:
            network.cut(name, old.name)
        try:
            await twin.start()
            self._stage.gateways.append(twin)
            await asyncio.sleep(for_s)
        except NotServing:
            pass
        if twin in self._stage.gateways:
            self._stage.gateways.remove(twin)
        await twin.stop()
        for name in targets:
            network.heal(name, old.name)
        old.kill()
        await old.start()


def _asks(data: bytes, *keys: ApiKey) -> bool:
    """A request about the state's transactions."""
    return TRANSACTIONAL_ID.encode() in data and _is(data, *keys)


def _is(data: bytes, *keys: ApiKey) -> bool:
    """A request of one of these kinds, at the segment's begin."""
    return int.from_bytes(data[4:6], "big") in keys


async def _woken(cluster: Any, broker: int, after_s: float) -> None:
    await asyncio.sleep(after_s)
    cluster.wake_broker(broker)


async def _writes(producer: Producer) -> None:
    producer.start()
    await asyncio.sleep(_WRITES_S)
    await producer.stop()
