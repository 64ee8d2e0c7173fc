"""A Produce to a topic that is mirrored back or has failed back: counted, under another producer id, retries
answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gateway.cutover.write_pause.rules.routing import WritePhase, routing_of
from gateway.state.producer_ids import GATEWAY_PID_BASE, in_failback_epoch
from gateway.state.records import ProducerEntry
from protocol.apis import ApiKey
from protocol.batch.header import crc_is_valid, producer_id_of, read_batch_header
from protocol.header import frame_response, peek_request_header
from protocol.produce import PartitionResult, build_response_body, scan_request
from tests.support.mirror.batches import make_batch
from tests.unit.proxy.handlers.test_produce import answers, produce, route, source_answers

if TYPE_CHECKING:
    from gateway.cutover.write_pause.rules.routing import TopicRoute
    from tests.support.proxy.conversation import Conversation

PRODUCE = int(ApiKey.PRODUCE)
CLIENT = GATEWAY_PID_BASE + 7
TABLE = ((ProducerEntry(CLIENT, 0, 5, 7, 42),),)


def publish(talk: Conversation, *routes: TopicRoute) -> None:
    talk.context.routing.publish(routing_of({each.mirror_topic: each for each in routes}))


def target_answers(talk: Conversation, frame: bytes, *results: PartitionResult) -> None:
    header = peek_request_header(memoryview(frame))
    body = build_response_body(header.api_version, results)
    talk.session.upstream_data(frame_response(PRODUCE, header.api_version, header.correlation_id, body))


def records_of(body: memoryview) -> list[memoryview]:
    return [body[start:end] for _, _, start, end in scan_request(body, 9).parts]


def records_in(frame: bytes) -> list[memoryview]:
    view = memoryview(frame)
    return records_of(view[peek_request_header(view).body_offset :])


@pytest.fixture
async def reversed_(talk: Conversation) -> Conversation:
    talk.session.authorized["mirrored"] = (talk.clock(), True)
    publish(talk, route("mirrored", WritePhase.SWITCHED, counted=True))
    return talk


async def test_a_write_of_a_reversed_topic_is_in_flight_until_the_target_answers(reversed_: Conversation) -> None:
    reversed_.says(produce(1, ("mirrored", 0)))
    (frame,) = reversed_.broker.frames()
    assert reversed_.forwarder.in_flight("mirrored") == 1
    target_answers(reversed_, frame, PartitionResult("mirrored", 0, 0, 42))
    assert reversed_.forwarder.in_flight("mirrored") == 0
    assert answers(reversed_)[0][0].base_offset == 42
    assert not reversed_.session.on_close


async def test_one_whose_connection_ends_has_an_unknown_outcome(reversed_: Conversation) -> None:
    before = await reversed_.forwarder.drain("mirrored")
    reversed_.says(produce(1, ("mirrored", 0)))
    reversed_.session.close("gone")
    assert await reversed_.forwarder.drain("mirrored") == before + 1


async def test_acks_0_is_answered_to_the_gateway_alone(reversed_: Conversation) -> None:
    reversed_.says(produce(1, ("mirrored", 0), acks=0))
    (frame,) = reversed_.broker.frames()
    view = memoryview(frame)
    assert scan_request(view[peek_request_header(view).body_offset :], 9).acks == 1
    assert reversed_.forwarder.in_flight("mirrored") == 1
    target_answers(reversed_, frame, PartitionResult("mirrored", 0, 0, 42))
    assert reversed_.forwarder.in_flight("mirrored") == 0
    assert reversed_.client.take() == b""


async def test_what_was_passed_on_untouched_before_is_counted_too(talk: Conversation) -> None:
    data = produce(1, ("mirrored", 0)) + produce(2, ("other", 0))
    talk.says(data)
    assert talk.broker.take() == data
    publish(talk, route("mirrored", WritePhase.SWITCHED, counted=True))
    assert talk.forwarder.in_flight("mirrored") == 2  # which topics a request holds is not known any more
    publish(
        talk, route("mirrored", WritePhase.SWITCHED, counted=True), route("later", WritePhase.SWITCHED, counted=True)
    )
    assert talk.forwarder.in_flight("later") == 2
    for correlation_id, topic in ((1, "mirrored"), (2, "other")):
        body = build_response_body(9, [PartitionResult(topic, 0, 0, correlation_id)])
        talk.session.upstream_data(frame_response(PRODUCE, 9, correlation_id, body))
    assert [found[0].base_offset for found in answers(talk)] == [1, 2]
    assert talk.forwarder.in_flight("mirrored") == talk.forwarder.in_flight("later") == 0


async def test_a_write_pause_of_a_failback_holds_and_the_cutover_sends_to_the_source(reversed_: Conversation) -> None:
    publish(reversed_, route("mirrored", WritePhase.PAUSED, counted=True))
    reversed_.says(produce(1, ("mirrored", 0)) + produce(2, ("mirrored", 0)))
    assert reversed_.broker.take() == b""
    publish(reversed_, route("mirrored", WritePhase.FORWARD, failback_epoch=1))
    assert len(reversed_.source.node.sent) == 2


async def test_failed_back_a_producer_has_another_id_on_the_source(reversed_: Conversation) -> None:
    publish(reversed_, route("mirrored", failback_epoch=3))
    theirs = make_batch(0, 3, producer_id=11, epoch=0, sequence=5)  # of no client of a gateway: left alone
    reversed_.says(produce(1, ("mirrored", 0)) + produce(2, ("mirrored", 1), batch=theirs))
    (_, _, first), (_, _, second) = reversed_.source.node.sent
    (batch,) = records_of(memoryview(first))
    header = read_batch_header(batch)
    assert (header.producer_id, header.base_sequence) == (in_failback_epoch(CLIENT, 3), 5)
    assert crc_is_valid(batch, header)
    assert [producer_id_of(each) for each in records_of(memoryview(second))] == [11]
    source_answers(reversed_, PartitionResult("mirrored", 0, 0, 42))
    assert answers(reversed_)[0][0].base_offset == 42


async def test_after_a_second_promote_it_keeps_that_id_on_the_target(reversed_: Conversation) -> None:
    publish(reversed_, route("mirrored", WritePhase.SWITCHED, failback_epoch=1))
    reversed_.says(produce(1, ("mirrored", 0), ("plain", 0)))
    (frame,) = reversed_.broker.frames()
    assert [producer_id_of(each) for each in records_in(frame)] == [in_failback_epoch(CLIENT, 1), CLIENT]


async def test_a_retry_over_the_failback_cutover_is_answered_and_the_next_batch_goes_on(
    reversed_: Conversation,
) -> None:
    publish(reversed_, route("mirrored", producers=TABLE, failback_epoch=1))
    reversed_.says(produce(1, ("mirrored", 0)))
    assert reversed_.source.node.sent == []
    assert answers(reversed_) == [[PartitionResult("mirrored", 0, 0, 42)]]
    following = make_batch(0, 3, producer_id=CLIENT, epoch=0, sequence=8)
    reversed_.says(produce(2, ("mirrored", 0), batch=following))
    assert len(reversed_.source.node.sent) == 1


async def test_of_a_request_with_a_retry_in_it_only_the_rest_is_sent(reversed_: Conversation) -> None:
    publish(reversed_, route("mirrored", producers=(*TABLE, ())))
    reversed_.says(produce(1, ("mirrored", 0), ("mirrored", 1)))
    ((_, version, body),) = reversed_.source.node.sent
    assert [part[:2] for part in scan_request(body, version).parts] == [("mirrored", 1)]
    source_answers(reversed_, PartitionResult("mirrored", 1, 0, 9), version=version)
    ((first, second),) = answers(reversed_)
    assert {(first.partition, first.base_offset), (second.partition, second.base_offset)} == {(0, 42), (1, 9)}
