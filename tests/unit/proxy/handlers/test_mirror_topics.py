"""A mirror topic stays what its mirror needs; who has no right to change it is told nothing of that."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest

from gateway.cutover.write_pause.rules.routing import TopicRoute, WritePhase, routing_of
from gateway.proxy.rules.mirror_topics import ALTER, ALTER_CONFIGS, DELETE
from protocol import messages as m
from protocol.apis import ApiKey
from protocol.codec import decode_request, decode_response, encode_request, encode_response
from protocol.errors import ErrorCode
from protocol.header import peek_request_header, response_body_offset
from tests.support.control.pausing import in_phase

if TYPE_CHECKING:
    from tests.support.proxy.conversation import Conversation

K = ApiKey
POLICY, DENIED = int(ErrorCode.POLICY_VIOLATION), int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
TOPIC_ID = uuid.UUID(int=9)


@pytest.fixture
async def mirrored(talk: Conversation) -> Conversation:
    route = TopicRoute(
        link="west", mirror_topic="mirrored", source_topic="mirrored", pause=in_phase(WritePhase.FORWARD)
    )
    talk.context.routing.publish(routing_of({"mirrored": route}, {TOPIC_ID.bytes: "mirrored"}))
    return talk


def delete_topics(*names: str) -> Any:
    return m.DeleteTopicsRequest(topic_names=list(names))


def delete_records(*names: str) -> Any:
    kind = m.DeleteRecordsRequest.DeleteRecordsTopic
    part = kind.DeleteRecordsPartition(partition_index=0, offset=5)
    return m.DeleteRecordsRequest(topics=[kind(name=name, partitions=[part]) for name in names])


def create_partitions(*names: str) -> Any:
    kind = m.CreatePartitionsRequest.CreatePartitionsTopic
    return m.CreatePartitionsRequest(topics=[kind(name=name, count=9, assignments=None) for name in names])


def alter_configs(*names: str, config: str = "segment.ms") -> Any:
    kind = m.AlterConfigsRequest.AlterConfigsResource
    configs = [kind.AlterableConfig(name=config, value="1")]
    return m.AlterConfigsRequest(resources=[kind(resource_type=2, resource_name=n, configs=configs) for n in names])


def incremental(*names: str, config: str = "cleanup.policy", resource_type: int = 2) -> Any:
    kind = m.IncrementalAlterConfigsRequest.AlterConfigsResource
    configs = [kind.AlterableConfig(name=config, config_operation=0, value="compact")]
    resources = [kind(resource_type=resource_type, resource_name=n, configs=configs) for n in names]
    return m.IncrementalAlterConfigsRequest(resources=resources)


CASES = [  # API, version, request, the answer's list, the right
    pytest.param(K.DELETE_TOPICS, 5, delete_topics, "responses", DELETE, id="delete topics"),
    pytest.param(K.DELETE_RECORDS, 2, delete_records, "topics", DELETE, id="delete records"),
    pytest.param(K.CREATE_PARTITIONS, 3, create_partitions, "results", ALTER, id="create partitions"),
    pytest.param(K.ALTER_CONFIGS, 2, alter_configs, "responses", ALTER_CONFIGS, id="alter configs"),
    pytest.param(K.INCREMENTAL_ALTER_CONFIGS, 1, incremental, "responses", ALTER_CONFIGS, id="incrementally"),
]


def target_says(talk: Conversation, rights: int) -> None:
    """What the client may do with the mirror topic, when it is asked."""
    (frame,) = talk.broker.frames()
    header = peek_request_header(memoryview(frame))
    assert (header.api_key, header.client_id) == (K.METADATA, "lockgate")
    kind = m.MetadataResponse.MetadataResponseTopic
    topics = [kind(name="mirrored", partitions=[], topic_authorized_operations=rights)]
    answer = encode_response(m.MetadataResponse(brokers=[], topics=topics), K.METADATA, 8, header.correlation_id)
    talk.session.upstream_data(answer)


def answer(talk: Conversation, key: ApiKey, version: int) -> Any:
    (frame,) = talk.client.frames()
    view = memoryview(frame)
    return decode_response(key, version, view[response_body_offset(key, version, view) :])


def outcome(entry: Any) -> tuple[str, int]:
    code = entry.partitions[0].error_code if hasattr(entry, "partitions") else entry.error_code
    return getattr(entry, "name", None) or entry.resource_name, code


@pytest.mark.parametrize(("key", "version", "make", "part", "right"), CASES)
async def test_a_mirror_topic_is_not_changed(
    mirrored: Conversation, key: ApiKey, version: int, make: Any, part: str, right: int
) -> None:
    mirrored.says(encode_request(make("mirrored"), version, 4, "me"))
    target_says(mirrored, right)
    assert mirrored.broker.take() == b""
    (entry,) = getattr(answer(mirrored, key, version), part)
    assert outcome(entry) == ("mirrored", POLICY)


@pytest.mark.parametrize(("key", "version", "make", "part", "right"), CASES)
async def test_who_has_no_right_is_told_so_and_no_more(
    mirrored: Conversation, key: ApiKey, version: int, make: Any, part: str, right: int
) -> None:
    mirrored.says(encode_request(make("mirrored"), version, 4, "me"))
    target_says(mirrored, (DELETE | ALTER | ALTER_CONFIGS) & ~right)
    assert mirrored.broker.take() == b""  # not even to be refused: a right may come any moment
    found = answer(mirrored, key, version)
    (entry,) = getattr(found, part)
    assert outcome(entry) == ("mirrored", DENIED)
    assert "west" not in repr(found)


@pytest.mark.parametrize(("key", "version", "make", "part", "right"), CASES)
async def test_the_rest_of_a_request_is_served(
    mirrored: Conversation, key: ApiKey, version: int, make: Any, part: str, right: int
) -> None:
    mirrored.says(encode_request(make("a", "mirrored", "b"), version, 4, "me"))
    target_says(mirrored, right)
    (frame,) = mirrored.broker.frames()
    view = memoryview(frame)
    asked = decode_request(key, version, view[peek_request_header(view).body_offset :])
    assert "mirrored" not in repr(asked)
    kind = m.RESPONSES[key]._struct.fields[part].array_of.data_class
    more: dict[str, Any] = {}
    if key is K.DELETE_RECORDS:
        more = {"partitions": [kind.DeleteRecordsPartitionResult(partition_index=0)]}
    name = "resource_name" if "resource_name" in kind._struct.fields else "name"
    served = m.RESPONSES[key](**{part: [kind(**{name: each}, **more) for each in ("a", "b")]})
    mirrored.session.upstream_data(encode_response(served, key, version, 4))
    found = getattr(answer(mirrored, key, version), part)
    assert [outcome(entry) for entry in found] == [("a", 0), ("mirrored", POLICY), ("b", 0)]


@pytest.mark.parametrize(("rights", "shown"), [(DELETE, "mirrored"), (0, None)])
async def test_the_name_of_an_id_is_told_to_who_may_delete_it(
    mirrored: Conversation, rights: int, shown: str | None
) -> None:
    kind = m.DeleteTopicsRequest.DeleteTopicState
    message = m.DeleteTopicsRequest(topics=[kind(name=None, topic_id=TOPIC_ID)])
    mirrored.says(encode_request(message, 6, 4, "me"))
    target_says(mirrored, rights)
    (entry,) = answer(mirrored, K.DELETE_TOPICS, 6).responses
    assert (entry.name, entry.topic_id, entry.error_code) == (shown, TOPIC_ID, POLICY if rights else DENIED)


@pytest.mark.parametrize(
    "message",
    [
        incremental("mirrored", config="min.insync.replicas"),
        incremental("mirrored", config="follower.replication.throttled.replicas"),
        incremental("mirrored", resource_type=4),
        incremental("other"),
        alter_configs("other"),
    ],
)
async def test_what_no_mirror_relies_on_is_changed(mirrored: Conversation, message: Any) -> None:
    data = encode_request(message, 1, 4, "me")
    mirrored.says(data)
    assert mirrored.broker.take() == data


@pytest.mark.parametrize("config", ["cleanup.policy", "retention.ms", "max.message.bytes", "compression.type"])
async def test_what_a_mirror_relies_on_is_not(mirrored: Conversation, config: str) -> None:
    mirrored.says(encode_request(incremental("mirrored", config=config), 1, 4, "me"))
    target_says(mirrored, ALTER_CONFIGS)
    assert mirrored.broker.take() == b""


async def test_a_promoted_topic_is_its_clients(talk: Conversation) -> None:
    route = TopicRoute(
        link="west", mirror_topic="mirrored", source_topic="mirrored", pause=in_phase(WritePhase.SWITCHED)
    )
    talk.context.routing.publish(routing_of({"mirrored": route}))
    data = encode_request(incremental("mirrored"), 1, 4, "me")
    talk.says(data)
    assert talk.broker.take() == data
