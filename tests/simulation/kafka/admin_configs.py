"""DescribeConfigs, IncrementalAlterConfigs, AlterConfigs and DescribeLogDirs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from protocol.messages import (
    AlterConfigsResponse,
    DescribeConfigsResponse,
    DescribeLogDirsResponse,
    IncrementalAlterConfigsResponse,
)
from tests.simulation.kafka.broker import Broker, Request, handles
from tests.simulation.kafka.cluster import ClusterModel
from tests.simulation.kafka.config_specs import BROKER_DEFAULTS, LIST, STRING, TOPIC_SPECS, Spec
from tests.simulation.kafka.topics import BROKER_NAMES, Settings, Topic

TOPIC_SOURCE: Final = 1
CLUSTER_SOURCE: Final = 3
STATIC_BROKER_SOURCE: Final = 4
DEFAULT_SOURCE: Final = 5
"""Kafka's ConfigSource: set on the topic, for the whole cluster, in the broker's properties, or nowhere."""

_TOPIC, _BROKER = 2, 4
_SET, _DELETE, _APPEND, _SUBTRACT = 0, 1, 2, 3
_KINDS = frozenset((_TOPIC, _BROKER, 8, 16, 32))
_SHOWS_TYPES = 3


def config_error(cluster: ClusterModel, name: str, value: str | None) -> str | None:
    """Why the controller does not take a topic configuration, or None."""
    spec = TOPIC_SPECS.get(name)
    if spec is None or name not in cluster.topic_defaults():
        return f"Unknown topic config name: {name}"
    if value is None:
        return f"Null value not supported for topic configs: {name}"
    return None if spec.takes(value) else f"Invalid value {value} for configuration {name}"


def default_source(cluster: ClusterModel, name: str) -> int:
    """Where a configuration that nobody set comes from: with eligible leader replicas (4.x) the cluster sets one."""
    by_cluster = name == "min.insync.replicas" and cluster.version.startswith("4.")
    return CLUSTER_SOURCE if by_cluster else DEFAULT_SOURCE


@handles(ApiKey.DESCRIBE_CONFIGS)
async def describe_configs(broker: Broker, request: Request) -> Any:
    """All configurations in force, or those asked for."""
    results = [_described(broker, resource, request) for resource in request.message.resources]
    return DescribeConfigsResponse(results=results)


def _described(broker: Broker, resource: Any, request: Request) -> Any:
    answer = DescribeConfigsResponse.DescribeConfigsResult
    kind, name = resource.resource_type, resource.resource_name
    cluster, wanted = broker.cluster, resource.configuration_keys
    if kind == _TOPIC and name in cluster.topics:
        settings = cluster.topics[name].settings_at(broker.id)
        names = [config for config in _topic_names(cluster) if wanted is None or config in wanted]
        found = [_topic_entry(cluster, cluster.topics[name], settings, config, request) for config in names]
    elif kind == _BROKER and name in ("", str(broker.id)):
        found = [_broker_entry(cluster, config, request) for config in sorted(BROKER_DEFAULTS)] if name else []
    else:
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if kind == _TOPIC else ErrorCode.INVALID_REQUEST
        return answer(error_code=int(error), error_message=None, resource_type=kind, resource_name=name)
    configs = [entry for entry in found if wanted is None or entry.name in wanted]
    return answer(error_code=0, error_message=None, resource_type=kind, resource_name=name, configs=configs)


def _topic_names(cluster: ClusterModel) -> list[str]:
    return sorted(cluster.topic_defaults())


def _topic_entry(cluster: ClusterModel, topic: Topic, settings: Settings, name: str, request: Request) -> Any:
    value = settings.values[name]
    broker_name = BROKER_NAMES.get(name)
    if name in topic.overrides:
        source = TOPIC_SOURCE
    elif broker_name in cluster.configs:
        source = STATIC_BROKER_SOURCE
    else:
        source = default_source(cluster, name)
    return _entry(name, value, source, TOPIC_SPECS.get(name, Spec(STRING)), request)


def _broker_entry(cluster: ClusterModel, name: str, request: Request) -> Any:
    default = BROKER_DEFAULTS[name]
    value = cluster.configs.get(name, default)
    source = DEFAULT_SOURCE if value == default else STATIC_BROKER_SOURCE
    return _entry(name, value, source, Spec(STRING), request)


def _entry(name: str, value: str, source: int, spec: Spec, request: Request) -> Any:
    answer = DescribeConfigsResponse.DescribeConfigsResult.DescribeConfigsResourceResult
    return answer(
        name=name,
        value=value,
        read_only=False,
        config_source=source,
        is_default=source == DEFAULT_SOURCE,
        is_sensitive=False,
        synonyms=[],
        config_type=spec.type if request.version >= _SHOWS_TYPES else 0,
        documentation=None,
    )


@handles(ApiKey.INCREMENTAL_ALTER_CONFIGS)
async def incremental_alter_configs(broker: Broker, request: Request) -> Any:
    """Set, take back, add to or take from lists; a resource's changes are made together or not at all."""
    answer = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
    message, cluster, results = request.message, broker.cluster, []
    for resource in message.resources:
        changes = [(each.name, each.config_operation, each.value) for each in resource.configs]
        error, words = _alter(cluster, resource, changes, bool(message.validate_only))
        results.append(
            answer(
                error_code=int(error),
                error_message=words,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    return IncrementalAlterConfigsResponse(responses=results)


@handles(ApiKey.ALTER_CONFIGS)
async def alter_configs(broker: Broker, request: Request) -> Any:
    """The old way: what is not named goes back to its default."""
    answer = AlterConfigsResponse.AlterConfigsResourceResponse
    message, cluster, results = request.message, broker.cluster, []
    for resource in message.resources:
        changes = [(each.name, _SET, each.value) for each in resource.configs]
        named = {name for name, _, _ in changes}
        topic = cluster.topics.get(resource.resource_name) if resource.resource_type == _TOPIC else None
        gone = [(name, _DELETE, None) for name in (topic.overrides if topic else ()) if name not in named]
        error, words = _alter(cluster, resource, [*changes, *gone], bool(message.validate_only))
        results.append(
            answer(
                error_code=int(error),
                error_message=words,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    return AlterConfigsResponse(responses=results)


Changes = Iterable[tuple[str, int, str | None]]


def _alter(cluster: ClusterModel, resource: Any, changes: Changes, validate_only: bool) -> tuple[ErrorCode, str | None]:
    if resource.resource_type != _TOPIC:
        return ErrorCode.INVALID_REQUEST, "The model changes configurations of topics only."
    topic = cluster.topics.get(resource.resource_name)
    now = cluster.topic_defaults() if topic is None else topic.settings.values
    new: dict[str, str | None] = {}
    for name, operation, value in changes:
        if name in new:
            return ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys"
        try:
            new[name] = _new_value(now, name, operation, value)
        except ValueError as exc:
            return ErrorCode.INVALID_CONFIG, str(exc)
        words = None if operation == _DELETE else config_error(cluster, name, new[name])
        if words is not None:
            return ErrorCode.INVALID_CONFIG, words
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{resource.resource_name}' does not exist."
    if not validate_only:
        cluster.alter_topic(topic.name, new)
    return ErrorCode.NONE, None


def _new_value(now: Mapping[str, str], name: str, operation: int, value: str | None) -> str | None:
    if operation == _SET:
        return value
    if operation == _DELETE:
        return None
    spec = TOPIC_SPECS.get(name)
    if spec is None or spec.type != LIST:
        raise ValueError(f"Can't APPEND or SUBTRACT to key {name} because its type is not LIST.")
    parts = [part for part in now.get(name, "").split(",") if part]
    given = [part for part in (value or "").split(",") if part]
    if operation == _APPEND:
        return ",".join([*parts, *(part for part in given if part not in parts)])
    return ",".join(part for part in parts if part not in given)


@handles(ApiKey.DESCRIBE_LOG_DIRS)
async def describe_log_dirs(broker: Broker, request: Request) -> Any:
    """Sizes of the logs that this broker has, in its one directory."""
    wanted = request.message.topics
    chosen = None if wanted is None else {topic.topic: set(topic.partitions) for topic in wanted}
    answer = DescribeLogDirsResponse.DescribeLogDirsResult
    topic_answer = answer.DescribeLogDirsTopic
    topics = []
    for name in sorted(broker.cluster.topics if chosen is None else chosen):
        topic = broker.cluster.topics.get(name)
        parts = [
            topic_answer.DescribeLogDirsPartition(
                partition_index=partition.index,
                partition_size=partition.replicas[broker.id].log.size,
                offset_lag=0,
                is_future_key=False,
            )
            for partition in (topic.partitions if topic is not None else ())
            if broker.id in partition.replicas and (chosen is None or partition.index in chosen[name])
        ]
        if parts:
            topics.append(topic_answer(name=name, partitions=parts))
    found = answer(error_code=0, log_dir=f"/{broker.host}", topics=topics, total_bytes=1 << 40, usable_bytes=1 << 39)
    return DescribeLogDirsResponse(error_code=0, results=[found])
