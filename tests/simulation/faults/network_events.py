"""Events of the network: requests and answers that are lost, cut off, late or slow (`plan.EventKind`, `events.py`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, Literal

from gateway.state.topic import TOPIC, TRANSACTIONAL_ID
from protocol.apis import ApiKey
from tests.simulation.faults.stage import Stage
from tests.simulation.kafka.cluster import ClusterModel
from tests.simulation.kernel.network import LATENCY_S, Segment
from tests.simulation.plan import PLAIN, Event, EventKind

_SLOW_S: Final = 3.0
_NARROW: Final = 10_000
_UNHEARD_S: Final = 0.3
_LONG: Final = 200

Answer = Literal["drop-connection"] | None


class NetworkEvents:
    """`table`: what each kind does; it returns what happens, '' when there is nobody to whom it could."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._later: list[asyncio.Task[None]] = []
        self.table: Mapping[EventKind, Callable[[Event], str]] = {
            EventKind.ANSWERS_LOST: self._answers_lost,
            EventKind.STATE_UNANSWERED: self._state_unanswered,
            EventKind.STATE_UNHEARD: self._state_unheard,
            EventKind.STATE_REFUSED: self._state_refused,
            EventKind.STATE_LATE: self._state_late,
            EventKind.ASSIGNMENT_LATE: self._assignment_late,
            EventKind.CREATE_UNANSWERED: self._create_unanswered,
            EventKind.DELETE_DELAYED: self._delete_delayed,
            EventKind.SOURCE_DOWN: self._source_down,
            EventKind.SOURCE_LEADER_CUT: self._source_leader_cut,
            EventKind.SOURCE_LEADER_MOVES_AWAY: self._source_leader_moves_away,
            EventKind.SOURCE_SLOW: self._source_slow,
            EventKind.SOURCE_NARROW: self._source_narrow,
            EventKind.HALF_A_FRAME: self._half_a_frame,
            EventKind.CUT_ONE_WAY: self._cut_one_way,
        }

    def _hooked(self, hook: Callable[[Segment], Answer], for_s: float, name: str) -> None:
        self._stage.loop.network.on_segment.append(hook)
        self._stage.soon(self._unhooked(hook, for_s), name)

    async def _unhooked(self, hook: Callable[[Segment], Answer], after_s: float) -> None:
        await asyncio.sleep(after_s)
        self._stage.loop.network.on_segment.remove(hook)

    def _answers_lost(self, event: Event) -> str:
        hook = self._unanswered(lambda data: _is(data, ApiKey.PRODUCE), "gw-")
        loop = self._stage.loop  # it may go on over the end of the operation
        loop.network.on_segment.append(hook)
        self._later.append(loop.spawn(loop.lab, self._unhooked(hook, event.hold_s), "producers are answered"))
        return f"answers of gateways to producers are lost for {event.hold_s:g} s"

    def _state_unanswered(self, event: Event) -> str:
        hook = self._unanswered(lambda data: _asks(data, ApiKey.END_TXN), "target-")
        self._hooked(hook, event.hold_s, "commits are answered")
        return f"commits of the state are made, and not answered, for {event.hold_s:g} s"

    def _state_unheard(self, event: Event) -> str:
        network = self._stage.loop.network

        def hook(segment: Segment) -> Answer:
            if segment.from_client and _asks(segment.data, ApiKey.END_TXN):
                network.on_segment.remove(hook)
                brokers = [node for node in self._stage.loop.nodes if node.startswith("target-")]
                self._cut_from(brokers, [segment.src], event)
            return None

        network.on_segment.append(hook)
        return (
            f"the next commit of the state is made, and its gateway hears nothing of the target for {event.hold_s:g} s"
        )

    def _create_unanswered(self, event: Event) -> str:
        hook = self._unanswered(lambda data: _is(data, ApiKey.CREATE_TOPICS), "target-")
        self._hooked(hook, event.hold_s, "creates are answered")
        return f"topics of the target are created, and not answered, for {event.hold_s:g} s"

    @staticmethod
    def _unanswered(meant: Callable[[bytes], bool], prefix: str) -> Callable[[Segment], Answer]:
        """Breaks the connections on which such requests are answered, as the answers come."""
        armed = set[tuple[str, str]]()

        def hook(segment: Segment) -> Answer:
            if segment.from_client and segment.dst.startswith(prefix) and meant(segment.data):
                armed.add((segment.src, segment.dst))
            elif not segment.from_client and (segment.dst, segment.src) in armed:
                armed.discard((segment.dst, segment.src))
                return "drop-connection"
            return None

        return hook

    def _state_refused(self, event: Event) -> str:
        def hook(segment: Segment) -> Answer:
            asks = segment.from_client and _asks(segment.data, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.PRODUCE)
            return "drop-connection" if asks else None

        self._hooked(hook, event.hold_s, "the state is written")
        return f"the state cannot be written for {event.hold_s:g} s"

    def _state_late(self, event: Event) -> str:
        target = self._stage.target
        broker = f"{target.name}-{target.partition(TOPIC, 0).leader_id}"
        followers = [gateway.name for gateway in self._stage.followers()]
        for name in followers:
            self._stage.loop.network.cut(broker, name)
            self._stage.soon(self._healed(broker, name, event.hold_s), f"heal {name}")
        return f"nothing of {broker}, which leads the state, reaches {' '.join(followers)}" if followers else ""

    def _assignment_late(self, event: Event) -> str:
        stage = self._stage
        followers = [gateway.name for gateway in stage.followers()]

        def hook(segment: Segment) -> Answer:
            leader = stage.leader()
            if leader is not None and segment.src == leader.name and _is(segment.data, ApiKey.SYNC_GROUP):
                stage.loop.network.on_segment.remove(hook)
                self._cut_from([segment.dst], followers, event)
            return None

        stage.loop.network.on_segment.append(hook)
        return f"the next assignment comes {event.hold_s:g} s late to {' '.join(followers)}"

    def _delete_delayed(self, event: Event) -> str:
        stage = self._stage

        def hook(segment: Segment) -> Answer:
            if segment.from_client and segment.dst.startswith("source-") and _is(segment.data, ApiKey.DELETE_TOPICS):
                stage.loop.network.on_segment.remove(hook)
                broker = int(segment.dst.removeprefix("source-"))
                stage.source.pause_broker(broker)
                stage.soon(woken(stage.source, broker, event.hold_s), f"wake {segment.dst}")
            return None

        stage.loop.network.on_segment.append(hook)
        return f"the broker that is asked to delete a topic next is stopped for {event.hold_s:g} s"

    def _source_down(self, event: Event) -> str:
        brokers = [node for node in self._stage.loop.nodes if node.startswith("source-")]
        self._cut_from(brokers, self._names(), event)
        return f"nothing of the source reaches gateways for {event.hold_s:g} s"

    def _source_leader_cut(self, event: Event) -> str:
        source = self._stage.source
        broker = f"{source.name}-{source.partition(PLAIN[0], 0).leader_id}"
        self._cut_from([broker], self._names(), event)
        return f"nothing of {broker}, which leads {PLAIN[0]}/0, reaches gateways for {event.hold_s:g} s"

    def _source_leader_moves_away(self, event: Event) -> str:
        source, loop = self._stage.source, self._stage.loop
        broker = f"{source.name}-{source.partition(PLAIN[0], 0).leader_id}"
        for gateway in self._stage.gateways:
            loop.network.cut(gateway.name, broker)
            self._stage.soon(self._healed(gateway.name, broker, event.hold_s), f"heal {gateway.name}")
        self._stage.soon(self._moved(PLAIN[0], _UNHEARD_S), f"move {PLAIN[0]}")
        return f"nothing reaches {broker} for {event.hold_s:g} s, and another one leads {PLAIN[0]}/0 soon"

    async def _moved(self, topic: str, after_s: float) -> None:
        await asyncio.sleep(after_s)
        self._stage.source.move_leader(topic, 0)

    def _names(self) -> list[str]:
        return [gateway.name for gateway in self._stage.gateways]

    def _cut_from(self, brokers: list[str], gateways: list[str], event: Event) -> None:
        """Nothing of the brokers reaches these gateways."""
        loop = self._stage.loop  # it may go on over the end of the operation
        for broker in brokers:
            for name in gateways:
                loop.network.cut(broker, name)
                self._later.append(loop.spawn(loop.lab, self._healed(broker, name, event.hold_s), f"heal {name}"))

    def _source_slow(self, event: Event) -> str:
        self._stage.loop.network.slow("source-*", "gw-*", _SLOW_S)
        self._stage.soon(self._fast(event.hold_s), "the source is fast")
        return f"the source's answers take {_SLOW_S:g} s for {event.hold_s:g} s"

    def _source_narrow(self, event: Event) -> str:
        loop = self._stage.loop  # it may go on over the end of the operation
        loop.network.slow("source-*", "gw-*", LATENCY_S, _NARROW)
        self._later.append(loop.spawn(loop.lab, self._fast(event.hold_s), "the source is fast"))
        return f"no connection to the source carries more than {_NARROW} bytes/s for {event.hold_s:g} s"

    async def _fast(self, after_s: float) -> None:
        await asyncio.sleep(after_s)
        self._stage.loop.network.fast("source-*", "gw-*")

    def _half_a_frame(self, event: Event) -> str:
        network = self._stage.loop.network

        def hook(segment: Segment) -> int | None:
            if segment.from_client and segment.src.startswith("gw-") and len(segment.data) > _LONG:
                network.on_segment.remove(hook)
                return len(segment.data) // 2
            return None

        network.on_segment.append(hook)
        return "the next long request of a gateway arrives by half"

    def _cut_one_way(self, event: Event) -> str:
        gateways = [gateway for gateway in self._stage.gateways if gateway.serves]
        if not gateways:
            return ""
        at = int(event.hold_s * 100)
        name, broker = gateways[at % len(gateways)].name, f"{('source', 'target')[at % 2]}-{1 + at % 3}"
        self._stage.loop.network.cut(name, broker)
        self._stage.soon(self._healed(name, broker, event.hold_s), f"heal {name}")
        return f"nothing of {name} reaches {broker} for {event.hold_s:g} s"

    async def _healed(self, name: str, broker: str, after_s: float) -> None:
        await asyncio.sleep(after_s)
        self._stage.loop.network.heal(name, broker)


def _asks(data: bytes, *keys: ApiKey) -> bool:
    """A request about the state's transactions."""
    return TRANSACTIONAL_ID.encode() in data and _is(data, *keys)


def _is(data: bytes, *keys: ApiKey) -> bool:
    """A request of one of these kinds, at the segment's begin."""
    return int.from_bytes(data[4:6], "big") in keys


async def woken(cluster: ClusterModel, broker: int, after_s: float) -> None:
    """Goes on with a broker that is paused, in `after_s` virtual seconds."""
    await asyncio.sleep(after_s)
    cluster.wake_broker(broker)
