"""Answers on their way to clients: which are looked at, what is seen in them, and that they pass as ever."""

from __future__ import annotations

import random
import struct
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from gateway.cutover.write_pause.rules.routing import routing_of
from gateway.migration.rules.client_errors import GROUP, TOPIC, AnswerCount, Failure, Name
from gateway.proxy.session.answer_watch import KEPT_S, LOOKS_PER_S, AnswerWatch
from protocol.apis import ApiKey
from protocol.codec import encode_request, encode_response
from protocol.errors import ErrorCode
from protocol.header import frame_request
from protocol.messages import FetchResponse, MetadataResponse, OffsetCommitRequest, OffsetCommitResponse
from protocol.produce import PartitionResult, build_response_body
from tests.support.control.gates import gate

if TYPE_CHECKING:
    from tests.support.proxy.conversation import Conversation

ORDERS = Name(TOPIC, "orders")
DENIED, TOO_LARGE = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.MESSAGE_TOO_LARGE
TOPIC_ID = b"i" * 16


def watched(talk: Conversation, *names: Name, seed: int = 1) -> AnswerWatch:
    """The conversation's answers are watched for these."""
    context = talk.context

    def switch(on: bool) -> None:
        context.watch = watch if on else None

    watch = AnswerWatch(routing=context.routing, clock=talk.clock, rng=random.Random(seed), switch=switch)
    watch.watch("m", "1", frozenset(names))
    return watch


def produce(talk: Conversation, number: int) -> None:
    """A request of one topic, whose answer nobody has to look at."""
    topic = b"\x00\x06orders"
    body = struct.pack(">hhi", -1, -1, 1_000) + struct.pack(">i", 1) + topic + struct.pack(">i", 0)
    talk.says(frame_request(ApiKey.PRODUCE, 8, number, "ann", body))


def produced(*codes: int, topic: str = "orders") -> bytes:
    results = [PartitionResult(topic, index, int(code), -1) for index, code in enumerate(codes)]
    return build_response_body(8, results)


def fetched(*codes: int, version: int = 12, records: int = 0) -> bytes:
    """A Fetch answer: correlation id 1, without the size."""
    kind = FetchResponse.FetchableTopicResponse
    part = kind.PartitionData
    partitions = [
        part(
            partition_index=index,
            error_code=int(code),
            high_watermark=0,
            last_stable_offset=0,
            log_start_offset=0,
            diverging_epoch=part.EpochEndOffset(epoch=-1, end_offset=-1),
            current_leader=part.LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1),
            snapshot_id=part.SnapshotId(end_offset=-1, epoch=-1),
            aborted_transactions=None,
            preferred_read_replica=-1,
            records=b"r" * records if not code else None,
        )
        for index, code in enumerate(codes)
    ]
    named: dict[str, Any] = {"topic_id": UUID(bytes=TOPIC_ID)} if version >= 13 else {"topic": "orders"}
    topic = kind(**named, partitions=partitions)
    answer = FetchResponse(throttle_time_ms=0, error_code=0, session_id=0, responses=[topic], node_endpoints=[])
    return encode_response(answer, ApiKey.FETCH, version, 1)


def of(watch: AnswerWatch, name: Name = ORDERS) -> AnswerCount:
    return watch.sums("m", 60.0).get(name, AnswerCount())


async def test_errors_of_a_watched_topic_are_counted_and_the_answer_passes(talk: Conversation) -> None:
    watch = watched(talk, ORDERS)
    for number, codes in enumerate([(0,), (DENIED, 0), (ErrorCode.NOT_LEADER_OR_FOLLOWER,)], start=1):
        produce(talk, number)
        talk.broker_says(number, produced(*codes))
    assert [frame[4:] for frame in talk.client.frames()] == [
        produced(0),
        produced(DENIED, 0),
        produced(ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ]
    assert of(watch) == AnswerCount(3, 1, 3, 1, (Failure(DENIED, 1, ""),))


async def test_answers_that_come_together_are_looked_at_too(talk: Conversation) -> None:
    watch = watched(talk, ORDERS)
    answers = b""
    for number in (1, 2, 3):
        produce(talk, number)
        rest = produced(TOO_LARGE if number > 1 else 0)
        answers += struct.pack(">ii", 4 + len(rest), number) + rest
    talk.session.upstream_data(answers)
    assert len(talk.client.frames()) == 3
    assert of(watch) == AnswerCount(3, 2, 3, 2, (Failure(TOO_LARGE, 2, ""),))


async def test_other_topics_and_other_apis_do_not_count(talk: Conversation) -> None:
    watch = watched(talk, Name(TOPIC, "others"))
    produce(talk, 1)
    talk.broker_says(1, produced(DENIED))
    assert watch.sums("m", 60.0) == {}


async def test_nobody_looks_while_nobody_asks(talk: Conversation) -> None:
    watch = watched(talk, ORDERS)
    assert watch.watch("m", "1", None)
    assert not watch.watch("m", "2", None)
    assert not watch.watch("others", "1", None)
    talk.clock.now += KEPT_S + 1
    produce(talk, 1)
    talk.broker_says(1, produced(DENIED))
    assert talk.context.watch is None
    assert not watch.watch("m", "1", None)


@pytest.mark.parametrize("version", [4, 6, 8, 11, 12, 13, 15])
def test_a_fetch_answer_that_is_cut_off_is_looked_at_as_far_as_it_goes(talk: Conversation, version: int) -> None:
    talk.context.routing.publish(routing_of(topic_ids={TOPIC_ID: "orders"}))
    watch = watched(talk, ORDERS)
    exchange: Any = _exchange(ApiKey.FETCH, version)
    watch.look("ann", exchange, fetched(0, DENIED, version=version, records=50_000)[:256])
    assert of(watch) == AnswerCount(1, 0, 1, 0)
    watch.look("ann", exchange, fetched(DENIED, 0, version=version, records=50_000)[:256])
    watch.look("ann", exchange, fetched(0, DENIED, version=version, records=100))
    assert of(watch) == AnswerCount(3, 2, 3, 2, (Failure(DENIED, 2, "ann"),))


async def test_a_commit_counts_for_its_group(talk: Conversation) -> None:
    talk.gates.enabled = True
    gate(talk.gates, "g", is_open=True)
    watch = watched(talk, ORDERS, Name(GROUP, "g"))
    kind = OffsetCommitRequest.OffsetCommitRequestTopic
    request = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=[
            kind(
                name="orders",
                partitions=[
                    kind.OffsetCommitRequestPartition(
                        partition_index=0, committed_offset=1, committed_leader_epoch=-1, committed_metadata=None
                    )
                ],
            )
        ],
    )
    talk.says(encode_request(request, 8, 5, "ann"))
    answer = OffsetCommitResponse.OffsetCommitResponseTopic
    part = answer.OffsetCommitResponsePartition
    code = int(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    topics = [answer(name="orders", partitions=[part(partition_index=0, error_code=code)])]
    response = encode_response(OffsetCommitResponse(throttle_time_ms=0, topics=topics), ApiKey.OFFSET_COMMIT, 8, 5)
    talk.session.upstream_data(response)
    assert of(watch, Name(GROUP, "g")) == AnswerCount(1, 1, 1, 1, (Failure(code, 1, "ann"),))
    assert of(watch) == AnswerCount()


def test_of_metadata_only_refusals_count(talk: Conversation) -> None:
    watch = watched(talk, ORDERS)
    exchange: Any = _exchange(ApiKey.METADATA, 12)
    kind = MetadataResponse.MetadataResponseTopic
    for code in (0, DENIED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE):
        topic = kind(
            error_code=int(code),
            name="orders",
            topic_id=None,
            is_internal=False,
            partitions=[],
            topic_authorized_operations=0,
        )
        answer = MetadataResponse(throttle_time_ms=0, brokers=[], cluster_id=None, controller_id=1, topics=[topic])
        watch.look("ann", exchange, encode_response(answer, ApiKey.METADATA, 12, 1))
    assert of(watch) == AnswerCount(1, 1, 1, 1, (Failure(DENIED, 1, "ann"),))


async def test_what_the_gateway_refuses_itself_counts(talk: Conversation) -> None:
    """Of a topic of the gateway's own a client learns nothing but that it may not."""
    own = Name(TOPIC, "__lockgate_state")
    watch = watched(talk, own)
    body = struct.pack(">hhi", -1, -1, 1_000) + struct.pack(">i", 1) + b"\x00\x10__lockgate_state"
    body += struct.pack(">iii", 1, 0, -1)
    talk.says(frame_request(ApiKey.PRODUCE, 8, 1, "ann", body))
    assert talk.broker.take() == b""
    assert of(watch, own) == AnswerCount(1, 1, 1, 1, (Failure(DENIED, 1, "ann"),))


def test_of_many_answers_some_are_looked_at_and_stand_for_all(talk: Conversation) -> None:
    watch = watched(talk, ORDERS)
    exchange: Any = _exchange(ApiKey.PRODUCE, 8)
    good, bad = (_framed(produced(code)) for code in (0, DENIED))
    seconds, per_second = 10, 10_000
    for index in range(seconds * per_second):
        watch.look("ann", exchange, bad if index % 4 == 0 else good)
        talk.clock.now += 1 / per_second
    found = of(watch)
    assert found.samples < 2 * seconds * LOOKS_PER_S
    assert 0.97 * seconds * per_second < found.answers <= seconds * per_second
    assert 20.0 < (found.percent or 0) < 30.0


def test_a_fault_of_the_watch_costs_no_client_its_answer(talk: Conversation, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = watched(talk, ORDERS)

    def broken(*_: Any) -> Any:
        raise RuntimeError("a bug")

    monkeypatch.setattr("gateway.proxy.session.answer_watch.errors_by_topic", broken)
    watch.look("ann", _exchange(ApiKey.PRODUCE, 8), _framed(produced(0)))
    assert talk.context.watch is None


def _exchange(key: ApiKey, version: int) -> Any:
    return SimpleNamespace(api_key=int(key), api_version=version, body=memoryview(b""))


def _framed(body: bytes) -> bytes:
    return struct.pack(">ii", 4 + len(body), 1) + body
