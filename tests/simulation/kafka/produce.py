"""Produce v0-13: check, append on the leader, wait for the ISR.

Versions up to 11 are scanned and answered by position, without decoding; v12 (transactions v2) and v13 (topic ids) go
through the message classes. With acks=0 there is no answer, and an error closes the connection.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from protocol.apis import ApiKey
from protocol.batch.header import BatchHeader
from protocol.errors import ErrorCode
from protocol.messages import ProduceResponse
from protocol.produce import PartitionResult, build_response_body, scan_request
from tests.simulation.kafka.broker import PORT, Broker, Request, handles
from tests.simulation.kafka.logs.validation import RecordErrors, Refusal, shape, validated
from tests.simulation.kafka.topics import INTERNAL

if TYPE_CHECKING:
    from tests.simulation.kafka.logs.partition import Partition
    from tests.simulation.kafka.logs.replica import Replica

_LEADERS_FROM: Final = 10  # KIP-951
_BY_MESSAGE_FROM: Final = 12
_ABORTABLE_FROM: Final = 11  # TRANSACTION_ABORTABLE is known
_ADDS_FROM: Final = 12  # transactions v2: a partition joins by the first batch
_BY_ID_FROM: Final = 13
_ADMIN: Final = "__admin_client"  # the only client id that may write to the brokers' own topics
_UNVERIFIABLE: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


@dataclass(slots=True)
class _Result:
    """What becomes of one partition's records."""

    topic: str
    index: int
    error: ErrorCode = ErrorCode.NONE
    base_offset: int = -1
    append_time_ms: int = -1
    log_start: int = -1
    message: str | None = None
    record_errors: RecordErrors = ()
    topic_id: UUID | None = None
    waits: asyncio.Future[ErrorCode] | None = None


@dataclass(slots=True)
class _Part:
    """One partition's records as they came."""

    topic: str | None
    index: int
    records: memoryview
    topic_id: UUID | None = None


@handles(ApiKey.PRODUCE)
async def produce(broker: Broker, request: Request) -> Any:
    """Serve a Produce request."""
    transactional_id, acks, timeout_ms, parts = _parsed(broker, request)
    append = partial(_append, broker, request, transactional_id, acks)
    if acks in (-1, 0, 1):
        results = [append(part) for part in parts]
    else:
        results = [_Result(part.topic or "", part.index, ErrorCode.INVALID_REQUIRED_ACKS) for part in parts]
    if acks == 0:
        failed = [result for result in results if result.error != ErrorCode.NONE]
        if failed:
            said = f"{failed[0].topic}-{failed[0].index}: {failed[0].error.name}"
            raise broker.close(request.session, f"Produce with acks=0 failed for {said}")
        return None
    await _answered(broker, results, timeout_ms)
    return _answer(broker, request, results)


def _parsed(broker: Broker, request: Request) -> tuple[str | None, int, int, list[_Part]]:
    if request.version < _BY_MESSAGE_FROM:
        view = scan_request(request.body, request.version)
        body = memoryview(request.body)
        parts = [_Part(topic, index, body[start:end]) for topic, index, start, end in view.parts]
        return view.transactional_id, view.acks, view.timeout_ms, parts
    message = request.message
    parts = []
    for topic in message.topic_data:
        topic_id, name = None, topic.name
        if request.version >= _BY_ID_FROM:
            topic_id = topic.topic_id
            found = broker.cluster.topics_by_id.get(topic.topic_id)
            name = None if found is None else found.name
        for data in topic.partition_data:
            parts.append(_Part(name, data.index, memoryview(data.records or b""), topic_id))
    return message.transactional_id, message.acks, message.timeout_ms, parts


def _append(broker: Broker, request: Request, transactional_id: str | None, acks: int, part: _Part) -> _Result:
    result = _Result(part.topic or "", part.index, topic_id=part.topic_id)
    if part.topic is None:
        result.error = ErrorCode.UNKNOWN_TOPIC_ID
        return result
    partition = broker.cluster.lookup(part.topic, part.index)
    if partition is None:
        result.error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return result
    header = shape(part.records, request.version)
    if isinstance(header, Refusal):
        return _refused(result, header, None)
    if header.is_transactional and header.producer_id >= 0:
        refusal = _verified(partition, broker, transactional_id, header, request.version)
        if refusal is not None:
            return _refused(result, refusal, None)
    if part.topic in INTERNAL and request.client_id != _ADMIN:
        result.error = ErrorCode.INVALID_TOPIC_EXCEPTION
        return result
    replica = partition.on(broker.id)
    if isinstance(replica, ErrorCode):
        result.error = replica
        return result
    return _append_to(broker, partition, replica, header, part.records, acks, result)


def _verified(
    partition: Partition, broker: Broker, transactional_id: str | None, header: BatchHeader, version: int
) -> Refusal | None:
    """The leader asks the coordinator whether the partition is in the transaction, before its first batch (KIP-890)."""
    if transactional_id is None:
        return Refusal(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    replica = partition.on(broker.id)
    if isinstance(replica, ErrorCode):
        return Refusal(replica)
    producer = replica.log.producers.producers.get(header.producer_id)
    by_epoch = broker.cluster.version.startswith("4.")  # 3.9 lets any epoch pass here, and refuses it at the append
    if producer is not None and producer.txn_start >= 0 and (not by_epoch or producer.epoch == header.producer_epoch):
        return None
    replica.log.producers.verify(header)
    coordinators = broker.cluster.transactions
    ask = coordinators.add_implicitly if version >= _ADDS_FROM else coordinators.verify
    told = ask(transactional_id, header.producer_id, header.producer_epoch, partition.topic.name, partition.index)
    error = coordinators.for_client(told, abortable=version >= _ABORTABLE_FROM)
    if error == ErrorCode.NONE:
        return None
    if error == ErrorCode.INVALID_TXN_STATE:
        return Refusal(error, message="Partition was not added to the transaction")
    if error in _UNVERIFIABLE:
        text = f"Unable to verify the partition has been added to the transaction. Underlying error: {error.name}"
        return Refusal(ErrorCode.NOT_ENOUGH_REPLICAS, message=text)
    return Refusal(error)


def _append_to(
    broker: Broker,
    partition: Partition,
    replica: Replica,
    header: BatchHeader,
    records: memoryview,
    acks: int,
    result: _Result,
) -> _Result:
    log = replica.log
    if acks == -1 and partition.is_under_min_isr(broker.id):
        return _refused(result, Refusal(ErrorCode.NOT_ENOUGH_REPLICAS, known_start=True), replica)
    settings = partition.topic.settings_at(broker.id)
    now_ms = broker.now_ms()
    checked = validated(header, records, settings, now_ms)
    if isinstance(checked, Refusal):
        return _refused(result, checked, replica)
    result.log_start = log.start
    if header.producer_id >= 0:
        error, seen = log.producers.check(header)
        if error != ErrorCode.NONE:
            return _refused(result, Refusal(error, known_start=True), replica)
        if seen is not None:
            result.base_offset, result.append_time_ms = seen.first_offset, seen.timestamp
            _wait(partition, replica, seen.last_offset + 1, acks, result)
            return result
    if settings.log_append_time:
        result.append_time_ms = now_ms
    batch = partition.append(replica, checked)
    result.base_offset = batch.header.base_offset
    _wait(partition, replica, batch.last + 1, acks, result)
    return result


def _wait(partition: Partition, replica: Replica, offset: int, acks: int, result: _Result) -> None:
    if acks != -1:
        return
    acked = partition.acked(replica, offset)
    if isinstance(acked, ErrorCode):
        result.error = acked
    else:
        result.waits = acked


def _refused(result: _Result, refusal: Refusal, replica: Replica | None) -> _Result:
    result.error = refusal.error
    result.message = refusal.message
    result.record_errors = refusal.record_errors
    result.log_start = replica.log.start if replica is not None and refusal.known_start else -1
    return result


async def _answered(broker: Broker, results: list[_Result], timeout_ms: int) -> None:
    """Wait until every partition is in all of its ISR, or for `timeout_ms`."""
    waiting = [result.waits for result in results if result.waits is not None]
    if not waiting:
        return

    def time_out() -> None:
        for future in waiting:
            if not future.done():
                future.set_result(ErrorCode.REQUEST_TIMED_OUT)

    timer = broker.cluster.loop.call_later(max(timeout_ms, 0) / 1000, time_out)
    for result in results:
        if result.waits is not None:
            result.error = await result.waits
    timer.cancel()


def _answer(broker: Broker, request: Request, results: list[_Result]) -> Any:
    if request.version < _LEADERS_FROM or (
        request.version < _BY_MESSAGE_FROM and all(result.error == ErrorCode.NONE for result in results)
    ):
        return build_response_body(request.version, [_row(result) for result in results])
    response = ProduceResponse(responses=[], throttle_time_ms=0)
    topics: dict[Any, Any] = {}
    leaders: set[int] = set()
    for result in results:
        key = result.topic_id or result.topic
        topic = topics.get(key)
        if topic is None:
            topic = ProduceResponse.TopicProduceResponse(
                name=result.topic, topic_id=result.topic_id, partition_responses=[]
            )
            topics[key] = topic
            response.responses.append(topic)
        topic.partition_responses.append(_partition_response(broker, result, leaders))
    endpoint = ProduceResponse.NodeEndpoint
    response.node_endpoints = [
        endpoint(node_id=leader, host=broker.cluster.brokers[leader].host, port=PORT, rack=None)
        for leader in sorted(leaders)
    ]
    return response


def _row(result: _Result) -> PartitionResult:
    return PartitionResult(
        result.topic,
        result.index,
        int(result.error),
        result.base_offset,
        result.append_time_ms,
        result.log_start,
        result.message,
        result.record_errors,
    )


def _partition_response(broker: Broker, result: _Result, leaders: set[int]) -> Any:
    kind = ProduceResponse.TopicProduceResponse.PartitionProduceResponse
    answer = kind(
        index=result.index,
        error_code=int(result.error),
        base_offset=result.base_offset,
        log_append_time_ms=result.append_time_ms,
        log_start_offset=result.log_start,
        record_errors=[
            kind.BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=text)
            for index, text in result.record_errors
        ],
        error_message=result.message,
    )
    if result.error == ErrorCode.NOT_LEADER_OR_FOLLOWER:
        partition = broker.cluster.lookup(result.topic, result.index)
        if partition is not None:
            state = partition.seen_by(broker.id)
            answer.current_leader = kind.LeaderIdAndEpoch(leader_id=state.leader, leader_epoch=state.epoch)
            if state.leader >= 0:
                leaders.add(state.leader)
    return answer
