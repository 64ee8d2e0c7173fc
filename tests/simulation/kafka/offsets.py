"""ListOffsets v1-11 and OffsetForLeaderEpoch v2-4."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from protocol.apis import ApiKey
from protocol.batch.record_reader import Record, read_records
from protocol.errors import ErrorCode
from protocol.messages import ListOffsetsResponse, OffsetForLeaderEpochResponse
from tests.simulation.kafka.broker import Broker, Request, handles
from tests.simulation.kafka.logs.log import Batch, ReplicaLog

if TYPE_CHECKING:
    from tests.simulation.kafka.logs.partition import Partition
    from tests.simulation.kafka.logs.replica import Replica

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
_SPECIAL_FROM: Final = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
_NO_EPOCH: Final = -1
_DEBUGGING: Final = -2  # a replica id that sees the leader's whole log
_COMMITTED, _UNREPLICATED = 1, -1  # isolations; the second is that of the replica id above


class _Found(NamedTuple):
    offset: int = -1
    timestamp: int = -1
    leader_epoch: int = -1


def _led(partition: Partition | None, broker: Broker, leader_epoch: int) -> Replica | ErrorCode:
    """The replica that this broker leads with, checked against the epoch that the client knows."""
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    replica = partition.replicas.get(broker.id)
    if replica is None or replica.epoch < 0:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if leader_epoch != _NO_EPOCH:
        if leader_epoch < replica.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if leader_epoch > replica.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
    return partition.on(broker.id)


@handles(ApiKey.LIST_OFFSETS)
async def list_offsets(broker: Broker, request: Request) -> Any:
    """Serve a ListOffsets request."""
    message, version = request.message, request.version
    isolation = int(version >= 2 and message.isolation_level == _COMMITTED)
    if message.replica_id == _DEBUGGING:
        isolation = _UNREPLICATED
    asked = Counter((topic.name, part.partition_index) for topic in message.topics for part in topic.partitions)
    response = ListOffsetsResponse(throttle_time_ms=0, topics=[])
    for topic in message.topics:
        answers = []
        for part in topic.partitions:
            answer = _asked_for(broker, version, topic.name, part, isolation)
            if asked[topic.name, part.partition_index] > 1:
                answer = ErrorCode.INVALID_REQUEST
            answers.append(_list_answer(part.partition_index, answer, version))
        response.topics.append(ListOffsetsResponse.ListOffsetsTopicResponse(name=topic.name, partitions=answers))
    return response


def _asked_for(broker: Broker, version: int, topic: str, part: Any, isolation: int) -> _Found | ErrorCode:
    """With the debugging replica id a follower answers, too (ReplicaManager: it does not ask for the leader only)."""
    if part.timestamp < 0 and version < _SPECIAL_FROM.get(part.timestamp, 1 << 15):
        return ErrorCode.UNSUPPORTED_VERSION
    epoch = part.current_leader_epoch if version >= 4 else _NO_EPOCH
    partition = broker.cluster.lookup(topic, part.partition_index)
    replica = _led(partition, broker, epoch)
    if replica is ErrorCode.NOT_LEADER_OR_FOLLOWER and isolation == _UNREPLICATED and partition is not None:
        replica = partition.replicas.get(broker.id, replica)
    return replica if isinstance(replica, ErrorCode) else _offset_for(replica, part.timestamp, isolation)


def _list_answer(index: int, answer: _Found | ErrorCode, version: int) -> Any:
    kind = ListOffsetsResponse.ListOffsetsTopicResponse.ListOffsetsPartitionResponse
    if isinstance(answer, ErrorCode):
        if answer == ErrorCode.OFFSET_NOT_AVAILABLE and version < 5:
            answer = ErrorCode.LEADER_NOT_AVAILABLE
        return kind(partition_index=index, error_code=int(answer), timestamp=-1, offset=-1, leader_epoch=-1)
    return kind(
        partition_index=index,
        error_code=0,
        timestamp=answer.timestamp,
        offset=answer.offset,
        leader_epoch=answer.leader_epoch,
    )


def _offset_for(replica: Replica, timestamp: int, isolation: int) -> _Found | ErrorCode:
    log = replica.log
    leading = replica.leading
    readable = {_COMMITTED: log.last_stable_offset, _UNREPLICATED: log.end}.get(isolation, log.high_watermark)
    behind = isolation != _UNREPLICATED and leading is not None and leading.epoch_start > log.high_watermark
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        known = bool(log.epochs) and log.epochs[0][1] <= log.start
        return _Found(log.start, leader_epoch=log.epochs[0][0] if known else -1)
    if timestamp == LATEST:
        return ErrorCode.OFFSET_NOT_AVAILABLE if behind else _Found(readable, leader_epoch=replica.epoch)
    if timestamp == LATEST_TIERED:
        return _Found()
    found = _youngest(log) if timestamp == MAX_TIMESTAMP else _first_at(log, timestamp)
    if found.offset < 0 or found.offset >= readable:
        return ErrorCode.OFFSET_NOT_AVAILABLE if behind else _Found()
    return found


def _records(batch: Batch) -> list[Record]:
    return list(read_records(batch.header, memoryview(batch.data)))


def _first_at(log: ReplicaLog, timestamp: int) -> _Found:
    for batch in log.first_at(timestamp):
        if batch.header.max_timestamp < timestamp:
            continue
        for record in _records(batch):
            if record.timestamp_ms >= timestamp and record.offset >= log.start:
                return _Found(record.offset, record.timestamp_ms, batch.header.partition_leader_epoch)
    return _Found()


def _youngest(log: ReplicaLog) -> _Found:
    youngest = [segment.youngest for segment in log.segments if segment.youngest is not None]
    batch = max(youngest, key=lambda batch: batch.header.max_timestamp, default=None)
    if batch is None or batch.header.max_timestamp < 0:
        return _Found()
    timestamp = batch.header.max_timestamp
    for record in _records(batch):
        if record.timestamp_ms == timestamp:
            return _Found(record.offset, timestamp, batch.header.partition_leader_epoch)
    return _Found()


@handles(ApiKey.OFFSET_FOR_LEADER_EPOCH)
async def offset_for_leader_epoch(broker: Broker, request: Request) -> Any:
    """Serve an OffsetForLeaderEpoch request."""
    response = OffsetForLeaderEpochResponse(throttle_time_ms=0, topics=[])
    kind = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
    for topic in request.message.topics:
        answers = []
        for part in topic.partitions:
            epoch = part.current_leader_epoch if request.version >= 2 else _NO_EPOCH
            replica = _led(broker.cluster.lookup(topic.topic, part.partition), broker, epoch)
            if isinstance(replica, ErrorCode):
                code, found = replica, (-1, -1)
            else:
                code, found = ErrorCode.NONE, replica.log.end_of_epoch(part.leader_epoch)
            answer = kind.EpochEndOffset(
                error_code=int(code), partition=part.partition, leader_epoch=found[0], end_offset=found[1]
            )
            answers.append(answer)
        response.topics.append(kind(topic=topic.topic, partitions=answers))
    return response
