"""CreateTopics: v2-7.

Behaviour: of a name that exists on a source and is not mirrored it is refused whole with POLICY_VIOLATION and a
message that says what to do: creating it here would fork the topic. Only who may create it is told: the target is asked
first, by the same request with `validate_only`, and whoever it refuses is answered by it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import structlog

from gateway.kafka.cluster import Cluster
from gateway.proxy.handlers.partly_refused import answer_refused, serve_rest
from gateway.proxy.rules.refusals import Refusal, refused, taken
from gateway.proxy.session.stats import ProxyStats
from gateway.topics.interface import SourceTopics
from protocol.codec import decode_response, encode_body
from protocol.errors import ErrorCode
from protocol.header import response_body_offset
from protocol.messages import CreateTopicsResponse

if TYPE_CHECKING:
    from gateway.proxy.session.exchange import Exchange
    from gateway.proxy.session.session import Session

_log = structlog.get_logger("lockgate.proxy")
_CODE = int(ErrorCode.POLICY_VIOLATION)
_DENIED = (int(ErrorCode.TOPIC_AUTHORIZATION_FAILED), int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))


class CreateTopicsHandler:
    """See the module's docstring."""

    def __init__(
        self,
        *,
        sources: Mapping[str, Cluster],
        spawn: Callable[[asyncio.Task[None]], None],
        loop: asyncio.AbstractEventLoop,
        source_topics: SourceTopics,
        stats: ProxyStats,
    ) -> None:
        self._sources = sources
        self._spawn = spawn
        self._loop = loop
        self._source_topics = source_topics
        self._stats = stats

    def intercepts(self, session: Session) -> bool:
        return bool(self._sources)

    def handle(self, session: Session, exchange: Exchange) -> None:
        request = exchange.request()
        session.stall()
        self._spawn(self._loop.create_task(self._decide(session, exchange, request)))

    async def _decide(self, session: Session, exchange: Exchange, request: Any) -> None:
        names = [topic.name for topic in request.topics]
        on_source = await self._source_topics.exists_unmirrored(names)
        if not on_source:
            session.again(exchange.forward)
            return
        request.topics = [topic for topic in request.topics if topic.name in on_source]
        request.validate_only = True
        key, version = exchange.api_key, exchange.api_version

        def asked(frame: memoryview) -> None:
            answer = decode_response(key, version, frame[response_body_offset(key, version, frame) :])
            allowed = {topic.name for topic in answer.topics if topic.error_code not in _DENIED}
            told = {topic: link for topic, link in on_source.items() if topic in allowed}
            session.again(lambda: self._refuse(exchange, names, told) if told else self._pass(exchange, on_source))

        session.ask(key, version, encode_body(request, version), asked)

    def _pass(self, exchange: Exchange, on_source: Mapping[str, str]) -> None:
        """Refuse these topics as the target would: they are not sent on, since a right may come any moment."""
        request = exchange.request()
        found, places = taken(request.topics, lambda topic: topic.name in on_source)
        kind = CreateTopicsResponse.CreatableTopicResult
        entries = [refused(kind, int(ErrorCode.TOPIC_AUTHORIZATION_FAILED), name=topic.name) for topic in found]
        refusal = Refusal(CreateTopicsResponse(topics=entries), "topics", places, bool(request.topics))
        if refusal.rest:
            serve_rest(exchange, request, refusal)
            exchange.forward()
        else:
            answer_refused(exchange, refusal)

    def _refuse(self, exchange: Exchange, names: Sequence[str], on_source: Mapping[str, str]) -> None:
        for topic, link in on_source.items():
            counts = self._stats.auto_create_refused
            counts[topic] = counts.get(topic, 0) + 1
            _log.warning("topic exists on the source and is not mirrored: not created", topic=topic, link=link)
        kind = CreateTopicsResponse.CreatableTopicResult
        topics = [kind(name=name, error_code=_CODE, error_message=_create_message(name, on_source)) for name in names]
        answer_refused(exchange, Refusal(CreateTopicsResponse(throttle_time_ms=0, topics=topics)))


def _create_message(name: str, on_source: Any) -> str:
    if name in on_source:
        link = on_source[name]
        return f"topic {name} exists on the source of link {link}: run 'lockgate mirror create {name} --link {link}'"
    return "another topic of this request exists on a source: nothing was created"
