"""A client's session as handlers see it: order, stalling, requests of our own, and the end.

It owns order (Sequencer) and stalling: while a handler holds a request, nothing later on the connection is looked at,
as in a real broker that mutes the channel. Decisions are the handlers'; everything here runs on the event loop without
awaiting. The bytes of its two connections are read in `from_client` and `from_broker`.
"""

from __future__ import annotations

import asyncio
import itertools
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import structlog

from gateway.cutover.write_pause.rules.routing import RoutingTable
from gateway.groups.gate.rules.gates import Identity
from gateway.proxy.rules.admission import address_of
from gateway.proxy.rules.asked_names import AskedNames
from gateway.proxy.rules.held_answers import LARGE, HeldAnswers
from gateway.proxy.rules.held_requests import HeldRequests
from gateway.proxy.rules.last_rights import LastRights
from gateway.proxy.rules.leader_order import LeaderOrder
from gateway.proxy.rules.limits import Limits
from gateway.proxy.rules.loop_shares import ClientShare, LoopShares
from gateway.proxy.rules.own_names import OwnNames
from gateway.proxy.rules.pipeline_guard import PipelineGuard
from gateway.proxy.rules.unproven_requests import UnprovenRequests
from gateway.proxy.rules.waiters import WaiterCounts
from gateway.proxy.session.ended import NO_CONNECTION, NO_LOGIN
from gateway.proxy.session.exchange import Exchange, Transform, WatchesAnswers
from gateway.proxy.session.listener import Listener
from gateway.proxy.session.login import Login
from gateway.proxy.session.sequencer import Sequencer
from gateway.proxy.session.stats import ProxyStats
from gateway.proxy.session.streams import RequestStream
from gateway.transport.event_loop_io import EventLoopIO
from protocol.apis import ApiKey
from protocol.framing import SIZE
from protocol.header import encode_request_header
from protocol.wire import Buffer

_log = structlog.get_logger("lockgate.proxy")
_OF_PRODUCERS: Final = frozenset(
    {
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.END_TXN,
    }
)
"""Requests that change what the client's next transaction is."""

_ids = itertools.count(1)

MOST_UNANSWERED: Final = 256
"""Requests of a connection. A broker works off one after the other; who sends more is not read until some are
answered."""

CLOSE_S: Final = 0.0002
"""What the end of a session takes of the event loop."""

LEASE_OVER = "write lease over: the outcome of a write is unknown"
"""Why a connection closes whose answer comes when nobody waits for this gateway any more (`fleet/rules/leases.py`)."""


class Handler(Protocol):
    """One intercepted API. `intercepts` is asked at each header, `handle` gets the whole request."""

    def intercepts(self, session: Session) -> bool:
        """False: let this request pass untouched."""

    def handle(self, session: Session, exchange: Exchange) -> None:
        """End the exchange by reply, forward or drop, now or (stalling or not) later; never block."""


class SessionContext(Protocol):
    """What sessions share.

    Attributes:
        clock: monotonic seconds.
        handlers: by API key; an API without one is opaque.
        asks_login: the target authenticates its clients (SASL).
        limits: how much clients may take.
        waiters: at gates, by principal.
        held: the memory of requests that wait.
        answers: that of answers that are not taken.
        unproven: that of requests before a login.
        shares: of the event loop's time, by client.
        rights: who may write what, as last asked of the target.
        lease_valid: may what a write pause concerns be written and answered now? See `fleet/rules/leases.py`.
        watch: looks at answers; None while nobody asks for it, which is nearly always.
    """

    clock: Callable[[], float]
    loop: asyncio.AbstractEventLoop
    wires: EventLoopIO
    stats: ProxyStats
    routing: RoutingTable
    handlers: list[Handler | None]
    own_names: OwnNames
    max_request_bytes: int
    asks_login: bool
    limits: Limits
    waiters: WaiterCounts
    asked_groups: AskedNames
    held: HeldRequests
    answers: HeldAnswers
    unproven: UnprovenRequests
    shares: LoopShares
    rights: LastRights
    lease_valid: Callable[[], bool]
    watch: WatchesAnswers | None

    def passes_writes(self) -> bool:
        """Whether a Produce that nobody looked into may be passed on to the target."""

    def passes_answers(self) -> bool:
        """Whether the answer to such a Produce may be passed on to the client."""

    def session_closed(self, session: Session, reason: str) -> None:
        """A client's connection ended."""

    def spawn(self, work: asyncio.Task[None]) -> None:
        """Keep a reference to a background task until it ends."""


class Connected(Protocol):
    """A connection to write to: a `Wire`, or a transport in its guise. What is given to write may change after."""

    @property
    def waiting(self) -> bool:
        """Something waits until the socket takes more."""

    @property
    def unsent(self) -> int:
        """Bytes that wait for it."""

    @property
    def untaken(self) -> int:
        """These, and what the peer has not received of those that have left."""

    def write(self, data: Buffer) -> None:
        """Write."""

    def writelines(self, pieces: Sequence[Buffer]) -> None:
        """Write several pieces as one."""

    def pause_reading(self) -> None:
        """Read no more."""

    def resume_reading(self) -> None:
        """Read on."""

    def trusted(self) -> None:
        """Its peer has logged in."""

    def close(self) -> None:
        """Close, when what was written has left."""

    def take_back(self) -> None:
        """Close at once. What has not come to the peer by now never will."""


class SessionLogin(Protocol):
    """Who decides when a session's client has logged in. `Login`: the target; `identity/token_login.py`: the gateway.

    Attributes:
        accepted: what the client sends is taken.
        since: when the login that is not accepted yet began; None when there is none.
    """

    accepted: bool
    since: float | None

    def connected(self) -> bool:
        """The broker is connected. False: the login has to speak to it first, and resumes the session itself."""

    def takes(self, api_key: int, size: int) -> bool:
        """Whether a request that comes before the login is accepted is looked at now. Raises StreamError: never."""

    def sasl(self, exchange: Exchange) -> bool:
        """A whole request of SASL. False: it is the target's to answer."""

    def begins(self, mechanism: str) -> None:
        """The client names its mechanism to the target."""

    def says(self, message: bytes) -> None:
        """A client's message of a login at the target."""

    def answered(self, error_code: int, lifetime_ms: int) -> None:
        """The target's answer to it."""

    def closed(self) -> None:
        """The session has ended."""


class Session(ABC):
    """A client of the gateway. `node_id` is the target broker it speaks to (None on the bootstrap port)."""

    _client: Connected
    _requests: RequestStream  # made by who takes its requests

    def __init__(self, context: SessionContext, node_id: int | None) -> None:
        self.id = next(_ids)
        self.context = context
        self.node_id = node_id
        self.host = ""
        self.client_id: str | None = None
        self.principal = ""
        self.certificate_principal = ""  # who the client's certificate says it is
        self.listener: Listener | None = None  # the listener it came by
        self.login: SessionLogin = Login(self, context.loop, required=context.asks_login)
        self._memory: HeldRequests | UnprovenRequests = context.held if self.login.accepted else context.unproven
        self.passes_bytes = 0  # requests up to this size may pass as they come; none before the target's consent
        self.authorized: dict[object, tuple[float, bool]] = {}  # see `produce/authorization.py`: (asked at, allowed)
        self.group_rights: dict[str, tuple[float, int]] = {}  # group -> (asked at, operations)
        self.max_elements = context.limits.elements_per_request
        self.pipeline = PipelineGuard()
        self.order = LeaderOrder()
        self.last_active = context.clock()
        self.closed = False
        self.on_close: list[Callable[[], None]] = []
        self.target_down: Handler | None = None  # serves it without its broker
        self._upstream: Connected | None = None
        self._sequencer = Sequencer()
        self._full = False  # too many are unanswered: the next request waits
        self._room = 0  # bytes that are kept free for answers on their way here
        self._unread = 0  # bytes of answers that count as held, these among them
        self._answers: deque[bytes] = deque()  # read of the broker; they wait for the client's share of the loop
        self._expected: deque[Exchange] = deque()  # what the upstream will answer, in its order
        self._stalled = True  # until the upstream is connected
        self._begun = False  # a broker is asked for: the client has sent the head of a request
        self._draining = False
        self._drained = ""  # why it closes then
        self._paused_for: set[str] = set()
        self._muted_for: set[str] = set()
        self._quiet_until = 0.0
        self._quiet: asyncio.TimerHandle | None = None
        self._broker_muted = False
        self._asks = itertools.count(1)
        self.login_changed()

    def client_known(self) -> None:
        """Its address, or who it is: by that it has its share of the event loop."""
        self.share: ClientShare = self.context.shares.of((self.principal, address_of(self.host)))
        if self._unread:
            self.context.answers.holds(self, self._unread)

    def login_changed(self) -> None:
        """The target has accepted the login, or it has ended: what was known of the client's rights is void."""
        self.client_known()
        self.passes_bytes = self.context.max_request_bytes if self.login.accepted else 0
        self.authorized.clear()
        self.group_rights.clear()

    @property
    def identity(self) -> Identity:
        """The client as the gates know it."""
        return Identity(self.host, self.client_id or "", self.principal)

    @property
    def is_receiving(self) -> bool:
        """In the midst of a request that the client still sends, and that is read."""
        return self._requests.busy and not self._stalled and not self._paused_for

    @property
    def is_muted(self) -> bool:
        """The client does not take its answers."""
        return bool(self._muted_for)

    @property
    def idle(self) -> bool:
        """True when nothing whole is unanswered: a member that waits at a gate is not idle, half a request is."""
        return len(self._sequencer) == (1 if self._requests.collecting else 0)

    def stall(self) -> None:
        """Look at nothing later on this connection until `resume`."""
        self._stalled = True

    @abstractmethod
    def release(self, exchange: Exchange) -> None:
        """A request that was collected is held no more."""

    def pause_for_memory(self, paused: bool) -> bool:
        """See `Reader.pause_for_memory`."""
        (self._pause_reading if paused else self._resume_reading)("memory")
        return not self._paused_for and not self.closed

    @abstractmethod
    def _begin(self) -> None:
        """The client's first bytes are there."""

    @abstractmethod
    def resume(self) -> None:
        """Go on with what has arrived meanwhile."""

    @abstractmethod
    def look_again(self) -> None:
        """End a stall that began while a request's head was looked at, by looking at it again."""

    def again(self, action: Callable[[], None]) -> None:
        """End a stall with `action` (answer, forward, or handle once more, which may stall anew); then go on."""
        if self.closed:
            return
        self._stalled = False
        try:
            action()
        except Exception as error:  # noqa: BLE001 - a bug of ours must stay in this connection
            _log.exception("request handling failed", session=self.id, client_id=self.client_id)
            self.close(f"internal error: {error!r}")
        if not self._stalled and not self.closed:
            self.resume()

    def ask(self, api_key: int, api_version: int, body: Buffer, answer: Transform) -> None:
        """Send a request of our own on the client's connection; `answer` gets the response frame."""
        exchange = Exchange(self, api_key, api_version, -next(self._asks), self.context.clock())
        exchange.internal = True
        exchange.transform = answer
        header = encode_request_header(api_key, api_version, exchange.correlation_id, "lockgate")
        self.send_upstream(exchange, len(header) + len(body), (header, body))

    def send_upstream(self, exchange: Exchange, size: int, pieces: Sequence[Buffer]) -> None:
        """Send a framed request to the target broker and expect its answer for `exchange`.

        Legal inside `handle`, or later while the handler stalls the session: only then is the stream of opaque
        bytes known to be between two frames.

        A session that is served without its broker is closed: its client comes back to whoever leads now.
        """
        upstream = self._broker()
        if upstream is None:
            return
        if not self._requests.at_boundary:
            raise RuntimeError("a request would be sent into the middle of another one")
        self._expected.append(exchange)
        upstream.writelines((SIZE.pack(size), *pieces))

    @property
    def at_boundary(self) -> bool:
        """The target broker has been sent whole requests."""
        return self._requests.at_boundary

    def put_before_broker(self, instead: Connected) -> Connected | None:
        """Put `instead` in the place of the connection to the target broker, which is returned."""
        before, self._upstream = self._upstream, instead
        return before

    def expect(self, exchange: Exchange, *, first: bool) -> None:
        """What was sent past `send_upstream` will be answered: after all before it, or first of all."""
        (self._expected.appendleft if first else self._expected.append)(exchange)

    def pause_for_login(self, paused: bool) -> None:
        """Read no request of the client while the gateway logs in for it."""
        (self._pause_reading if paused else self._resume_reading)("login")

    def unanswered_by_target(self) -> tuple[Exchange, ...]:
        """What the target broker has not begun to answer yet, in its order."""
        return tuple(self._expected)

    def send_unanswered(self, size: int, pieces: Sequence[Buffer]) -> None:
        """Send a request that the target broker will not answer (acks=0)."""
        upstream = self._broker()
        if upstream is not None:
            self.context.stats.last_unanswered = self.context.clock()
            upstream.writelines((SIZE.pack(size), *pieces))

    def _broker(self) -> Connected | None:
        """Whom to send to. Where nobody is, nothing would ever be answered: the session ends."""
        if self._upstream is None:
            self.close("target broker unreachable: the request needs it")
        return None if self.closed else self._upstream

    def answer(self, exchange: Exchange, response: Buffer) -> None:
        """Take an exchange's framed response; it leaves when its turn comes."""
        if self.closed:
            return
        if exchange.edit is not None:
            response = exchange.edit(response)
        if self.context.watch is not None and response:
            self.context.watch.look(self.client_id, exchange, response)
        ready = self._sequencer.answer(exchange, response)
        self.release(exchange)
        self._room -= exchange.room
        exchange.room = 0
        self.context.stats.finished(exchange, len(response))
        if ready:
            self._client.writelines(ready)
        self._look_at_output()
        if self._full:
            self._look_at_unanswered()
        if self._draining:
            self._close_if_drained()

    def _look_at_unanswered(self) -> None:
        """The next request waits until half of them are answered."""
        if len(self._sequencer) <= MOST_UNANSWERED // 2:
            self._full = False
            self.context.loop.call_soon(self._go_on)

    @abstractmethod
    def _go_on(self) -> None:
        """The request that waits for its turn, or for answers to others, is looked at again."""

    def _look_at_output(self) -> None:
        """Answers that wait for their turn are bounded: for too many of them no further request is read."""
        waiting = self._sequencer.waiting_bytes
        if waiting > LARGE or self._unread:
            self._count_unread()
        if waiting > self.context.limits.unread_output_bytes:
            self.mute("turn", True)
        elif self._muted_for:
            self.mute("turn", bool(waiting) and "turn" in self._muted_for)

    def _count_unread(self) -> None:
        """What is on its way here, what waits for its turn, and what the client does not take."""
        waiting, room = self._sequencer.waiting_bytes, self._room
        unsent = self._client.unsent if "client" in self._muted_for else 0
        unread = room + unsent + (waiting if waiting > LARGE else 0)
        if unread != self._unread and not self.closed:
            self._unread = unread
            self.context.answers.holds(self, unread)

    def untaken(self) -> int:
        """See `Taker.untaken`."""
        self._count_unread()
        return self._client.untaken if "client" in self._muted_for else 0

    def throttle(self, seconds: float) -> None:
        """Read nothing of the client for so long (KIP-219); what was read already is served."""
        until = self.context.clock() + seconds
        if until <= self._quiet_until:
            return
        self._quiet_until = until
        self._pause_reading("quota")
        if self._quiet is not None:
            self._quiet.cancel()
        self._quiet = self.context.loop.call_later(seconds, self._resume_reading, "quota")

    def mute(self, why: str, muted: bool) -> None:
        """While there is a reason (`client`: it reads slowly; `turn`): read no request, no answer that only waits."""
        before = bool(self._muted_for)
        (self._muted_for.add if muted else self._muted_for.discard)(why)
        if self.closed:
            return
        self._mute_broker()
        if why == "client":
            self._count_unread()
        if self._muted_for and not before:
            self._pause_reading("answers")
        elif before and not self._muted_for:
            self._resume_reading("answers")
            self.context.loop.call_soon(self._unmuted)

    def _mute_broker(self) -> None:
        """The broker's next answer is read when it is what all others wait for, or what a handler asked for."""
        expected, queue = self._expected, self._sequencer.queue
        waits = bool(expected and queue) and not expected[0].internal and expected[0] is not queue[0]
        paused = bool(self._answers) or "client" in self._muted_for or ("turn" in self._muted_for and waits)
        if paused != self._broker_muted and self._upstream is not None:
            self._broker_muted = paused
            (self._upstream.pause_reading if paused else self._upstream.resume_reading)()

    def _unmuted(self) -> None:
        if not self._stalled and not self.closed:
            self.resume()

    def close(self, reason: str) -> None:
        """Close both connections. Whatever is unanswered stays so: the client retries elsewhere.

        What the target broker has not received by now of a transaction it does not get any more: it may be held up on
        its way, and would hit the next transaction, which the client begins elsewhere.
        """
        if self.closed:
            return
        self.closed = True
        _log.debug("connection closed", session=self.id, client=self.host, client_id=self.client_id, reason=reason)
        self._client.close()
        if self._upstream is not None:
            late = any(exchange.api_key in _OF_PRODUCERS for exchange in self._expected)
            (self._upstream.take_back if late else self._upstream.close)()
        if self._quiet is not None:
            self._quiet.cancel()
        self.login.closed()
        self._memory.ended(self)
        self.context.answers.ended(self)
        for callback in self.on_close:
            callback()
        self.on_close.clear()
        self._expected.clear()
        self._sequencer.forget()
        self.context.session_closed(self, reason)
        self.context.loop.call_soon(self._let_go)

    def close_in_turn(self, reason: str) -> None:
        """Close it, in a slice of its client's: thousands that end together are as many turns as they take."""
        self.context.shares.pace(self.share, CLOSE_S, lambda: self.close(reason))

    def _let_go(self) -> None:
        """Of all that knows this session: see `ended.py`."""
        self._client, self._upstream, self.login = NO_CONNECTION, None, NO_LOGIN

    def lease_over(self) -> None:
        """Close if the target may not have all that was written under the lease: the rest never comes to it."""
        upstream = self._upstream
        if upstream is None or self.closed:
            return
        if upstream.waiting or any(exchange.api_key == ApiKey.PRODUCE for exchange in self._expected):
            upstream.take_back()
            self.close(LEASE_OVER)

    def drain(self, reason: str = "shutdown") -> None:
        """Take no further request; close once all that were taken are answered."""
        self._draining = True
        self._drained = reason
        self._pause_reading("draining")
        self._close_if_drained()

    def _pause_reading(self, why: str) -> None:
        if not self._paused_for and not self.closed:
            self._client.pause_reading()
        self._paused_for.add(why)

    def _resume_reading(self, why: str) -> None:
        if why in self._paused_for:
            self._paused_for.discard(why)
            if not self._paused_for and not self.closed:
                self._client.resume_reading()

    def _close_if_drained(self) -> None:
        if not len(self._sequencer) and not self.closed:
            self.close(self._drained)
