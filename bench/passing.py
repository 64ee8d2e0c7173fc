"""A session without sockets: what a passed or forwarded request costs in the gateway."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from struct import Struct
from types import SimpleNamespace
from typing import Any, Final, cast

from gateway.config.listeners import Limits as LimitSettings
from gateway.cutover.write_pause.rules.routing import RoutingTable, TopicRoute, routing_of
from gateway.cutover.write_pause.rules.write_pause import Recorded, WritePause
from gateway.groups.gate.rules.gates import GroupGates
from gateway.kafka.connection.config import ClusterConfig
from gateway.kafka.connection.connection import Connection
from gateway.mirror.rules.progress import MirrorProgress
from gateway.proxy.handlers import install
from gateway.proxy.produce.forwarder import Forwarder
from gateway.proxy.rules.limits import Limits
from gateway.proxy.rules.loop_shares import ClientShare, LoopShares
from gateway.proxy.session.context import Sessions
from gateway.proxy.session.proxy_session import ProxySession
from gateway.state.records import MirrorState
from protocol.apis import ApiKey
from protocol.wire import Buffer

_ANSWER: Final = Struct(">ii").pack(4, 1)


class _Alone(LoopShares):
    """The loop does not turn here: its time is accounted for, and nobody waits for a slice of it."""

    def is_over(self, share: ClientShare, seconds: float) -> bool:
        super().is_over(share, seconds)
        return False


class _Nowhere:
    """A connection that takes everything."""

    def write(self, data: Buffer) -> None:
        pass

    def writelines(self, pieces: Sequence[Buffer]) -> None:
        pass

    def set_write_buffer_limits(self, high: int) -> None:
        pass

    def get_extra_info(self, name: str) -> None:
        pass


def passing(frame: bytes, times: int) -> Callable[[], object]:
    """Pass a request of correlation id 1 on, and an empty answer back, `times` times."""
    session = _session(RoutingTable(), {}, asyncio.new_event_loop())
    received, answer = memoryview(bytearray(frame)), memoryview(bytearray(_ANSWER))

    def run() -> None:
        for _ in range(times):
            session.client_data(received)
            session.upstream_data(answer)

    return run


def forwarding(topic: str, requests: bytes, answers: bytes, times: int) -> Callable[[], object]:
    """Forward what `requests` has of Produces to a mirrored topic, and take `answers`, `times` times.

    Both are whole frames. The answers have correlation ids from 0 on: those of the requests to the source.
    """
    loop = asyncio.new_event_loop()
    pause = WritePause(Recorded(MirrorState.ACTIVE, 0))
    routes = {topic: TopicRoute(link="l", mirror_topic=topic, source_topic=topic, pause=pause)}
    connection = Connection("", 0, ClusterConfig.from_client_properties({"bootstrap.servers": "localhost:1"}), loop)
    connection.connection_made(cast("Any", _Nowhere()))
    connection.versions = {int(ApiKey.PRODUCE): (3, 11)}
    source = SimpleNamespace(
        view=None,
        clients=None,
        leader=lambda topic, partition: 1,
        leader_of_all=lambda topic, partitions: 1,
        cached_for=lambda client, node, lane: connection,
    )
    session = _session(RoutingTable(routing_of(routes)), {"l": source}, loop)
    session.authorized[topic] = (float("inf"), True)
    received = memoryview(bytearray(requests))

    def run() -> None:
        for _ in range(times):
            connection._pipeline._correlation_id = 0
            session.client_data(received)
            left = memoryview(answers)
            while left:
                room = connection.get_buffer(-1)[: len(left)]
                room[:] = left[: len(room)]
                left = left[len(room) :]
                connection.buffer_updated(len(room))

    return run


def _session(routing: RoutingTable, sources: Mapping[str, object], loop: asyncio.AbstractEventLoop) -> ProxySession:
    clock = loop.time
    unused = cast("Any", SimpleNamespace(view=None, config=None, coordinators=None, sessions={}))
    sessions = Sessions(
        routing=routing,
        clock=clock,
        loop=loop,
        max_request_bytes=104_857_600,
        limits=Limits(**LimitSettings().model_dump()),
    )
    sessions.shares = _Alone(clock, loop.call_soon, loop.call_later)
    install(
        sessions,
        gates=GroupGates(),
        progress=MirrorProgress(),
        source_topics=unused,
        source_offsets=unused,
        target=unused,
        sources=cast("Any", sources),
        forwarder=Forwarder(clock),
        placements=unused,
        transactions=unused,
        target_down=unused,
        advertised=unused,
        groupless_allowed=True,
        on_forwarded=lambda topic, partition, offset, records: None,
        rng=random.Random(0),  # noqa: S311 - it decides nothing here
    )
    session = ProxySession(sessions, 1)
    session.client_connected(cast("Any", _Nowhere()), "")
    session.upstream_connected(cast("Any", _Nowhere()))
    return session
