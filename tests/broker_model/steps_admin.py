"""Steps: topics, their partitions and configurations, and what a cluster tells of itself."""

from __future__ import annotations

from random import Random
from typing import Any

from protocol.apis import ApiKey
from protocol.messages import (
    AlterConfigsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    FindCoordinatorRequest,
    IncrementalAlterConfigsRequest,
    MetadataRequest,
)
from tests.broker_model.context import Context, TopicInfo
from tests.broker_model.sides import CLOSED
from tests.broker_model.steps import a_topic, step

_TOPIC = 2
_BY_ID_DELETE = 6
_TOPICS = 4

_CONFIGS = (
    ("retention.ms", "86400000"),
    ("retention.ms", "-2"),
    ("retention.ms", "soon"),
    ("min.insync.replicas", "1"),
    ("max.message.bytes", "1000"),
    ("cleanup.policy", "compact"),
    ("cleanup.policy", "compact,delete"),
    ("cleanup.policy", "burn"),
    ("compression.type", "producer"),
    ("message.timestamp.type", "CreateTime"),
    ("unclean.leader.election.enable", "maybe"),
    ("min.cleanable.dirty.ratio", "0.1"),
    ("no.such.config", "1"),
    ("segment.ms", "0"),
)
_SHOWN = ("retention.ms", "max.message.bytes", "cleanup.policy", "min.insync.replicas", "segment.bytes")


def _rows(ctx: Context, rng: Random, partitions: int) -> list[Any]:
    """A chosen place for every replica, so that both sides have the same leaders."""
    row = CreateTopicsRequest.CreatableTopic.CreatableReplicaAssignment
    nodes = list(ctx.side.nodes)
    rows = []
    for index in range(partitions):
        rng.shuffle(nodes)
        rows.append(row(partition_index=index, broker_ids=list(nodes)))
    return rows


def _configs(rng: Random, often: float) -> list[tuple[str, str]]:
    if rng.random() >= often:
        return []
    return list(dict(rng.sample(_CONFIGS, rng.randint(1, 2))).items())


@step(9)
async def create_topic(ctx: Context, rng: Random) -> None:
    """Mostly a good one: name, numbers and configurations may all be wrong."""
    names = [f"{ctx.prefix}t{index}" for index in range(_TOPICS)]
    free = [name for name in names if name not in ctx.topics]
    name = rng.choice(free) if free and rng.random() < 0.9 else rng.choice([*names, f"{ctx.prefix}bad name", ""])
    partitions = rng.choice((1, 1, 2, 3))
    topic_class = CreateTopicsRequest.CreatableTopic
    config = topic_class.CreatableTopicConfig
    configs = [config(name=key, value=value) for key, value in _configs(rng, 0.3)]
    topic = topic_class(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=_rows(ctx, rng, partitions),
        configs=configs,
    )
    if rng.random() < 0.08:
        topic.assignments = []
        topic.num_partitions, topic.replication_factor = rng.choice(((0, 1), (-3, 1), (1, 0), (1, 9), (1, -2)))
    version = ctx.version(rng, ApiKey.CREATE_TOPICS, lowest=2)
    only = rng.random() < 0.08
    message = CreateTopicsRequest(topics=[topic], timeout_ms=10_000, validate_only=only)
    answer = await ctx.ask("create topic", ctx.side.nodes[0], ApiKey.CREATE_TOPICS, version, message)
    if answer is not CLOSED and not answer.topics[0].error_code and not only:
        ctx.topics[name] = TopicInfo(name, partitions, answer.topics[0].topic_id)
        await ctx.until_seen(name, partitions)


@step(1)
async def delete_topic(ctx: Context, rng: Random) -> None:
    """By name, or by id."""
    topic = a_topic(ctx, rng, unknown=0.2)
    if topic is None:
        return
    version = ctx.version(rng, ApiKey.DELETE_TOPICS, lowest=1)
    by_id = version >= _BY_ID_DELETE and topic.topic_id is not None and rng.random() < 0.5
    state = DeleteTopicsRequest.DeleteTopicState(
        name=None if by_id else topic.name, topic_id=topic.topic_id if by_id else None
    )
    message = DeleteTopicsRequest(topics=[state], topic_names=[topic.name], timeout_ms=10_000)
    answer = await ctx.ask("delete topic", ctx.side.nodes[0], ApiKey.DELETE_TOPICS, version, message)
    if answer is not CLOSED and not answer.responses[0].error_code:
        ctx.topics.pop(topic.name)
        ctx.sessions.clear()
        ctx.era += 1
        ctx.members = {name: member for name, member in ctx.members.items() if member.waits}
        for producer in ctx.producers:
            producer.partitions = {key for key in producer.partitions if key[0] != topic.name}
            producer.sent = {key: sent for key, sent in producer.sent.items() if key[0] != topic.name}
        await ctx.until_seen(topic.name, 0)
        await ctx.until_quiet()  # the old coordinator then forgets groups that are empty, whoever is about to join


@step(2)
async def create_partitions(ctx: Context, rng: Random) -> None:
    """More, as many, or fewer."""
    topic = a_topic(ctx, rng)
    if topic is None:
        return
    count = max(1, topic.partitions + rng.choice((-1, 0, 1, 2)))
    new = max(0, count - topic.partitions)
    row = CreatePartitionsRequest.CreatePartitionsTopic.CreatePartitionsAssignment
    rows = [row(broker_ids=each.broker_ids) for each in _rows(ctx, rng, new)] if new else None
    asked = CreatePartitionsRequest.CreatePartitionsTopic(name=topic.name, count=count, assignments=rows)
    message = CreatePartitionsRequest(topics=[asked], timeout_ms=10_000, validate_only=False)
    version = ctx.version(rng, ApiKey.CREATE_PARTITIONS)
    answer = await ctx.ask("create partitions", ctx.side.nodes[0], ApiKey.CREATE_PARTITIONS, version, message)
    if answer is not CLOSED and not answer.results[0].error_code:
        ctx.topics[topic.name].partitions = count
        await ctx.until_seen(topic.name, count)


@step(3)
async def describe_configs(ctx: Context, rng: Random) -> None:
    """Of a topic."""
    topic = a_topic(ctx, rng)
    if topic is None:
        return
    asked = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=_TOPIC, resource_name=topic.name, configuration_keys=list(_SHOWN) if rng.random() < 0.5 else None
    )
    message = DescribeConfigsRequest(resources=[asked], include_synonyms=False, include_documentation=False)
    version = ctx.version(rng, ApiKey.DESCRIBE_CONFIGS, lowest=1)
    await ctx.ask("describe configs", ctx.side.nodes[0], ApiKey.DESCRIBE_CONFIGS, version, message)


@step(4)
async def incremental_alter_configs(ctx: Context, rng: Random) -> None:
    """Set, take back, add to a list."""
    topic = a_topic(ctx, rng)
    if topic is None:
        return
    resource_class = IncrementalAlterConfigsRequest.AlterConfigsResource
    change = resource_class.AlterableConfig
    changes = []
    for name, value in _configs(rng, 1.0):
        operation = rng.choice((0, 0, 0, 1, 2, 3))
        changes.append(change(name=name, config_operation=operation, value=None if operation == 1 else value))
    resource = resource_class(resource_type=_TOPIC, resource_name=topic.name, configs=changes)
    message = IncrementalAlterConfigsRequest(resources=[resource], validate_only=rng.random() < 0.1)
    node, version = ctx.side.nodes[0], ctx.version(rng, ApiKey.INCREMENTAL_ALTER_CONFIGS)
    await ctx.ask("incremental alter configs", node, ApiKey.INCREMENTAL_ALTER_CONFIGS, version, message)
    await ctx.until_quiet()


@step(1)
async def alter_configs(ctx: Context, rng: Random) -> None:
    """All configurations of a topic at once."""
    topic = a_topic(ctx, rng)
    if topic is None:
        return
    resource_class = AlterConfigsRequest.AlterConfigsResource
    changes = [resource_class.AlterableConfig(name=name, value=value) for name, value in _configs(rng, 0.8)]
    resource = resource_class(resource_type=_TOPIC, resource_name=topic.name, configs=changes)
    message = AlterConfigsRequest(resources=[resource], validate_only=False)
    version = ctx.version(rng, ApiKey.ALTER_CONFIGS)
    await ctx.ask("alter configs", ctx.side.nodes[0], ApiKey.ALTER_CONFIGS, version, message)
    await ctx.until_quiet()


@step(3)
async def metadata(ctx: Context, rng: Random) -> None:
    """Of a topic by name."""
    topic = a_topic(ctx, rng)
    if topic is None:
        return
    version = ctx.version(rng, ApiKey.METADATA, 12)
    asked = MetadataRequest.MetadataRequestTopic(name=topic.name, topic_id=None)
    message = MetadataRequest(
        topics=[asked],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    await ctx.ask("metadata", rng.choice(ctx.side.nodes), ApiKey.METADATA, version, message)


@step(1)
async def describe_log_dirs(ctx: Context, rng: Random) -> None:
    """Sizes of a topic's logs."""
    topic = a_topic(ctx, rng)
    if topic is None:
        return
    asked = DescribeLogDirsRequest.DescribableLogDirTopic(topic=topic.name, partitions=list(range(topic.partitions)))
    version = ctx.version(rng, ApiKey.DESCRIBE_LOG_DIRS, lowest=1)
    message = DescribeLogDirsRequest(topics=[asked])
    await ctx.ask("describe log dirs", ctx.side.nodes[0], ApiKey.DESCRIBE_LOG_DIRS, version, message)


@step(1)
async def find_coordinator(ctx: Context, rng: Random) -> None:
    """Of a kind that exists, or not. Which broker it is differs with the number of its partition's leader."""
    version = ctx.version(rng, ApiKey.FIND_COORDINATOR, 5, 1)
    name, kind = f"{ctx.prefix}any", rng.choice((0, 0, 1, 1, 7))
    await (ctx.txn_coordinator(name) if kind == 1 else ctx.group_coordinator(name))
    message = FindCoordinatorRequest(key=name, key_type=kind, coordinator_keys=[name] if version >= 4 else [])
    await ctx.ask_filtered("find coordinator", ctx.side.nodes[0], ApiKey.FIND_COORDINATOR, version, message)
