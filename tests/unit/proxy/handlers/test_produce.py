"""What becomes of a Produce: forwarded, split, held, refused, answered from the producer table."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from gateway.cutover.write_pause.rules.routing import TopicRoute, WritePhase, routing_of
from gateway.proxy.handlers.produce import ANSWERS_S
from gateway.proxy.session.proxy_session import ProxySession
from gateway.state.ack import Ack
from gateway.state.records import ProducerEntry
from protocol.apis import ApiKey
from protocol.codec import encode_response
from protocol.errors import ErrorCode, is_retriable
from protocol.header import frame_request, frame_response, peek_request_header, response_body_offset
from protocol.messages import MetadataResponse
from protocol.produce import PartitionResult, build_request_body, build_response_body, scan_request, scan_response
from tests.support.control.pausing import in_phase
from tests.support.mirror.batches import make_batch

if TYPE_CHECKING:
    from tests.support.proxy.conversation import Conversation

PRODUCE = int(ApiKey.PRODUCE)
METADATA = int(ApiKey.METADATA)
BATCH = make_batch(0, 3, producer_id=2**49 + 7, epoch=0, sequence=5)


def route(topic: str, phase: WritePhase = WritePhase.FORWARD, **more: Any) -> TopicRoute:
    return TopicRoute(link="west", mirror_topic=topic, source_topic=topic, pause=in_phase(phase), **more)


def produce(
    correlation_id: int, *parts: tuple[str, int], acks: int = -1, version: int = 9, batch: bytes = BATCH
) -> bytes:
    topics: dict[str, list[tuple[int, Any]]] = {}
    for topic, partition in parts:
        topics.setdefault(topic, []).append((partition, batch))
    body = b"".join(bytes(piece) for piece in build_request_body(version, None, acks, 5_000, topics))
    return frame_request(PRODUCE, version, correlation_id, "me", body)


def source_answers(talk: Conversation, *results: PartitionResult, version: int = 9) -> None:
    talk.source.node.answer(build_response_body(version, results))


def target_allows(talk: Conversation, *topics: str, operations: int = 1 << 4) -> None:
    """Answer the question for authorised operations that is on its way to the target."""
    (frame,) = talk.broker.frames()
    header = peek_request_header(memoryview(frame))
    assert header.api_key == METADATA
    kind = MetadataResponse.MetadataResponseTopic
    response = MetadataResponse(
        brokers=[],
        topics=[kind(name=topic, partitions=[], topic_authorized_operations=operations) for topic in topics],
    )
    talk.session.upstream_data(encode_response(response, METADATA, header.api_version, header.correlation_id))


def answers(talk: Conversation, version: int = 9) -> list[list[PartitionResult]]:
    found = []
    for frame in talk.client.frames():
        view = memoryview(frame)
        found.append(scan_response(view[response_body_offset(PRODUCE, version, view) :], version))
    return found


def without_broker(talk: Conversation) -> None:
    """The session is another one, whose target broker does not take a connection."""
    talk.session = ProxySession(talk.context, 1)
    talk.session.client_connected(cast("Any", talk.client), "10.0.0.7")
    assert talk.target_down.takes(talk.session)


@pytest.fixture
async def mirrored(talk: Conversation) -> Conversation:
    talk.context.routing.publish(routing_of({"mirrored": route("mirrored")}))
    return talk


@pytest.fixture
async def allowed(mirrored: Conversation) -> Conversation:
    mirrored.session.authorized["mirrored"] = (mirrored.clock(), True)
    return mirrored


async def test_without_mirrors_produce_passes_untouched(talk: Conversation) -> None:
    data = produce(1, ("plain", 0))
    talk.says(data)
    assert talk.broker.take() == data


async def test_a_mirrored_topic_goes_to_the_source_as_the_client_wrote_it(allowed: Conversation) -> None:
    data = produce(1, ("mirrored", 0))
    allowed.says(data)
    assert allowed.broker.take() == b""
    ((key, version, body),) = allowed.source.node.sent
    assert (key, version) == (PRODUCE, 9)
    assert data.endswith(body)
    assert allowed.forwarder.in_flight("mirrored") == 1
    source_answers(allowed, PartitionResult("mirrored", 0, 0, 42))
    assert answers(allowed) == [[PartitionResult("mirrored", 0, 0, 42)]]
    assert allowed.forwarder.in_flight("mirrored") == 0
    assert allowed.forwarded == [("mirrored", 0, 42, 3)]


async def test_a_topic_that_the_link_keeps_from_clients_is_refused_by_name(talk: Conversation) -> None:
    """`link.client.topic.filters`: whatever the target allows; the other topic of the request is written."""
    talk.context.routing.publish(routing_of({"mirrored": route("mirrored"), "held": route("held", by_clients=False)}))
    for topic in ("mirrored", "held"):
        talk.session.authorized[topic] = (talk.clock(), True)
    talk.says(produce(1, ("mirrored", 0), ("held", 0)))
    ((_, _, body),) = talk.source.node.sent
    assert b"held" not in body
    source_answers(talk, PartitionResult("mirrored", 0, 0, 42))
    ((denied, written),) = answers(talk)
    assert (denied.topic, denied.error_code) == ("held", ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert (written.topic, written.error_code) == ("mirrored", 0)


async def test_who_may_write_is_asked_on_the_clients_own_connection(mirrored: Conversation) -> None:
    mirrored.says(produce(1, ("mirrored", 0)) + produce(2, ("mirrored", 1)))
    assert mirrored.source.node.sent == []
    target_allows(mirrored, "mirrored")
    assert len(mirrored.source.node.sent) == 2  # asked once


async def test_without_write_nothing_is_forwarded(mirrored: Conversation) -> None:
    mirrored.says(produce(1, ("mirrored", 0)))
    target_allows(mirrored, "mirrored", operations=(1 << 3) | (1 << 8))  # READ, DESCRIBE
    assert mirrored.source.node.sent == []
    ((result,),) = answers(mirrored)
    assert result.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def test_a_mixed_request_is_split_and_its_answer_merged(allowed: Conversation) -> None:
    allowed.says(produce(1, ("mirrored", 0), ("plain", 4)))
    (frame,) = allowed.broker.frames()
    header = peek_request_header(memoryview(frame))
    to_target = scan_request(memoryview(frame)[header.body_offset :], 9)
    assert [part[:2] for part in to_target.parts] == [("plain", 4)]
    ((_, version, body),) = allowed.source.node.sent
    assert [part[:2] for part in scan_request(body, version).parts] == [("mirrored", 0)]
    target = build_response_body(9, [PartitionResult("plain", 4, 0, 7)])
    allowed.session.upstream_data(frame_response(PRODUCE, 9, header.correlation_id, target))
    assert answers(allowed) == []
    source_answers(allowed, PartitionResult("mirrored", 0, 0, 42), version=version)
    ((first, second),) = answers(allowed)
    assert {(first.topic, first.base_offset), (second.topic, second.base_offset)} == {("plain", 7), ("mirrored", 42)}


async def test_acks_0_is_forwarded_with_acks_1_and_never_answered(allowed: Conversation) -> None:
    allowed.says(produce(1, ("mirrored", 0), acks=0))
    ((_, version, body),) = allowed.source.node.sent
    assert scan_request(body, version).acks == 1
    source_answers(allowed, PartitionResult("mirrored", 0, 0, 42))
    assert allowed.client.take() == b""
    assert not allowed.session.closed


async def test_a_write_pause_knows_what_clients_were_told_that_all_replicas_have(allowed: Conversation) -> None:
    """Not what the leader alone had: another one may lead without it."""
    for number, acks in enumerate((-1, 1, 0), start=1):
        allowed.says(produce(number, ("mirrored", 0), acks=acks))
        source_answers(allowed, PartitionResult("mirrored", 0, 0, 42 * number))
    assert allowed.forwarder.acked("mirrored") == ((0, 42 + 3),)
    allowed.says(produce(4, ("mirrored", 0), ("mirrored", 1)))
    moved = PartitionResult("mirrored", 1, int(ErrorCode.NOT_LEADER_OR_FOLLOWER), -1)
    source_answers(allowed, PartitionResult("mirrored", 0, 0, 90), moved)
    assert allowed.forwarder.acked("mirrored") == ((0, 90 + 3),)
    for phase in (WritePhase.PAUSED, WritePhase.FORWARD, WritePhase.PAUSED):
        allowed.context.routing.publish(routing_of({"mirrored": route("mirrored", phase)}))
        assert allowed.forwarder.acked("mirrored"), phase
    allowed.context.routing.publish(routing_of({"mirrored": route("mirrored", WritePhase.SWITCHED)}))
    assert allowed.forwarder.acked("mirrored") == (), "its source begins anew should it fail back"


async def test_a_failed_acks_0_closes_the_connection_as_a_broker_does(allowed: Conversation) -> None:
    allowed.says(produce(1, ("mirrored", 0), acks=0))
    source_answers(allowed, PartitionResult("mirrored", 0, int(ErrorCode.MESSAGE_TOO_LARGE), -1))
    assert allowed.session.closed


@pytest.mark.parametrize(
    "code",
    [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND],
)
async def test_a_moved_leader_is_told_and_looked_up_again(allowed: Conversation, code: ErrorCode) -> None:
    """One that does not hear of its replicas may be one no more, and not know it."""
    allowed.says(produce(1, ("mirrored", 0)))
    source_answers(allowed, PartitionResult("mirrored", 0, int(code), -1))
    assert answers(allowed)[0][0].error_code == code
    assert allowed.source.invalidated == ["mirrored"]


def numbered(sequence: int) -> bytes:
    return make_batch(0, 3, producer_id=2**49 + 7, epoch=0, sequence=sequence)


async def test_after_a_change_of_leader_nothing_overtakes_what_the_one_before_has_not_answered(
    allowed: Conversation,
) -> None:
    allowed.says(produce(1, ("mirrored", 0), batch=numbered(0)))
    allowed.source.moves("mirrored")
    allowed.says(produce(2, ("mirrored", 1), batch=numbered(0)))
    assert len(allowed.source.other.sent) == 1  # another partition
    allowed.says(produce(3, ("mirrored", 0), batch=numbered(3)))
    assert len(allowed.source.other.sent) == 1
    source_answers(allowed, PartitionResult("mirrored", 0, 0, 42))
    assert len(allowed.source.other.sent) == 2
    allowed.loop.fire()
    assert not allowed.session.closed


async def test_a_leader_that_was_and_does_not_answer_ends_the_connection(allowed: Conversation) -> None:
    """The client sends all of it again, in order, to the new one."""
    allowed.says(produce(1, ("mirrored", 0), batch=numbered(0)))
    allowed.source.moves("mirrored")
    allowed.says(produce(2, ("mirrored", 0), batch=numbered(3)))
    assert allowed.loop.timers[0].delay == ANSWERS_S
    allowed.loop.fire()
    assert allowed.session.closed
    assert not allowed.source.other.sent
    allowed.source.node.answer(None)


async def test_what_follows_a_batch_that_the_source_refused_waits_for_it(allowed: Conversation) -> None:
    """One of the two went to a broker that leads no more; the third must not come before it to the one that does."""
    moved = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    for correlation_id, sequence in ((1, 0), (2, 3)):
        allowed.says(produce(correlation_id, ("mirrored", 0), batch=numbered(sequence)))
    source_answers(allowed, PartitionResult("mirrored", 0, moved, -1))
    allowed.source.moves("mirrored")
    allowed.says(produce(3, ("mirrored", 0), batch=numbered(6)))
    assert not allowed.source.other.sent
    source_answers(allowed, PartitionResult("mirrored", 0, moved, -1))
    assert [part.error_code for (part,) in answers(allowed)] == [moved, moved, int(ErrorCode.NOT_ENOUGH_REPLICAS)]
    for correlation_id, sequence in ((4, 0), (5, 3), (6, 6)):
        allowed.says(produce(correlation_id, ("mirrored", 0), batch=numbered(sequence)))
    assert len(allowed.source.other.sent) == 3


async def test_what_the_source_refused_for_good_is_not_waited_for(allowed: Conversation) -> None:
    allowed.says(produce(1, ("mirrored", 0), batch=numbered(0)))
    source_answers(allowed, PartitionResult("mirrored", 0, int(ErrorCode.MESSAGE_TOO_LARGE), -1))
    allowed.says(produce(2, ("mirrored", 0), batch=numbered(3)))
    assert len(allowed.source.node.sent) == 2


async def test_an_unknown_outcome_closes_the_connection_and_is_remembered(allowed: Conversation) -> None:
    allowed.says(produce(1, ("mirrored", 0)))
    allowed.source.node.answer(None)
    assert allowed.session.closed
    assert await allowed.forwarder.drain("mirrored") == 1


async def test_ack_both_waits_for_the_mirror(allowed: Conversation) -> None:
    allowed.context.routing.publish(routing_of({"mirrored": route("mirrored", ack=Ack.BOTH)}))
    allowed.says(produce(1, ("mirrored", 0)))
    source_answers(allowed, PartitionResult("mirrored", 0, 0, 42))
    allowed.progress.advance("mirrored", 0, 44)
    assert answers(allowed) == []
    allowed.progress.advance("mirrored", 0, 45)
    assert answers(allowed) == [[PartitionResult("mirrored", 0, 0, 42)]]


async def test_ack_both_times_out_as_acks_all_would(allowed: Conversation) -> None:
    allowed.context.routing.publish(routing_of({"mirrored": route("mirrored", ack=Ack.BOTH)}))
    allowed.says(produce(1, ("mirrored", 0)))
    source_answers(allowed, PartitionResult("mirrored", 0, 0, 42))
    allowed.loop.fire()
    assert answers(allowed)[0][0].error_code == ErrorCode.REQUEST_TIMED_OUT
    allowed.progress.advance("mirrored", 0, 45)
    assert answers(allowed) == []


async def test_ack_both_ends_with_a_failover_and_what_follows_waits_for_the_retry(allowed: Conversation) -> None:
    """What the mirror has not copied stays behind: no offset of another mirror period makes a success of it."""

    def publish(phase: WritePhase) -> None:
        more = {"ack": Ack.BOTH, "goes_on": phase is not WritePhase.SWITCHED, "producers": ((),)}
        allowed.context.routing.publish(routing_of({"mirrored": route("mirrored", phase, **more)}))

    publish(WritePhase.FORWARD)
    allowed.says(produce(1, ("mirrored", 0)))
    source_answers(allowed, PartitionResult("mirrored", 0, 0, 42))
    publish(WritePhase.PAUSED)
    following = make_batch(0, 3, producer_id=2**49 + 7, epoch=0, sequence=8)
    allowed.says(produce(2, ("mirrored", 0), batch=following))
    assert answers(allowed) == []
    publish(WritePhase.SWITCHED)
    ended, early = answers(allowed)
    assert ended[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    assert is_retriable(early[0].error_code)
    assert allowed.broker.take() == b""
    allowed.progress.advance("mirrored", 0, 45)
    assert answers(allowed) == []
    allowed.says(again := produce(3, ("mirrored", 0)))
    assert allowed.broker.take() == again


async def test_ack_both_goes_on_over_a_promote(allowed: Conversation) -> None:
    """Nothing is left behind: another gateway has yet to tell how far its mirror came."""
    for phase in (WritePhase.FORWARD, WritePhase.PAUSED, WritePhase.SWITCHED):
        allowed.context.routing.publish(routing_of({"mirrored": route("mirrored", phase, ack=Ack.BOTH)}))
        if phase is WritePhase.FORWARD:
            allowed.says(produce(1, ("mirrored", 0)))
            source_answers(allowed, PartitionResult("mirrored", 0, 0, 42))
    assert answers(allowed) == []
    allowed.progress.heard("mirrored", 0, 45)
    assert answers(allowed) == [[PartitionResult("mirrored", 0, 0, 42)]]


async def test_a_write_pause_holds_and_the_cutover_sends_to_the_target_in_order(allowed: Conversation) -> None:
    allowed.context.routing.publish(routing_of({"mirrored": route("mirrored", WritePhase.PAUSED)}))
    first, second = produce(1, ("mirrored", 0)), produce(2, ("mirrored", 0))
    allowed.says(first + second)
    assert allowed.source.node.sent == []
    assert allowed.context.stats.held == {"mirrored": 1}
    allowed.context.routing.publish(routing_of({"mirrored": route("mirrored", WritePhase.SWITCHED)}))
    assert allowed.broker.take() == first + second


async def test_an_aborted_write_pause_sends_on_to_the_source(allowed: Conversation) -> None:
    allowed.context.routing.publish(routing_of({"mirrored": route("mirrored", WritePhase.PAUSED)}))
    allowed.says(produce(1, ("mirrored", 0)))
    allowed.context.routing.publish(routing_of({"mirrored": route("mirrored")}))
    assert len(allowed.source.node.sent) == 1


async def test_a_write_pause_that_takes_too_long_refuses_without_appending(allowed: Conversation) -> None:
    allowed.context.routing.publish(routing_of({"mirrored": route("mirrored", WritePhase.PAUSED)}))
    allowed.says(produce(1, ("mirrored", 0)))
    assert allowed.loop.timers[0].delay == pytest.approx(4.0)  # 80 % of the request's own 5 s
    allowed.loop.fire()
    assert answers(allowed)[0][0].error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    allowed.context.routing.publish(routing_of({"mirrored": route("mirrored", WritePhase.SWITCHED)}))
    assert allowed.broker.take() == b""
    assert allowed.source.node.sent == []


async def test_a_retry_over_the_cutover_is_answered_with_its_old_offset(allowed: Conversation) -> None:
    table = ((ProducerEntry(2**49 + 7, 0, 5, 7, 42),),)
    allowed.context.routing.publish(routing_of({"mirrored": route("mirrored", WritePhase.SWITCHED, producers=table)}))
    allowed.says(produce(1, ("mirrored", 0)))
    assert allowed.broker.take() == b""
    assert answers(allowed)[0][0] == PartitionResult("mirrored", 0, 0, 42)
    following = produce(2, ("mirrored", 0), batch=make_batch(0, 3, producer_id=2**49 + 7, epoch=0, sequence=8))
    allowed.says(following)
    assert allowed.broker.take() == following


async def test_where_a_retried_batch_is_is_told_to_who_may_write_there(allowed: Conversation) -> None:
    allowed.session.authorized["mirrored"] = (allowed.clock(), False)
    table = ((ProducerEntry(2**49 + 7, 0, 5, 7, 42),),)
    allowed.context.routing.publish(routing_of({"mirrored": route("mirrored", WritePhase.SWITCHED, producers=table)}))
    allowed.says(produce(1, ("mirrored", 0)))
    assert allowed.broker.take() == b""
    ((result,),) = answers(allowed)
    assert (result.error_code, result.base_offset) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1)


async def test_an_unknown_leader_is_waited_for_then_refused_retriably(allowed: Conversation) -> None:
    allowed.source.topics.clear()
    allowed.says(produce(1, ("mirrored", 0)))
    await allowed.run_pending()
    assert answers(allowed)[0][0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not allowed.session.closed


@pytest.mark.parametrize("version", [3, 8, 9])
async def test_a_write_to_another_topic_alone_is_passed_on_as_it_arrives(mirrored: Conversation, version: int) -> None:
    request = produce(5, ("other", 0), ("other", 1), version=version)
    mirrored.says(request[:100])
    assert mirrored.broker.take() == request[:100]
    mirrored.says(request[100:] + produce(6, ("other", 2), version=version))
    assert mirrored.broker.take() == request[100:] + produce(6, ("other", 2), version=version)


@pytest.mark.parametrize("version", [3, 8, 9])
@pytest.mark.parametrize("topics", [("other", "another"), ("mirrored",)])
async def test_a_write_to_two_topics_or_to_a_mirrored_one_is_looked_at_whole(
    mirrored: Conversation, version: int, topics: tuple[str, ...]
) -> None:
    mirrored.says(produce(5, *((topic, 0) for topic in topics), version=version)[:100])
    assert mirrored.broker.take() == b""


async def test_once_a_write_was_refused_the_next_ones_are_looked_at(mirrored: Conversation) -> None:
    mirrored.session.pipeline.refused([("other", 0, 7, 0, 3)], mirrored.clock())
    mirrored.says(produce(5, ("other", 0))[:100])
    assert mirrored.broker.take() == b""


@pytest.mark.parametrize("acks", [-1, 0])
async def test_a_write_held_without_its_broker_over_the_cutover_ends_the_connection(
    talk: Conversation, acks: int
) -> None:
    """Nobody would ever answer it here: what its producer sends to the next leader meanwhile would come before it."""
    talk.context.routing.publish(routing_of({"mirrored": route("mirrored", WritePhase.PAUSED)}))
    talk.context.rights.remember("", "mirrored", True, talk.clock.now)
    without_broker(talk)
    talk.says(produce(1, ("mirrored", 0), acks=acks))
    assert not talk.session.closed
    talk.context.routing.publish(routing_of({"mirrored": route("mirrored", WritePhase.SWITCHED)}))
    assert talk.client.closed
    assert talk.client.take() == b""


async def test_a_write_held_without_its_broker_goes_on_to_the_source(talk: Conversation) -> None:
    talk.context.routing.publish(routing_of({"mirrored": route("mirrored", WritePhase.PAUSED)}))
    talk.context.rights.remember("", "mirrored", True, talk.clock.now)
    without_broker(talk)
    talk.says(produce(1, ("mirrored", 0)))
    talk.context.routing.publish(routing_of({"mirrored": route("mirrored")}))
    source_answers(talk, PartitionResult("mirrored", 0, 0, 42))
    assert answers(talk) == [[PartitionResult("mirrored", 0, 0, 42)]]


async def test_a_partition_that_the_source_does_not_have_keeps_no_other_one_waiting(talk: Conversation) -> None:
    """Somebody has added it on the target: the request was planned again and again, and the others' batches with it."""
    talk.session.authorized["mirrored"] = (talk.clock(), True)
    talk.context.routing.publish(routing_of({"mirrored": route("mirrored")}))
    talk.source.view.topics = {"mirrored": SimpleNamespace(partitions={0: None})}
    leader = talk.source.leader
    talk.source.leader = lambda topic, partition: leader(topic, partition) if partition == 0 else None  # type: ignore[method-assign]

    talk.says(produce(1, ("mirrored", 0), ("mirrored", 1)))
    source_answers(talk, PartitionResult("mirrored", 0, 0, 40))

    (results,) = answers(talk)
    assert {(one.partition, one.error_code) for one in results} == {
        (0, 0),
        (1, int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)),
    }
    assert talk.source.invalidated == ["mirrored"]
    talk.says(produce(2, ("mirrored", 1)))
    (results,) = answers(talk)
    assert [one.error_code for one in results] == [int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
