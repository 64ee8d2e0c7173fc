"""Answers of a broker that are changed on their way, and requests of which it gets a part. See `rules/refusals.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gateway.proxy.rules.refusals import Refusal, merged
from protocol.codec import decode_response, encode_body, encode_response
from protocol.header import response_body_offset
from protocol.wire import Buffer

if TYPE_CHECKING:
    from gateway.proxy.session.exchange import Exchange

_SIZE_BYTES = 4


def answer_refused(exchange: Exchange, refusal: Refusal) -> None:
    """Answer a request of which nothing is left."""
    exchange.reply_framed(_encoded(exchange, refusal.answer))


def serve_rest(exchange: Exchange, request: Any, refusal: Refusal) -> None:
    """The exchange goes on with the rest, `request`; what was refused comes into its answer."""
    body = encode_body(request, exchange.api_version)
    exchange.frame = memoryview(b"".join((exchange.frame[: exchange.body_offset], body)))
    edit(exchange, lambda answer: merged(answer, refusal))


def refuse(exchange: Exchange, request: Any, refusal: Refusal) -> bool:
    """Answer what was taken out of `request`. True: the exchange is to be forwarded with what is left of it."""
    if refusal.rest:
        serve_rest(exchange, request, refusal)
    else:
        answer_refused(exchange, refusal)
    return refusal.rest


def edit(exchange: Exchange, change: Callable[[Any], Any], *, only_with: bytes = b"") -> None:
    """Change the answer, decoded, before it leaves; `only_with`: if it has these bytes. Later changes come first."""
    key, version, before = exchange.api_key, exchange.api_version, exchange.edit

    def edited(response: Buffer) -> Buffer:
        if not only_with or only_with in bytes(response):
            frame = memoryview(response)[_SIZE_BYTES:]
            answer = decode_response(key, version, frame[response_body_offset(key, version, frame) :])
            response = _encoded(exchange, change(answer))
        return response if before is None else before(response)

    exchange.edit = edited


def _encoded(exchange: Exchange, answer: Any) -> bytes:
    return encode_response(answer, exchange.api_key, exchange.api_version, exchange.correlation_id)
