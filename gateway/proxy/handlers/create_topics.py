"""CreateTopics: v2-7, and the topic APIs that would pull a mirror topic from under its link.

Behaviour:
* CreateTopics of a name that exists on a source and is not mirrored is refused whole with POLICY_VIOLATION and a
  message that says what to do: creating it here would fork the topic
* DeleteTopics, CreatePartitions and DeleteRecords of a mirror topic that is not promoted are refused likewise
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import structlog

from gateway.cutover.write_pause.rules.routing import RoutingTable, WritePhase
from gateway.kafka.cluster import Cluster
from gateway.proxy.session.stats import ProxyStats
from gateway.topics.interface import SourceTopics
from protocol.apis import ApiKey
from protocol.codec import encode_response
from protocol.errors import ErrorCode
from protocol.messages import (
    CreatePartitionsResponse,
    CreateTopicsResponse,
    DeleteRecordsResponse,
    DeleteTopicsResponse,
)

if TYPE_CHECKING:
    from gateway.proxy.session.exchange import Exchange
    from gateway.proxy.session.session import Session

_log = structlog.get_logger("lockgate.proxy")
_CODE = int(ErrorCode.POLICY_VIOLATION)


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
        names = [topic.name for topic in request.topics]
        self._spawn(self._loop.create_task(self._decide(session, exchange, names)))

    async def _decide(self, session: Session, exchange: Exchange, names: Sequence[str]) -> None:
        on_source = await self._source_topics.exists_unmirrored(names)
        if not on_source:
            session.again(exchange.forward)
            return
        for topic, link in on_source.items():
            refused = self._stats.auto_create_refused
            refused[topic] = refused.get(topic, 0) + 1
            _log.warning("topic exists on the source and is not mirrored: not created", topic=topic, link=link)
        kind = CreateTopicsResponse.CreatableTopicResult
        topics = [kind(name=name, error_code=_CODE, error_message=_create_message(name, on_source)) for name in names]
        session.again(lambda: _reply(exchange, CreateTopicsResponse(throttle_time_ms=0, topics=topics)))


def _create_message(name: str, on_source: Any) -> str:
    if name in on_source:
        link = on_source[name]
        return f"topic {name} exists on the source of link {link}: run 'lockgate mirror create {name} --link {link}'"
    return "another topic of this request exists on a source: nothing was created"


class MirrorTopicGuard:
    """Refuses DeleteTopics, CreatePartitions and DeleteRecords while one of their topics is a mirror."""

    def __init__(self, *, routing: RoutingTable) -> None:
        self._routing = routing

    def intercepts(self, session: Session) -> bool:
        return bool(self._routing.current.topics)

    def handle(self, session: Session, exchange: Exchange) -> None:
        request = exchange.request()
        names = self._names(exchange, request)
        routes = self._routing.current.topics
        owned = [n for n in names if n in routes and routes[n].phase is not WritePhase.SWITCHED]
        if not owned:
            exchange.forward()
            return
        message = f"{owned[0]} is a mirror topic of link {routes[owned[0]].link}: promote it or delete the mirror first"
        _reply(exchange, self._refusal(exchange.api_key, request, names, message))

    def _names(self, exchange: Exchange, request: Any) -> list[str]:
        if exchange.api_key == ApiKey.DELETE_TOPICS:
            ids = self._routing.current.topic_ids
            if exchange.api_version >= 6:
                return [t.name or ids.get(_id_bytes(t.topic_id), "") for t in request.topics]
            return list(request.topic_names)
        return [t.name for t in request.topics]

    def _refusal(self, key: int, request: Any, names: Sequence[str], message: str) -> Any:
        if key == ApiKey.DELETE_TOPICS:
            deleted = DeleteTopicsResponse.DeletableTopicResult
            responses = [deleted(name=n, error_code=_CODE, error_message=message) for n in names]
            return DeleteTopicsResponse(throttle_time_ms=0, responses=responses)
        if key == ApiKey.CREATE_PARTITIONS:
            created = CreatePartitionsResponse.CreatePartitionsTopicResult
            results = [created(name=n, error_code=_CODE, error_message=message) for n in names]
            return CreatePartitionsResponse(throttle_time_ms=0, results=results)
        kind = DeleteRecordsResponse.DeleteRecordsTopicResult
        part = kind.DeleteRecordsPartitionResult
        topics = [
            kind(
                name=t.name,
                partitions=[
                    part(partition_index=p.partition_index, low_watermark=-1, error_code=_CODE) for p in t.partitions
                ],
            )
            for t in request.topics
        ]
        return DeleteRecordsResponse(throttle_time_ms=0, topics=topics)


def _id_bytes(topic_id: Any) -> bytes:
    return topic_id.bytes if hasattr(topic_id, "bytes") else bytes(topic_id or b"")


def _reply(exchange: Exchange, response: Any) -> None:
    exchange.reply_framed(encode_response(response, exchange.api_key, exchange.api_version, exchange.correlation_id))
