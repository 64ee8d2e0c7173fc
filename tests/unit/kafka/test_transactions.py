"""Transactions that are not complete: every broker is asked, and what one does not say is not taken for none.

DescribeProducers, asked of each partition's leader.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from gateway.kafka.cluster import PartitionErrors
from gateway.kafka.connection.errors import BrokerError, ClusterUnavailable
from gateway.kafka.transactions import UNENDED, active_producers, unended_transactions
from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from protocol.messages import DescribeProducersResponse, DescribeTransactionsResponse, ListTransactionsResponse
from tests.support.brokers.quick_clusters import OpenCluster
from tests.support.fakes.fake_broker import FakeBroker, Request
from tests.support.fakes.fake_cluster import FakeCluster

Known = Mapping[str, tuple[str, ...]]
"""Transactional id -> topics, of what one broker coordinates."""

_Described = DescribeTransactionsResponse.TransactionState


def coordinates(
    broker: FakeBroker, known: Known, *, error: int = 0, described: Mapping[str, int] | None = None
) -> None:
    """Has a broker answer so. `described`: id -> the error with which it is described."""
    errors = described or {}

    def listed(request: Request) -> Any:
        assert set(request.message.state_filters) == set(UNENDED)
        states = [
            ListTransactionsResponse.TransactionState(transactional_id=name, producer_id=7, transaction_state="Ongoing")
            for name in known
        ]
        return ListTransactionsResponse(
            throttle_time_ms=0, error_code=error, unknown_state_filters=[], transaction_states=[] if error else states
        )

    def one(name: str) -> Any:
        return _Described(
            error_code=errors.get(name, 0),
            transactional_id=name,
            transaction_state="Ongoing",
            transaction_timeout_ms=60_000,
            transaction_start_time_ms=1,
            producer_id=7,
            producer_epoch=0,
            topics=[_Described.TopicData(topic=topic, partitions=[0]) for topic in known[name]],
        )

    broker.handlers[ApiKey.LIST_TRANSACTIONS] = listed
    broker.handlers[ApiKey.DESCRIBE_TRANSACTIONS] = lambda request: DescribeTransactionsResponse(
        throttle_time_ms=0, transaction_states=[one(name) for name in request.message.transactional_ids]
    )


async def test_of_all_coordinators(client: OpenCluster) -> None:
    async with FakeCluster(2) as fake:
        coordinates(fake.brokers[1], {"payments": ("orders", "paid"), "other": ("else",)})
        coordinates(fake.brokers[2], {"audits": ("orders",)})
        cluster = await client(fake.bootstrap)
        found = await unended_transactions(cluster, ["orders", "paid", "rest"], 5.0)
        assert found == {"orders": ("audits", "payments"), "paid": ("payments",), "rest": ()}


async def test_one_that_is_forgotten_meanwhile_is_complete(client: OpenCluster) -> None:
    async with FakeCluster(1) as fake:
        gone = int(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        coordinates(fake.brokers[1], {"a": ("orders",), "b": ("orders",)}, described={"a": gone})
        found = await unended_transactions(await client(fake.bootstrap), ["orders"], 5.0)
        assert found == {"orders": ("b",)}


@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR])
async def test_a_coordinator_that_is_loading_leaves_it_unknown(client: OpenCluster, code: ErrorCode) -> None:
    async with FakeCluster(2) as fake:
        coordinates(fake.brokers[1], {})
        coordinates(fake.brokers[2], {"a": ("orders",)}, error=int(code))
        with pytest.raises(BrokerError, match=code.name):
            await unended_transactions(await client(fake.bootstrap), ["orders"], 5.0)


async def test_one_that_moves_meanwhile_leaves_it_unknown(client: OpenCluster) -> None:
    async with FakeCluster(1) as fake:
        coordinates(fake.brokers[1], {"a": ("orders",)}, described={"a": int(ErrorCode.NOT_COORDINATOR)})
        with pytest.raises(BrokerError, match="NOT_COORDINATOR"):
            await unended_transactions(await client(fake.bootstrap), ["orders"], 5.0)


async def test_one_that_is_listed_and_not_described_is_not_complete(client: OpenCluster) -> None:
    async with FakeCluster(1) as fake:
        refusal = int(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        coordinates(fake.brokers[1], {"a": ("orders",)}, described={"a": refusal})
        with pytest.raises(BrokerError, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
            await unended_transactions(await client(fake.bootstrap), ["orders"], 5.0)


async def test_a_broker_that_does_not_answer_leaves_it_unknown(client: OpenCluster) -> None:
    async with FakeCluster(2) as fake:
        for broker in fake.brokers.values():
            coordinates(broker, {})
        cluster = await client(fake.bootstrap)
        await fake.brokers[2].__aexit__(None, None, None)
        with pytest.raises(ClusterUnavailable):
            await unended_transactions(cluster, ["orders"], 0.3)


async def test_a_cluster_that_does_not_tell(client: OpenCluster) -> None:
    async with FakeCluster(1) as fake:
        refusal = int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)  # not of Apache Kafka's own
        coordinates(fake.brokers[1], {}, error=refusal)
        assert await unended_transactions(await client(fake.bootstrap), ["orders"], 5.0) is None
    async with FakeCluster(1) as old:
        old.brokers[1].versions.pop(int(ApiKey.LIST_TRANSACTIONS), None)
        assert await unended_transactions(await client(old.bootstrap), ["orders"], 5.0) is None


async def test_one_broker_that_cannot_tell_takes_nothing_from_what_the_others_tell(client: OpenCluster) -> None:
    """While a cluster is upgraded: a promote took none for open, whatever the newer brokers said."""
    async with FakeCluster(2) as fake:
        fake.brokers[1].versions.pop(int(ApiKey.LIST_TRANSACTIONS), None)
        coordinates(fake.brokers[2], {"payments": ("orders",)})
        assert await unended_transactions(await client(fake.bootstrap), ["orders"], 5.0) == {"orders": ("payments",)}


async def test_one_that_refuses_for_good_does_not_hide_one_that_is_loading(client: OpenCluster) -> None:
    """Whichever answered first was what counted."""
    async with FakeCluster(2) as fake:
        coordinates(fake.brokers[1], {}, error=int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
        coordinates(fake.brokers[2], {}, error=int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        with pytest.raises(BrokerError, match="COORDINATOR_LOAD_IN_PROGRESS"):
            await unended_transactions(await client(fake.bootstrap), ["orders"], 5.0)


_Topic = DescribeProducersResponse.TopicResponse
_Partition = _Topic.PartitionResponse


def known_to(node: int, error: int) -> Any:
    """The leader's answer: it knows the producers 10 * node and 10 * node + 1."""

    def answer(request: Request) -> Any:
        states = [
            _Partition.ProducerState(
                producer_id=10 * node + i,
                producer_epoch=0,
                last_sequence=4,
                last_timestamp=1,
                coordinator_epoch=0,
                current_txn_start_offset=-1,
            )
            for i in range(2)
        ]
        return DescribeProducersResponse(
            throttle_time_ms=0,
            topics=[
                _Topic(
                    name=topic.name,
                    partitions=[
                        _Partition(
                            partition_index=index,
                            error_code=error,
                            error_message=None,
                            active_producers=[] if error else states,
                        )
                        for index in topic.partition_indexes
                    ],
                )
                for topic in request.message.topics
            ],
        )

    return answer


async def test_whom_the_leaders_know(client: OpenCluster) -> None:
    async with FakeCluster(2) as fake:
        fake.leaders = {"a": [1, 2]}
        for node, broker in fake.brokers.items():
            broker.handlers[ApiKey.DESCRIBE_PRODUCERS] = known_to(node, 0)
        cluster = await client(fake.bootstrap)
        found = await active_producers(cluster, [("a", 0), ("a", 1)])
        assert found == {("a", 0): {10, 11}, ("a", 1): {20, 21}}


async def test_without_read_it_is_not_told(client: OpenCluster) -> None:
    async with FakeCluster(1) as fake:
        fake.leaders = {"a": [1]}
        refusal = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        fake.brokers[1].handlers[ApiKey.DESCRIBE_PRODUCERS] = known_to(1, refusal)
        cluster = await client(fake.bootstrap)
        with pytest.raises(PartitionErrors):
            await active_producers(cluster, [("a", 0)])
