"""Without a valid lease no request of a transaction goes to the target: its topics may have failed back meanwhile."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import pytest

from gateway.cutover.write_pause.rules.routing import WritePhase, routing_of
from gateway.proxy.rules.transactional_ids import OWN
from gateway.proxy.transactions.coordinators import SeenTransaction
from protocol.apis import ApiKey
from protocol.codec import decode_response, encode_body
from protocol.errors import ErrorCode
from protocol.header import frame_request, peek_request_header, response_body_offset
from protocol.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    TxnOffsetCommitRequest,
)
from tests.unit.proxy.handlers.test_produce import route
from tests.unit.proxy.produce.test_lease import Lease
from tests.unit.proxy.transactions.test_transactions import CLIENT, NOTHING, Lab

if TYPE_CHECKING:
    from tests.support.proxy.conversation import Conversation

VERSION: Final = 3
_KNOWN: Final[dict[str, Any]] = {
    "transactional_id": "tx",
    "producer_id": CLIENT.producer_id,
    "producer_epoch": CLIENT.epoch,
}
_TOPIC: Final = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name="a", partitions=[0])
ADDS_PARTITIONS: Final = AddPartitionsToTxnRequest(
    v3_and_below_transactional_id="tx",
    v3_and_below_producer_id=CLIENT.producer_id,
    v3_and_below_producer_epoch=CLIENT.epoch,
    v3_and_below_topics=[_TOPIC],
)
ADDS_OFFSETS: Final = AddOffsetsToTxnRequest(**_KNOWN, group_id="g")
ENDS: Final = EndTxnRequest(**_KNOWN, committed=True)
COMMITS_OFFSETS: Final = TxnOffsetCommitRequest(
    **_KNOWN, group_id="g", generation_id=1, member_id="m", group_instance_id=None, topics=[]
)
OPEN: Final = SeenTransaction(CLIENT, "Ongoing", 60_000, frozenset({"a", "__consumer_offsets"}))


class Talk:
    """A producer whose topic is written on the target, and a gateway whose lease is over."""

    def __init__(self, talk: Conversation) -> None:
        self.talk, self.lab, self.lease = talk, Lab(), Lease()
        self.lease.over = True
        talk.lease(self.lease)
        talk.install(transactions=self.lab.transactions)
        talk.context.routing.publish(routing_of({"a": route("a", WritePhase.SWITCHED, counted=True)}))
        self.lab.kept()
        self.lab.coordinators.seen[OWN] = OPEN

    async def asks(self, message: Any) -> list[int]:
        """The API keys of the requests that went on to the target."""
        key = int(message.API_KEY)
        self.talk.says(frame_request(key, VERSION, 1, "me", encode_body(message, VERSION)))
        await asyncio.gather(*self.talk.context.tasks)
        return [peek_request_header(memoryview(frame)).api_key for frame in self.talk.broker.frames()]

    def answered(self, message: Any) -> Any:
        """The only answer that the client has got."""
        (frame,) = self.talk.client.frames()
        key, view = int(message.API_KEY), memoryview(frame)
        return decode_response(key, VERSION, view[response_body_offset(key, VERSION, view) :])


@pytest.fixture
async def paused(talk: Conversation) -> Talk:
    return Talk(talk)


@pytest.mark.parametrize("message", [ADDS_PARTITIONS, ADDS_OFFSETS, ENDS, COMMITS_OFFSETS], ids=lambda m: m.API_KEY)
async def test_nothing_of_a_transaction_is_sent_to_the_target_without_a_lease(paused: Talk, message: Any) -> None:
    assert await paused.asks(message) == []
    assert len(paused.talk.client.frames()) == 1
    assert not paused.talk.session.closed
    paused.lease.over = False
    assert await paused.asks(message) == [int(message.API_KEY)]


@pytest.mark.parametrize("message", [ADDS_OFFSETS, ENDS], ids=lambda m: m.API_KEY)
async def test_the_client_is_to_try_again(paused: Talk, message: Any) -> None:
    await paused.asks(message)
    assert paused.answered(message).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def test_what_was_not_sent_has_opened_nothing(paused: Talk) -> None:
    paused.lab.coordinators.seen[OWN] = SeenTransaction(CLIENT, "CompleteCommit", 60_000, NOTHING)
    await paused.asks(ADDS_PARTITIONS)
    producer = paused.lab.transactions.known("tx", CLIENT)
    assert producer is not None
    assert producer.open is None


async def test_an_end_that_was_not_sent_is_still_to_be_asked_for(paused: Talk) -> None:
    await paused.asks(ENDS)
    producer = paused.lab.transactions.known("tx", CLIENT)
    assert producer is not None
    assert producer.open is not None
    assert producer.open.result is None


async def test_an_answer_to_offsets_that_comes_after_the_lease_is_not_passed_on(paused: Talk) -> None:
    paused.lease.over = False
    assert await paused.asks(COMMITS_OFFSETS) == [int(ApiKey.TXN_OFFSET_COMMIT)]
    paused.lease.over = True
    paused.talk.broker_says(1)
    assert paused.talk.client.take() == b""
    assert paused.talk.session.closed
