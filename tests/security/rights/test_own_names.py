"""The gateway's own topics, groups and transactional ids are refused by name, whatever the target would say."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest

from protocol.apis import ApiKey
from protocol.codec import decode_response, encode_request, encode_response
from protocol.errors import ErrorCode
from protocol.header import frame_request, peek_request_header, response_body_offset
from protocol.messages import (
    EndTxnRequest,
    FetchRequest,
    FetchResponse,
    HeartbeatRequest,
    InitProducerIdRequest,
    ListOffsetsRequest,
    MetadataRequest,
    MetadataResponse,
)
from protocol.produce import build_request_body, scan_response
from tests.support.mirror.batches import make_batch

if TYPE_CHECKING:
    from tests.support.proxy.conversation import Conversation

STATE = "__lockgate_state"
STATE_ID = uuid.UUID("01234567-89ab-cdef-0123-456789abcdef")
TOPIC = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def produce(*topics: str, acks: int = -1, size: int = 1) -> bytes:
    parts: dict[str, list[Any]] = {topic: [(0, make_batch(0, size))] for topic in topics}
    body = b"".join(bytes(piece) for piece in build_request_body(9, None, acks, 5_000, parts))
    return frame_request(int(ApiKey.PRODUCE), 9, 7, "me", body)


def fetch(version: int, *topics: str | uuid.UUID) -> bytes:
    kind = FetchRequest.FetchTopic
    part = kind.FetchPartition(
        partition=0,
        current_leader_epoch=-1,
        fetch_offset=0,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=1024,
    )
    message = FetchRequest(
        replica_id=-1,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1024,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[kind(**({"topic": t} if isinstance(t, str) else {"topic_id": t}), partitions=[part]) for t in topics],
        forgotten_topics_data=[],
        rack_id="",
    )
    return encode_request(message, version, 7, "me")


def answer(talk: Conversation, key: ApiKey, version: int) -> Any:
    (frame,) = talk.client.frames()
    view = memoryview(frame)
    return decode_response(int(key), version, view[response_body_offset(int(key), version, view) :])


@pytest.mark.parametrize("topics", [(STATE,), ("plain", STATE)])
@pytest.mark.parametrize("cut", [0, 60])
async def test_no_write_to_a_topic_of_the_gateway(talk: Conversation, topics: tuple[str, ...], cut: int) -> None:
    data = produce(*topics)
    if cut:
        talk.says(data[:cut])
    talk.says(data[cut:])
    assert talk.broker.take() == b""
    (frame,) = talk.client.frames()
    view = memoryview(frame)
    results = scan_response(view[response_body_offset(int(ApiKey.PRODUCE), 9, view) :], 9)
    assert [(result.topic, result.error_code) for result in results] == [(topic, TOPIC) for topic in topics]


async def test_no_write_without_an_answer_either(talk: Conversation) -> None:
    talk.says(produce(STATE, acks=0))
    assert talk.broker.take() == b""


@pytest.mark.parametrize("version", [4, 12])
async def test_no_read_of_a_topic_of_the_gateway(talk: Conversation, version: int) -> None:
    data = fetch(version, "plain", STATE)
    talk.says(data[:50])
    talk.says(data[50:])
    (frame,) = talk.broker.frames()
    assert b"plain" in frame
    assert STATE.encode() not in frame
    part = FetchResponse.FetchableTopicResponse.PartitionData(partition_index=0, records=b"")
    served = FetchResponse(responses=[FetchResponse.FetchableTopicResponse(topic="plain", partitions=[part])])
    talk.session.upstream_data(encode_response(served, ApiKey.FETCH, version, 7))
    found = answer(talk, ApiKey.FETCH, version)
    assert [topic.partitions[0].error_code for topic in found.responses] == [0, TOPIC]


async def test_nor_by_its_id(talk: Conversation) -> None:
    talk.context.own_names.learn({STATE: STATE_ID.bytes, "plain": uuid.uuid4().bytes})
    talk.says(fetch(13, STATE_ID))
    assert talk.broker.take() == b""
    assert answer(talk, ApiKey.FETCH, 13).responses[0].partitions[0].error_code == TOPIC


@pytest.mark.parametrize(
    "request_of", [lambda: produce("plain", "other"), lambda: fetch(12, "plain"), lambda: fetch(13)]
)
async def test_what_names_nothing_of_the_gateway_passes_as_it_is(talk: Conversation, request_of: Any) -> None:
    data = request_of()
    talk.says(data)
    assert talk.broker.take() == data
    talk.says(data[:40])
    talk.says(data[40:])
    assert talk.broker.take() == data


async def test_the_letters_in_a_value_are_no_name(talk: Conversation) -> None:
    data = fetch(12, "my__lockgate_state")
    talk.says(data)
    assert talk.broker.take() == data


async def test_groups_and_transactional_ids_are_refused(talk: Conversation) -> None:
    asked: list[tuple[Any, ApiKey, int, int]] = [
        (
            HeartbeatRequest(group_id="__lockgate.fleet", generation_id=1, member_id="m", group_instance_id=None),
            ApiKey.HEARTBEAT,
            3,
            int(ErrorCode.GROUP_AUTHORIZATION_FAILED),
        ),
        (
            InitProducerIdRequest(
                transactional_id="__lockgate-state", transaction_timeout_ms=1, producer_id=-1, producer_epoch=-1
            ),
            ApiKey.INIT_PRODUCER_ID,
            3,
            int(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ),
        (
            EndTxnRequest(transactional_id="__lockgate-state", producer_id=1, producer_epoch=1, committed=True),
            ApiKey.END_TXN,
            3,
            int(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ),
    ]
    for message, key, version, code in asked:
        talk.says(encode_request(message, version, 7, "me"))
        assert answer(talk, key, version).error_code == code
    assert talk.broker.take() == b""


async def test_offsets_of_a_topic_of_the_gateway_are_refused(talk: Conversation) -> None:
    kind = ListOffsetsRequest.ListOffsetsTopic
    part = kind.ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=-1)
    message = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[kind(name=STATE, partitions=[part])])
    talk.says(encode_request(message, 5, 7, "me"))
    assert talk.broker.take() == b""
    assert answer(talk, ApiKey.LIST_OFFSETS, 5).topics[0].partitions[0].error_code == TOPIC


async def test_no_write_under_a_transactional_id_of_the_gateway(talk: Conversation) -> None:
    body = build_request_body(9, "__lockgate-state", -1, 5_000, {"plain": [(0, make_batch(0, 1))]})
    talk.says(frame_request(int(ApiKey.PRODUCE), 9, 7, "me", b"".join(bytes(piece) for piece in body)))
    assert talk.broker.take() == b""
    (frame,) = talk.client.frames()
    view = memoryview(frame)
    (result,) = scan_response(view[response_body_offset(int(ApiKey.PRODUCE), 9, view) :], 9)
    assert result.error_code == int(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


@pytest.mark.parametrize("version", [1, 9, 12])
async def test_metadata_does_not_show_them(talk: Conversation, version: int) -> None:
    message = MetadataRequest(
        topics=None,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    talk.says(encode_request(message, version, 7, "me"))
    (frame,) = talk.broker.frames()
    assert peek_request_header(memoryview(frame)).correlation_id == 7
    kind = MetadataResponse.MetadataResponseTopic
    topics = [kind(name=name, topic_id=STATE_ID, partitions=[]) for name in ("plain", STATE)]
    talk.session.upstream_data(encode_response(MetadataResponse(brokers=[], topics=topics), 3, version, 7))
    assert [topic.name for topic in answer(talk, ApiKey.METADATA, version).topics] == ["plain"]
