"""What the handlers of transactional requests share: serving one on a stalled connection, and who may do what."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import structlog

from gateway.domain.transactional_producers import TransactionalProducer
from gateway.proxy.authorization import CACHE_S, may_write
from gateway.proxy.counted_writes import LEASE_OVER
from gateway.proxy.places import Lost, Refused
from protocol.codec import decode_response, encode_body
from protocol.errors import ErrorCode
from protocol.header import response_body_offset
from protocol.messages import AddOffsetsToTxnRequest, EndTxnRequest

if TYPE_CHECKING:
    from gateway.proxy.exchange import Exchange
    from gateway.proxy.session import Session

SERVE_S = 25.0  # below the request timeout of every client; a hold is shorter, and each call to a broker
_PROBE_VERSION = 1
_NO_PRODUCER = -1

Action = Callable[[], None]
_log = structlog.get_logger("lockgate.proxy")


def serve(session: Session, work: Callable[[], Awaitable[Action]], refuse: Callable[[int], None]) -> None:
    """Stall the connection while `work` finds out how to end the exchange; then do that.

    `refuse` answers with an error code, for a request of which nothing was done. A request whose outcome is unknown
    is not answered: its connection closes, as it does when a broker dies, and only the client may try again.
    """
    session.stall()

    async def run() -> None:
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

    session.context.spawn(session.context.loop.create_task(run()))


@contextmanager
def in_transit(producer: TransactionalProducer) -> Iterator[None]:
    """A request of the producer's is on its way to a coordinator while the block runs."""
    producer.in_transit += 1
    try:
        yield
    finally:
        producer.in_transit -= 1


def forward_own(exchange: Exchange, producer: TransactionalProducer, answered: Callable[[Any], None]) -> None:
    """Forward to the target, whose identity is the client's own; `answered` gets the decoded response."""
    session = exchange.session
    producer.in_transit += 1

    def left() -> None:
        producer.in_transit -= 1

    def relay(frame: memoryview) -> memoryview | bytes | None:
        if not session.context.lease_valid():
            session.close(LEASE_OVER)
            return None
        session.on_close.remove(left)
        left()
        at = response_body_offset(exchange.api_key, exchange.api_version, frame)
        answered(decode_response(exchange.api_key, exchange.api_version, frame[at:]))
        return b"".join((len(frame).to_bytes(4, "big"), frame))

    session.on_close.append(left)
    exchange.forward(relay)


async def require_writable(session: Session, topics: Iterable[str]) -> frozenset[str]:
    """Of `topics`, those this client may write, asked of the target on its own connection, which is stalled."""
    topics = list(topics)
    answered = asyncio.Event()
    allowed = may_write(session, topics, answered.set)
    while allowed is None:
        await answered.wait()
        answered.clear()
        allowed = may_write(session, topics, answered.set)
    return allowed


def may_transact(session: Session, transactional_id: str, group: str | None = None) -> bool:
    """True when the target has said so a short time ago; False when it must be asked."""
    known = session.authorized.get(_question(transactional_id, group))
    return known is not None and known[1] and known[0] + CACHE_S >= session.context.clock()


def _question(transactional_id: str, group: str | None) -> str:
    return f"{transactional_id}//{group or ''}"  # no topic has a slash


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
    if code in (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED):
        raise Refused(code, f"transactional id {transactional_id!r}" + (f", group {group!r}" if group else ""))
    session.authorized[_question(transactional_id, group)] = (session.context.clock(), True)


async def _ask(session: Session, request: Any) -> int:
    key = int(request.API_KEY)
    answer: asyncio.Future[int] = session.context.loop.create_future()

    def answered(frame: memoryview) -> None:
        at = response_body_offset(key, _PROBE_VERSION, frame)
        if not answer.done():
            answer.set_result(int(decode_response(key, _PROBE_VERSION, frame[at:]).error_code))

    session.ask(key, _PROBE_VERSION, encode_body(request, _PROBE_VERSION), answered)
    return await answer
