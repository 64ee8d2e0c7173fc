"""A conversation with one session: a client and a broker that are lists of bytes."""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.cutover.write_pause.rules.routing import RoutingTable
from gateway.groups.gate.rules.gates import GroupGates
from gateway.kafka.connection.quota_rest import QuotaRest
from gateway.mirror.rules.progress import MirrorProgress
from gateway.proxy.handlers import install
from gateway.proxy.produce.counted_writes import CountedWrites
from gateway.proxy.produce.cutover_connections import CutoverLanes
from gateway.proxy.produce.forwarder import Forwarder
from gateway.proxy.produce.target_down import TargetDown
from gateway.proxy.rules.limits import Limits
from gateway.proxy.session.context import Sessions
from gateway.proxy.session.listener import Listener
from gateway.proxy.session.proxy_session import ProxySession
from gateway.proxy.transactions.coordinators import TransactionCoordinators
from gateway.proxy.transactions.identities import Identities
from gateway.proxy.transactions.placement import TopicPlacements
from gateway.proxy.transactions.transactions import Transactions
from protocol.framing import FrameReader
from tests.support.proxy.limits import limits_with


class Wire:
    """What was written to a connection, and whether it is read from."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.reading = True
        self.closed = self.taken_back = self.waiting = False
        self.unsent = 0  # of what was written

    @property
    def untaken(self) -> int:
        return self.unsent

    def write(self, data: bytes) -> None:
        self.written += data

    def writelines(self, pieces: Sequence[bytes]) -> None:
        self.written += b"".join(pieces)

    def trusted(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True

    def take_back(self) -> None:
        self.closed = self.taken_back = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def take(self) -> bytes:
        data, self.written = bytes(self.written), bytearray()
        return data

    def frames(self) -> list[bytes]:
        """The whole frames written so far, without their sizes."""
        return [bytes(frame) for frame in FrameReader(1 << 20).feed(self.take())]


class ManualLoop:
    """Timers that fire when told to; tasks run on the real loop."""

    def __init__(self) -> None:
        self.timers: list[Any] = []

    def call_later(self, delay: float, callback: Any, *args: Any) -> Any:
        timer = Timer(delay, callback, args)
        self.timers.append(timer)
        return timer

    def call_soon(self, callback: Any, *args: Any) -> Any:
        return asyncio.get_running_loop().call_soon(callback, *args)

    def create_future(self) -> Any:
        return asyncio.get_running_loop().create_future()

    def create_task(self, work: Any) -> Any:
        return asyncio.get_running_loop().create_task(work)

    def fire(self) -> None:
        """Fire every timer that was not cancelled."""
        due, self.timers = self.timers, []
        for timer in due:
            if not timer.was_cancelled:
                timer.callback(*timer.args)


class Timer:
    def __init__(self, delay: float, callback: Any, args: Any) -> None:
        self.delay, self.callback, self.args = delay, callback, args
        self.was_cancelled = False

    def cancel(self) -> None:
        """As asyncio's: it forgets what it would have called."""
        self.was_cancelled = True
        self.callback, self.args = None, ()

    def cancelled(self) -> bool:
        return self.was_cancelled


class Endpoints:
    def advertised(self, node_id: int, host: str, port: int) -> tuple[str, int]:
        return "gateway", 9000 + node_id


class SourceOffsets:
    """What groups that wait have committed on their source. `held`: by group; a group that is not in it: no answer."""

    def __init__(self) -> None:
        self.held: dict[str, Any] = {}
        self.asked: list[str] = []

    async def of(self, group: str) -> Any:
        self.asked.append(group)
        return self.held.get(group)


class SourceTopics:
    def __init__(self) -> None:
        self.unmirrored: dict[str, str] = {}
        self.asked: list[str] = []

    async def exists_unmirrored(self, topics: Sequence[str]) -> dict[str, str]:
        self.asked += topics
        return {topic: self.unmirrored[topic] for topic in topics if topic in self.unmirrored}


class LaneClock:
    """The loop of a connection, as far as its rests need one: time passes when told to. `early`: by how much timers go
    off before their time, as uvloop's do, which counts milliseconds."""

    def __init__(self) -> None:
        self.now = 50.0
        self.early = 0.0
        self._timers: list[tuple[float, Any, Timer]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Any) -> Any:
        timer = Timer(when, callback, ())
        self._timers.append((when, callback, timer))
        return timer

    def call_soon(self, callback: Any) -> None:
        self.call_at(self.now, callback)

    def passes(self, seconds: float) -> None:
        """And what is due is called, also what becomes due by that."""
        self.now += seconds
        while due := [each for each in self._timers if each[0] <= self.now + self.early]:
            self._timers = [each for each in self._timers if each[0] > self.now + self.early]
            for _, callback, timer in due:
                if not timer.was_cancelled:
                    callback()


class SourceConnection:
    """What was sent to a source broker, and the callbacks that wait for its answers."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, int, bytes]] = []
        self.waiting: list[Any] = []
        self.write_paused = False
        self.after: list[Any] = []
        self.in_burst = False
        self.loop = LaneClock()
        self.rest = QuotaRest(cast("Any", self.loop), lambda: len(self.waiting))

    def version(self, key: int, cap: int | None = None) -> int:
        return 11

    def send(
        self, key: int, version: int, pieces: Sequence[Any], on_response: Any, expect_response: bool = True
    ) -> None:
        self.sent.append((key, version, b"".join(bytes(piece) for piece in pieces)))
        self.waiting.append(on_response)

    def answer(self, body: bytes | None) -> None:
        self.answer_together(body)

    def answer_together(self, *bodies: bytes | None) -> None:
        """Answers that come with one read."""
        self.in_burst = len(bodies) > 1
        for body in bodies:
            self.waiting.pop(0)(None if body is None else memoryview(body))
        after, self.after = self.after, []
        for callback in after:
            callback()

    def collect_in(self, event_loop_io: Any) -> None:
        pass

    def after_responses(self, callback: Any) -> None:
        self.after.append(callback)


class View:
    def __init__(self) -> None:
        self.topics: dict[str, Any] = {}
        self.brokers: dict[int, Any] = {}
        self.cluster_id = "source-id"


class Source:
    """A source cluster. Its first broker (`node`) leads every topic it knows, unless `moves` gives it to the other."""

    def __init__(self, topics: Sequence[str]) -> None:
        self.topics = set(topics)
        self.node, self.other = SourceConnection(), SourceConnection()
        self._moved: set[str] = set()
        self.invalidated: list[str] = []
        self.dropped: list[tuple[str, ...]] = []
        self.view = View()

    def moves(self, topic: str) -> None:
        """The other broker leads it from now on, and the cluster has been seen anew."""
        self._moved.add(topic)
        self.view = View()

    def leader(self, topic: str, partition: int) -> int | None:
        if topic not in self.topics:
            return None
        return 2 if topic in self._moved else 1

    def leader_of_all(self, topic: str, partitions: Sequence[int]) -> int | None:
        return self.leader(topic, partitions[0])

    def cached_connection(self, node_id: int, lane: Any = 0) -> SourceConnection:
        return self.node if node_id == 1 else self.other

    clients: Any = None

    def cached_for(self, client: str, node_id: int, lane: Any) -> SourceConnection:
        return self.cached_connection(node_id, lane)

    def invalidate(self, topic: str | None = None) -> None:
        self.invalidated.append(topic or "")

    async def refresh(self, topics: Any = None) -> None:
        return None

    def drop(self, lanes: Sequence[str], reason: str) -> None:
        """As `Cluster.drop`: what waits for an answer hears of the end of its connection."""
        self.dropped.append(tuple(lanes))
        for connection in (self.node, self.other):
            waiting, connection.waiting = connection.waiting, []
            for on_response in waiting:
                on_response(None)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Conversation:
    """A session, its two wires, and the proxy's shared state."""

    def __init__(
        self,
        *,
        asks_login: bool = False,
        limits: Limits | None = None,
        listener: Listener | None = None,
        certificate: str = "",
    ) -> None:
        self.clock = Clock()
        self.loop = ManualLoop()
        self.source = Source(["mirrored", "held"])
        self.source_topics = SourceTopics()
        self.source_offsets = SourceOffsets()
        self.forwarded: list[tuple[str, int, int, int]] = []
        self.gates, self.progress = GroupGates(), MirrorProgress()
        self.context = Sessions(
            routing=RoutingTable(),
            clock=self.clock,
            loop=cast("Any", self.loop),
            max_request_bytes=1 << 20,
            asks_login=asks_login,
            limits=limits or limits_with(),
        )
        self.sources = cast("Any", {"west": self.source})
        self.target = cast("Any", SimpleNamespace(view=View(), config=SimpleNamespace(uses_sasl=asks_login)))
        self.forwarder = Forwarder(self.clock)
        counted = CountedWrites(
            sessions=self.context.open, clock=self.clock, stats=self.context.stats, forwarder=self.forwarder
        )
        self.context.routing.subscribe(counted.routing_changed)
        lanes = CutoverLanes(sources=self.sources, forwarder=self.forwarder, progress=self.progress)
        self.context.routing.subscribe(lanes.routing_changed)
        self.forwarder.drop = lanes.drop
        self.install()
        self.client = Wire()
        self.broker = Wire()
        self.session = ProxySession(self.context, 1, listener)
        self.session.certificate_principal = certificate
        self.session.client_connected(cast("Any", self.client), "10.0.0.7")
        self.session.upstream_connected(cast("Any", self.broker))

    def lease(self, valid: Callable[[], bool]) -> None:
        """Exchange the write lease; `install` behind it."""
        self.context.lease_valid = self.context.wires.lease_valid = valid

    def install(self, *, groupless_allowed: bool = True, transactions: Transactions | None = None) -> None:
        """Give the sessions their handlers: once more after the lease was exchanged."""
        context, target, advertised = self.context, self.target, Endpoints().advertised
        coordinators = TransactionCoordinators(target, self.sources, context.lease_valid)
        placements = TopicPlacements(context.routing, coordinators)
        self.target_down = TargetDown(target, context.routing, context.handlers, context.rights, advertised)
        install(
            context,
            gates=self.gates,
            progress=self.progress,
            source_topics=self.source_topics,
            source_offsets=self.source_offsets,
            target=target,
            sources=self.sources,
            forwarder=self.forwarder,
            placements=placements,
            transactions=transactions
            or Transactions(placements, coordinators, Identities(target), self.clock, lambda: True),
            target_down=self.target_down,
            advertised=advertised,
            groupless_allowed=groupless_allowed,
            on_forwarded=lambda *args: self.forwarded.append(args),
            rng=random.Random(1),
        )

    def says(self, data: bytes) -> None:
        """The client sends bytes."""
        self.session.client_data(data)

    async def run_pending(self) -> None:
        """Let the tasks that handlers started come to their end."""
        await asyncio.gather(*self.context.tasks)

    async def turn(self) -> None:
        """Let the event loop run once."""
        ready = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(ready.set_result, None)
        await ready

    def broker_says(self, correlation_id: int, rest: bytes = b"") -> None:
        """The target broker answers with a frame: correlation id and whatever follows."""
        self.session.upstream_data(struct.pack(">ii", 4 + len(rest), correlation_id) + rest)


@pytest.fixture
async def talk() -> Conversation:
    return Conversation()
