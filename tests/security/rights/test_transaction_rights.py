"""Nothing of a transaction is locked, looked up or sent on for a client before the target has said that it may."""

from __future__ import annotations

import asyncio
import gc
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from gateway.cutover.write_pause.rules.routing import routing_of
from gateway.proxy.transactions.coordinator_calls import require_transactional
from gateway.proxy.transactions.coordinators import Refused, TransactionCoordinators, offsets_name
from protocol.apis import ApiKey
from protocol.codec import decode_request, decode_response, encode_body, encode_response
from protocol.errors import ErrorCode
from protocol.header import frame_request, peek_request_header, response_body_offset
from protocol.messages import (
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    EndTxnResponse,
    MetadataResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from tests.support.control.gates import gate
from tests.support.proxy.login import READ
from tests.unit.proxy.handlers.test_produce import route
from tests.unit.proxy.transactions.test_transactions import CLIENT, SOURCE, Lab

if TYPE_CHECKING:
    from tests.support.proxy.conversation import Conversation
    from tests.support.proxy.login import LoggingIn

VERSION = 3


class Talk:
    """A producer whose transaction is on the source, seen there with one group's partition of offsets."""

    def __init__(self, talk: Conversation) -> None:
        self.talk, self.lab = talk, Lab()
        self.lab.kept()
        self.lab.seen("Ongoing", "a", offsets_name(4))
        self.sent: list[Any] = []
        coordinators = cast("Any", self.lab.coordinators)
        coordinators.offsets_name_of = self._offsets_name_of
        coordinators.call_group = self._call_group
        talk.install(transactions=self.lab.transactions)
        talk.context.routing.publish(routing_of({"a": route("a"), "b": route("b")}))

    async def _offsets_name_of(self, side: object, group: str) -> str:
        return offsets_name({"mine": 4, "other": 5}[group])

    async def _call_group(self, side: object, group: str, message: Any, cap: int) -> Any:
        self.sent.append((group, [topic.name for topic in message.topics]))
        kind = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
        part = kind.TxnOffsetCommitResponsePartition
        topics = [kind(name=t.name, partitions=[part(partition_index=0, error_code=0)]) for t in message.topics]
        return TxnOffsetCommitResponse(throttle_time_ms=0, topics=topics)

    def end(self) -> None:
        message = EndTxnRequest(
            transactional_id="tx", producer_id=CLIENT.producer_id, producer_epoch=CLIENT.epoch, committed=True
        )
        self.talk.says(frame_request(int(ApiKey.END_TXN), VERSION, 1, "me", encode_body(message, VERSION)))

    def offsets(self, group: str, *topics: str) -> None:
        kind = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        part = kind.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
        message = TxnOffsetCommitRequest(
            transactional_id="tx",
            producer_id=CLIENT.producer_id,
            producer_epoch=CLIENT.epoch,
            group_id=group,
            generation_id=1,
            member_id="m",
            group_instance_id=None,
            topics=[kind(name=topic, partitions=[part]) for topic in topics],
        )
        self.talk.says(frame_request(int(ApiKey.TXN_OFFSET_COMMIT), VERSION, 1, "me", encode_body(message, VERSION)))

    async def turns(self, count: int = 20) -> None:
        for _ in range(count):
            await self.talk.turn()

    async def target_says(self, key: ApiKey, code: int = 0, **operations: int) -> Any:
        """Answer the one question that is on its way to the target; returns what was asked."""
        await self.turns()
        (frame,) = self.talk.broker.frames()
        header = peek_request_header(memoryview(frame))
        assert (header.api_key, header.client_id) == (key, "lockgate")
        answer: Any
        if key is ApiKey.METADATA:
            kind = MetadataResponse.MetadataResponseTopic
            topics = [kind(name=t, partitions=[], topic_authorized_operations=o) for t, o in operations.items()]
            answer = MetadataResponse(brokers=[], topics=topics)
        else:
            answer = {ApiKey.END_TXN: EndTxnResponse, ApiKey.ADD_OFFSETS_TO_TXN: AddOffsetsToTxnResponse}[key](
                throttle_time_ms=0, error_code=code
            )
        self.talk.session.upstream_data(encode_response(answer, int(key), header.api_version, header.correlation_id))
        await self.turns()
        return decode_request(header.api_key, header.api_version, memoryview(frame)[header.body_offset :])

    def codes(self) -> dict[str, int]:
        (frame,) = self.talk.client.frames()
        view, key = memoryview(frame), int(ApiKey.TXN_OFFSET_COMMIT)
        answer = decode_response(key, VERSION, view[response_body_offset(key, VERSION, view) :])
        return {topic.name: topic.partitions[0].error_code for topic in answer.topics}


@pytest.fixture
async def plain(talk: Conversation) -> Talk:
    """The target asks for no login."""
    return Talk(talk)


@pytest.fixture
async def alice(secured: LoggingIn) -> Talk:
    """It does, and has taken alice's."""
    secured.plain("alice")
    secured.talk.says(b"\x00\x00\x00\x10\x00\x0c\x00\x03\x00\x00\x00\x07\x00\x02me\x00\x00\x00\x00")
    await secured.broker_takes_it()
    secured.talk.broker.take()
    secured.talk.session.upstream_data(b"\x00\x00\x00\x04\x00\x00\x00\x07")
    secured.talk.client.take()
    return Talk(secured.talk)


async def test_no_lock_is_taken_for_a_name_before_the_target_has_agreed(alice: Talk) -> None:
    alice.end()
    await alice.turns()
    assert not alice.lab.transactions.lock("tx").locked()
    await alice.target_says(ApiKey.END_TXN, int(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    assert alice.lab.transactions.known("tx", CLIENT) is None
    assert not alice.talk.context.tasks


async def test_a_lock_is_let_go_when_the_connection_ends(plain: Talk) -> None:
    plain.end()
    await plain.turns()
    assert plain.lab.transactions.lock("tx").locked()
    plain.talk.session.close("target broker closed")
    await asyncio.wait_for(asyncio.gather(*plain.talk.context.tasks, return_exceptions=True), 5)
    assert not plain.lab.transactions.lock("tx").locked()


async def test_locks_go_with_who_holds_them(plain: Talk) -> None:
    transactions = plain.lab.transactions
    for number in range(100):
        async with transactions.lock(f"tx{number}"):
            pass
    gc.collect()
    assert len(transactions._locks) == 0


@pytest.mark.parametrize(
    "code", [ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.REQUEST_TIMED_OUT]
)
async def test_only_what_coordinators_say_to_who_may_counts_as_leave(plain: Talk, code: ErrorCode) -> None:
    asked = asyncio.create_task(require_transactional(plain.talk.session, "tx"), name="ask")
    await plain.target_says(ApiKey.END_TXN, int(code))
    with pytest.raises(Refused):
        await asked


async def test_what_was_said_of_one_name_is_not_said_of_another(plain: Talk) -> None:
    session = plain.talk.session
    asked = asyncio.create_task(require_transactional(session, "a", "b//"), name="ask")
    await plain.target_says(ApiKey.ADD_OFFSETS_TO_TXN, int(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
    await asked
    again = asyncio.create_task(require_transactional(session, "a//b"), name="ask")
    await plain.target_says(ApiKey.END_TXN, int(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    with pytest.raises(Refused):
        await again


async def test_offsets_need_read_on_the_group_and_on_each_topic(plain: Talk) -> None:
    plain.talk.gates.enabled = True
    gate(plain.talk.gates, "mine", is_open=False)  # it is on the source, as its transaction is
    plain.offsets("mine", "a", "b")
    await plain.target_says(ApiKey.ADD_OFFSETS_TO_TXN, int(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
    asked = await plain.target_says(ApiKey.METADATA, a=READ, b=1 << 4)
    assert [topic.name for topic in asked.topics] == ["a", "b"]
    assert plain.sent == [("mine", ["a"])]
    assert plain.codes() == {"a": 0, "b": int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)}


async def test_offsets_of_a_group_that_it_may_not_read_are_refused(plain: Talk) -> None:
    plain.offsets("mine", "a")
    await plain.target_says(ApiKey.ADD_OFFSETS_TO_TXN, int(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    assert plain.sent == []
    assert plain.codes() == {"a": int(ErrorCode.GROUP_AUTHORIZATION_FAILED)}


async def test_a_topic_that_the_link_keeps_from_clients_is_taken_into_no_transaction(plain: Talk) -> None:
    """`link.client.topic.filters`: whatever the target allows."""
    plain.talk.context.routing.publish(routing_of({"a": route("a", by_clients=False), "b": route("b")}))
    kind = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
    message = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="tx",
        v3_and_below_producer_id=CLIENT.producer_id,
        v3_and_below_producer_epoch=CLIENT.epoch,
        v3_and_below_topics=[kind(name=topic, partitions=[0]) for topic in ("a", "b")],
    )
    key = int(ApiKey.ADD_PARTITIONS_TO_TXN)
    plain.talk.says(frame_request(key, VERSION, 1, "me", encode_body(message, VERSION)))
    await plain.target_says(ApiKey.END_TXN, int(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
    await plain.target_says(ApiKey.METADATA, a=1 << 4, b=1 << 4)
    (frame,) = plain.talk.client.frames()
    view = memoryview(frame)
    answer = decode_response(key, VERSION, view[response_body_offset(key, VERSION, view) :])
    codes = {t.name: t.results_by_partition[0].partition_error_code for t in answer.results_by_topic_v3_and_below}
    refused, rest = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.OPERATION_NOT_ATTEMPTED
    assert codes == {"a": int(refused), "b": int(rest)}


async def test_a_transaction_that_was_found_open_has_the_groups_of_its_partitions_only(plain: Talk) -> None:
    plain.offsets("other", "a")
    await plain.turns()
    assert plain.talk.broker.take() == b""
    assert plain.codes() == {"a": int(ErrorCode.INVALID_TXN_STATE)}


async def test_a_groups_partition_is_that_of_kafka() -> None:
    """`Math.abs(group.hashCode()) % 50`, by the JDK."""
    cluster = SimpleNamespace(
        view=SimpleNamespace(topics={"__consumer_offsets": SimpleNamespace(partitions=range(50))})
    )
    coordinators: Any = TransactionCoordinators(cast("Any", cluster), {}, lambda: True)
    coordinators.cluster = lambda side: cluster
    for group, partition in JDK.items():
        assert await coordinators.offsets_name_of(SOURCE, group) == offsets_name(partition)


JDK = {"orders-app": 5, "g": 3, "payments-consumer-7": 2, "\u00fcber\U0001f600": 38}
