"""Metadata v0-13, DescribeCluster v0-2 and ApiVersions v0-4: what a broker knows of the cluster, and of itself.

Leaders are those that the broker asked has heard of. Topics are not created by being asked for.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from protocol.apis import ApiKey
from protocol.codec import encode_body
from protocol.errors import ErrorCode
from protocol.messages import ApiVersionsResponse, DescribeClusterResponse, MetadataResponse
from tests.simulation.kafka.api_ranges import RANGES
from tests.simulation.kafka.broker import PORT, Broker, Request, handles
from tests.simulation.kafka.topics import INTERNAL

if TYPE_CHECKING:
    from tests.simulation.kafka.logs.partition import Partition
    from tests.simulation.kafka.topics import Topic

_NOT_ASKED: Final = -(1 << 31)
_TOPIC_OPERATIONS: Final = 0b1101_1111_1000
_CLUSTER_OPERATIONS: Final = 0b1_1111_1010_0000
_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_FEATURES: Final = {
    "3.9.1": {"metadata.version": (1, 21, 21)},
    "4.3.1": {"metadata.version": (7, 29, 29), "transaction.version": (0, 2, 2), "group.version": (0, 1, 1)},
}


@handles(ApiKey.METADATA)
async def metadata(broker: Broker, request: Request) -> bytes:
    """Serve a Metadata request. Clients ask the same again and again: answers are kept until something changes."""
    if broker.told_at != broker.cluster.changes:
        broker.told.clear()
        broker.told_at = broker.cluster.changes
    key = (request.version, bytes(request.body))
    answer = broker.told.get(key)
    if answer is None:
        answer = broker.told[key] = encode_body(_metadata(broker, request), request.version)
    return answer


def _metadata(broker: Broker, request: Request) -> Any:
    message, version = request.message, request.version
    asked = message.topics
    operations = version >= 8 and message.include_topic_authorized_operations
    if asked is None or (version == 0 and not asked):
        topics = [_topic(broker, topic, operations) for _, topic in sorted(broker.topics().items())]
    else:
        topics = _asked_for(broker, version, asked, operations)
    of_cluster = 8 <= version <= 10 and message.include_cluster_authorized_operations
    return MetadataResponse(
        throttle_time_ms=0,
        brokers=[
            MetadataResponse.MetadataResponseBroker(node_id=node.id, host=node.host, port=PORT, rack=None)
            for node in _live(broker)
        ],
        cluster_id=broker.cluster.id,
        controller_id=broker.cluster.controller.seen_by(broker),
        topics=topics,
        cluster_authorized_operations=_CLUSTER_OPERATIONS if of_cluster else _NOT_ASKED,
        error_code=0,
    )


def _live(broker: Broker) -> list[Broker]:
    fenced = broker.fenced
    return [node for node in broker.cluster.brokers.values() if node.id not in fenced]


def _asked_for(broker: Broker, version: int, asked: list[Any], operations: bool) -> list[Any]:
    by_name = broker.topics()
    by_id = {topic.id: topic for topic in by_name.values()}
    known, unknown, seen = [], [], set()
    for entry in asked:
        topic_id = entry.topic_id if version >= 10 else None
        if (entry.name, topic_id) in seen:
            continue
        seen.add((entry.name, topic_id))
        topic = by_id.get(topic_id) if topic_id is not None else by_name.get(entry.name)
        if topic is not None:
            known.append(_topic(broker, topic, operations))
        elif topic_id is not None:
            unknown.append(_unknown(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id))
        elif _NAME.fullmatch(entry.name) is None or entry.name in (".", ".."):
            unknown.append(_unknown(ErrorCode.INVALID_TOPIC_EXCEPTION, entry.name, None))
        else:
            unknown.append(_unknown(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, entry.name, None))
    return known + unknown


def _unknown(error: ErrorCode, name: str | None, topic_id: Any) -> Any:
    return MetadataResponse.MetadataResponseTopic(
        error_code=int(error),
        name=name,
        topic_id=topic_id,
        is_internal=name in INTERNAL,
        partitions=[],
        topic_authorized_operations=_NOT_ASKED,
    )


def _topic(broker: Broker, topic: Topic, operations: bool) -> Any:
    return MetadataResponse.MetadataResponseTopic(
        error_code=0,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=[_partition(broker, partition) for partition in topic.partitions],
        topic_authorized_operations=_TOPIC_OPERATIONS if operations else _NOT_ASKED,
    )


def _partition(broker: Broker, partition: Partition) -> Any:
    state = partition.seen_by(broker.id)
    fenced = broker.fenced
    has_leader = state.leader >= 0 and state.leader not in fenced
    return MetadataResponse.MetadataResponseTopic.MetadataResponsePartition(
        error_code=0 if has_leader else int(ErrorCode.LEADER_NOT_AVAILABLE),
        partition_index=partition.index,
        leader_id=state.leader if has_leader else -1,
        leader_epoch=state.epoch,
        replica_nodes=partition.assignment,
        isr_nodes=list(state.isr),
        offline_replicas=[replica for replica in partition.assignment if replica in fenced],
    )


@handles(ApiKey.DESCRIBE_CLUSTER)
async def describe_cluster(broker: Broker, request: Request) -> Any:
    """Serve a DescribeCluster request."""
    message = request.message
    if request.version >= 1 and message.endpoint_type != 1:
        return DescribeClusterResponse(
            throttle_time_ms=0,
            error_code=int(ErrorCode.MISMATCHED_ENDPOINT_TYPE),
            error_message="The request was sent to an endpoint of the wrong type.",
            endpoint_type=1,
            cluster_id="",
            controller_id=-1,
            brokers=[],
            cluster_authorized_operations=_NOT_ASKED,
        )
    fenced = broker.fenced if request.version >= 2 and message.include_fenced_brokers else set()
    nodes = [*_live(broker), *(broker.cluster.brokers[node] for node in sorted(fenced))]
    kind = DescribeClusterResponse.DescribeClusterBroker
    operations = message.include_cluster_authorized_operations
    return DescribeClusterResponse(
        throttle_time_ms=0,
        error_code=0,
        error_message=None,
        endpoint_type=1,
        cluster_id=broker.cluster.id,
        controller_id=broker.cluster.controller.seen_by(broker),
        brokers=[
            kind(broker_id=node.id, host=node.host, port=PORT, rack=None, is_fenced=node.id in fenced) for node in nodes
        ],
        cluster_authorized_operations=_CLUSTER_OPERATIONS if operations else _NOT_ASKED,
    )


@handles(ApiKey.API_VERSIONS)
async def api_versions(broker: Broker, request: Request) -> Any:
    """Serve an ApiVersions request; of an unknown version with the range of ApiVersions alone (KIP-511)."""
    ranges = RANGES[broker.cluster.version]
    kind = ApiVersionsResponse.ApiVersion
    low, high = ranges[ApiKey.API_VERSIONS]
    if not low <= request.version <= high:
        own = kind(api_key=int(ApiKey.API_VERSIONS), min_version=low, max_version=high)
        return ApiVersionsResponse(error_code=int(ErrorCode.UNSUPPORTED_VERSION), api_keys=[own])
    if request.version >= 3:
        message = request.message
        request.session.client_software = (message.client_software_name, message.client_software_version)
    return _own_versions(broker.cluster.version, request.version)


@lru_cache
def _own_versions(kafka: str, version: int) -> bytes:
    kind = ApiVersionsResponse.ApiVersion
    features = _FEATURES[kafka]
    response = ApiVersionsResponse(
        error_code=0,
        api_keys=[kind(api_key=key, min_version=span[0], max_version=span[1]) for key, span in RANGES[kafka].items()],
        throttle_time_ms=0,
        supported_features=[
            ApiVersionsResponse.SupportedFeatureKey(name=name, min_version=lowest, max_version=highest)
            for name, (lowest, highest, _) in features.items()
        ],
        finalized_features_epoch=1,
        finalized_features=[
            ApiVersionsResponse.FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, (_, _, level) in features.items()
        ],
        zk_migration_ready=False,
    )
    return encode_body(response, version)
