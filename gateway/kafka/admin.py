"""Topics and their configs: created, changed, described, deleted.

A change is sent once (`controller.py`): when the connection breaks before the answer, ClusterUnavailable says so and
the caller looks at what became of it.

Sizes of logs on the brokers' disks are asked of every broker: DescribeLogDirs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from itertools import starmap
from typing import Any, NamedTuple
from uuid import UUID

from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.errors import BrokerError, ClusterUnavailable
from gateway.kafka.controller import on_controller
from gateway.kafka.topic_partition import TopicPartition
from gateway.transport.backoff import Backoff
from protocol.apis import ApiKey
from protocol.errors import ErrorCode, error_name, is_retriable
from protocol.messages import (
    ApiVersionsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    IncrementalAlterConfigsRequest,
)

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4

TOPICS_IN_A_REQUEST = 64
"""So many topics are changed by one request at the most: some milliseconds of the controller's time."""

SET_ON_TOPIC = 1
"""The `source` of a config that is set on the topic itself."""

_DEFAULT_SOURCE = 5
_SET, _DELETE = 0, 1
_SEEN_S = 3.0
_CANNOT_TELL = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
_DELETE_BY_ID = ApiKey.DELETE_TOPICS, 6


class AdminError(BrokerError):
    """The cluster refused a change or a question. `code` is Kafka's error code, `message` its words for it."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(code, message)
        self.message = message


class TopicConfigEntry(NamedTuple):
    """One config in force. `value` is None when sensitive. `source` is Kafka's ConfigSource (1 = set on the topic)."""

    value: str | None
    source: int
    is_default: bool
    read_only: bool = False


async def create_topic(
    cluster: Cluster,
    name: str,
    *,
    partitions: int,
    replication_factor: int = -1,
    configs: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
) -> bytes:
    """Create a topic and wait a little until the view has it; -1 partitions or replicas is the broker's default.

    Returns:
        The topic id (16 bytes), zero from brokers that have none.

    Raises:
        AdminError: for example TOPIC_ALREADY_EXISTS (36), POLICY_VIOLATION (44), INVALID_CONFIG (40).
        ClusterUnavailable: no answer within the deadline; the topic may exist.
    """
    entries = [
        CreateTopicsRequest.CreatableTopic.CreatableTopicConfig(name=k, value=v) for k, v in (configs or {}).items()
    ]
    topic = CreateTopicsRequest.CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=replication_factor, assignments=[], configs=entries
    )
    response = await on_controller(
        cluster,
        lambda wait_ms: CreateTopicsRequest(topics=[topic], timeout_ms=wait_ms, validate_only=False),
        lambda answer: answer.topics,
        timeout_s,
    )
    _check(f"create topic {name}", response.topics)
    answered = response.topics[0].topic_id
    topic_id = bytes(16) if answered is None else bytes(answered.bytes)
    await _until_seen(cluster, name, max(1, partitions), topic_id)
    return topic_id


async def check_topic(
    cluster: Cluster,
    name: str,
    *,
    partitions: int,
    replication_factor: int,
    configs: Mapping[str, str],
    timeout_s: float | None = None,
) -> None:
    """Ask the controller whether it would create this topic (CreateTopics, `validate_only`). Nothing is created.

    Raises:
        AdminError: it would not; codes as `create_topic`.
        ClusterUnavailable: no answer within the deadline.
    """
    entries = [CreateTopicsRequest.CreatableTopic.CreatableTopicConfig(name=k, value=v) for k, v in configs.items()]
    topic = CreateTopicsRequest.CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=replication_factor, assignments=[], configs=entries
    )
    response = await on_controller(
        cluster,
        lambda wait_ms: CreateTopicsRequest(topics=[topic], timeout_ms=wait_ms, validate_only=True),
        lambda answer: answer.topics,
        timeout_s,
    )
    _check(f"create topic {name}", response.topics)


async def is_absent(cluster: Cluster, name: str, *, timeout_s: float | None = None) -> bool:
    """True when there is certainly no topic of this name: the controller would create it (and is told not to).

    What a broker's metadata lacks may be there: brokers hear of a topic a little later than the controller, and one
    that lags much later.

    Raises:
        AdminError: it cannot be told, such as TOPIC_AUTHORIZATION_FAILED (29) without the right to create it.
        ClusterUnavailable: no answer within the deadline.
    """
    topic = CreateTopicsRequest.CreatableTopic(
        name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]
    )
    response = await on_controller(
        cluster,
        lambda wait_ms: CreateTopicsRequest(topics=[topic], timeout_ms=wait_ms, validate_only=True),
        lambda answer: answer.topics,
        timeout_s,
    )
    code = response.topics[0].error_code
    if code in _CANNOT_TELL or is_retriable(code):
        _check(f"look for topic {name}", response.topics)
    return bool(code != ErrorCode.TOPIC_ALREADY_EXISTS)


async def delete_topic(cluster: Cluster, name: str, *, topic_id: bytes = b"", timeout_s: float | None = None) -> None:
    """Delete a topic; with `topic_id` (16 bytes, KIP-516, DeleteTopics v6) no other one that has the name by then.

    A request whose answer was lost may be carried out much later, as by a broker that was paused. One that goes by name
    then deletes whatever topic has the name. Brokers hear of a deletion a little later than the controller answers:
    Metadata may show the topic for a moment longer.

    Raises:
        AdminError: for example UNKNOWN_TOPIC_OR_PARTITION (3), UNKNOWN_TOPIC_ID (100), TOPIC_DELETION_DISABLED (73).
        UnsupportedVersion: the cluster cannot delete by topic id; nothing was deleted.
        ClusterUnavailable: no answer within the deadline; the topic may be gone, or may go yet.
    """
    state = DeleteTopicsRequest.DeleteTopicState(name=name)
    if topic_id:
        state = DeleteTopicsRequest.DeleteTopicState(name=None, topic_id=UUID(bytes=topic_id))
    names = [] if topic_id else [name]
    response = await on_controller(
        cluster,
        lambda wait_ms: DeleteTopicsRequest(topics=[state], topic_names=names, timeout_ms=wait_ms),
        lambda answer: answer.responses,
        timeout_s,
        least=_DELETE_BY_ID if topic_id else None,
    )
    _check(f"delete topic {name}", response.responses)
    cluster.invalidate(name)


async def create_partitions(cluster: Cluster, name: str, total: int, *, timeout_s: float | None = None) -> None:
    """Grow a topic to `total` partitions.

    Raises:
        AdminError: for example INVALID_PARTITIONS (37) when it has as many already.
        ClusterUnavailable: no answer within the deadline; the topic may have grown.
    """
    topic = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=total, assignments=None)
    response = await on_controller(
        cluster,
        lambda wait_ms: CreatePartitionsRequest(topics=[topic], timeout_ms=wait_ms, validate_only=False),
        lambda answer: answer.results,
        timeout_s,
    )
    _check(f"grow topic {name} to {total} partitions", response.results)
    await _until_seen(cluster, name, total)


class TopicConfigChange(NamedTuple):
    """What becomes of a topic's configs: `values` are set, those in `reset` go back to their default, others stay."""

    values: Mapping[str, str]
    reset: Collection[str] = ()


async def alter_topic_configs(
    cluster: Cluster, changes: Mapping[str, TopicConfigChange], *, timeout_s: float | None = None
) -> dict[str, AdminError]:
    """Change the configs of topics, `TOPICS_IN_A_REQUEST` at the most: a controller works requests off one by one.

    Returns:
        By topic, what was refused, for example INVALID_CONFIG (40); all others are changed.

    Raises:
        ClusterUnavailable: no answer within the deadline; they may be set.
    """
    response = await on_controller(
        cluster,
        lambda _: IncrementalAlterConfigsRequest(
            resources=list(starmap(_altered, changes.items())), validate_only=False
        ),
        lambda answer: answer.responses,
        timeout_s,
    )
    return {
        result.resource_name: AdminError(
            result.error_code,
            f"alter configs of topic {result.resource_name}: {result.error_message or error_name(result.error_code)}",
        )
        for result in response.responses
        if result.error_code
    }


def _altered(name: str, change: TopicConfigChange) -> Any:
    entry = IncrementalAlterConfigsRequest.AlterConfigsResource.AlterableConfig
    entries = [entry(name=config, config_operation=_SET, value=value) for config, value in change.values.items()]
    entries += [entry(name=config, config_operation=_DELETE, value=None) for config in change.reset]
    return IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=name, configs=entries
    )


async def describe_topic_configs(
    cluster: Cluster,
    names: Collection[str],
    *,
    only: Collection[str] | None = None,
    node_id: int | None = None,
    timeout_s: float | None = None,
) -> dict[str, dict[str, TopicConfigEntry]]:
    """The configs in force of each topic, defaults included: a topic has some 40 (of a few: `topics.py`).

    Args:
        only: these configs; None: all.
        node_id: the broker that is asked; None: any. Each tells what it has itself.

    Raises:
        AdminError: for the first topic that cannot be described, for example UNKNOWN_TOPIC_OR_PARTITION (3).
        ClusterUnavailable: no answer within the deadline.
    """
    if not names:
        return {}
    response = await cluster.request(topic_configs_request(names, only), node_id=node_id, timeout_s=timeout_s)
    require_described(response)
    return {result.resource_name: _entries(result.configs) for result in response.results}


def topic_configs_request(names: Iterable[str], only: Collection[str] | None = None) -> Any:
    """A DescribeConfigs request for these topics, with all configs or with these `only`."""
    return DescribeConfigsRequest(
        resources=[_resource(TOPIC_RESOURCE, name, only) for name in names],
        include_synonyms=False,
        include_documentation=False,
    )


def require_described(response: Any) -> None:
    """Raises AdminError for the first topic of a DescribeConfigs response that could not be described."""
    for result in response.results:
        _check(f"describe configs of topic {result.resource_name}", (result,))


async def describe_broker_configs(
    cluster: Cluster, node_id: int, *, timeout_s: float | None = None
) -> dict[str, TopicConfigEntry]:
    """The configs in force of one broker.

    Raises:
        AdminError: for example CLUSTER_AUTHORIZATION_FAILED (31).
        ClusterUnavailable: no answer within the deadline.
    """
    request = DescribeConfigsRequest(
        resources=[_resource(BROKER_RESOURCE, str(node_id))], include_synonyms=False, include_documentation=False
    )
    response = await cluster.request(request, node_id=node_id, timeout_s=timeout_s)
    _check(f"describe configs of broker {node_id}", response.results)
    return _entries(response.results[0].configs)


async def feature_levels(cluster: Cluster) -> dict[str, int]:
    """The cluster's own levels of features (KIP-584), `metadata.version` and the like; none from older ones.

    Raises:
        ClusterUnavailable: no answer within the deadline.
    """
    response = await cluster.request(ApiVersionsRequest(client_software_name="lockgate", client_software_version="0"))
    return {feature.name: feature.max_version_level for feature in response.finalized_features or ()}


def _resource(kind: int, name: str, only: Collection[str] | None = None) -> Any:
    return DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=None if only is None else list(only)
    )


def _entries(configs: Iterable[Any]) -> dict[str, TopicConfigEntry]:
    return {
        entry.name: TopicConfigEntry(
            entry.value, entry.config_source, entry.config_source == _DEFAULT_SOURCE, bool(entry.read_only)
        )
        for entry in configs
    }


async def _until_seen(cluster: Cluster, name: str, partitions: int, topic_id: bytes = b"") -> None:
    """Refresh until every partition has a leader: brokers hear of a change a little later than the controller.

    `topic_id` (16 bytes): of this very topic. A broker that has not heard of a deletion yet shows the one before it.
    Gives up without an error after a while: the change itself was made.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _SEEN_S
    backoff = Backoff(0.02, 0.2, cluster.rng)
    while loop.time() < deadline:
        try:
            await cluster.refresh([name], timeout_s=deadline - loop.time())
        except ClusterUnavailable:
            return
        view = cluster.view.topics.get(name)
        same = view is not None and (not any(topic_id) or view.topic_id == topic_id)
        if same and all(cluster.leader(name, index) is not None for index in range(partitions)):
            return
        await asyncio.sleep(backoff.next())


def _check(what: str, results: Iterable[Any]) -> None:
    for result in results:
        if result.error_code:
            why = result.error_message or error_name(result.error_code)
            raise AdminError(result.error_code, f"{what}: {why}")


async def log_sizes(
    cluster: Cluster, topics: Collection[str], *, timeout_s: float | None = None
) -> dict[TopicPartition, int]:
    """Bytes of each partition's log, as its largest replica has it (compressed, indexes left out).

    Raises:
        BrokerError: a broker refuses, for example CLUSTER_AUTHORIZATION_FAILED (31).
        ClusterUnavailable: no answer within the deadline.
    """
    view = cluster.view
    wanted = [
        DescribeLogDirsRequest.DescribableLogDirTopic(topic=name, partitions=sorted(view.topics[name].partitions))
        for name in topics
        if name in view.topics
    ]
    if not wanted:
        return {}
    nodes = tuple(view.brokers)
    answers = await asyncio.gather(*(_ask(cluster, node, wanted, timeout_s) for node in nodes))
    sizes: dict[TopicPartition, int] = {}
    for answer in answers:
        for key, size in answer.items():
            sizes[key] = max(size, sizes.get(key, 0))
    return sizes


async def _ask(cluster: Cluster, node: int, wanted: list[Any], timeout_s: float | None) -> dict[TopicPartition, int]:
    response = await cluster.request(DescribeLogDirsRequest(topics=wanted), node_id=node, timeout_s=timeout_s)
    if response.error_code:
        raise BrokerError(response.error_code, f"DescribeLogDirs on broker {node}: {error_name(response.error_code)}")
    return {
        (topic.name, part.partition_index): part.partition_size
        for directory in response.results
        if not directory.error_code
        for topic in directory.topics
        for part in topic.partitions
        if not part.is_future_key
    }
