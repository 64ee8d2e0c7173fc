"""Transactions that are not complete on a cluster: KIP-664's ListTransactions and DescribeTransactions, Kafka 3.0 and
later.

A transaction has the partitions that were added to it, whether or not records were written there. Until its coordinator
reports it as complete, a marker may be appended to each of these logs: when its client ends it, or when its timeout is
over. No log shows that beforehand; the last stable offset only shows transactions with records.

A partition's leader tells which producers it knows there: DescribeProducers, of the same KIP, Kafka 2.8 and later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.errors import BrokerError, UnsupportedVersion
from gateway.kafka.offsets import by_topic
from gateway.kafka.routed import ByLeader
from gateway.kafka.topic_partition import TopicPartition
from protocol.errors import ErrorCode, error_name, is_retriable
from protocol.messages import DescribeProducersRequest, DescribeTransactionsRequest, ListTransactionsRequest

UNENDED: Final = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
"""States after which a marker may still come. A broker returns the filters that it does not know, and ignores them."""
_AT_ONCE: Final = 1_000  # transactional ids in a request


class TransactionDescription(NamedTuple):
    """A transactional id as its coordinator describes it.

    `state`: Kafka's word. `partitions`: topic -> partitions of the present transaction that have no marker yet,
    including those of `__consumer_offsets`; empty when it is complete. `started_ms`: wall clock of the coordinator, -1
    while none is open. `timeout_ms`: after this time its coordinator aborts it.
    """

    transactional_id: str
    state: str
    producer_id: int
    started_ms: int
    timeout_ms: int
    partitions: Mapping[str, tuple[int, ...]]

    @property
    def is_unended(self) -> bool:
        """A marker may still come."""
        return self.state in UNENDED


async def all_transactions(
    cluster: Cluster, timeout_s: float, *, unended_only: bool = False
) -> Sequence[TransactionDescription]:
    """Every transactional id that the cluster shows the caller, in order, complete ones too unless `unended_only`.

    Raises:
        UnsupportedVersion: before Kafka 3.0.
        ClusterUnavailable: a broker does not answer in time, so the list would be incomplete.
        BrokerError: a broker refuses.
    """
    nodes, states = tuple(cluster.view.brokers), UNENDED if unended_only else ()
    listed = await asyncio.gather(*(_listed(cluster, node, states, timeout_s) for node in nodes))
    asked = [
        _states(cluster, node, ids[at : at + _AT_ONCE], timeout_s)
        for node, ids in zip(nodes, listed, strict=True)
        for at in range(0, len(ids), _AT_ONCE)
    ]
    found = [_transaction(one) for some in await asyncio.gather(*asked) for one in some]
    return sorted(found, key=lambda one: one.transactional_id)


def _transaction(one: Any) -> TransactionDescription:
    return TransactionDescription(
        transactional_id=one.transactional_id,
        state=one.transaction_state,
        producer_id=one.producer_id,
        started_ms=one.transaction_start_time_ms,
        timeout_ms=one.transaction_timeout_ms,
        partitions={topic.topic: tuple(topic.partitions) for topic in one.topics},
    )


async def unended_transactions(
    cluster: Cluster, topics: Collection[str], timeout_s: float
) -> Mapping[str, tuple[str, ...]] | None:
    """Topic -> the transactional ids, in order, of incomplete transactions that have it.

    Only those that the caller may see: Describe on the transactional id. Every broker is asked, since any may be a
    coordinator: if one does not answer, the result is unknown. A broker that cannot tell, because it is older or, in
    other implementations than Apache Kafka, refuses for good, is left out. None: no broker can tell.

    Raises:
        ClusterUnavailable: a broker does not answer in time.
        BrokerError: a broker is still loading its transactions, no longer coordinates them, or lists one that it does
            not describe.
    """
    nodes = tuple(cluster.view.brokers)
    answers = await asyncio.gather(*(unended_at(cluster, node, timeout_s) for node in nodes), return_exceptions=True)
    listed: dict[int, Sequence[str]] = {}
    for node, answer in zip(nodes, answers, strict=True):
        if not isinstance(answer, BaseException):
            listed[node] = answer
        elif not _tells_never(answer):
            raise answer
    if nodes and not listed:
        return None
    found: dict[str, list[str]] = {topic: [] for topic in topics}
    asked = [
        _described(cluster, node, ids[at : at + _AT_ONCE], timeout_s)
        for node, ids in listed.items()
        for at in range(0, len(ids), _AT_ONCE)
    ]
    for described in await asyncio.gather(*asked):
        for transactional_id, has in described.items():
            for topic in has & found.keys():
                found[topic].append(transactional_id)
    return {topic: tuple(sorted(ids)) for topic, ids in found.items()}


def _tells_never(exc: BaseException) -> bool:
    """True when repeating the question cannot help."""
    return isinstance(exc, UnsupportedVersion) or (isinstance(exc, BrokerError) and not is_retriable(exc.code))


async def unended_at(cluster: Cluster, node: int, timeout_s: float) -> Sequence[str]:
    """The transactional ids of incomplete transactions that a broker coordinates.

    Raises:
        ClusterUnavailable, BrokerError: as `unended_transactions`; also when it refuses for good.
        UnsupportedVersion: before Kafka 3.0.
    """
    return await _listed(cluster, node, UNENDED, timeout_s)


async def _listed(cluster: Cluster, node: int, states: Sequence[str], timeout_s: float) -> Sequence[str]:
    """The transactional ids that a broker coordinates, in these states, or in any if none is named."""
    request = ListTransactionsRequest(state_filters=list(states), producer_id_filters=[])
    answer = await cluster.request(request, node_id=node, cap=0, timeout_s=timeout_s)
    if answer.error_code:
        raise BrokerError(answer.error_code, f"ListTransactions of broker {node}: {error_name(answer.error_code)}")
    return [one.transactional_id for one in answer.transaction_states]


async def _described(
    cluster: Cluster, node: int, transactional_ids: Sequence[str], timeout_s: float
) -> Mapping[str, frozenset[str]]:
    """Transactional id -> topics. Leaves out transactions that were completed and forgotten meanwhile."""
    described = await _states(cluster, node, transactional_ids, timeout_s)
    return {
        one.transactional_id: frozenset(topic.topic for topic in one.topics)
        for one in described
        if one.transaction_state in UNENDED
    }


async def _states(cluster: Cluster, node: int, transactional_ids: Sequence[str], timeout_s: float) -> Sequence[Any]:
    """The broker's descriptions, without ids that it no longer knows."""
    request = DescribeTransactionsRequest(transactional_ids=list(transactional_ids))
    answer = await cluster.request(request, node_id=node, cap=0, timeout_s=timeout_s)
    found = []
    for one in answer.transaction_states:
        if one.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            continue
        if one.error_code:
            what = f"DescribeTransactions of {one.transactional_id!r}: {error_name(one.error_code)}"
            raise BrokerError(one.error_code, what)
        found.append(one)
    return found


async def active_producers(
    cluster: Cluster, partitions: Collection[TopicPartition], *, timeout_s: float | None = None
) -> dict[TopicPartition, frozenset[int]]:
    """The producer ids whose state each partition's leader has. Needs READ on the topics.

    Raises:
        PartitionErrors: per partition; UNSUPPORTED_VERSION (35) where the leader is older.
        ClusterUnavailable: no answer within the deadline.
        UnsupportedVersion: all leaders are older.
    """

    def build(asked: Collection[TopicPartition]) -> Any:
        topic = DescribeProducersRequest.TopicRequest
        return DescribeProducersRequest(
            topics=[topic(name=name, partition_indexes=indexes) for name, indexes in by_topic(asked)]
        )

    def parse(response: Any) -> Iterable[tuple[TopicPartition, int, frozenset[int]]]:
        for topic in response.topics:
            for part in topic.partitions:
                known = frozenset(producer.producer_id for producer in part.active_producers or ())
                yield (topic.name, part.partition_index), part.error_code, known

    return await ByLeader(cluster, "DescribeProducers", build, parse).run(dict.fromkeys(partitions), timeout_s)
