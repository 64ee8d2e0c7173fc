"""Topics that a source has and nobody mirrors must never be created by passing through; mirrors are not touched."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from gateway.proxy.handlers.source_questions import SourceQuestions
from gateway.state.producer_ids import shown_as
from protocol.apis import ADVERTISED, ApiKey
from protocol.codec import decode_request, decode_response, encode_request, encode_response
from protocol.errors import ErrorCode
from protocol.header import peek_request_header, response_body_offset
from protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    MetadataRequest,
    MetadataResponse,
)
from tests.support.proxy.conversation import View

if TYPE_CHECKING:
    from tests.support.proxy.conversation import Conversation

UNKNOWN = 3
POLICY = 44


def answer(talk: Conversation, key: ApiKey, version: int) -> Any:
    (frame,) = talk.client.frames()
    view = memoryview(frame)
    return decode_response(key, version, view[response_body_offset(key, version, view) :])


def sent(talk: Conversation) -> tuple[int, Any]:
    """The version and the message that went to the target."""
    (frame,) = talk.broker.frames()
    view = memoryview(frame)
    header = peek_request_header(view)
    return header.api_version, decode_request(header.api_key, header.api_version, view[header.body_offset :])


def metadata(version: int, *topics: str) -> bytes:
    message = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics],
        allow_auto_topic_creation=True,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    return encode_request(message, version, 4, "me")


def metadata_answer(version: int, topic: str, error: int, *more: str) -> bytes:
    kind = MetadataResponse.MetadataResponseTopic
    broker = MetadataResponse.MetadataResponseBroker(node_id=1, host="real-broker", port=1, rack=None)
    message = MetadataResponse(
        brokers=[broker],
        cluster_id="c",
        controller_id=1,
        topics=[kind(name=each, error_code=error, partitions=[]) for each in (topic, *more)],
    )
    return encode_response(message, ApiKey.METADATA, version, 4)


@pytest.mark.parametrize("version", range(ADVERTISED[ApiKey.METADATA][1] + 1))
async def test_a_topic_of_the_source_is_not_created_by_asking_for_it(talk: Conversation, version: int) -> None:
    talk.source_topics.unmirrored = {"early": "west"}
    talk.says(metadata(version, "early"))
    asked, message = sent(talk)
    assert asked == max(version, 4)
    assert message.allow_auto_topic_creation is False
    talk.session.upstream_data(metadata_answer(asked, "early", UNKNOWN))
    await talk.run_pending()
    response = answer(talk, ApiKey.METADATA, version)
    assert response.topics[0].error_code == UNKNOWN
    assert [(b.host, b.port) for b in response.brokers] == [("gateway", 9001)]
    assert talk.broker.take() == b""
    assert talk.context.stats.unmirrored.asked == {"early": 1}


async def test_a_client_that_asks_over_and_over_is_told_of_once_by_name_with_the_remedy(talk: Conversation) -> None:
    talk.source_topics.unmirrored = {"early": "west"}
    with capture_logs() as lines:
        for _ in range(20):
            talk.says(metadata(12, "early"))
            asked, _ = sent(talk)
            talk.session.upstream_data(metadata_answer(asked, "early", UNKNOWN))
            await talk.run_pending()
    (line,) = lines
    assert (line["topic"], line["link"], line["log_level"]) == ("early", "west", "warning")
    assert talk.session.host in line["client"]
    assert line["remedy"] == "lockgate mirror create early --link west"


@pytest.mark.parametrize("version", [1, 4, 12])
async def test_a_topic_that_no_source_has_may_be_created(talk: Conversation, version: int) -> None:
    data = metadata(version, "fresh")
    talk.says(data)
    asked, _ = sent(talk)
    talk.session.upstream_data(metadata_answer(asked, "fresh", UNKNOWN))
    await talk.run_pending()
    assert talk.broker.take() == data  # asked again, with auto-creation
    talk.session.upstream_data(metadata_answer(version, "fresh", 0))
    assert answer(talk, ApiKey.METADATA, version).topics[0].error_code == 0


async def test_what_follows_waits_until_the_topic_is_decided(talk: Conversation) -> None:
    talk.says(metadata(9, "fresh") + metadata(9, "fresh"))
    assert len(talk.broker.frames()) == 1
    talk.session.upstream_data(metadata_answer(9, "fresh", 0))
    await talk.run_pending()
    for _ in range(100):
        if talk.broker.written:
            break
        await talk.turn()
    assert len(talk.broker.frames()) == 1


def create(version: int, *names: str) -> bytes:
    kind = CreateTopicsRequest.CreatableTopic
    topics = [kind(name=n, num_partitions=1, replication_factor=1, assignments=[], configs=[]) for n in names]
    return encode_request(CreateTopicsRequest(topics=topics, timeout_ms=1000, validate_only=False), version, 4, "me")


def target_says_of(talk: Conversation, version: int, **codes: int) -> None:
    """What the target would answer to who creates these topics."""
    (frame,) = talk.broker.frames()
    header = peek_request_header(memoryview(frame))
    asked = decode_request(ApiKey.CREATE_TOPICS, version, memoryview(frame)[header.body_offset :])
    assert (header.client_id, asked.validate_only, [t.name for t in asked.topics]) == ("lockgate", True, [*codes])
    kind = CreateTopicsResponse.CreatableTopicResult
    found = CreateTopicsResponse(topics=[kind(name=name, error_code=code) for name, code in codes.items()])
    talk.session.upstream_data(encode_response(found, ApiKey.CREATE_TOPICS, version, header.correlation_id))


@pytest.mark.parametrize("version", [2, 4, 5, 7])
async def test_create_topics_is_refused_with_what_to_do(talk: Conversation, version: int) -> None:
    talk.source_topics.unmirrored = {"early": "west"}
    talk.says(create(version, "early", "x"))
    target_says_of(talk, version, early=0, x=0)
    await talk.run_pending()
    assert talk.broker.take() == b""
    response = answer(talk, ApiKey.CREATE_TOPICS, version)
    assert {topic.name: topic.error_code for topic in response.topics} == {"early": POLICY, "x": POLICY}
    assert "lockgate mirror create early --link west" in response.topics[0].error_message


async def test_who_may_not_create_a_topic_is_not_told_of_the_source(talk: Conversation) -> None:
    talk.source_topics.unmirrored = {"early": "west"}
    denied = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    talk.says(create(7, "early", "x"))
    target_says_of(talk, 7, early=denied, x=0)
    await talk.run_pending()
    assert talk.source_topics.asked == ["x"]
    _, asked = sent(talk)
    assert [topic.name for topic in asked.topics] == ["x"]
    served = CreateTopicsResponse(topics=[CreateTopicsResponse.CreatableTopicResult(name="x")])
    talk.session.upstream_data(encode_response(served, ApiKey.CREATE_TOPICS, 7, 4))
    found = answer(talk, ApiKey.CREATE_TOPICS, 7).topics
    assert [(topic.name, topic.error_code, topic.error_message) for topic in found] == [
        ("early", denied, None),
        ("x", 0, ""),
    ]


@pytest.mark.parametrize("version", [0, 2, 3, 4, 6])
async def test_a_coordinator_is_a_listener_and_the_group_is_remembered(talk: Conversation, version: int) -> None:
    message = FindCoordinatorRequest(key="g", key_type=0, coordinator_keys=["g"])
    talk.says(encode_request(message, version, 4, "me"))
    talk.broker.take()
    coordinator = FindCoordinatorResponse.Coordinator(
        key="g", node_id=3, host="real-broker", port=1, error_code=0, error_message=None
    )
    response = FindCoordinatorResponse(
        error_code=0, error_message=None, node_id=3, host="real-broker", port=1, coordinators=[coordinator]
    )
    talk.session.upstream_data(encode_response(response, ApiKey.FIND_COORDINATOR, version, 4))
    found = answer(talk, ApiKey.FIND_COORDINATOR, version)
    where = found.coordinators[0] if version >= 4 else found
    assert (where.host, where.port) == ("gateway", 9003)
    assert talk.gates.groups_of(talk.session.identity) == {"g"}


@pytest.mark.parametrize("version", range(ADVERTISED[ApiKey.INIT_PRODUCER_ID][1] + 1))
async def test_producer_ids_are_shifted_out_of_the_way_of_both_clusters(talk: Conversation, version: int) -> None:
    message = InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=0, producer_id=2**49 + 5, producer_epoch=3
    )
    talk.says(encode_request(message, version, 4, "me"))
    _, asked = sent(talk)
    if version >= 3:
        assert asked.producer_id == 5
    response = InitProducerIdResponse(throttle_time_ms=0, error_code=0, producer_id=5, producer_epoch=4)
    talk.session.upstream_data(encode_response(response, ApiKey.INIT_PRODUCER_ID, version, 4))
    shown = answer(talk, ApiKey.INIT_PRODUCER_ID, version)
    assert (shown.producer_id, shown.producer_epoch) == (shown_as(View().cluster_id) + 5, 4)


async def test_an_acks_0_produce_in_pieces_leaves_no_trace_in_the_order(talk: Conversation) -> None:
    body = struct.pack(">hhii", -1, 0, 1000, 0)  # transactional id, acks, timeout, no topics
    head = struct.pack(">hhih", 0, 3, 1, 2) + b"me"
    frame = struct.pack(">i", len(head) + len(body)) + head + body
    for at in range(len(frame)):
        talk.says(frame[at : at + 1])
    assert talk.broker.take() == frame
    talk.says(metadata(9))
    talk.broker.take()
    talk.session.upstream_data(metadata_answer(9, "t", 0))
    assert len(talk.client.frames()) == 1


async def test_sources_are_not_asked_for_who_may_create_nothing(talk: Conversation) -> None:
    denied = int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    talk.says(create(7, "early", "x"))
    assert talk.source_topics.asked == []
    target_says_of(talk, 7, early=denied, x=denied)
    await talk.run_pending()
    assert talk.source_topics.asked == []
    assert talk.broker.take() == b""
    assert [topic.error_code for topic in answer(talk, ApiKey.CREATE_TOPICS, 7).topics] == [denied, denied]


async def test_a_thousand_names_are_created_in_a_request(talk: Conversation) -> None:
    talk.says(create(7, *(f"t{number}" for number in range(1_001))))
    assert talk.session.closed
    assert talk.source_topics.asked == []


@pytest.mark.parametrize("version", [2, 4, 5, 7])
async def test_more_names_are_not_decoded_to_be_refused(
    talk: Conversation, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten thousand took 0.1 s of the event loop, and a stranger asks again."""
    monkeypatch.setattr("gateway.proxy.session.exchange.decode_request", None)
    talk.says(create(version, *(f"t{number}" for number in range(1_001))))
    assert talk.context.stats.closed == {"bad request": 1}


async def test_of_more_names_that_nobody_has_none_is_created(talk: Conversation) -> None:
    names = [f"t{number}" for number in range(1_001)]
    talk.says(metadata(9, *names))
    talk.broker.take()
    talk.session.upstream_data(metadata_answer(9, names[0], 3, *names[1:]))
    await talk.run_pending()
    assert talk.source_topics.asked == []
    assert talk.broker.take() == b""
    assert talk.client.take()


async def test_who_asks_for_names_without_end_is_closed(talk: Conversation) -> None:
    questions = SourceQuestions(talk.source_topics)
    for _ in range(20):
        questions._names.turn("10.0.0.7", 1_000, talk.clock())
    assert await questions.ask(talk.session, ["t"] * 1_000) is None
    assert talk.session.closed
    assert talk.source_topics.asked == []
