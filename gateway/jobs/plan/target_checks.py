"""What the target says to topics that a migration would create there, what its user may do, and how fast it is written.

The first two are asked without changing anything: CreateTopics with `validate_only` checks the right to create, names,
replication and the cluster's policy; Metadata and DescribeCluster tell authorized operations. The last needs a topic,
which is made for it and deleted again: only when somebody asks for it.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Final

from gateway.jobs.plan.rights import NOT_TOLD
from gateway.kafka.admin import create_topic, delete_topic
from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.errors import BrokerError, ClusterUnavailable, UnsupportedVersion
from gateway.kafka.controller import on_controller
from gateway.kafka.topic_partition import TopicPartition
from protocol.apis import ApiKey
from protocol.batch.keyed import keyed_batch
from protocol.errors import ErrorCode, error_name
from protocol.messages import CreateTopicsRequest, DescribeClusterRequest, MetadataRequest
from protocol.produce import build_request_body, scan_response

_AT_ONCE: Final = 200
_LANE: Final = "plan"
_PRODUCE_CAP: Final = 11  # later versions name topics by id
_METADATA_CAP: Final = 9
_ANSWER_S: Final = 30.0
_RECORDS: Final = 56
_RECORD_BYTES: Final = 16 * 1024  # with `_RECORDS` a batch of less than max.message.bytes by default (1 MiB)
_SCRATCH_CONFIGS: Final = {"retention.ms": "3600000"}
_NO_RIGHT: Final = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


async def refused_topics(target: Cluster, wanted: Mapping[str, tuple[int, int]]) -> dict[str, str]:
    """Why the target would not create a topic, by its name there; those that it would create are not in it.

    Args:
        wanted: name on the target -> partitions and replication factor.

    Raises:
        NetError: the target does not answer.
    """
    found: dict[str, str] = {}
    names = sorted(wanted)
    for at in range(0, len(names), _AT_ONCE):
        found |= await _refused(target, {name: wanted[name] for name in names[at : at + _AT_ONCE]})
    return found


async def _refused(target: Cluster, wanted: Mapping[str, tuple[int, int]]) -> dict[str, str]:
    topics = [
        CreateTopicsRequest.CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=replicas, assignments=[], configs=[]
        )
        for name, (partitions, replicas) in wanted.items()
    ]
    response = await on_controller(
        target,
        lambda wait_ms: CreateTopicsRequest(topics=topics, timeout_ms=wait_ms, validate_only=True),
        lambda answer: answer.topics,
        None,
    )
    return {one.name: _words(one.error_code, one.error_message) for one in response.topics if one.error_code}


def _words(code: int, message: str | None) -> str:
    if code == ErrorCode.TOPIC_ALREADY_EXISTS:
        return "it is there already"
    if code in _NO_RIGHT:
        return "this user may not create it: that takes CREATE on the topic, or on the cluster"
    return f"it would not be created: {error_name(code)}{': ' + message if message else ''}"


async def topic_operations(target: Cluster, names: Sequence[str]) -> dict[str, int]:
    """What this user may do with topics, there or not: AclOperations as bits, by name (Metadata v8, KIP-430).

    0 for a topic that it may not describe: READ, WRITE, DELETE and ALTER imply that. Topics that the broker does not
    tell of (before 2.3) are left out.

    Raises:
        NetError: the target does not answer.
    """
    found: dict[str, int] = {}
    for at in range(0, len(names), _AT_ONCE):
        topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in names[at : at + _AT_ONCE]]
        request = MetadataRequest(
            topics=topics,
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=True,
        )
        response = await target.request(request, cap=_METADATA_CAP)
        for topic in response.topics:
            if topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                found[topic.name] = 0
            elif topic.topic_authorized_operations != NOT_TOLD:
                found[topic.name] = topic.topic_authorized_operations
    return found


async def cluster_operations(target: Cluster) -> int:
    """What this user may do with the cluster, as bits; `NOT_TOLD` by brokers before 2.8 (DescribeCluster, KIP-700).

    Raises:
        NetError: the target does not answer, or refuses.
    """
    try:
        response = await target.request(DescribeClusterRequest(include_cluster_authorized_operations=True))
    except UnsupportedVersion:
        return NOT_TOLD
    if response.error_code:
        raise BrokerError(response.error_code, f"DescribeCluster: {error_name(response.error_code)}")
    return int(response.cluster_authorized_operations)


async def write_rate(target: Cluster, seconds: float, partitions: int, replicas: int) -> tuple[float, float]:
    """Bytes a second that the target takes with acks=all: of one partition, and of so many together.

    A topic is created for it, and deleted at the end.

    Raises:
        NetError: the topic cannot be created, written or deleted.
    """
    name = f"lockgate-plan-{secrets.token_hex(6)}"
    topic_id = await create_topic(
        target, name, partitions=partitions, replication_factor=replicas, configs=_SCRATCH_CONFIGS
    )
    try:
        await target.refresh((name,))
        one = await _written(target, [(name, 0)], seconds / 2)
        return one, await _written(target, [(name, index) for index in range(partitions)], seconds / 2)
    finally:
        await delete_topic(target, name, topic_id=topic_id)


async def _written(target: Cluster, keys: Sequence[TopicPartition], seconds: float) -> float:
    values = [(b"", os.urandom(_RECORD_BYTES)) for _ in range(_RECORDS)]  # nothing to compress
    batch = keyed_batch(values, time.time_ns() // 1_000_000)
    began = time.monotonic()

    async def write(key: TopicPartition) -> int:
        sent = 0
        while time.monotonic() - began < seconds:
            await _produce(target, key, batch)
            sent += len(batch)
        return sent

    done = await asyncio.gather(*(write(key) for key in keys))
    return sum(done) / max(1e-6, time.monotonic() - began)


async def _produce(target: Cluster, key: TopicPartition, batch: bytes) -> None:
    leader = target.leader(*key)
    if leader is None:
        raise ClusterUnavailable(f"{key[0]}-{key[1]} has no leader")
    connection = await target.connection(leader, f"{_LANE}-{key[1]}", _ANSWER_S)
    version = connection.version(ApiKey.PRODUCE, _PRODUCE_CAP)
    body = b"".join(build_request_body(version, None, -1, int(_ANSWER_S * 500), {key[0]: [(key[1], batch)]}))
    response = await connection.exchange(connection.send, ApiKey.PRODUCE, version, body, _ANSWER_S)
    for result in scan_response(response, version):
        if result.error_code:
            raise BrokerError(result.error_code, f"Produce: {error_name(result.error_code)}")
