"""The state that the proxy's sessions share, and the open sessions. Built once by `runtime/`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from gateway.cutover.write_pause.rules.routing import RoutingTable
from gateway.proxy.rules.admission import Admission
from gateway.proxy.rules.asked_names import AskedNames
from gateway.proxy.rules.handshakes import Handshakes
from gateway.proxy.rules.held_answers import HeldAnswers
from gateway.proxy.rules.held_requests import HeldRequests
from gateway.proxy.rules.last_rights import LastRights
from gateway.proxy.rules.limits import Limits
from gateway.proxy.rules.loop_shares import LoopShares
from gateway.proxy.rules.own_names import OwnNames
from gateway.proxy.rules.turn_slices import TurnSlices
from gateway.proxy.rules.unproven_requests import UnprovenRequests
from gateway.proxy.rules.waiters import WaiterCounts
from gateway.proxy.rules.write_quotas import WriteQuotas
from gateway.proxy.session.exchange import WatchesAnswers
from gateway.proxy.session.proxy_session import ProxySession
from gateway.proxy.session.session import Handler, Session
from gateway.proxy.session.stats import API_KEYS, ProxyStats
from gateway.transport.event_loop_io import EventLoopIO
from gateway.transport.first_reads import FirstReads

_log = structlog.get_logger("lockgate.proxy")


class Sessions:
    """Implements `SessionContext`, which documents the other attributes.

    Attributes:
        open: the sessions, in order of arrival.
        admission: decides which connections are accepted.
        handshakes: limits TLS handshakes with clients.
        waiters: counts waiters at gates, by principal.
        asked_groups: limits the questions to sources about unknown groups, by principal.
        held: memory of waiting requests.
        answers: memory of answers not read yet.
        unproven: memory of requests before a login.
        shares: the event loop's time, by client.
        accepts: slices of turns for accepting connections.
        strangers: slices of turns for reading and closing clients that have not logged in.
        first_reads: the sockets of those clients.
        quotas: of writes to sources, by principal.
        connect: connects a session to its target broker; set by the listeners.
    """

    def __init__(
        self,
        *,
        routing: RoutingTable,
        clock: Callable[[], float],
        loop: asyncio.AbstractEventLoop,
        max_request_bytes: int,
        limits: Limits,
        asks_login: bool = False,
        lease_valid: Callable[[], bool] = lambda: True,
    ) -> None:
        self.routing = routing
        self.clock = clock
        self.loop = loop
        self.wires = EventLoopIO(loop, lease_valid)
        self.max_request_bytes = max_request_bytes
        self.asks_login = asks_login
        self.lease_valid = lease_valid
        self.limits = limits
        self.admission = Admission(limits, clock)
        self.handshakes = Handshakes(limits, clock)
        self.waiters = WaiterCounts(limits.waiters_per_principal)
        self.asked_groups = AskedNames()
        self.held = HeldRequests(limits.held_request_bytes)
        self.answers = HeldAnswers(limits.held_answer_bytes)
        self.unproven = UnprovenRequests(limits.held_request_bytes)
        self.shares = LoopShares(clock, loop.call_soon, loop.call_later)
        self.accepts = TurnSlices(clock, loop.call_soon)
        self.strangers = TurnSlices(clock, loop.call_soon)
        self.first_reads = FirstReads(loop, self.strangers.when_due)
        self.quotas = WriteQuotas(limits.forwarded_bytes_per_second)
        self.rights = LastRights()
        self.own_names = OwnNames()
        self.stats = ProxyStats(clock)
        self.watch: WatchesAnswers | None = None
        self.handlers: list[Handler | None] = [None] * API_KEYS
        self.open: dict[Session, None] = {}
        self.no_sessions = asyncio.Event()
        self.no_sessions.set()
        self.connect: Callable[[ProxySession], None] = lambda session: None
        self.tasks: set[asyncio.Task[None]] = set()

    def passes_writes(self) -> bool:
        """Whether an opaque Produce may be passed on to the target.

        It may be for a topic that is or was mirrored, which may only be written under a valid lease.
        """
        return not self.routing.current.topics or self.wires.may_write()

    def passes_answers(self) -> bool:
        """Whether the answer to such a Produce may be passed on to the client."""
        return not self.routing.current.topics or self.lease_valid()

    def session_opened(self, session: ProxySession) -> None:
        """A client connected."""
        self.open[session] = None
        self.no_sessions.clear()

    def session_closed(self, session: Session, reason: str) -> None:
        """A client's connection ended."""
        self.open.pop(session, None)
        self.admission.left(session.host)
        if not self.open:
            self.no_sessions.set()
        cause = reason.split(":", 1)[0]
        self.stats.closed[cause] = self.stats.closed.get(cause, 0) + 1

    def lease_over(self) -> None:
        """Stop sending writes to the target that it may not have yet: their answers could not be passed on."""
        if not self.routing.current.topics:
            return  # nothing is or was mirrored
        for session in tuple(self.open):
            session.lease_over()

    def spawn(self, work: asyncio.Task[None]) -> None:
        """Keep a reference to a background task until it ends."""
        self.tasks.add(work)
        work.add_done_callback(self._ended)

    def _ended(self, work: asyncio.Task[None]) -> None:
        self.tasks.discard(work)
        if not work.cancelled() and (error := work.exception()) is not None:
            _log.error("work for a session failed", work=work.get_name(), error=repr(error), exc_info=error)
