"""What every session and handler of the proxy shares. Built once by `app/`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from gateway.domain.gates import GroupGates
from gateway.domain.ports import SourceTopics
from gateway.domain.progress import MirrorProgress
from gateway.domain.routing import RoutingTable
from gateway.net.commons import Commons
from gateway.proxy.exchange import Exchange
from gateway.proxy.identities import Identities
from gateway.proxy.places import Places
from gateway.proxy.stand_in import StandIn
from gateway.proxy.standings import Standings
from gateway.proxy.stats import API_KEYS, ProxyStats
from gateway.proxy.transactions import Transactions

if TYPE_CHECKING:
    from gateway.net.cluster import Cluster
    from gateway.proxy.forwarder import Forwarder
    from gateway.proxy.proxy_session import ProxySession
    from gateway.proxy.session import Session


class Handler(Protocol):
    """One intercepted API. `wants` is asked at each header, `handle` gets the whole request."""

    def wants(self, session: Session) -> bool:
        """False: let this request pass untouched."""

    def handle(self, session: Session, exchange: Exchange) -> None:
        """End the exchange by reply, forward or drop, now or (stalling or not) later; never block."""


class Endpoints(Protocol):
    """The listener of each target broker."""

    def advertised(self, node_id: int, host: str, port: int) -> tuple[str, int]:
        """Where clients find this broker; learns a broker that was not known yet."""


class ProxyContext:
    """The shared state of the proxy: snapshots it reads, objects it waits on, and its sessions."""

    def __init__(
        self,
        *,
        routing: RoutingTable,
        gates: GroupGates,
        progress: MirrorProgress,
        source_topics: SourceTopics,
        target: Cluster,
        sources: Mapping[str, Cluster],
        clock: Callable[[], float],
        loop: asyncio.AbstractEventLoop,
        max_request_bytes: int,
        groupless_allowed: bool,
        on_forwarded: Callable[[str, int, int, int], None],
        lease_valid: Callable[[], bool] = lambda: True,
        alone: Callable[[], bool] = lambda: True,
    ) -> None:
        self.routing = routing
        self.gates = gates
        self.progress = progress
        self.source_topics = source_topics
        self.target = target
        self.sources = sources
        self.endpoints: Endpoints
        self.clock = clock
        self.loop = loop
        self.wires = Commons(loop)
        self.max_request_bytes = max_request_bytes
        self.groupless_allowed = groupless_allowed
        self.on_forwarded = on_forwarded  # (mirror topic, partition, base offset, records) committed by the source
        self.lease_valid = lease_valid  # may what a fence concerns be written and answered now? See `domain/leases.py`
        self.rights: dict[tuple[str, str], bool] = {}  # (principal, topic) -> may it write, as last asked of the target
        self.stand_in = StandIn(self)
        self.stats = ProxyStats(clock)
        self.handlers: list[Handler | None] = [None] * API_KEYS
        self.sessions: dict[Session, None] = {}  # in the order in which they came
        self.no_sessions = asyncio.Event()
        self.no_sessions.set()
        self.forwarder: Forwarder
        places = Places(target, sources, lease_valid)
        self.standings = Standings(routing, places)
        self.transactions = Transactions(self.standings, places, Identities(target), clock, alone)
        self.connect: Callable[[ProxySession], None] = lambda session: None
        self.tasks: set[asyncio.Task[None]] = set()

    def passes_writes(self) -> bool:
        """Whether a Produce that nobody looked into may be passed on to the target, and its answer to the client.

        It may concern a topic that is or was mirrored, and those are written under the lease alone.
        """
        return not self.routing.current.topics or self.lease_valid()

    def session_opened(self, session: ProxySession) -> None:
        """A client connected: connect it to its target broker."""
        self.sessions[session] = None
        self.no_sessions.clear()
        self.connect(session)

    def session_closed(self, session: Session, reason: str) -> None:
        """A client's connection ended."""
        self.sessions.pop(session, None)
        if not self.sessions:
            self.no_sessions.set()
        cause = reason.split(":", 1)[0]
        self.stats.closed[cause] = self.stats.closed.get(cause, 0) + 1

    def spawn(self, work: asyncio.Task[None]) -> None:
        """Keep a reference to a background task until it ends."""
        self.tasks.add(work)
        work.add_done_callback(self.tasks.discard)
