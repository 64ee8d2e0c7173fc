"""Without a valid lease nothing is written that a write pause concerns, and nothing that was is acknowledged."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest

from gateway.cutover.write_pause.rules.routing import WritePhase, routing_of
from gateway.proxy.rules.transactional_ids import TransactionSide
from gateway.proxy.transactions.coordinators import Lost, Refused, TransactionCoordinators
from gateway.state.ack import Ack
from protocol.apis import ApiKey
from protocol.codec import encode_body
from protocol.errors import ErrorCode
from protocol.header import frame_request, frame_response, peek_request_header
from protocol.messages import OffsetCommitRequest
from protocol.produce import PartitionResult, build_response_body
from tests.support.control.gates import commits_under_way, gate
from tests.unit.proxy.handlers.test_produce import answers, produce, route, source_answers

if TYPE_CHECKING:
    from tests.support.proxy.conversation import Conversation

OFFSET_COMMIT = int(ApiKey.OFFSET_COMMIT)


class Lease:
    """Valid until `over`."""

    def __init__(self) -> None:
        self.over = False

    def __call__(self) -> bool:
        return not self.over


@pytest.fixture
def lease() -> Lease:
    return Lease()


@pytest.fixture
async def leased(talk: Conversation, lease: Lease) -> Conversation:
    talk.lease(lease)
    talk.install()
    for topic in ("mirrored", "back"):
        talk.session.authorized[topic] = (talk.clock(), True)
    back = route("back", WritePhase.SWITCHED, counted=True)
    talk.context.routing.publish(routing_of({"mirrored": route("mirrored"), "back": back}))
    return talk


async def unknown(talk: Conversation, topic: str) -> int:
    return await talk.forwarder.drain(topic)


async def test_after_its_end_a_write_is_refused_retriably(leased: Conversation, lease: Lease) -> None:
    lease.over = True
    leased.says(produce(1, ("mirrored", 0)))
    assert leased.source.node.sent == []
    assert answers(leased)[0][0].error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    lease.over = False  # heard again
    leased.says(produce(2, ("mirrored", 0)))
    assert len(leased.source.node.sent) == 1


async def test_an_answer_that_comes_after_its_end_is_not_passed_on(leased: Conversation, lease: Lease) -> None:
    leased.says(produce(1, ("mirrored", 0)))
    lease.over = True
    source_answers(leased, PartitionResult("mirrored", 0, 0, 42))
    assert leased.client.take() == b""
    assert leased.session.closed
    assert await unknown(leased, "mirrored") == 1


async def test_what_no_write_pause_concerns_needs_no_lease(leased: Conversation, lease: Lease) -> None:
    lease.over = True
    leased.says(produce(1, ("plain", 0)))
    assert len(leased.broker.frames()) == 1


async def test_writes_that_a_failback_waits_for_are_under_it_too(leased: Conversation, lease: Lease) -> None:
    before = await unknown(leased, "back")
    leased.says(produce(1, ("back", 0)))
    (frame,) = leased.broker.frames()
    lease.over = True
    header = peek_request_header(memoryview(frame))
    body = build_response_body(header.api_version, [PartitionResult("back", 0, 0, 42)])
    leased.session.upstream_data(frame_response(header.api_key, header.api_version, header.correlation_id, body))
    assert leased.client.take() == b""
    assert leased.session.closed
    assert await unknown(leased, "back") == before + 1


async def test_and_are_refused_after_its_end(leased: Conversation, lease: Lease) -> None:
    lease.over = True
    leased.says(produce(1, ("back", 0)))
    assert answers(leased)[0][0].error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert leased.broker.frames() == []


async def test_what_was_passed_on_before_it_was_counted_is_not_acknowledged(talk: Conversation, lease: Lease) -> None:
    talk.lease(lease)
    talk.install()
    talk.says(produce(1, ("back", 0)))
    talk.broker.take()
    talk.context.routing.publish(routing_of({"back": route("back", WritePhase.SWITCHED, counted=True)}))
    lease.over = True
    body = build_response_body(9, [PartitionResult("back", 0, 0, 42)])
    talk.session.upstream_data(frame_response(int(ApiKey.PRODUCE), 9, 1, body))
    assert talk.client.take() == b""
    assert talk.session.closed


@pytest.fixture
async def promoted(leased: Conversation) -> Conversation:
    """A topic that was promoted so long ago that its writes pass untouched."""
    leased.context.routing.publish(routing_of({"promoted": route("promoted", WritePhase.SWITCHED)}))
    return leased


def target_answers(talk: Conversation, correlation_id: int, topic: str) -> None:
    body = build_response_body(9, [PartitionResult(topic, 0, 0, 42)])
    talk.session.upstream_data(frame_response(int(ApiKey.PRODUCE), 9, correlation_id, body))


@pytest.mark.parametrize("parts", [("promoted",), ("plain", "promoted")])
async def test_a_promoted_topic_may_have_failed_back_since(
    promoted: Conversation, lease: Lease, parts: tuple[str, ...]
) -> None:
    lease.over = True
    promoted.says(produce(1, *((topic, 0) for topic in parts)))
    assert promoted.broker.frames() == []
    assert {result.error_code for result in answers(promoted)[0]} == {ErrorCode.NOT_ENOUGH_REPLICAS}
    lease.over = False
    promoted.says(produce(2, ("promoted", 0)))
    assert len(promoted.broker.frames()) == 1


@pytest.mark.parametrize("size", [1, 10_000])
async def test_what_passed_untouched_is_acknowledged_in_time_or_not_at_all(
    promoted: Conversation, lease: Lease, size: int
) -> None:
    data = produce(1, ("promoted", 0))
    for at in range(0, len(data), size):
        promoted.says(data[at : at + size])
    assert len(promoted.broker.frames()) == 1
    lease.over = True
    target_answers(promoted, 1, "promoted")
    assert promoted.client.take() == b""
    assert promoted.session.closed


async def test_without_a_lease_topics_that_were_never_mirrored_are_served(promoted: Conversation, lease: Lease) -> None:
    lease.over = True
    for correlation_id in (1, 2):
        promoted.says(produce(correlation_id, ("plain", 0)))
        assert len(promoted.broker.frames()) == 1
        target_answers(promoted, correlation_id, "plain")
        assert answers(promoted)[0][0].base_offset == 42


async def test_with_acks_of_both_the_source_must_have_answered_in_time(leased: Conversation, lease: Lease) -> None:
    """What the mirror has copied besides is on the target, where no write pause loses it."""
    leased.context.routing.publish(routing_of({"mirrored": route("mirrored", ack=Ack.BOTH)}))
    leased.says(produce(1, ("mirrored", 0)))
    source_answers(leased, PartitionResult("mirrored", 0, 0, 42))
    lease.over = True
    leased.progress.advance("mirrored", 0, 45)
    assert answers(leased)[0][0].base_offset == 42


async def test_commits_of_an_open_group_pass_only_with_a_lease(leased: Conversation, lease: Lease) -> None:
    leased.gates.enabled = True
    gate(leased.gates, "readers", is_open=True)
    body = encode_body(OffsetCommitRequest(group_id="readers", topics=[]), 8)
    lease.over = True
    leased.says(frame_request(OFFSET_COMMIT, 8, 1, "me", body))
    leased.loop.fire()  # held as at a closed gate, and told to come again
    assert leased.broker.frames() == []
    assert len(leased.client.frames()) == 1
    lease.over = False
    leased.says(frame_request(OFFSET_COMMIT, 8, 2, "me", body))
    assert len(leased.broker.frames()) == 1
    lease.over = True
    leased.client.take()
    leased.broker_says(2, b"\x00" * 8)
    assert leased.client.take() == b""
    assert leased.session.closed
    assert not commits_under_way(leased.gates, "readers")


class Coordinator:
    """A cluster whose coordinator answers as soon as it is told to."""

    def __init__(self) -> None:
        self.view = type("View", (), {"cluster_id": "west"})()
        self.asked = asyncio.Event()
        self.answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def transaction_coordinator(self, name: str, timeout_s: float) -> int:
        return 1

    def invalidate_transaction_coordinator(self, name: str, node: int | None = None) -> None:
        raise AssertionError("no answer of it was an error")

    async def connection(self, node: int, lane: str, timeout_s: float) -> Any:
        return self

    def version(self, key: int, cap: int) -> int:
        return 0

    async def request(self, message: Any, cap: int, timeout_s: float) -> str:
        self.asked.set()
        return await self.answer


async def test_requests_of_transactions_are_neither_sent_nor_answered_without_it(lease: Lease) -> None:
    cluster = Coordinator()
    coordinators = TransactionCoordinators(cast("Any", cluster), {"west": cast("Any", cluster)}, lease)
    message = type("Message", (), {"API_KEY": 26})()
    lease.over = True
    with pytest.raises(Refused):
        await coordinators.call(TransactionSide("west"), "tx", message, 3)
    assert not cluster.asked.is_set()
    lease.over = False
    sent = asyncio.create_task(coordinators.call(TransactionSide("west"), "tx", message, 3))
    await cluster.asked.wait()
    lease.over = True
    cluster.answer.set_result("ended")
    with pytest.raises(Lost):
        await sent


@pytest.mark.parametrize("topics", [("mirrored",), ("back",), ("mirrored", "back"), ("plain", "mirrored")])
async def test_what_it_was_asked_for_leaves_under_it(leased: Conversation, topics: tuple[str, ...]) -> None:
    under_lease: list[bool] = []

    class Written:
        to_broker = True

        def flush(self) -> None:
            under_lease.append(leased.context.wires.under_lease)

    leased.context.wires.dirty.append(cast("Any", Written()))
    leased.says(produce(1, *((topic, 0) for topic in topics)))
    assert under_lease == [True]


async def test_at_its_end_what_the_target_may_not_have_is_taken_back(leased: Conversation, lease: Lease) -> None:
    before = await unknown(leased, "back")
    leased.says(produce(1, ("back", 0)))
    lease.over = True
    leased.context.lease_over()
    assert leased.broker.taken_back
    assert leased.session.closed
    assert await unknown(leased, "back") == before + 1


@pytest.mark.parametrize("waits", [True, False])
async def test_at_its_end_a_connection_without_writes_goes_on(leased: Conversation, lease: Lease, waits: bool) -> None:
    leased.says(frame_request(int(ApiKey.API_VERSIONS), 0, 1, "me", b""))
    leased.broker.waiting = waits  # a Produce with acks=0, say
    lease.over = True
    leased.context.lease_over()
    assert leased.session.closed is leased.broker.taken_back is waits


async def test_where_nothing_is_mirrored_it_may_end(talk: Conversation) -> None:
    talk.says(produce(1, ("plain", 0)))
    talk.context.lease_over()
    assert not talk.session.closed
