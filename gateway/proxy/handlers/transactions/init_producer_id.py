"""InitProducerId: v0-5.

Behaviour without a transactional id: the target issues the id; the client is shown one with 2^49 and the target's tag
added, and uses that on both clusters. Ids of the source and the target both count from 0 and would collide, as would
those of two targets at one source; brokers do not check who issued an id, so the shifted one is good everywhere and no
batch has to be rewritten. An id that comes back (v3+, an epoch bump) is shifted back.

With a transactional id: the target's own identity is the client's. While topics are mirrored the transactional id is
initialised on their sources too: that fences an instance which writes there directly, and aborts what it left open, as
a broker does for one cluster. Behind a failback the gateway writes there under another transactional id; the one that
such an instance has is initialised before it. The identities are kept before the client learns its own
(`proxy/rules/transactional_ids.py`).
A source that is not reachable is initialised later, before the first transaction there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import structlog

from gateway.cutover.write_pause.rules.routing import RoutingTable
from gateway.proxy.handlers.transactions.txn_codes import answered_code
from gateway.proxy.rules.transactional_ids import ProducerIdentity, ProducerRecord, TransactionSide
from gateway.proxy.transactions.coordinator_calls import for_client
from gateway.proxy.transactions.coordinators import CLIENT, Lost, Refused
from gateway.proxy.transactions.placement import TopicPlacements
from gateway.proxy.transactions.transactions import Transactions
from gateway.state.producer_ids import GATEWAY_PID_BASE, as_issued, shown_as
from protocol.apis import ApiKey
from protocol.codec import decode_response, encode_body, encode_response
from protocol.errors import ErrorCode
from protocol.framing import framed
from protocol.header import response_body_offset
from protocol.messages import InitProducerIdResponse
from protocol.patch import patch_init_producer_id_response

if TYPE_CHECKING:
    from gateway.proxy.session.exchange import Exchange
    from gateway.proxy.session.session import Session

_KEY = int(ApiKey.INIT_PRODUCER_ID)
_log = structlog.get_logger("lockgate.proxy")
_ABSENT = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)


class InitProducerIdHandler:
    """See the module's docstring."""

    def __init__(
        self,
        *,
        routing: RoutingTable,
        transactions: Transactions,
        placements: TopicPlacements,
        target_id: Callable[[], str],
    ) -> None:
        """`target_id`: the target's cluster id."""
        self._target_id = target_id
        self._routing = routing
        self._transactions = transactions
        self._placements = placements

    def intercepts(self, session: Session) -> bool:
        return True

    def handle(self, session: Session, exchange: Exchange) -> None:
        request = exchange.request()
        if request.transactional_id is not None:
            if self._routing.current.intercepts_produce:
                exchange.forward(lambda frame: self._answered(session, exchange, request, frame))
            else:
                exchange.forward()
        elif exchange.api_version >= 3 and request.producer_id >= GATEWAY_PID_BASE:
            request.producer_id = as_issued(request.producer_id)
            body = encode_body(request, exchange.api_version)
            exchange.forward_body(body, lambda frame: self._shift(exchange, frame))
        else:
            exchange.forward(lambda frame: self._shift(exchange, frame))

    def _answered(self, session: Session, exchange: Exchange, request: Any, frame: memoryview) -> bytes | None:
        """The target has answered: initialise elsewhere before the client hears of it."""
        at = response_body_offset(_KEY, exchange.api_version, frame)
        answer = decode_response(_KEY, exchange.api_version, frame[at:])
        response = framed(frame)
        if answer.error_code:
            return response
        client = ProducerIdentity(answer.producer_id, answer.producer_epoch)
        work = self._initialise(session, exchange, request, client, response)
        for_client(session, work)
        return None

    async def _initialise(
        self, session: Session, exchange: Exchange, request: Any, client: ProducerIdentity, response: bytes
    ) -> None:
        name = request.transactional_id
        CLIENT.set(session.principal)
        try:
            async with self._transactions.lock(name):
                sides = await self._sides(name, request)
                timeout_ms = request.transaction_timeout_ms
                await self._transactions.initialised(ProducerRecord(name, client, timeout_ms, sides), session.id)
        except Refused as exc:
            _log.warning("a transactional producer was not initialised", transactional_id=name, reason=str(exc))
            refusal = InitProducerIdResponse(
                throttle_time_ms=0,
                error_code=answered_code(_KEY, exchange.api_version, exc.code),
                producer_id=-1,
                producer_epoch=-1,
            )
            exchange.reply_framed(encode_response(refusal, _KEY, exchange.api_version, exchange.correlation_id))
        except Exception as exc:  # noqa: BLE001 - a bug of ours must stay in this connection
            _log.exception("a transactional producer was not initialised", transactional_id=name)
            session.close(f"internal error: {exc!r}")
        else:
            exchange.reply_framed(response)

    async def _sides(self, name: str, request: Any) -> dict[TransactionSide, ProducerIdentity]:
        """The producer's identities at every place but the target's own, each just obtained there."""
        transactions = self._transactions
        old = await transactions.kept(name)
        sources, floor = self._placements.sources_written(), self._placements.failback_epoch()
        # The plain ones first: what is found out of a producer at a later place counts.
        wanted = dict.fromkeys(TransactionSide(source) for source in sorted(sources))
        wanted |= dict.fromkeys(TransactionSide(each, max(floor, old.newest(each) if old else 0)) for each in sources)
        if old is not None:
            own = (side for side in old.sides if not side.cluster and side.failback_epoch == old.newest(""))
            wanted |= dict.fromkeys(own)
        goes_on = old is not None and 0 <= request.producer_id == old.client.producer_id
        found: dict[TransactionSide, ProducerIdentity] = {}
        for side in wanted:
            expected = old.at(side) if old is not None and goes_on else None
            try:
                found[side] = await transactions.coordinators.init(side, name, request.transaction_timeout_ms, expected)
            except Lost as exc:
                raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(exc)) from exc
            except Refused as exc:
                if exc.code not in _ABSENT:
                    raise
                _log.warning("a transactional producer is initialised on its source later", reason=str(exc))
        return found

    def _shift(self, exchange: Exchange, frame: memoryview) -> bytes:
        at = response_body_offset(exchange.api_key, exchange.api_version, frame)
        body = patch_init_producer_id_response(frame[at:], exchange.api_version, shown_as(self._target_id()))
        return framed(frame[:at], body)
