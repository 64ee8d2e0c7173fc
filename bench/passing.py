"""A session that passes requests on, without sockets: what a passed Produce or Fetch costs in the gateway."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from struct import Struct
from types import SimpleNamespace
from typing import Any, Final, cast

from gateway.config.listeners import Limits as LimitSettings
from gateway.cutover.write_pause.rules.routing import RoutingTable
from gateway.groups.gate.rules.gates import GroupGates
from gateway.mirror.rules.progress import MirrorProgress
from gateway.proxy.handlers import install
from gateway.proxy.produce.forwarder import Forwarder
from gateway.proxy.rules.limits import Limits
from gateway.proxy.session.context import Sessions
from gateway.proxy.session.proxy_session import ProxySession
from protocol.wire import Buffer

_ANSWER: Final = Struct(">ii").pack(4, 1)


class _Nowhere:
    """A connection that takes everything."""

    def write(self, data: Buffer) -> None:
        pass

    def writelines(self, pieces: Sequence[Buffer]) -> None:
        pass


def passing(frame: bytes, times: int) -> Callable[[], object]:
    """Pass a request of correlation id 1 on, and an empty answer back, `times` times."""
    session = _session()
    received, answer = memoryview(bytearray(frame)), memoryview(bytearray(_ANSWER))

    def run() -> None:
        for _ in range(times):
            session.client_data(received)
            session.upstream_data(answer)

    return run


def _session() -> ProxySession:
    clock = asyncio.new_event_loop().time
    unused = cast("Any", SimpleNamespace(view=None, config=None, coordinators=None, sessions={}))
    sessions = Sessions(
        routing=RoutingTable(),
        clock=clock,
        loop=cast("Any", None),
        max_request_bytes=104_857_600,
        limits=Limits(**LimitSettings().model_dump()),
    )
    install(
        sessions,
        gates=GroupGates(),
        progress=MirrorProgress(),
        source_topics=unused,
        target=unused,
        sources={},
        forwarder=Forwarder(clock),
        placements=unused,
        transactions=unused,
        target_down=unused,
        advertised=unused,
        groupless_allowed=True,
        on_forwarded=unused,
        rng=random.Random(0),  # noqa: S311 - it decides nothing here
    )
    session = ProxySession(sessions, 1)
    session.client_connected(cast("Any", _Nowhere()), "")
    session.upstream_connected(cast("Any", _Nowhere()))
    return session
