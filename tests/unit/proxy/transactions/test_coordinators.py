"""A request that nobody waits for any more must not reach its coordinator behind what the client asks next."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from gateway.kafka.connection.errors import RequestTimedOut
from gateway.proxy.rules.transactional_ids import TransactionSide
from gateway.proxy.transactions.coordinators import Lost, TransactionCoordinators
from protocol.errors import ErrorCode
from protocol.messages import (
    AddPartitionsToTxnResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    EndTxnRequest,
    EndTxnResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from tests.support.waiting import wait_until_async

SOURCE = TransactionSide("source-id")
END = EndTxnRequest(transactional_id="tx", producer_id=1, producer_epoch=0, committed=False)
DESCRIBE = DescribeTransactionsRequest(transactional_ids=["tx"])


class Connection:
    """Answers nothing. `late`: says so after a time. `answer`: but this, once `may_answer`."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.closed = ""
        self.late = False
        self.answer: Any = None
        self.may_answer = asyncio.Event()

    def version(self, key: int, cap: int) -> int:
        return cap

    async def request(self, message: Any, *, cap: int, timeout_s: float) -> Any:
        self.asked.append(message)
        if self.late:
            raise RequestTimedOut("no answer")
        await (asyncio.Event() if self.answer is None else self.may_answer).wait()
        return self.answer

    def take_back(self, reason: str) -> None:
        self.closed = reason


class Cluster:
    """`node` coordinates everything. `forgotten`: whoever turned out not to, by kind and name."""

    def __init__(self) -> None:
        self.link = Connection()
        self.view = type("View", (), {"cluster_id": SOURCE.cluster})
        self.clients = None
        self.node = 1
        self.forgotten: list[tuple[str, str, int]] = []

    async def transaction_coordinator(self, name: str, timeout_s: float) -> int:
        return self.node

    async def coordinator(self, name: str, timeout_s: float) -> int:
        return self.node

    async def connection(self, node: int, lane: str, timeout_s: float) -> Connection:
        return self.link

    def invalidate_transaction_coordinator(self, name: str, node: int) -> None:
        self.forgotten.append(("transaction", name, node))

    def invalidate_coordinator(self, name: str, node: int) -> None:
        self.forgotten.append(("group", name, node))


@pytest.fixture
def source() -> Cluster:
    return Cluster()


async def asked(source: Cluster, message: Any) -> asyncio.Task[Any]:
    """A request that is on its way."""
    coordinators = TransactionCoordinators(cast("Any", None), cast("Any", {"l": source}))
    task = asyncio.create_task(coordinators.call(SOURCE, "tx", message, 3))
    await wait_until_async(lambda: source.link.asked)
    return task


async def test_the_connection_closes_when_the_client_has_gone(source: Cluster) -> None:
    task = await asked(source, END)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert source.link.closed


async def test_and_when_no_answer_comes_in_time(source: Cluster) -> None:
    source.link.late = True
    with pytest.raises(Lost, match="no answer"):
        await (await asked(source, END))
    assert source.link.closed
    assert source.forgotten == [("transaction", "tx", 1)]


async def test_not_for_what_only_asks(source: Cluster) -> None:
    """Others' requests are on the same connection."""
    task = await asked(source, DESCRIBE)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not source.link.closed


def answers() -> list[Any]:
    """Each kind of answer that has the code in a place of its own."""
    moved = ErrorCode.NOT_COORDINATOR
    added = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
    part = added.AddPartitionsToTxnPartitionResult
    parts = [part(partition_index=0, partition_error_code=moved)]
    described = DescribeTransactionsResponse.TransactionState
    return [
        EndTxnResponse(error_code=moved),
        AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[added(name="t", results_by_partition=parts)]),
        DescribeTransactionsResponse(transaction_states=[described(error_code=moved)]),
    ]


@pytest.mark.parametrize("answer", answers(), ids=lambda answer: type(answer).__name__)
async def test_a_late_error_of_an_old_coordinator_is_about_that_one(source: Cluster, answer: Any) -> None:
    """Whoever was found meanwhile stays known."""
    source.link.answer = answer
    task = await asked(source, END)
    source.node = 2
    source.link.may_answer.set()
    await task
    assert source.forgotten == [("transaction", "tx", 1)]


async def test_of_a_group_only_its_own_coordinator_is_forgotten(source: Cluster) -> None:
    kind = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
    part = kind.TxnOffsetCommitResponsePartition(partition_index=0, error_code=ErrorCode.NOT_COORDINATOR)
    source.link.answer = TxnOffsetCommitResponse(topics=[kind(name="t", partitions=[part])])
    source.link.may_answer.set()
    coordinators = TransactionCoordinators(cast("Any", None), cast("Any", {"l": source}))
    message = TxnOffsetCommitRequest(transactional_id="tx", group_id="g", producer_id=1, producer_epoch=0, topics=[])
    await coordinators.call_group(SOURCE, "g", message, 3)
    assert source.forgotten == [("group", "g", 1)]


async def test_an_answer_without_such_an_error_leaves_it_known(source: Cluster) -> None:
    source.link.answer = EndTxnResponse(error_code=ErrorCode.INVALID_TXN_STATE)
    source.link.may_answer.set()
    await (await asked(source, END))
    assert source.forgotten == []
