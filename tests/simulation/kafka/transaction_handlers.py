"""InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, and the APIs that describe transactions and producers.

Old clients do not know PRODUCER_FENCED: they hear INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from protocol.messages import (
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnResponse,
    DescribeProducersResponse,
    DescribeTransactionsResponse,
    EndTxnResponse,
    InitProducerIdResponse,
    ListTransactionsResponse,
)
from tests.simulation.kafka.broker import Broker, Request, handles
from tests.simulation.kafka.topics import GROUPS_TOPIC
from tests.simulation.kafka.transaction_state import TopicPartition, TxnState
from tests.simulation.kafka.transactions import Transactions

_BATCHED = 4
_TXN_V2 = 5


def _worded(error: int, version: int, knows_fenced_from: int) -> int:
    old = error == ErrorCode.PRODUCER_FENCED and version < knows_fenced_from
    return int(ErrorCode.INVALID_PRODUCER_EPOCH if old else error)


def _at(broker: Broker, transactional_id: str | None) -> Transactions | ErrorCode:
    if not transactional_id:
        return ErrorCode.INVALID_REQUEST
    return broker.cluster.transactions.find(broker, transactional_id)


@handles(ApiKey.INIT_PRODUCER_ID)
async def init_producer_id(broker: Broker, request: Request) -> Any:
    """A producer id and epoch; with a transactional id an open transaction of its last user is aborted first."""
    message = request.message
    owner = broker.cluster.transactions
    if (message.producer_id == -1) != (message.producer_epoch == -1):
        return _initialised(ErrorCode.INVALID_REQUEST)
    if message.transactional_id is None:
        return InitProducerIdResponse(error_code=0, producer_id=owner.new_producer_id(), producer_epoch=0)
    if not message.transactional_id:
        return _initialised(ErrorCode.INVALID_REQUEST)
    if not 0 < message.transaction_timeout_ms <= owner.config("transaction.max.timeout.ms"):
        return _initialised(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    found = _at(broker, message.transactional_id)
    if isinstance(found, ErrorCode):
        return _initialised(found)
    expected = None if message.producer_id == -1 else (message.producer_id, message.producer_epoch)
    answer = found.init(message.transactional_id, message.transaction_timeout_ms, expected)
    if isinstance(answer, tuple):
        return InitProducerIdResponse(error_code=0, producer_id=answer[0], producer_epoch=answer[1])
    return _initialised(_worded(answer, request.version, 4))


def _initialised(error: int) -> Any:
    return InitProducerIdResponse(error_code=int(error), producer_id=-1, producer_epoch=-1)


@handles(ApiKey.ADD_PARTITIONS_TO_TXN)
async def add_partitions_to_txn(broker: Broker, request: Request) -> Any:
    """Of a client up to version 3; from 4 on brokers ask for several transactions at once, or only look."""
    message, version = request.message, request.version
    if version < _BATCHED:
        producer = (message.v3_and_below_producer_id, message.v3_and_below_producer_epoch)
        topics = message.v3_and_below_topics
        errors = _add(
            broker, message.v3_and_below_transactional_id, producer, topics, verify_only=False, version=version
        )
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_by_topic(topics, errors))
    results = []
    for each in message.transactions:
        producer = (each.producer_id, each.producer_epoch)
        errors = _add(
            broker, each.transactional_id, producer, each.topics, verify_only=each.verify_only, version=version
        )
        results.append(
            AddPartitionsToTxnResponse.AddPartitionsToTxnResult(
                transactional_id=each.transactional_id, topic_results=_by_topic(each.topics, errors)
            )
        )
    return AddPartitionsToTxnResponse(error_code=0, results_by_transaction=results)


def _add(
    broker: Broker,
    transactional_id: str,
    producer: tuple[int, int],
    topics: Iterable[Any],
    *,
    verify_only: bool,
    version: int,
) -> dict[TopicPartition, int]:
    """The error of each partition. One that does not exist keeps all others out."""
    keys = [(topic.name, index) for topic in topics for index in topic.partitions]
    unknown = [key for key in keys if broker.cluster.lookup(*key) is None]
    if unknown:
        return {
            key: int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if key in unknown else ErrorCode.OPERATION_NOT_ATTEMPTED)
            for key in keys
        }
    found = _at(broker, transactional_id)
    if isinstance(found, ErrorCode):
        return dict.fromkeys(keys, int(found))
    if not verify_only:
        return dict.fromkeys(keys, _worded(found.add(transactional_id, producer, keys), version, 2))
    transaction = found.known.get(transactional_id)
    if transaction is None:
        return dict.fromkeys(keys, int(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
    return {key: int(transaction.verify(*producer, key)) for key in keys}


def _by_topic(topics: Iterable[Any], errors: dict[TopicPartition, int]) -> list[Any]:
    answer = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
    part = answer.AddPartitionsToTxnPartitionResult
    return [
        answer(
            name=topic.name,
            results_by_partition=[
                part(partition_index=index, partition_error_code=errors[topic.name, index])
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


@handles(ApiKey.ADD_OFFSETS_TO_TXN)
async def add_offsets_to_txn(broker: Broker, request: Request) -> Any:
    """The group's partition of `__consumer_offsets` becomes part of the transaction."""
    message = request.message
    found = _at(broker, message.transactional_id)
    if isinstance(found, ErrorCode):
        return AddOffsetsToTxnResponse(error_code=int(found))
    key = (GROUPS_TOPIC, broker.cluster.groups.index(message.group_id))
    error = found.add(message.transactional_id, (message.producer_id, message.producer_epoch), [key])
    return AddOffsetsToTxnResponse(error_code=_worded(error, request.version, 2))


@handles(ApiKey.END_TXN)
async def end_txn(broker: Broker, request: Request) -> Any:
    """Answered when the decision is written; the markers follow. From version 5 on the epoch grows (TV2)."""
    message, bumps = request.message, request.version >= _TXN_V2
    found = _at(broker, message.transactional_id)
    if isinstance(found, ErrorCode):
        return EndTxnResponse(error_code=int(found))
    producer = (message.producer_id, message.producer_epoch)
    error = found.finish(message.transactional_id, producer, bool(message.committed), bumps)
    if error or not bumps:
        return EndTxnResponse(error_code=_worded(error, request.version, 2))
    now = found.known[message.transactional_id].now
    fresh = now.next_id if now.next_id != -1 else now.producer_id
    return EndTxnResponse(error_code=0, producer_id=fresh, producer_epoch=0 if now.next_id != -1 else now.epoch)


@handles(ApiKey.DESCRIBE_TRANSACTIONS)
async def describe_transactions(broker: Broker, request: Request) -> Any:
    """State, producer and partitions of transactional ids."""
    return DescribeTransactionsResponse(
        transaction_states=[_described(broker, each) for each in request.message.transactional_ids]
    )


def _described(broker: Broker, transactional_id: str) -> Any:
    answer = DescribeTransactionsResponse.TransactionState
    found = _at(broker, transactional_id)
    if isinstance(found, ErrorCode):
        return answer(transactional_id=transactional_id, error_code=int(found))
    transaction = found.known.get(transactional_id)
    if transaction is None:
        return answer(transactional_id=transactional_id, error_code=int(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND))
    now = transaction.now
    by_topic: dict[str, list[int]] = {}
    for topic, index in now.partitions:
        by_topic.setdefault(topic, []).append(index)
    return answer(
        transactional_id=transactional_id,
        transaction_state=str(now.state),
        transaction_timeout_ms=now.timeout_ms,
        transaction_start_time_ms=now.start_ms,
        producer_id=now.producer_id,
        producer_epoch=now.epoch,
        topics=[answer.TopicData(topic=topic, partitions=indexes) for topic, indexes in by_topic.items()],
    )


@handles(ApiKey.LIST_TRANSACTIONS)
async def list_transactions(broker: Broker, request: Request) -> Any:
    """What this broker coordinates, by states, producer ids and age if asked so."""
    message, answer = request.message, ListTransactionsResponse
    shards = broker.cluster.transactions.shards.on(broker)
    if isinstance(shards, ErrorCode):
        return answer(error_code=int(shards))
    names = {str(state) for state in TxnState} | {"Dead"}
    unknown = [name for name in message.state_filters if name not in names]
    pattern = message.transactional_id_pattern if request.version >= 2 else None
    oldest_ms = message.duration_filter if request.version >= 1 else -1
    states = []
    for shard in shards:
        for transactional_id, found in shard.state.known.items() if shard.state is not None else ():
            now = found.now
            wanted = (
                (not message.producer_id_filters or now.producer_id in message.producer_id_filters)
                and (not message.state_filters or str(now.state) in message.state_filters)
                and (not pattern or re.fullmatch(pattern, transactional_id) is not None)
                and (oldest_ms < 0 or broker.now_ms() - now.start_ms > oldest_ms)
            )
            if wanted:
                states.append(
                    answer.TransactionState(
                        transactional_id=transactional_id, producer_id=now.producer_id, transaction_state=str(now.state)
                    )
                )
    return answer(error_code=0, unknown_state_filters=unknown, transaction_states=states)


@handles(ApiKey.DESCRIBE_PRODUCERS)
async def describe_producers(broker: Broker, request: Request) -> Any:
    """The producers that the leader of a partition knows."""
    answer = DescribeProducersResponse.TopicResponse
    return DescribeProducersResponse(
        topics=[
            answer(
                name=topic.name, partitions=[_producers(broker, topic.name, index) for index in topic.partition_indexes]
            )
            for topic in request.message.topics
        ]
    )


def _producers(broker: Broker, topic: str, index: int) -> Any:
    answer = DescribeProducersResponse.TopicResponse.PartitionResponse
    partition = broker.cluster.lookup(topic, index)
    if partition is None or partition.leader_id != broker.id:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        error = unknown if partition is None else ErrorCode.NOT_LEADER_OR_FOLLOWER
        words = None if topic in broker.cluster.topics else error.name
        return answer(partition_index=index, error_code=int(error), error_message=words)
    return answer(
        partition_index=index,
        error_code=0,
        active_producers=[
            answer.ProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.current_txn_start_offset,
            )
            for producer in partition.producers()
        ],
    )
