"""What a source tells in part is not taken for the whole: one broker late, a log not read to its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.kafka import groups as kafka_groups
from gateway.kafka.connection.errors import ClusterUnavailable, PartitionErrors
from gateway.kafka.offsets import EARLIEST
from gateway.kafka.topic_partition import TopicPartition
from gateway.kafka.view import ClusterView, PartitionView, TopicView
from gateway.migration import discovery, log_tail
from gateway.migration.log_tail import RECORDS, Tail, transactions_logged
from gateway.migration.rules.internal_records import CONSUMER_OFFSETS, TRANSACTION_STATE, TransactionEntry
from gateway.migration.rules.sets import discover
from gateway.migration.rules.snapshot import SourceSnapshot
from protocol.errors import ErrorCode


class Source:
    """A cluster: topic -> the leader of each partition, -1 for none. `failing`: a broker that does not answer."""

    def __init__(self, leaders: Mapping[str, Sequence[int]]) -> None:
        self.leaders = leaders
        self.producers: dict[TopicPartition, frozenset[int]] = {}
        self.failing = 0

    async def refresh(self, timeout_s: float) -> ClusterView:
        topics = {
            name: TopicView(bytes(16), {index: PartitionView(node, 0, (1,), 0) for index, node in enumerate(nodes)})
            for name, nodes in self.leaders.items()
        }
        return ClusterView(cluster_id="S", topics=topics, complete=True)

    def leader(self, topic: str, index: int) -> int | None:
        node = self.leaders[topic][index]
        return None if node < 0 else node

    async def active_producers(
        self, _: Any, partitions: Collection[TopicPartition], *, timeout_s: float
    ) -> dict[TopicPartition, frozenset[int]]:
        leaders = {one: self.leader(*one) for one in partitions}
        if self.failing in leaders.values():
            raise ClusterUnavailable(f"broker {self.failing} does not answer")
        told = {one: self.producers.get(one, frozenset[int]()) for one, node in leaders.items() if node}
        errors = {one: int(ErrorCode.LEADER_NOT_AVAILABLE) for one, node in leaders.items() if not node}
        if errors:
            raise PartitionErrors("DescribeProducers", errors, told)
        return told


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Reads a `Source`, which has neither groups nor transactional ids that a broker lists."""

    async def nothing(*_: Any, **__: Any) -> tuple[()]:
        return ()

    async def no_log(*_: Any) -> tuple[dict[Any, Any], Tail]:
        return {}, Tail()

    async def of(source: Source) -> SourceSnapshot:
        monkeypatch.setattr(discovery, "active_producers", source.active_producers)
        return await discovery.read_source(source, (), lambda: 0)  # type: ignore[arg-type]

    monkeypatch.setattr(kafka_groups, "list_groups", nothing)
    monkeypatch.setattr(discovery, "all_transactions", nothing)
    monkeypatch.setattr(discovery, "transactions_logged", no_log)
    monkeypatch.setattr(discovery, "offset_owners", no_log)
    return of


def said(snapshot: SourceSnapshot) -> list[str]:
    return [one.what for one in snapshot.not_known]


async def test_a_partition_without_a_leader_is_not_one_without_producers(read: Any) -> None:
    source = Source({"orders": [1, -1], "payments": [1]})
    source.producers["orders", 0] = frozenset({7})
    snapshot = await read(source)
    assert snapshot.topics[0].producer_ids == {7}
    assert said(snapshot) == ["which producers write orders-1: LEADER_NOT_AVAILABLE"]
    assert snapshot.not_known[0] in discover(snapshot).not_known


async def test_a_broker_that_does_not_answer_costs_what_it_leads(read: Any) -> None:
    source = Source({"orders": [1, 2], "payments": [2], "other": [1]})
    source.producers["orders", 0] = frozenset({7})
    source.failing = 2
    snapshot = await read(source)
    assert [one.producer_ids for one in snapshot.topics] == [{7}, frozenset(), None]
    why = "broker 2 does not answer"
    assert said(snapshot) == [f"which producers write orders-1: {why}", f"which producers write: {why}"]


async def test_groups_and_ids_whose_coordinator_is_gone_are_not_listed(read: Any) -> None:
    snapshot = await read(Source({CONSUMER_OFFSETS: [1, -1, 1, -1], TRANSACTION_STATE: [-1, 1]}))
    assert said(snapshot)[:2] == [
        f"groups whose coordinator is gone: {CONSUMER_OFFSETS} has no leader of partition 1, 3",
        f"transactional ids whose coordinator is gone: {TRANSACTION_STATE} has no leader of partition 0",
    ]


async def test_what_of_a_log_was_not_read_is_said(read: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def in_part(*_: Any) -> tuple[dict[Any, Any], Tail]:
        return {}, Tail(unread=(3,), older=(1, 2))

    monkeypatch.setattr(discovery, "transactions_logged", in_part)
    assert said(await read(Source({"orders": [1]}))) == [
        f"what former transactions wrote: partition 3 of {TRANSACTION_STATE} was not read to its end (20 s were over)",
        f"what former transactions wrote before the last 20,000 offsets of partition 1, 2 of {TRANSACTION_STATE}",
    ]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> dict[int, Any]:
    """The log of each partition: what its transactions wrote, an error, or an end that never comes (None)."""
    entries: dict[int, Any] = {}

    async def offsets(_: Any, asked: Mapping[str, Mapping[int, int]], *, timeout_s: float) -> dict[Any, Any]:
        ((topic, wanted),) = asked.items()
        ends = {0: 0} if EARLIEST in wanted.values() else {}
        found = {
            (topic, index): SimpleNamespace(offset=0 if ends else RECORDS + index)
            for index in wanted
            if not isinstance(entries[index], int)
        }
        errors = {(topic, index): entries[index] for index in wanted if isinstance(entries[index], int)}
        if errors:
            raise PartitionErrors("ListOffsets", errors, found)
        return found

    async def batches(_: Any, topic: str, index: int, *rest: Any) -> AsyncIterator[tuple[Any, Any]]:
        has = entries[index]
        if has is None:
            await asyncio.Event().wait()
        if isinstance(has, Exception):
            raise has
        for one in has:
            yield one, one

    monkeypatch.setattr(log_tail, "list_offsets", offsets)
    monkeypatch.setattr(log_tail, "_batches", batches)
    monkeypatch.setattr(log_tail, "read_records", lambda _, one: [SimpleNamespace(key=one, value=one)])
    monkeypatch.setattr(log_tail, "transaction_entry", lambda key, _: key)
    return entries


async def test_the_last_transaction_counts_however_many_there_were(log: dict[int, Any]) -> None:
    """Of a hundred partitions each has others of them: these sets alone are thousands."""
    log[0] = [TransactionEntry("tx", 7, {"orders": (number,)}) for number in range(200)]
    log[0].append(TransactionEntry("tx", 8, {"payments": (0,)}))
    found, tail = await transactions_logged(SimpleNamespace(), 1, 5.0)  # type: ignore[arg-type]
    assert found["tx"].producer_ids == {7, 8}
    assert found["tx"].partitions == {"orders": set(range(200)), "payments": {0}}
    assert tail == Tail(unread=[], older=[])


async def test_a_partition_that_cannot_be_read_costs_what_is_in_it(log: dict[int, Any]) -> None:
    entry = TransactionEntry("tx", 7, {"orders": (0,)})
    log.update({0: [entry], 1: ClusterUnavailable("broker 2 is away"), 2: int(ErrorCode.LEADER_NOT_AVAILABLE)})
    found, tail = await transactions_logged(SimpleNamespace(), 3, 5.0)  # type: ignore[arg-type]
    assert found["tx"].partitions == {"orders": {0}}
    assert tail == Tail(unread=[1, 2], why="broker 2 is away", older=[1])


async def test_nothing_that_can_be_read_is_an_error(log: dict[int, Any]) -> None:
    log[0] = ClusterUnavailable("broker 2 is away")
    with pytest.raises(ClusterUnavailable, match="broker 2 is away"):
        await transactions_logged(SimpleNamespace(), 1, 5.0)  # type: ignore[arg-type]


async def test_a_log_that_is_not_read_in_time_is_said_to_be_so(log: dict[int, Any]) -> None:
    log.update({0: [TransactionEntry("tx", 7, {"orders": (0,)})], 1: None})
    found, tail = await transactions_logged(SimpleNamespace(), 2, 0.01)  # type: ignore[arg-type]
    assert found.keys() == {"tx"}
    assert tail == Tail(unread=[1], older=[1])
