"""CreateTopics, DeleteTopics, CreatePartitions and DeleteRecords.

Any broker takes a change and hands it to the controller (KRaft), which decides at once; brokers hear of it a little
later. The answer comes when the controller has decided.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from protocol.messages import (
    CreatePartitionsResponse,
    CreateTopicsResponse,
    DeleteRecordsResponse,
    DeleteTopicsResponse,
)
from tests.simulation.kafka.admin_configs import TOPIC_SOURCE, config_error, default_source
from tests.simulation.kafka.broker import Broker, Request, handles
from tests.simulation.kafka.cluster import ClusterModel

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_BY_ID = 6
_TELLS_DISABLED = 3
_TELLS_ALL = 5


class Refused(Exception):
    """A change that the controller does not make: Kafka's error code and words."""

    def __init__(self, code: ErrorCode, words: str | None) -> None:
        super().__init__(code, words)
        self.code = code
        self.words = words


@handles(ApiKey.CREATE_TOPICS)
async def create_topics(broker: Broker, request: Request) -> Any:
    """Each topic by itself; one that is named twice is not created."""
    message, cluster = request.message, broker.cluster
    twice = {name for name, count in Counter(topic.name for topic in message.topics).items() if count > 1}
    results = []
    for topic in {each.name: each for each in message.topics}.values():
        try:
            if topic.name in twice:
                raise Refused(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            results.append(_create(cluster, topic, bool(message.validate_only), request.version))
        except Refused as refused:
            answer = CreateTopicsResponse.CreatableTopicResult
            results.append(answer(name=topic.name, error_code=int(refused.code), error_message=refused.words))
    return CreateTopicsResponse(topics=results)


def _create(cluster: ClusterModel, topic: Any, validate_only: bool, version: int) -> Any:
    _check_name(cluster, topic.name)
    configs = {each.name: each.value for each in topic.configs}
    _check_configs(cluster, configs)
    partitions, replicas, assignments = _size(cluster, topic)
    answer = CreateTopicsResponse.CreatableTopicResult
    settings = {**cluster.topic_defaults(), **configs}
    entry = answer.CreatableTopicConfigs
    shown = [
        entry(name=name, value=value, config_source=TOPIC_SOURCE if name in configs else default_source(cluster, name))
        for name, value in sorted(settings.items())
    ]
    topic_id = UUID(int=cluster.rng.getrandbits(128), version=4)  # also of one that is not made
    if not validate_only:
        topic_id = cluster.create_topic(topic.name, partitions, replicas, configs, assignments).id
    return answer(
        name=topic.name,
        topic_id=topic_id,
        error_code=0,
        error_message=None,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=shown if version >= _TELLS_ALL else [],
    )


def _check_name(cluster: ClusterModel, name: str) -> None:
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: '{name}' is not a topic name.")
    if name in cluster.topics:
        raise Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    same = name.replace(".", "_")
    clash = [other for other in sorted(cluster.topics) if other.replace(".", "_") == same]
    if clash and ("." in name or "_" in name):
        words = f"Topic '{name}' collides with existing topic: {clash[0]}"
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, words)


def _check_configs(cluster: ClusterModel, configs: Mapping[str, str | None]) -> None:
    for name, value in configs.items():
        words = config_error(cluster, name, value)
        if words is not None:
            raise Refused(ErrorCode.INVALID_CONFIG, words)


def _size(cluster: ClusterModel, topic: Any) -> tuple[int, int, list[list[int]] | None]:
    """(partitions, replicas, brokers of each partition or None)."""
    if topic.assignments:
        return _assigned(cluster, topic)
    if topic.replication_factor < -1 or topic.replication_factor == 0:
        words = "Replication factor must be larger than 0, or -1 to use the default value."
        raise Refused(ErrorCode.INVALID_REPLICATION_FACTOR, words)
    if topic.num_partitions < -1 or topic.num_partitions == 0:
        words = "Number of partitions was set to an invalid non-positive value."
        raise Refused(ErrorCode.INVALID_PARTITIONS, words)
    partitions, replicas = topic.num_partitions, topic.replication_factor
    partitions = cluster.config_int("num.partitions") if partitions == -1 else partitions
    replicas = cluster.config_int("default.replication.factor") if replicas == -1 else replicas
    live = [broker_id for broker_id in cluster.brokers if broker_id not in cluster.fenced]
    if replicas > len(cluster.brokers) or not live:
        words = f"Unable to replicate the partition {replicas} time(s): only {len(live)} broker(s) are registered."
        raise Refused(ErrorCode.INVALID_REPLICATION_FACTOR, words)
    return partitions, replicas, None


def _assigned(cluster: ClusterModel, topic: Any) -> tuple[int, int, list[list[int]]]:
    if topic.replication_factor != -1 or topic.num_partitions != -1:
        words = "A manual partition assignment was specified, but numbers were not set to -1."
        raise Refused(ErrorCode.INVALID_REQUEST, words)
    rows = {row.partition_index: list(row.broker_ids) for row in topic.assignments}
    sizes = {len(row) for row in rows.values()}
    known = all(broker_id in cluster.brokers for row in rows.values() for broker_id in row)
    unique = all(row and len(set(row)) == len(row) for row in rows.values())
    complete = sorted(rows) == list(range(len(topic.assignments)))
    if not (complete and known and unique and len(sizes) == 1):
        words = "The manual partition assignment includes what cannot be assigned."
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, words)
    return len(rows), sizes.pop(), [rows[index] for index in sorted(rows)]


@handles(ApiKey.DELETE_TOPICS)
async def delete_topics(broker: Broker, request: Request) -> Any:
    """By name, from version 6 on also by id."""
    message, cluster = request.message, broker.cluster
    wanted = [(topic.name, topic.topic_id) for topic in message.topics] if request.version >= _BY_ID else []
    wanted = wanted or [(name, None) for name in message.topic_names or ()]
    answer, results = DeleteTopicsResponse.DeletableTopicResult, []
    for name, topic_id in wanted:
        found = cluster.topics_by_id.get(topic_id) if name is None else cluster.topics.get(name)
        if found is None:
            error = ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            words = "This server does not host this topic" + (" ID." if name is None else "-partition.")
            results.append(answer(name=name, topic_id=topic_id, error_code=int(error), error_message=words))
            continue
        if cluster.configs.get("delete.topic.enable", "true") != "true":
            code = (
                ErrorCode.TOPIC_DELETION_DISABLED if request.version >= _TELLS_DISABLED else ErrorCode.INVALID_REQUEST
            )
            results.append(answer(name=found.name, topic_id=found.id, error_code=int(code), error_message=None))
            continue
        cluster.delete_topic(found.name)
        cluster.groups.topic_deleted(found.name)
        results.append(answer(name=found.name, topic_id=found.id, error_code=0, error_message=None))
    return DeleteTopicsResponse(responses=results)


@handles(ApiKey.CREATE_PARTITIONS)
async def create_partitions(broker: Broker, request: Request) -> Any:
    """A topic can only grow."""
    message, cluster = request.message, broker.cluster
    answer, results = CreatePartitionsResponse.CreatePartitionsTopicResult, []
    twice = {name for name, count in Counter(topic.name for topic in message.topics).items() if count > 1}
    for topic in {each.name: each for each in message.topics}.values():
        try:
            if topic.name in twice:
                raise Refused(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            _grow(cluster, topic, bool(message.validate_only))
            results.append(answer(name=topic.name, error_code=0, error_message=None))
        except Refused as refused:
            results.append(answer(name=topic.name, error_code=int(refused.code), error_message=refused.words))
    return CreatePartitionsResponse(results=results)


def _grow(cluster: ClusterModel, topic: Any, validate_only: bool) -> None:
    found = cluster.topics.get(topic.name)
    if found is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
    has = len(found.partitions)
    if topic.count <= has:
        words = f"The topic {topic.name} currently has {has} partition(s); {topic.count} would not be an increase."
        raise Refused(ErrorCode.INVALID_PARTITIONS, words)
    rows = None
    if topic.assignments is not None:
        rows = [list(row.broker_ids) for row in topic.assignments]
        if len(rows) != topic.count - has or any(len(row) != found.replication_factor for row in rows):
            words = f"Attempted to add {topic.count - has} partition(s), but only {len(rows)} assignment(s) were given."
            raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, words)
    if not validate_only:
        cluster.add_partitions(found, topic.count, rows)


@handles(ApiKey.DELETE_RECORDS)
async def delete_records(broker: Broker, request: Request) -> Any:
    """On each partition's leader; answered when every live replica's log starts there, or in time."""
    loop = broker.cluster.loop
    end = loop.time() + request.message.timeout_ms / 1000
    answer = DeleteRecordsResponse.DeleteRecordsTopicResult
    topics = []
    for topic in request.message.topics:
        parts = []
        for part in topic.partitions:
            error, low = _delete_before(broker, topic.name, part.partition_index, part.offset, request.client_id or "")
            if error == ErrorCode.NONE:
                error = await _everywhere(broker, topic.name, part.partition_index, low, end)
            parts.append(
                answer.DeleteRecordsPartitionResult(
                    partition_index=part.partition_index, low_watermark=low, error_code=int(error)
                )
            )
        topics.append(answer(name=topic.name, partitions=parts))
    return DeleteRecordsResponse(topics=topics)


async def _everywhere(broker: Broker, topic: str, index: int, before: int, end: float) -> ErrorCode:
    partition = broker.cluster.partition(topic, index)
    deleted = partition.deleted(partition.replicas[broker.id], before)
    if isinstance(deleted, ErrorCode):
        return deleted

    def time_out() -> None:
        if not deleted.done():
            deleted.set_result(ErrorCode.REQUEST_TIMED_OUT)

    timer = broker.cluster.loop.call_at(end, time_out)
    error = await deleted
    timer.cancel()
    return error


def _delete_before(broker: Broker, topic: str, index: int, offset: int, client_id: str) -> tuple[ErrorCode, int]:
    partition = broker.cluster.lookup(topic, index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1
    if partition.topic.is_internal:
        return ErrorCode.INVALID_TOPIC_EXCEPTION, -1
    if partition.leader_id != broker.id:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER, -1
    began = partition.best.log.start
    error, low = partition.delete_records(offset)
    if low > began:
        for hook in broker.cluster.on_delete_records:
            hook(partition, began, client_id)
    return error, low
