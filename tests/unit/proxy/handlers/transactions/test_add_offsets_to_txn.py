"""A gated group's offsets, when transactions pass as they are: no producer retries anything from before a cutover."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import pytest

from gateway.cutover.write_pause.rules.routing import WritePhase, routing_of
from protocol.apis import ApiKey
from protocol.codec import decode_response, encode_request
from protocol.errors import ErrorCode
from protocol.header import response_body_offset
from protocol.messages import AddOffsetsToTxnRequest
from tests.support.control.gates import gate
from tests.support.waiting import wait_until_async
from tests.unit.proxy.handlers.test_produce import route

if TYPE_CHECKING:
    from tests.support.proxy.conversation import Conversation

VERSION: Final = 3
ADDS: Final = encode_request(
    AddOffsetsToTxnRequest(transactional_id="tx", producer_id=7, producer_epoch=0, group_id="g"), VERSION, 1, "me"
)


@pytest.fixture
async def promoted(talk: Conversation) -> Conversation:
    """Its only topic was promoted long ago."""
    talk.context.routing.publish(routing_of({"a": route("a", WritePhase.SWITCHED)}))
    assert not talk.context.routing.current.intercepts_produce
    talk.gates.enabled = True
    return talk


async def test_offsets_of_a_group_that_still_reads_on_the_source_are_refused_for_good(promoted: Conversation) -> None:
    """On the target they would be nobody's, and its promote would carry older ones over."""
    gate(promoted.gates, "g", is_open=False)
    promoted.says(ADDS)
    await asyncio.gather(*promoted.context.tasks)
    (frame,) = promoted.client.frames()
    key, view = ApiKey.ADD_OFFSETS_TO_TXN, memoryview(frame)
    answer = decode_response(key, VERSION, view[response_body_offset(key, VERSION, view) :])
    assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert promoted.broker.take() == b""


async def test_those_of_a_promoted_group_pass(promoted: Conversation) -> None:
    gate(promoted.gates, "g", is_open=True)
    promoted.says(ADDS)
    assert promoted.broker.take() == ADDS


async def test_those_of_a_group_that_nobody_knows_wait_until_somebody_does(promoted: Conversation) -> None:
    asked: list[str] = []
    promoted.gates.on_unknown = asked.append
    promoted.says(ADDS)
    await wait_until_async(lambda: asked == ["g"], 5.0)
    assert promoted.broker.take() == b""
    promoted.gates.let_in("g", 0)
    await asyncio.gather(*promoted.context.tasks)
    assert promoted.broker.take() == ADDS
