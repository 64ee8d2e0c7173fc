"""What the handlers of transactional requests share: serving one on a stalled connection, and who may do what."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import structlog

from gateway.proxy.produce.authorization import MayAsk, may_read, may_write, remember
from gateway.proxy.rules.transactional_producers import TransactionalProducer
from gateway.proxy.session.exchange import Exchange
from gateway.proxy.session.session import LEASE_OVER, Session
from gateway.proxy.transactions.coordinators import CLIENT, Lost, Refused
from protocol.codec import decode_response, encode_body
from protocol.errors import ErrorCode
from protocol.framing import framed
from protocol.header import response_body_offset
from protocol.messages import AddOffsetsToTxnRequest, EndTxnRequest

SERVE_S = 25.0  # below the request timeout of every client; a hold is shorter, and each call to a broker
_PROBE_VERSION = 1
_NO_PRODUCER = -1
_AUTHORIZED = frozenset(
    {
        # What coordinators answer for no producer, or when they cannot answer: all of it behind the authorisation.
        ErrorCode.NONE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)

Action = Callable[[], None]
_log = structlog.get_logger("lockgate.proxy")


def for_client(session: Session, work: Coroutine[Any, Any, None]) -> None:
    """Run what a client's request asks of coordinators, for as long as the client is there.

    A client whose connection is lost asks again, by another gateway of the fleet perhaps, and goes on from the answer
    to that. What this gateway would still send for it then comes too late: a coordinator that is asked to abort aborts
    whatever is open, and that may be the client's next transaction.
    """
    if session.closed:
        work.close()
        return
    task = session.context.loop.create_task(work)

    def gone() -> None:
        task.cancel()

    def ended(_: asyncio.Task[None]) -> None:
        if gone in session.on_close:
            session.on_close.remove(gone)

    session.on_close.append(gone)
    task.add_done_callback(ended)
    session.context.spawn(task)


def serve(session: Session, work: Callable[[], Awaitable[Action]], refuse: Callable[[int], None]) -> None:
    """Stall the connection while `work` finds out how to end the exchange; then do that.

    `refuse` answers with an error code, for a request of which nothing was done. A request whose outcome is unknown
    is not answered: its connection closes, as it does when a broker dies, and only the client may try again.
    """
    session.stall()

    async def run() -> None:
        CLIENT.set(session.principal)
        try:
            async with asyncio.timeout(SERVE_S):
                action = await work()
        except Refused as exc:
            _log.info("transactional request refused", session=session.id, reason=str(exc))
            code = exc.code
            action = lambda: refuse(code)  # noqa: E731 - what `again` is to do
        except (Lost, TimeoutError) as exc:
            reason = f"the outcome of a transactional request is unknown: {str(exc) or 'out of time'}"
            action = lambda: session.close(reason)  # noqa: E731
        except Exception as exc:  # noqa: BLE001 - a bug of ours must stay in this connection
            _log.exception("request handling failed", session=session.id, client_id=session.client_id)
            reason = f"internal error: {exc!r}"
            action = lambda: session.close(reason)  # noqa: E731
        session.again(action)

    for_client(session, run())


@contextmanager
def in_transit(producer: TransactionalProducer) -> Iterator[None]:
    """A request of the producer's is on its way to a coordinator while the block runs."""
    producer.in_transit += 1
    try:
        yield
    finally:
        producer.in_transit -= 1


def forward_own(
    session: Session,
    exchange: Exchange,
    producer: TransactionalProducer,
    step: Callable[[], Callable[[Any], None]],
    ended: Callable[[], None] = lambda: None,
) -> Action:
    """Forward to the target, whose identity is the client's own. The caller holds the producer's lock.

    Args:
        step: notes at the producer what is about to be sent, and returns what gets the decoded response.
        ended: called once, when it was answered or the connection closed, if it was sent.

    Raises:
        Refused: the write lease is over (`fleet/rules/leases.py`): nothing is noted and nothing sent. Topics may have
            failed back since this gateway was heard last, and a marker would land amid what is mirrored to them.
    """
    _require_lease(session)
    answered = step()
    return lambda: _forward(session, exchange, producer, answered, ended)


def pass_on(session: Session, exchange: Exchange) -> Action:
    """Forward to the target what no producer is followed for. Raises Refused as `forward_own`."""
    _require_lease(session)
    return exchange.forward


def _require_lease(session: Session) -> None:
    if not session.context.lease_valid():
        raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "this gateway was not heard by its fleet for too long")


def _forward(
    session: Session,
    exchange: Exchange,
    producer: TransactionalProducer,
    answered: Callable[[Any], None],
    ended: Callable[[], None],
) -> None:
    producer.in_transit += 1

    def left() -> None:
        producer.in_transit -= 1
        ended()

    def relay(frame: memoryview) -> memoryview | bytes | None:
        if not session.context.lease_valid():
            session.close(LEASE_OVER)
            return None
        session.on_close.remove(left)
        left()
        at = response_body_offset(exchange.api_key, exchange.api_version, frame)
        answered(decode_response(exchange.api_key, exchange.api_version, frame[at:]))
        return framed(frame)

    session.on_close.append(left)
    exchange.forward(relay)


async def require_writable(session: Session, topics: Iterable[str]) -> frozenset[str]:
    """Of `topics`, those this client may write, asked of the target on its own connection, which is stalled."""
    return await _allowed(session, topics, may_write)


async def require_readable(session: Session, topics: Iterable[str]) -> frozenset[str]:
    """As `require_writable`, for Read."""
    return await _allowed(session, topics, may_read)


async def _allowed(session: Session, topics: Iterable[str], ask: MayAsk) -> frozenset[str]:
    topics = list(topics)
    answered = asyncio.Event()
    with _told_of_its_end(session, answered.set):
        while (allowed := ask(session, topics, answered.set)) is None:
            await answered.wait()
            answered.clear()
            if session.closed:
                raise Lost("the connection has ended")
    return allowed


@contextmanager
def _told_of_its_end(session: Session, ended: Callable[[], None]) -> Iterator[None]:
    """Nobody waits for the answer to a question on a connection that has ended."""
    if session.closed:
        raise Lost("the connection has ended")
    session.on_close.append(ended)
    try:
        yield
    finally:
        if not session.closed:
            session.on_close.remove(ended)


def may_transact(session: Session, transactional_id: str, group: str | None = None) -> bool:
    """True when the target has said so a short time ago; False when it must be asked."""
    known = session.authorized.get((transactional_id, group))
    kept_s = session.context.limits.rights_kept_s
    return known is not None and known[1] and known[0] + kept_s >= session.context.clock()


async def require_transactional_first(session: Session, transactional_id: str, group: str | None = None) -> None:
    """As `require_transactional`, before anything is locked or looked up for a client that logged in.

    Where the target asks for no login, whoever may reach it is everybody, and it is asked only where it counts.
    """
    if session.context.asks_login:
        await require_transactional(session, transactional_id, group)


async def require_transactional(session: Session, transactional_id: str, group: str | None = None) -> None:
    """The client may use the transactional id, and read the group, says the target.

    Asked on the client's own connection by a request for no producer at all: it is authorised before it is found to
    name none, and so changes nothing.

    Raises:
        Refused: TRANSACTIONAL_ID_AUTHORIZATION_FAILED or GROUP_AUTHORIZATION_FAILED.
    """
    if may_transact(session, transactional_id, group):
        return
    request: Any
    if group is None:
        request = EndTxnRequest(
            transactional_id=transactional_id, producer_id=_NO_PRODUCER, producer_epoch=_NO_PRODUCER, committed=False
        )
    else:
        request = AddOffsetsToTxnRequest(
            transactional_id=transactional_id, producer_id=_NO_PRODUCER, producer_epoch=_NO_PRODUCER, group_id=group
        )
    code = await _ask(session, request)
    if code not in _AUTHORIZED:
        raise Refused(code, f"transactional id {transactional_id!r}" + (f", group {group!r}" if group else ""))
    remember(session, {(transactional_id, group): True})


async def _ask(session: Session, request: Any) -> int:
    key = int(request.API_KEY)
    answer: asyncio.Future[int] = session.context.loop.create_future()

    def answered(frame: memoryview) -> None:
        at = response_body_offset(key, _PROBE_VERSION, frame)
        if not answer.done():
            answer.set_result(int(decode_response(key, _PROBE_VERSION, frame[at:]).error_code))

    def lost() -> None:
        if not answer.done():
            answer.set_exception(Lost("the connection has ended"))

    with _told_of_its_end(session, lost):
        session.ask(key, _PROBE_VERSION, encode_body(request, _PROBE_VERSION), answered)
        return await answer
