"""How a transaction's end and its offsets are answered when there is nothing to end, or it cannot be known."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest

from gateway.cutover.write_pause.rules.routing import WritePhase, routing_of
from gateway.proxy.produce.authorization import remember
from gateway.proxy.rules.transactional_ids import OWN, ProducerIdentity, ProducerRecord, TransactionSide
from gateway.proxy.transactions.coordinators import Refused, SeenTransaction, Unseen
from protocol.apis import ApiKey
from protocol.codec import decode_response, encode_body
from protocol.errors import ErrorCode
from protocol.header import frame_request, response_body_offset
from protocol.messages import EndTxnRequest, TxnOffsetCommitRequest
from tests.support.waiting import wait_until_async
from tests.unit.proxy.handlers.test_produce import route
from tests.unit.proxy.produce.test_lease import Lease
from tests.unit.proxy.transactions.test_transactions import CLIENT, ELSEWHERE, NOTHING, SOURCE, Lab

if TYPE_CHECKING:
    from tests.support.proxy.conversation import Conversation

VERSION = 3


class Talk:
    """A producer that was failed back: the target has committed its last transaction there, the source none yet."""

    def __init__(self, talk: Conversation) -> None:
        self.talk, self.lab = talk, Lab()
        self.lab.kept()
        self.lab.coordinators.seen[OWN] = SeenTransaction(CLIENT, "CompleteCommit", 60_000, NOTHING)
        talk.install(transactions=self.lab.transactions)
        talk.context.routing.publish(routing_of({"a": route("a")}))

    async def asks(self, key: ApiKey, **more: Any) -> Any:
        """The decoded answer; None when the request went on to the target."""
        known = {"transactional_id": "tx", "producer_id": CLIENT.producer_id, "producer_epoch": CLIENT.epoch}
        message = cast("Any", {ApiKey.END_TXN: EndTxnRequest, ApiKey.TXN_OFFSET_COMMIT: TxnOffsetCommitRequest}[key])
        body = encode_body(message(**known, **more), VERSION)
        self.talk.says(frame_request(int(key), VERSION, 1, "me", body))
        await asyncio.gather(*self.talk.context.tasks)
        frames = self.talk.client.frames()
        if not frames:
            assert len(self.talk.broker.frames()) == 1
            return None
        view = memoryview(frames[0])
        return decode_response(int(key), VERSION, view[response_body_offset(int(key), VERSION, view) :])

    async def under_way(self) -> None:
        """Until the request is being worked on."""
        await wait_until_async(lambda: self.talk.context.tasks)

    async def offsets(self) -> int:
        """The code that a commit of offsets is answered with."""
        kind = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        part = kind.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
        topics = [kind(name="a", partitions=[part])]
        answer = await self.asks(
            ApiKey.TXN_OFFSET_COMMIT,
            group_id="g",
            generation_id=1,
            member_id="m",
            group_instance_id=None,
            topics=topics,
        )
        return int(answer.topics[0].partitions[0].error_code)


@pytest.fixture
async def moved(talk: Conversation) -> Talk:
    return Talk(talk)


async def test_an_abort_of_what_never_began_is_no_error(moved: Talk) -> None:
    """The target would say INVALID_TXN_STATE, which no producer lives through."""
    answer = await moved.asks(ApiKey.END_TXN, committed=False)
    assert answer.error_code == ErrorCode.NONE


async def test_nor_after_a_commit_through_this_gateway(moved: Talk) -> None:
    producer = await moved.lab.transactions.identify("tx", CLIENT)
    producer.begin(OWN, {"a"}, 0.0)
    producer.end(commit=True)
    producer.ended()
    answer = await moved.asks(ApiKey.END_TXN, committed=False)
    assert answer.error_code == ErrorCode.NONE


BEHIND = TransactionSide(SOURCE.cluster, 1)
PLAIN = ProducerIdentity(50, 2)


def open_behind_a_failback(moved: Talk, at_source: SeenTransaction | Exception | None) -> None:
    """A transaction is open at the source, where the gateway has another transactional id than who writes directly."""
    lab = moved.lab
    lab.identities.records["tx"] = ProducerRecord("tx", CLIENT, 60_000, {SOURCE: PLAIN, BEHIND: ELSEWHERE})
    lab.coordinators.seen[SOURCE] = at_source
    lab.coordinators.seen[BEHIND] = SeenTransaction(ELSEWHERE, "Ongoing", 60_000, frozenset({"on-source-a"}))
    remember(cast("Any", moved.talk.session), {("tx", None): True})


async def test_behind_a_failback_an_instance_on_the_source_fences_one_on_the_gateway(moved: Talk) -> None:
    """What it has written is aborted, so that nobody waits for it."""
    newer = SeenTransaction(ProducerIdentity(50, 3), "Empty", 60_000, NOTHING)
    open_behind_a_failback(moved, newer)
    answer = await moved.asks(ApiKey.END_TXN, committed=True)
    assert answer.error_code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
    ((side, message),) = moved.lab.coordinators.ends
    assert (side, message.committed) == (BEHIND, False)


@pytest.mark.parametrize(
    "at_source",
    [SeenTransaction(PLAIN, "Empty", 60_000, NOTHING), None, Unseen("too old")],
    ids=["same", "none", "old"],
)
async def test_behind_a_failback_a_commit_that_nobody_fences_is_made(
    moved: Talk, at_source: SeenTransaction | Exception | None
) -> None:
    open_behind_a_failback(moved, at_source if not isinstance(at_source, Exception) else None)
    producer = await moved.lab.transactions.identify("tx", CLIENT)
    assert producer.open is not None
    moved.lab.coordinators.seen[SOURCE] = at_source
    answer = await moved.asks(ApiKey.END_TXN, committed=True)
    assert answer.error_code == ErrorCode.NONE
    ((side, message),) = moved.lab.coordinators.ends
    assert (side, message.committed) == (BEHIND, True)


async def test_another_gateway_that_has_initialised_it_late_fences_nobody(moved: Talk) -> None:
    later = ProducerIdentity(50, 3)
    open_behind_a_failback(moved, SeenTransaction(PLAIN, "Empty", 60_000, NOTHING))
    assert (await moved.lab.transactions.identify("tx", CLIENT)).open is not None
    moved.lab.identities.records["tx"] = ProducerRecord("tx", CLIENT, 60_000, {SOURCE: later, BEHIND: ELSEWHERE})
    moved.lab.coordinators.seen[SOURCE] = SeenTransaction(later, "Empty", 60_000, NOTHING)
    answer = await moved.asks(ApiKey.END_TXN, committed=True)
    assert answer.error_code == ErrorCode.NONE


async def test_a_commit_is_the_coordinators_to_judge(moved: Talk) -> None:
    assert await moved.asks(ApiKey.END_TXN, committed=True) is None


async def test_a_commit_that_the_source_says_was_aborted_is_not_confirmed_by_an_older_one_of_the_target(
    moved: Talk,
) -> None:
    """Another gateway, late, or a time-out has aborted it there. The target's last transaction is another one."""
    producer = await moved.lab.transactions.identify("tx", CLIENT)
    producer.begin(SOURCE, {"a"}, 0.0)
    producer.confirm()
    moved.lab.alone = False
    moved.lab.seen("CompleteAbort")
    remember(moved.talk.session, {("tx", None): True})
    sent = moved.lab.coordinators.ends
    answer = await moved.asks(ApiKey.END_TXN, committed=True)
    assert [(side, message.committed) for side, message in sent] == [(SOURCE, True)]
    assert answer.error_code == ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("waits_for", ["the target", "its turn"])
async def test_nothing_is_sent_for_a_client_that_has_gone(moved: Talk, waits_for: str) -> None:
    """It has asked again by another gateway, and begun its next transaction: an abort would hit that one."""
    lab, described = moved.lab, asyncio.Event()
    turn = lab.transactions.lock("tx")
    if waits_for == "its turn":
        await turn.acquire()
    else:
        lab.coordinators.waits_for = described
    asked = asyncio.create_task(moved.asks(ApiKey.END_TXN, committed=False))
    await moved.under_way()
    lab.seen("Ongoing", "on-source-a")  # the next one
    moved.talk.session.close("the target cannot be reached any more")
    described.set()
    if waits_for == "its turn":
        turn.release()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert not moved.lab.coordinators.ends


@pytest.mark.parametrize("answered", [False, True])
async def test_what_the_target_has_not_answered_is_taken_back_with_the_clients_connection(
    moved: Talk, answered: bool
) -> None:
    """It may be held up on its way, and would end the client's next transaction when it arrives."""
    assert await moved.asks(ApiKey.END_TXN, committed=True) is None
    if answered:
        moved.talk.broker_says(1, bytes(6))
    moved.talk.session.close("the client has gone")
    assert moved.talk.broker.closed
    assert moved.talk.broker.taken_back is not answered


async def test_nor_does_what_is_passed_on_unseen_where_nothing_is_mirrored(talk: Conversation) -> None:
    talk.install()
    body = encode_body(EndTxnRequest(transactional_id="tx", producer_id=7, producer_epoch=3, committed=True), VERSION)
    talk.says(frame_request(int(ApiKey.END_TXN), VERSION, 1, "me", body))
    assert len(talk.broker.frames()) == 1
    talk.session.close("the client has gone")
    assert talk.broker.taken_back


@pytest.fixture
async def promoted(moved: Talk) -> Talk:
    """All that was mirrored was promoted a short time ago. The client has one transaction behind it, on the source."""
    moved.lab.coordinators.seen[OWN] = SeenTransaction(CLIENT, "Empty", 60_000, NOTHING)
    routing = routing_of({"a": route("a", WritePhase.SWITCHED)})
    assert not routing.intercepts_produce
    moved.talk.context.routing.publish(replace(routing, ends_repeated=True))
    remember(moved.talk.session, {("tx", None): True})
    return moved


@pytest.mark.parametrize("is_known", [False, True])
async def test_an_abort_is_repeated_over_the_promote_of_the_last_topic(promoted: Talk, is_known: bool) -> None:
    """Its answer was lost. The target knows of no transaction, and would say INVALID_TXN_STATE."""
    if is_known:
        producer = await promoted.lab.transactions.identify("tx", CLIENT)
        producer.begin(SOURCE, {"a"}, 0.0)
        producer.end(commit=False)
        producer.ended(markers_written=True, unseen=True)  # the write pause has asked
    promoted.lab.seen("CompleteAbort")
    answer = await promoted.asks(ApiKey.END_TXN, committed=False)
    assert answer.error_code == ErrorCode.NONE


async def test_so_is_a_commit_where_it_was_made(promoted: Talk) -> None:
    promoted.lab.seen("CompleteCommit")
    answer = await promoted.asks(ApiKey.END_TXN, committed=True)
    assert answer.error_code == ErrorCode.NONE
    assert [side for side, _ in promoted.lab.coordinators.ends] == [SOURCE]


async def test_what_a_write_pause_found_aborted_is_not_confirmed_by_an_older_commit_of_the_target(
    promoted: Talk,
) -> None:
    producer = await promoted.lab.transactions.identify("tx", CLIENT)
    producer.begin(SOURCE, {"a"}, 0.0)
    producer.end(commit=True)
    producer.ended(markers_written=True, unseen=True)
    promoted.lab.coordinators.seen[OWN] = SeenTransaction(CLIENT, "CompleteCommit", 60_000, NOTHING)
    promoted.lab.seen("CompleteAbort")  # by its timeout
    answer = await promoted.asks(ApiKey.END_TXN, committed=True)
    assert answer.error_code == ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize("committed", [False, True])
async def test_what_is_open_on_the_target_is_ended_there_without_the_source(
    promoted: Talk, is_known: bool, committed: bool
) -> None:
    lab = promoted.lab
    if is_known:
        producer = await lab.transactions.identify("tx", CLIENT)
        producer.begin(SOURCE, {"a"}, 0.0)
        producer.ended(markers_written=True, unseen=True)
    lab.coordinators.seen[SOURCE] = Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "it was shut down")
    lab.coordinators.seen[OWN] = SeenTransaction(CLIENT, "Ongoing", 60_000, frozenset({"a"}))
    assert await promoted.asks(ApiKey.END_TXN, committed=committed) is None
    known = lab.transactions.known("tx", CLIENT)
    assert (known is not None) is is_known
    if known is not None:
        assert known.open is not None
        assert (known.open.side, known.ended_unseen) == (OWN, None)
        promoted.talk.broker_says(1, bytes(8))
        assert known.open is None


async def test_a_target_that_cannot_tell_of_transactions_is_told_of_their_ends(promoted: Talk) -> None:
    promoted.lab.coordinators.seen[OWN] = Unseen("the target")
    assert await promoted.asks(ApiKey.END_TXN, committed=True) is None


async def test_no_end_goes_to_the_target_once_the_lease_is_over(promoted: Talk) -> None:
    promoted.lab.coordinators.seen[OWN] = SeenTransaction(CLIENT, "Ongoing", 60_000, frozenset({"a"}))
    lease = Lease()
    promoted.talk.lease(lease)
    lease.over = True
    answer = await promoted.asks(ApiKey.END_TXN, committed=True)
    assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def test_an_abort_that_is_under_way_is_repeated(moved: Talk) -> None:
    moved.lab.coordinators.seen[OWN] = SeenTransaction(CLIENT, "PrepareAbort", 60_000, frozenset({"a"}))
    assert await moved.asks(ApiKey.END_TXN, committed=False) is None


async def test_offsets_of_no_transaction_are_refused(moved: Talk) -> None:
    assert await moved.offsets() == ErrorCode.INVALID_TXN_STATE


async def test_offsets_are_refused_for_now_while_a_request_of_the_producer_has_no_answer(moved: Talk) -> None:
    """It was lost on its failback, and the transaction began through another gateway: nobody can tell yet."""
    producer = await moved.lab.transactions.identify("tx", CLIENT)
    producer.in_transit += 1
    assert await moved.offsets() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
async def test_a_coordinator_that_moved_on_a_source_is_the_gateways_to_find(moved: Talk, code: ErrorCode) -> None:
    moved.lab.coordinators.seen[OWN] = Refused(code, "it moved")
    for committed in (True, False):
        answer = await moved.asks(ApiKey.END_TXN, committed=committed)
        assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert await moved.offsets() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
