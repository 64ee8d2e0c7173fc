"""What the target says to topics that a migration would create there, and how fast it is written.

The first is asked without changing anything: CreateTopics with `validate_only` checks the right to create, names,
replication and the cluster's policy. (What its user may do: `gateway.doctor.authorized`.) The second needs a topic,
which is made for it and deleted again: only when somebody asks for it.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Final

from gateway.kafka.admin import create_topic, delete_topic
from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.errors import BrokerError, ClusterUnavailable
from gateway.kafka.controller import on_controller
from gateway.kafka.topic_partition import TopicPartition
from protocol.apis import ApiKey
from protocol.batch.keyed import keyed_batch
from protocol.errors import ErrorCode, error_name
from protocol.messages import CreateTopicsRequest
from protocol.produce import build_request_body, scan_response

_AT_ONCE: Final = 200
_LANE: Final = "plan"
_PRODUCE_CAP: Final = 11  # later versions name topics by id
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
