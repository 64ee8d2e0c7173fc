"""What is the gateway's own does not exist for clients: topics, groups, transactional ids that begin with `__lockgate`.

Whatever the target's ACLs say, wildcards among them, and where it has no authoriser too. A request that names one is
refused whole, with the authorisation error of what it names where its API is one that clients use, else by closing the
connection. `Produce` and `Fetch`, which mostly pass without being collected, are looked at in `session/from_client.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

import structlog

from gateway.proxy.rules.own_names import is_own
from protocol.apis import ApiKey
from protocol.codec import decode_request, encode_response
from protocol.errors import ErrorCode
from protocol.messages import (
    AddOffsetsToTxnResponse,
    DeleteRecordsResponse,
    EndTxnResponse,
    FetchResponse,
    HeartbeatResponse,
    InitProducerIdResponse,
    JoinGroupResponse,
    ListOffsetsResponse,
    OffsetCommitResponse,
)

if TYPE_CHECKING:
    from gateway.proxy.session.exchange import Exchange
    from gateway.proxy.session.session import Handler, Session

_TOPIC = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
_GROUP = int(ErrorCode.GROUP_AUTHORIZATION_FAILED)
_TRANSACTIONAL_ID = int(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
_log = structlog.get_logger("lockgate.proxy")


class OwnNamesGuard:
    """In front of a handler (or of none, where requests of the API pass): refuses requests that name what is ours.

    `collects`: every request of the API is collected for it; else those that the handler wants, and those of which the
    session has seen that they may name something of ours.
    """

    def __init__(self, inner: Handler | None, *, collects: bool = True) -> None:
        self._inner = inner
        if inner is not None and not collects:
            self.intercepts = inner.intercepts  # type: ignore[method-assign]

    def intercepts(self, session: Session) -> bool:
        return True

    def handle(self, session: Session, exchange: Exchange) -> None:
        own = session.context.own_names
        if own.in_bytes(bytes(exchange.body)):
            request = decode_request(exchange.api_key, exchange.api_version, exchange.body)
            if _names_own(request.to_dict(), own.topic_ids):
                refuse(session, exchange, request)
                return
        if self._inner is None or not self._inner.intercepts(session):
            exchange.forward()
        else:
            self._inner.handle(session, exchange)


def refuse(session: Session, exchange: Exchange, request: Any) -> None:
    """Answer a request that names what is ours."""
    key = exchange.api_key
    _log.warning("a client named what is the gateway's own", client=session.host, principal=session.principal, api=key)
    make = _ANSWERS.get(key)
    if make is None:
        session.close("the request names what is the gateway's own")
        return
    exchange.reply_framed(encode_response(make(request), key, exchange.api_version, exchange.correlation_id))


def _names_own(found: Any, ids: Collection[str]) -> bool:
    """Some text in a message, as a dictionary, is a name of the gateway's, or the id of a topic of its."""
    if isinstance(found, str):
        return is_own(found) or found in ids
    if isinstance(found, Mapping):
        return any(_names_own(each, ids) for each in found.values())
    return isinstance(found, list | tuple) and any(_names_own(each, ids) for each in found)


def _join_group(request: Any) -> Any:
    return JoinGroupResponse(
        throttle_time_ms=0,
        error_code=_GROUP,
        generation_id=-1,
        protocol_type=None,
        protocol_name="",
        leader="",
        skip_assignment=False,
        member_id="",
        members=[],
    )


def _fetch(request: Any) -> Any:
    kind = FetchResponse.FetchableTopicResponse
    part = kind.PartitionData
    return FetchResponse(
        throttle_time_ms=0,
        error_code=0,
        session_id=0,
        responses=[
            kind(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    part(
                        partition_index=p.partition,
                        error_code=_TOPIC,
                        high_watermark=-1,
                        last_stable_offset=-1,
                        log_start_offset=-1,
                        aborted_transactions=None,
                        preferred_read_replica=-1,
                        records=b"",
                    )
                    for p in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _list_offsets(request: Any) -> Any:
    kind = ListOffsetsResponse.ListOffsetsTopicResponse
    part = kind.ListOffsetsPartitionResponse
    return ListOffsetsResponse(
        throttle_time_ms=0,
        topics=[
            kind(
                name=topic.name,
                partitions=[
                    part(partition_index=p.partition_index, error_code=_TOPIC, timestamp=-1, offset=-1, leader_epoch=-1)
                    for p in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _delete_records(request: Any) -> Any:
    kind = DeleteRecordsResponse.DeleteRecordsTopicResult
    part = kind.DeleteRecordsPartitionResult
    return DeleteRecordsResponse(
        throttle_time_ms=0,
        topics=[
            kind(
                name=topic.name,
                partitions=[
                    part(partition_index=p.partition_index, low_watermark=-1, error_code=_TOPIC)
                    for p in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _offset_commit(request: Any) -> Any:
    kind = OffsetCommitResponse.OffsetCommitResponseTopic
    part = kind.OffsetCommitResponsePartition
    code = _GROUP if is_own(request.group_id) else _TOPIC
    return OffsetCommitResponse(
        throttle_time_ms=0,
        topics=[
            kind(
                name=topic.name,
                partitions=[part(partition_index=p.partition_index, error_code=code) for p in topic.partitions],
            )
            for topic in request.topics
        ],
    )


_ANSWERS: Mapping[int, Callable[[Any], Any]] = {
    ApiKey.FETCH: _fetch,
    ApiKey.JOIN_GROUP: _join_group,
    ApiKey.HEARTBEAT: lambda _: HeartbeatResponse(throttle_time_ms=0, error_code=_GROUP),
    ApiKey.LIST_OFFSETS: _list_offsets,
    ApiKey.DELETE_RECORDS: _delete_records,
    ApiKey.OFFSET_COMMIT: _offset_commit,
    ApiKey.INIT_PRODUCER_ID: lambda _: InitProducerIdResponse(
        throttle_time_ms=0, error_code=_TRANSACTIONAL_ID, producer_id=-1, producer_epoch=-1
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: lambda request: AddOffsetsToTxnResponse(
        throttle_time_ms=0, error_code=_TRANSACTIONAL_ID if is_own(request.transactional_id) else _GROUP
    ),
    ApiKey.END_TXN: lambda _: EndTxnResponse(throttle_time_ms=0, error_code=_TRANSACTIONAL_ID),
}
