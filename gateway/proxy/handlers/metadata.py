"""Metadata: v0-13.

Behaviour:
* the broker list of every answer becomes the gateway's listeners; nothing else is decoded
* a topic that exists on a source but is neither mirrored nor on the target is never auto-created by passing
  through: the target is first asked without auto-creation, and asked again with it only for names that no
  source has. Otherwise a producer that moved too early would fork its topic
* of more than 1,000 names that the target lacks none is created: sources are asked about so many in a request
* such a refusal is UNKNOWN_TOPIC_OR_PARTITION to the client, and a log line a minute, an alert and a metric here
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from gateway.cutover.write_pause.rules.routing import RoutingTable
from gateway.kafka.cluster import Cluster
from gateway.proxy.handlers.source_questions import SourceQuestions, tell_unmirrored
from gateway.proxy.rules.asked_names import IN_A_REQUEST
from gateway.proxy.session.addresses import Advertised, framed_with_addresses, patched
from gateway.proxy.session.stats import ProxyStats
from protocol.apis import ApiKey
from protocol.header import encode_request_header, response_body_offset
from protocol.metadata import answer_in_version, metadata_request_topics, unknown_topics, without_auto_create

if TYPE_CHECKING:
    from gateway.proxy.session.exchange import Exchange
    from gateway.proxy.session.session import Session

_KEY = int(ApiKey.METADATA)


class MetadataHandler:
    """See the module's docstring."""

    def __init__(
        self,
        *,
        sources: Mapping[str, Cluster],
        advertised: Advertised,
        routing: RoutingTable,
        target: Cluster,
        loop: asyncio.AbstractEventLoop,
        spawn: Callable[[asyncio.Task[None]], None],
        questions: SourceQuestions,
        stats: ProxyStats,
    ) -> None:
        self._sources = sources
        self._advertised = advertised
        self._routing = routing
        self._target = target
        self._loop = loop
        self._spawn = spawn
        self._sources_asked = questions.ask
        self._stats = stats

    def intercepts(self, session: Session) -> bool:
        return True

    def handle(self, session: Session, exchange: Exchange) -> None:
        if not self._sources or not self._may_create(exchange):
            exchange.forward(patched(self._advertised, exchange))
            return
        session.stall()  # the second question must not fall into the middle of another request
        body, asked = without_auto_create(exchange.body, exchange.api_version)
        header = encode_request_header(_KEY, asked, exchange.correlation_id, exchange.client_id)
        exchange.forward_pieces(
            len(header) + len(body),
            (header, body),
            lambda frame: self._first_answer(session, exchange, asked, frame),
        )

    def _may_create(self, exchange: Exchange) -> bool:
        names, auto_create = metadata_request_topics(exchange.body, exchange.api_version)
        if not auto_create or not names:
            return False
        known = self._routing.current.topics
        on_target = self._target.view.topics
        return any(name not in on_target and not (name in known and known[name].is_mirrored) for name in names)

    def _first_answer(self, session: Session, exchange: Exchange, asked: int, frame: memoryview) -> bytes | None:
        body = frame[response_body_offset(_KEY, asked, frame) :]
        unknown = unknown_topics(body, asked)
        answer = answer_in_version(body, asked, exchange.api_version)
        response = framed_with_addresses(self._advertised, exchange, answer)
        if not unknown or len(unknown) > IN_A_REQUEST:
            self._loop.call_soon(session.again, lambda: None)
            return response
        self._spawn(self._loop.create_task(self._decide(session, exchange, unknown, response)))
        return None

    async def _decide(self, session: Session, exchange: Exchange, unknown: Sequence[str], response: bytes) -> None:
        on_source = await self._sources_asked(session, unknown)
        if on_source is None:
            return
        tell_unmirrored(self._stats, session, on_source)
        if on_source:
            session.again(lambda: exchange.reply_framed(response))
        else:
            session.again(lambda: exchange.forward(patched(self._advertised, exchange)))
