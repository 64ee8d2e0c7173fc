import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.kafka.admin import (
    AdminError,
    TopicConfigChange,
    alter_topic_configs,
    create_partitions,
    create_topic,
    delete_topic,
    describe_broker_configs,
    describe_topic_configs,
)
from gateway.kafka.cluster import ClusterUnavailable
from gateway.kafka.connection.errors import UnsupportedVersion
from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from protocol.messages import (
    CreatePartitionsResponse,
    CreateTopicsResponse,
    DeleteTopicsResponse,
    DescribeConfigsResponse,
    IncrementalAlterConfigsResponse,
)
from tests.support.brokers.quick_clusters import OpenCluster
from tests.support.fakes.fake_broker import HANG_UP, SILENCE, Request
from tests.support.fakes.fake_cluster import FakeCluster
from tests.support.waiting import wait_until_async


@pytest.fixture
async def fake() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(2) as cluster:
        cluster.controller_id = 2
        cluster.leaders["t"] = [1] * 6
        cluster.on(ApiKey.CREATE_TOPICS, lambda request: created(cluster, request))
        yield cluster


def created(
    fake: FakeCluster, request: Request, code: int = 0, message: str | None = None, topic_id: uuid.UUID | None = None
) -> Any:
    name = request.message.topics[0].name
    topic = CreateTopicsResponse.CreatableTopicResult(
        name=name,
        topic_id=topic_id or fake.topic_id(name),
        error_code=code,
        error_message=message,
        topic_config_error_code=0,
        num_partitions=3,
        replication_factor=1,
        configs=[],
    )
    return CreateTopicsResponse(throttle_time_ms=0, topics=[topic])


async def test_a_topic_is_created_by_the_controller(fake: FakeCluster, client: OpenCluster) -> None:
    cluster = await client(fake.bootstrap)

    topic_id = await create_topic(cluster, "t", partitions=3, replication_factor=2, configs={"retention.ms": "5"})

    assert topic_id == fake.topic_id("t").bytes
    (request,) = fake.brokers[2].asked(ApiKey.CREATE_TOPICS)
    (topic,) = request.message.topics
    assert (topic.name, topic.num_partitions, topic.replication_factor) == ("t", 3, 2)
    assert [(c.name, c.value) for c in topic.configs] == [("retention.ms", "5")]
    assert not request.message.validate_only


async def test_a_new_topic_is_waited_for_until_the_brokers_know_it(fake: FakeCluster, client: OpenCluster) -> None:
    cluster = await client(fake.bootstrap)
    del fake.leaders["t"]
    task = asyncio.create_task(create_topic(cluster, "t", partitions=2), name="create")
    await wait_until_async(lambda: len(fake.asked(ApiKey.METADATA)) > 2)
    fake.leaders["t"] = [1, -1]
    seen = len(fake.asked(ApiKey.METADATA))
    await wait_until_async(lambda: len(fake.asked(ApiKey.METADATA)) > seen + 1)
    assert not task.done()
    fake.leaders["t"] = [1, 2]
    await task

    assert cluster.leader("t", 1) == 2


async def test_a_topic_made_again_is_waited_for_while_brokers_show_the_deleted_one(
    fake: FakeCluster, client: OpenCluster
) -> None:
    cluster = await client(fake.bootstrap)
    again = uuid.uuid4()
    fake.on(ApiKey.CREATE_TOPICS, lambda request: created(fake, request, topic_id=again))
    task = asyncio.create_task(create_topic(cluster, "t", partitions=2), name="create")
    await wait_until_async(lambda: len(fake.asked(ApiKey.METADATA)) > 3)
    assert not task.done()
    fake.topic_ids["t"] = again

    assert await task == again.bytes == cluster.view.topics["t"].topic_id


async def test_a_refusal_has_the_code_and_the_clusters_words(fake: FakeCluster, client: OpenCluster) -> None:
    code = int(ErrorCode.TOPIC_ALREADY_EXISTS)
    fake.on(ApiKey.CREATE_TOPICS, lambda request: created(fake, request, code, "Topic 't' already exists."))
    cluster = await client(fake.bootstrap)

    with pytest.raises(AdminError) as caught:
        await create_topic(cluster, "t", partitions=1)
    assert (caught.value.code, caught.value.message) == (36, "create topic t: Topic 't' already exists.")


async def test_a_controller_that_moved_is_found(fake: FakeCluster, client: OpenCluster) -> None:
    cluster = await client(fake.bootstrap)
    fake.controller_id = 1
    moved = int(ErrorCode.NOT_CONTROLLER)
    fake.brokers[2].handlers[ApiKey.CREATE_TOPICS] = lambda request: created(fake, request, moved)

    await create_topic(cluster, "t", partitions=1)

    assert [len(fake.brokers[node].asked(ApiKey.CREATE_TOPICS)) for node in (1, 2)] == [1, 1]


async def test_a_change_with_an_unknown_outcome_is_not_sent_again(fake: FakeCluster, client: OpenCluster) -> None:
    fake.on(ApiKey.CREATE_TOPICS, lambda _: HANG_UP)
    cluster = await client(fake.bootstrap)

    with pytest.raises(ClusterUnavailable):
        await create_topic(cluster, "t", partitions=1)
    assert len(fake.asked(ApiKey.CREATE_TOPICS)) == 1


async def test_a_cluster_without_controller(fake: FakeCluster, client: OpenCluster) -> None:
    fake.controller_id = -1
    cluster = await client(fake.bootstrap)

    with pytest.raises(ClusterUnavailable, match="no controller"):
        await create_topic(cluster, "t", partitions=1, timeout_s=0.2)


async def test_a_deadline_in_the_middle_of_a_look_for_the_controller(fake: FakeCluster, client: OpenCluster) -> None:
    """The reason is the controller, not the metadata that came too late to tell of one."""
    fake.controller_id = -1
    cluster = await client(fake.bootstrap)
    metadata = fake.brokers[1].handlers[ApiKey.METADATA]
    known = len(fake.asked(ApiKey.METADATA))
    fake.on(
        ApiKey.METADATA, lambda asked: metadata(asked) if len(fake.asked(ApiKey.METADATA)) <= known + 1 else SILENCE
    )

    with pytest.raises(ClusterUnavailable, match="no controller"):
        await create_topic(cluster, "t", partitions=1, timeout_s=0.2)


async def test_brokers_that_say_nothing_of_a_controller(fake: FakeCluster, client: OpenCluster) -> None:
    fake.controller_id = -1
    cluster = await client(fake.bootstrap)
    fake.on(ApiKey.METADATA, lambda _: SILENCE)

    with pytest.raises(ClusterUnavailable, match=r"no metadata within 0\.[0-9]+ s"):
        await create_topic(cluster, "t", partitions=1, timeout_s=0.2)


@pytest.mark.parametrize("newest", [3, 6])
async def test_delete_by_every_form_of_the_request(fake: FakeCluster, client: OpenCluster, newest: int) -> None:
    for broker in fake.brokers.values():
        broker.versions[ApiKey.DELETE_TOPICS] = (1, newest)
    result = DeleteTopicsResponse.DeletableTopicResult
    codes = [0, int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    fake.on(
        ApiKey.DELETE_TOPICS,
        lambda _: DeleteTopicsResponse(
            throttle_time_ms=0, responses=[result(name="t", error_code=codes.pop(0), error_message=None)]
        ),
    )
    cluster = await client(fake.bootstrap)

    await delete_topic(cluster, "t")
    with pytest.raises(AdminError, match="delete topic t: UNKNOWN_TOPIC_OR_PARTITION"):
        await delete_topic(cluster, "t")
    message = fake.asked(ApiKey.DELETE_TOPICS)[0].message
    assert (message.topic_names if newest < 6 else [topic.name for topic in message.topics]) == ["t"]


async def test_delete_by_topic_id_names_no_topic(fake: FakeCluster, client: OpenCluster) -> None:
    result = DeleteTopicsResponse.DeletableTopicResult
    codes = [0, int(ErrorCode.UNKNOWN_TOPIC_ID)]
    fake.on(
        ApiKey.DELETE_TOPICS,
        lambda _: DeleteTopicsResponse(
            throttle_time_ms=0, responses=[result(name=None, error_code=codes.pop(0), error_message=None)]
        ),
    )
    cluster = await client(fake.bootstrap)

    await delete_topic(cluster, "t", topic_id=fake.topic_id("t").bytes)
    (topic,) = fake.asked(ApiKey.DELETE_TOPICS)[0].message.topics
    assert (topic.name, topic.topic_id) == (None, fake.topic_id("t"))
    with pytest.raises(AdminError, match="delete topic t: UNKNOWN_TOPIC_ID"):
        await delete_topic(cluster, "t", topic_id=fake.topic_id("t").bytes)


async def test_a_broker_that_knows_no_deletion_by_id_deletes_nothing(fake: FakeCluster, client: OpenCluster) -> None:
    for broker in fake.brokers.values():
        broker.versions[ApiKey.DELETE_TOPICS] = (1, 5)
    fake.on(ApiKey.DELETE_TOPICS, lambda _: DeleteTopicsResponse(throttle_time_ms=0, responses=[]))
    cluster = await client(fake.bootstrap)

    with pytest.raises(UnsupportedVersion, match="DELETE_TOPICS needs version 6"):
        await delete_topic(cluster, "t", topic_id=fake.topic_id("t").bytes)
    assert not fake.asked(ApiKey.DELETE_TOPICS)


async def test_create_partitions(fake: FakeCluster, client: OpenCluster) -> None:
    result = CreatePartitionsResponse.CreatePartitionsTopicResult
    codes = [0, int(ErrorCode.INVALID_PARTITIONS)]
    fake.on(
        ApiKey.CREATE_PARTITIONS,
        lambda _: CreatePartitionsResponse(
            throttle_time_ms=0, results=[result(name="t", error_code=codes.pop(0), error_message="no")]
        ),
    )
    cluster = await client(fake.bootstrap)

    await create_partitions(cluster, "t", 6)
    with pytest.raises(AdminError, match="grow topic t to 6 partitions: no"):
        await create_partitions(cluster, "t", 6)
    (topic,) = fake.asked(ApiKey.CREATE_PARTITIONS)[0].message.topics
    assert (topic.name, topic.count, topic.assignments) == ("t", 6, None)


async def test_alter_topic_configs(fake: FakeCluster, client: OpenCluster) -> None:
    result = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
    codes = [0, int(ErrorCode.INVALID_CONFIG)]
    fake.on(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        lambda _: IncrementalAlterConfigsResponse(
            throttle_time_ms=0,
            responses=[result(error_code=codes.pop(0), error_message="bad", resource_type=2, resource_name="t")],
        ),
    )
    cluster = await client(fake.bootstrap)

    assert await alter_topic_configs(cluster, {"t": TopicConfigChange({"retention.ms": "1"}, ["segment.ms"])}) == {}
    refused = await alter_topic_configs(cluster, {"t": TopicConfigChange({"retention.ms": "x"})})
    assert {topic: str(error) for topic, error in refused.items()} == {"t": "alter configs of topic t: bad"}
    (resource,) = fake.asked(ApiKey.INCREMENTAL_ALTER_CONFIGS)[0].message.resources
    assert (resource.resource_type, resource.resource_name) == (2, "t")
    sent = [(c.name, c.config_operation, c.value) for c in resource.configs]
    assert sent == [("retention.ms", 0, "1"), ("segment.ms", 1, None)]


def described(request: Request, code: int = 0) -> Any:
    result = DescribeConfigsResponse.DescribeConfigsResult
    entry = result.DescribeConfigsResourceResult
    configs = [
        entry(name="retention.ms", value="5", read_only=False, config_source=1, is_sensitive=False, synonyms=[]),
        entry(name="secret", value=None, read_only=True, config_source=5, is_sensitive=True, synonyms=[]),
    ]
    results = [
        result(
            error_code=code,
            error_message=None,
            resource_type=asked.resource_type,
            resource_name=asked.resource_name,
            configs=configs,
        )
        for asked in request.message.resources
    ]
    return DescribeConfigsResponse(throttle_time_ms=0, results=results)


async def test_describe_configs(fake: FakeCluster, client: OpenCluster) -> None:
    fake.on(ApiKey.DESCRIBE_CONFIGS, described)
    cluster = await client(fake.bootstrap)
    expected = {"retention.ms": ("5", 1, False, False), "secret": (None, 5, True, True)}

    assert await describe_topic_configs(cluster, ["a", "b"]) == {"a": expected, "b": expected}
    assert await describe_topic_configs(cluster, []) == {}
    assert await describe_broker_configs(cluster, 2) == expected
    assert fake.brokers[2].asked(ApiKey.DESCRIBE_CONFIGS)[-1].message.resources[0].resource_name == "2"

    fake.on(ApiKey.DESCRIBE_CONFIGS, lambda request: described(request, 3))
    with pytest.raises(AdminError, match="describe configs of topic a: UNKNOWN_TOPIC_OR_PARTITION"):
        await describe_topic_configs(cluster, ["a"])
