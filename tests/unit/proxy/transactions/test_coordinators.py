"""A request that nobody waits for any more must not reach its coordinator behind what the client asks next."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from gateway.kafka.connection.errors import RequestTimedOut
from gateway.proxy.rules.transactional_ids import TransactionSide
from gateway.proxy.transactions.coordinators import Lost, TransactionCoordinators
from protocol.messages import DescribeTransactionsRequest, EndTxnRequest
from tests.support.waiting import wait_until_async

SOURCE = TransactionSide("source-id")
END = EndTxnRequest(transactional_id="tx", producer_id=1, producer_epoch=0, committed=False)
DESCRIBE = DescribeTransactionsRequest(transactional_ids=["tx"])


class Connection:
    """Answers nothing. `late`: says so after a time."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.closed = ""
        self.late = False

    def version(self, key: int, cap: int) -> int:
        return cap

    async def request(self, message: Any, *, cap: int, timeout_s: float) -> Any:
        self.asked.append(message)
        if self.late:
            raise RequestTimedOut("no answer")
        await asyncio.Event().wait()

    def take_back(self, reason: str) -> None:
        self.closed = reason


class Cluster:
    """Of one broker."""

    def __init__(self) -> None:
        self.link = Connection()
        self.view = type("View", (), {"cluster_id": SOURCE.cluster})
        self.clients = None
        self.forgotten: list[str] = []

    async def transaction_coordinator(self, name: str, timeout_s: float) -> int:
        return 1

    async def connection(self, node: int, lane: str, timeout_s: float) -> Connection:
        return self.link

    def invalidate_transaction_coordinator(self, name: str) -> None:
        self.forgotten.append(name)

    def invalidate_coordinator(self, name: str) -> None:
        pass


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
    assert source.forgotten == ["tx"]


async def test_not_for_what_only_asks(source: Cluster) -> None:
    """Others' requests are on the same connection."""
    task = await asked(source, DESCRIBE)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not source.link.closed
