"""Writes to sources beyond a principal's quota: answered with the time to be quiet, and its connection not read."""

from __future__ import annotations

import pytest

from gateway.cutover.write_pause.rules.routing import TopicRoute, WritePhase, routing_of
from protocol.apis import ApiKey
from protocol.codec import decode_response
from protocol.header import frame_request, response_body_offset
from protocol.produce import PartitionResult, build_request_body, build_response_body
from tests.support.control.pausing import in_phase
from tests.support.mirror.batches import make_batch
from tests.support.proxy.conversation import Conversation
from tests.support.proxy.limits import limits_with

PRODUCE = int(ApiKey.PRODUCE)
BATCH = make_batch(0, 3)
RATE = len(BATCH)  # one batch in a second, and one at once


def conversation(rate: int = RATE) -> Conversation:
    talk = Conversation(limits=limits_with(forwarded_bytes_per_second=rate))
    route = TopicRoute(
        link="west", mirror_topic="mirrored", source_topic="mirrored", pause=in_phase(WritePhase.FORWARD)
    )
    talk.context.routing.publish(routing_of({"mirrored": route}))
    for topic in ("mirrored", "plain"):
        talk.session.authorized[topic] = (talk.clock(), True)
    return talk


def produce(number: int, *topics: str, acks: int = -1, version: int = 9) -> bytes:
    body = build_request_body(version, None, acks, 5_000, {topic: [(0, BATCH)] for topic in topics})
    return frame_request(PRODUCE, version, number, "me", b"".join(bytes(piece) for piece in body))


def throttles(talk: Conversation, version: int = 9) -> list[int]:
    """The throttle times of the answers, in milliseconds."""
    found = []
    for frame in talk.client.frames():
        view = memoryview(frame)
        body = view[response_body_offset(PRODUCE, version, view) :]
        answer = decode_response(PRODUCE, version, body)
        assert [(topic.name, topic.partition_responses[0].base_offset) for topic in answer.responses]
        found.append(answer.throttle_time_ms)
    return found


def is_read(talk: Conversation) -> bool:
    """The client's connection."""
    return talk.client.reading


def source_answers(talk: Conversation, version: int = 9, throttle_ms: int = 0) -> None:
    talk.source.node.answer(build_response_body(version, [PartitionResult("mirrored", 0, 0, 42)], throttle_ms))


@pytest.mark.parametrize("version", range(3, 10))
async def test_who_writes_more_is_told_and_not_read(version: int) -> None:
    talk = conversation()
    talk.says(produce(1, "mirrored", version=version))
    source_answers(talk, version)
    assert (throttles(talk, version), is_read(talk)) == ([0], True)
    talk.says(produce(2, "mirrored", version=version))
    assert not is_read(talk)  # before the source has answered, too
    source_answers(talk, version)
    assert throttles(talk, version) == [1_000]
    assert not is_read(talk)
    talk.loop.fire()
    assert is_read(talk)
    assert talk.context.quotas.throttled == 1


async def test_the_sources_own_quota_counts_when_it_asks_for_more() -> None:
    talk = conversation()
    talk.says(produce(1, "mirrored") + produce(2, "mirrored"))  # what comes behind the answer is not sent to the source
    for _ in range(2):
        source_answers(talk, throttle_ms=3_000)
    assert throttles(talk) == [3_000, 3_000]


async def test_a_write_without_an_answer_counts_too() -> None:
    talk = conversation()
    talk.says(produce(1, "mirrored", acks=0))
    talk.says(produce(2, "mirrored", acks=0))
    assert not is_read(talk)
    source_answers(talk)
    source_answers(talk)
    assert talk.client.take() == b""


async def test_what_was_read_already_is_served_and_asks_for_more_time() -> None:
    talk = conversation()
    talk.says(produce(1, "mirrored") + produce(2, "mirrored") + produce(3, "mirrored"))
    for _ in range(3):
        source_answers(talk)
    assert throttles(talk) == [0, 1_000, 2_000]
    assert [timer.delay for timer in talk.loop.timers if not timer.was_cancelled] == [2.0]


async def test_only_what_goes_to_a_source_counts() -> None:
    """What goes to the target has the quotas of its brokers, which know who writes."""
    talk = conversation()
    talk.says(produce(1, "mirrored", "plain"))
    assert is_read(talk)
    for number in range(2, 9):
        talk.says(produce(number, "plain"))
    assert is_read(talk)


async def test_connections_of_one_principal_share_its_quota() -> None:
    talk = conversation()
    talk.session.principal = "alice"
    assert talk.context.quotas.spend("bob", 10 * RATE, talk.clock()) > 0
    talk.says(produce(1, "mirrored"))
    assert is_read(talk)
    assert talk.context.quotas.spend("alice", 0, talk.clock()) == 0
    talk.context.quotas.spend("alice", RATE, talk.clock())  # by another connection
    talk.says(produce(2, "mirrored"))
    assert not is_read(talk)


async def test_without_a_quota_nobody_is_throttled() -> None:
    talk = conversation(0)
    for number in range(1, 9):
        talk.says(produce(number, "mirrored"))
    assert is_read(talk)
