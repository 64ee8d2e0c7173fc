"""CreateTopics: v2-7.

Behaviour: of a name that exists on a source and is not mirrored it is refused whole with POLICY_VIOLATION and a
message that says what to do: creating it here would fork the topic. Only who may create it is told, and sources are
asked for nobody else: the target is asked first, by the same request with `validate_only`. What it denies is answered
so, the rest is sent on. Up to 1,000 names in a request, and so many a second (`proxy/rules/asked_names.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gateway.kafka.cluster import Cluster
from gateway.proxy.handlers.partly_refused import answer_refused, serve_rest
from gateway.proxy.handlers.source_questions import SourceQuestions, tell_unmirrored
from gateway.proxy.rules.refusals import MOST_IN_PART, Refusal, refused, taken
from gateway.proxy.session.stats import ProxyStats
from protocol.codec import decode_response, encode_body
from protocol.errors import ErrorCode
from protocol.header import response_body_offset
from protocol.messages import CreateTopicsResponse

if TYPE_CHECKING:
    from gateway.proxy.session.exchange import Exchange
    from gateway.proxy.session.session import Session

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
        questions: SourceQuestions,
        stats: ProxyStats,
    ) -> None:
        self._sources = sources
        self._spawn = spawn
        self._loop = loop
        self._sources_asked = questions.ask
        self._stats = stats

    def intercepts(self, session: Session) -> bool:
        return bool(self._sources)

    def handle(self, session: Session, exchange: Exchange) -> None:
        request = exchange.request(MOST_IN_PART)
        session.stall()
        request.validate_only = True
        key, version = exchange.api_key, exchange.api_version

        def asked(frame: memoryview) -> None:
            answer = decode_response(key, version, frame[response_body_offset(key, version, frame) :])
            denied = {topic.name: topic.error_code for topic in answer.topics if topic.error_code in _DENIED}
            self._spawn(self._loop.create_task(self._decide(session, exchange, denied)))

        session.ask(key, version, encode_body(request, version), asked)

    async def _decide(self, session: Session, exchange: Exchange, denied: Mapping[str, int]) -> None:
        names = [topic.name for topic in exchange.request().topics]
        on_source = await self._sources_asked(session, [name for name in names if name not in denied])
        if on_source is None:
            return
        if on_source:
            session.again(lambda: self._refuse(session, exchange, names, on_source))
        elif denied:
            session.again(lambda: self._pass(exchange, denied))
        else:
            session.again(exchange.forward)

    def _pass(self, exchange: Exchange, denied: Mapping[str, int]) -> None:
        """Refuse these topics as the target has: they are not sent on, since a right may come any moment."""
        request = exchange.request()
        found, places = taken(request.topics, lambda topic: topic.name in denied)
        kind = CreateTopicsResponse.CreatableTopicResult
        entries = [refused(kind, denied[topic.name], name=topic.name) for topic in found]
        refusal = Refusal(CreateTopicsResponse(topics=entries), "topics", places, bool(request.topics))
        if refusal.rest:
            serve_rest(exchange, request, refusal)
            exchange.forward()
        else:
            answer_refused(exchange, refusal)

    def _refuse(self, session: Session, exchange: Exchange, names: Sequence[str], on_source: Mapping[str, str]) -> None:
        tell_unmirrored(self._stats, session, on_source)
        kind = CreateTopicsResponse.CreatableTopicResult
        topics = [kind(name=name, error_code=_CODE, error_message=_create_message(name, on_source)) for name in names]
        answer_refused(exchange, Refusal(CreateTopicsResponse(throttle_time_ms=0, topics=topics)))


def _create_message(name: str, on_source: Any) -> str:
    if name in on_source:
        link = on_source[name]
        return f"topic {name} exists on the source of link {link}: run 'lockgate mirror create {name} --link {link}'"
    return "another topic of this request exists on a source: nothing was created"
