"""The coordinators of transactions at every place, and how a request that went to one of them can end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, NamedTuple

from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.connection import Connection
from gateway.kafka.connection.errors import AuthenticationFailed, BrokerError, NetError, UnsupportedVersion
from gateway.kafka.rules.names import java_hash
from gateway.kafka.transactions import unended_at
from gateway.proxy.rules.transactional_ids import ProducerIdentity, TransactionSide, id_at
from protocol.errors import ErrorCode, error_name
from protocol.messages import (
    DescribeTransactionsRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)

LANE = "transactions"
_OFFSETS = "__consumer_offsets"
TIMEOUT_S = 10.0
_CONCURRENT_S = 5.0
_AGAIN_S = 0.05
_MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_BUSY = (*_MOVED, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS)


CLIENT: ContextVar[str | None] = ContextVar("the client, by its principal, for whom this task asks", default=None)
"""None: the gateway asks for itself, as it does at a write pause."""


class Refused(Exception):
    """To be answered to the client with this error code; nothing was done that it would have to know of."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{error_name(code)}: {reason}")
        self.code = int(code)


class Lost(Exception):
    """A request was sent and not answered: whether it was carried out is unknown. Only its client may try again."""


class SeenTransaction(NamedTuple):
    """A transactional id as its coordinator describes it (KIP-664).

    `topics` are names at that place; the partitions of `__consumer_offsets` are each a name of their own
    (`offsets_name`).
    """

    identity: ProducerIdentity
    state: str
    timeout_ms: int
    topics: frozenset[str]

    @property
    def is_open(self) -> bool:
        """It has a transaction."""
        return self.state == "Ongoing"

    @property
    def is_ending(self) -> bool:
        """Its end is decided, and its markers are not all written."""
        return self.state.startswith("Prepare")


def offsets_name(partition: int) -> str:
    """A partition of `__consumer_offsets` among the names of a transaction."""
    return f"{_OFFSETS}/{partition}"


def _names(topic: str, partitions: Iterable[int]) -> Iterable[str]:
    return map(offsets_name, partitions) if topic == _OFFSETS else (topic,)


class Unseen(Exception):
    """The cluster is too old to describe transactions (before Kafka 3.0)."""


class _Asked(NamedTuple):
    """A coordinator by the name of what it coordinates. `forget` takes the node that it turned out not to be."""

    name: str
    find: Callable[[str, float], Awaitable[int]]
    forget: Callable[[str, int], None]


class TransactionCoordinators:
    """`sources`: live, by link. `lease_valid`: see `SessionContext`."""

    def __init__(
        self, target: Cluster, sources: Mapping[str, Cluster], lease_valid: Callable[[], bool] = lambda: True
    ) -> None:
        self._lease_valid = lease_valid
        self._target = target
        self._sources = sources

    def cluster_of(self, link: str) -> str:
        """The cluster id of a link's source. Links may share a source: its coordinators are the same ones then.

        Raises:
            Refused: the source has not been reached yet.
        """
        cluster = self._sources.get(link)
        if cluster is None or not cluster.view.cluster_id:
            raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the source of link {link} was not reached yet")
        return cluster.view.cluster_id

    def has(self, side: TransactionSide) -> bool:
        """True when some link leads to the place."""
        return not side.cluster or any(c.view.cluster_id == side.cluster for c in self._sources.values())

    def cluster(self, side: TransactionSide) -> Cluster:
        """The cluster of a place.

        Raises:
            Refused: no link leads to it.
        """
        if not side.cluster:
            return self._target
        for cluster in self._sources.values():
            if cluster.view.cluster_id == side.cluster:
                return cluster
        raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"no link leads to {side}")

    async def call(self, side: TransactionSide, transactional_id: str, message: Any, cap: int) -> Any:
        """Send a request to the coordinator of the transactional id, once.

        When the caller stops waiting, or there is no answer in time, the connection closes: what was written to it must
        not arrive behind what the client, told nothing, asks by another gateway.

        Args:
            transactional_id: the client's; `message` has that of the place.

        Raises:
            Refused: nothing was sent.
            Lost: sent, not answered; or the write lease is over, and nobody may count on the answer.
        """
        self._require_lease()
        return self._leased(await self._call(side, transactional_id, message, cap))

    async def _call(self, side: TransactionSide, transactional_id: str, message: Any, cap: int) -> Any:
        name = id_at(transactional_id, side)
        cluster = self.cluster(side)
        find, forget = cluster.transaction_coordinator, cluster.invalidate_transaction_coordinator
        return await self._send(cluster, _Asked(name, find, forget), message, cap)

    def _require_lease(self) -> None:
        if not self._lease_valid():
            reason = "this gateway was not heard by its fleet for too long"
            raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, reason)

    def _leased(self, answer: Any) -> Any:
        if not self._lease_valid():
            raise Lost("the write lease of this gateway was over when the answer came")
        return answer

    async def call_group(self, side: TransactionSide, group: str, message: Any, cap: int) -> Any:
        """Send a request to the coordinator of a group, once. Raises as `call`."""
        self._require_lease()
        cluster = self.cluster(side)
        asked = _Asked(group, cluster.coordinator, cluster.invalidate_coordinator)
        return self._leased(await self._send(cluster, asked, message, cap))

    async def _send(self, cluster: Cluster, asked: _Asked, message: Any, cap: int) -> Any:
        """Whoever turns out not to be the coordinator is forgotten, and nobody that was found meanwhile."""
        try:
            node = await asked.find(asked.name, TIMEOUT_S)
        except BrokerError as exc:
            raise Refused(exc.code, str(exc)) from exc
        except NetError as exc:
            raise Refused(_unconnected(cluster, message, exc), str(exc)) from exc
        connection = await self._connected(cluster, asked, node, message, cap)
        try:
            answer = await connection.request(message, cap=cap, timeout_s=TIMEOUT_S)
        except NetError as exc:
            _abandon(connection, message)
            asked.forget(asked.name, node)
            raise Lost(str(exc)) from exc
        except asyncio.CancelledError:
            _abandon(connection, message)
            raise
        if not _MOVED.isdisjoint(_codes(answer)):
            asked.forget(asked.name, node)
        return answer

    @staticmethod
    async def _connected(cluster: Cluster, asked: _Asked, node: int, message: Any, cap: int) -> Connection:
        """Raises Refused."""
        try:
            client = CLIENT.get()
            if client is None:
                connection = await cluster.connection(node, LANE, TIMEOUT_S)
            else:
                connection = await cluster.connection_for(client, node, LANE, TIMEOUT_S)
            connection.version(int(message.API_KEY), cap)
        except BrokerError as exc:
            raise Refused(exc.code, str(exc)) from exc
        except UnsupportedVersion as exc:
            raise Refused(ErrorCode.UNSUPPORTED_VERSION, str(exc)) from exc
        except NetError as exc:
            asked.forget(asked.name, node)
            raise Refused(_unconnected(cluster, message, exc), str(exc)) from exc
        return connection

    async def init(
        self, side: TransactionSide, transactional_id: str, timeout_ms: int, expected: ProducerIdentity | None
    ) -> ProducerIdentity:
        """InitProducerId at a place: fences whoever had the transactional id there, ends what it left open.

        Args:
            expected: the identity to go on from (KIP-360), None to begin anew.

        Raises:
            Refused: with the coordinator's code; CONCURRENT_TRANSACTIONS when the old transaction takes its time.
            Lost: not answered.
        """
        producer_id, epoch = expected or (-1, -1)
        deadline = asyncio.get_running_loop().time() + _CONCURRENT_S
        while True:
            request = InitProducerIdRequest(
                transactional_id=id_at(transactional_id, side),
                transaction_timeout_ms=timeout_ms,
                producer_id=producer_id,
                producer_epoch=epoch,
            )
            answer = await self.call(side, transactional_id, request, _INIT_CAP)
            if not answer.error_code:
                return ProducerIdentity(answer.producer_id, answer.producer_epoch)
            if answer.error_code not in _BUSY or asyncio.get_running_loop().time() >= deadline:
                raise Refused(answer.error_code, f"InitProducerId of {transactional_id!r} at {side}")
            await asyncio.sleep(_AGAIN_S)

    async def describe(self, side: TransactionSide, transactional_id: str) -> SeenTransaction | None:
        """The transactional id as its coordinator sees it; None when it does not know it.

        Raises:
            Unseen: the cluster cannot tell.
            Refused, Lost: no answer.
        """
        request = DescribeTransactionsRequest(transactional_ids=[id_at(transactional_id, side)])
        try:
            answer = await self._call(side, transactional_id, request, 0)
        except Refused as exc:
            if exc.code == ErrorCode.UNSUPPORTED_VERSION:
                raise Unseen(str(side)) from exc
            raise
        found = answer.transaction_states[0]
        if found.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            return None
        if found.error_code:
            raise Refused(found.error_code, f"DescribeTransactions of {transactional_id!r} at {side}")
        return SeenTransaction(
            ProducerIdentity(found.producer_id, found.producer_epoch),
            found.transaction_state,
            found.transaction_timeout_ms,
            frozenset(name for topic in found.topics for name in _names(topic.topic, topic.partitions)),
        )

    async def offsets_name_of(self, side: TransactionSide, group: str) -> str | None:
        """The name of the partition that has a group's offsets; None when the place does not show that topic."""
        cluster = self.cluster(side)
        for refreshed in (False, True):
            if (topic := cluster.view.topics.get(_OFFSETS)) is not None and topic.partitions:
                return offsets_name(abs(java_hash(group)) % len(topic.partitions))
            if not refreshed:
                with suppress(NetError):
                    await cluster.refresh([_OFFSETS])
        return None

    async def unended(self, side: TransactionSide) -> frozenset[str]:
        """The transactional ids, as the cluster knows them, that have a transaction which is not wholly ended.

        Empty from a cluster that cannot tell (before Kafka 3.0), and of brokers that do not answer: what counts at a
        cutover is what the leader asks last (`operations/origin_ends.py`).
        """
        cluster = self.cluster(side)
        asked = (unended_at(cluster, node, TIMEOUT_S) for node in cluster.view.brokers)
        answers = await asyncio.gather(*asked, return_exceptions=True)
        return frozenset(name for answer in answers if not isinstance(answer, BaseException) for name in answer)


def _codes(answer: Any) -> Iterator[int]:
    """The error codes of a coordinator's answer, as each kind of them has them; partitions have one each."""
    if (code := getattr(answer, "error_code", None)) is not None:
        yield code
    for topic in getattr(answer, "topics", ()):  # TxnOffsetCommit
        yield from (part.error_code for part in topic.partitions)
    for topic in getattr(answer, "results_by_topic_v3_and_below", ()):  # AddPartitionsToTxn
        yield from (part.partition_error_code for part in topic.results_by_partition)
    for state in getattr(answer, "transaction_states", ()):  # DescribeTransactions
        yield state.error_code


def _abandon(connection: Connection, message: Any) -> None:
    """Nobody waits for the answer any more. What only asks may come as late as it likes."""
    if not isinstance(message, DescribeTransactionsRequest):
        connection.take_back("a request of a client that has gone may be on its way")


def _unconnected(cluster: Cluster, message: Any, error: NetError) -> ErrorCode:
    """What a client is told: to try again, but for a login that is its own, and that the source does not take."""
    if cluster.clients is None or not isinstance(error, AuthenticationFailed):
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if isinstance(message, TxnOffsetCommitRequest):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


_INIT_CAP = 5  # v6 is not stable
