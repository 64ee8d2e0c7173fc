"""The coordinators of transactions at every place, and how a request that went to one of them can end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from gateway.domain.transactional_ids import Place, ProducerIdentity, id_at
from gateway.net.cluster import Cluster
from gateway.net.errors import BrokerError, NetError, UnsupportedVersion
from protocol.errors import ErrorCode, error_name
from protocol.messages import DescribeTransactionsRequest, InitProducerIdRequest, ListTransactionsRequest

LANE = "transactions"
TIMEOUT_S = 10.0
_CONCURRENT_S = 5.0
_AGAIN_S = 0.05
_MOVED = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
_BUSY = (*_MOVED, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS)


class Refused(Exception):
    """To be answered to the client with this error code; nothing was done that it would have to know of."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{error_name(code)}: {reason}")
        self.code = int(code)


class Lost(Exception):
    """A request was sent and not answered: whether it was carried out is unknown. Only its client may try again."""


class SeenTransaction(NamedTuple):
    """A transactional id as its coordinator describes it (KIP-664). `topics` are names at that place."""

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


class Unseen(Exception):
    """The cluster is too old to describe transactions (before Kafka 3.0)."""


class Places:
    """`sources`: live, by link. `lease_valid`: see `ProxyContext`."""

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

    def has(self, place: Place) -> bool:
        """True when some link leads to the place."""
        return not place.cluster or any(c.view.cluster_id == place.cluster for c in self._sources.values())

    def cluster(self, place: Place) -> Cluster:
        """The cluster of a place.

        Raises:
            Refused: no link leads to it.
        """
        if not place.cluster:
            return self._target
        for cluster in self._sources.values():
            if cluster.view.cluster_id == place.cluster:
                return cluster
        raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"no link leads to {place}")

    async def call(self, place: Place, transactional_id: str, message: Any, cap: int) -> Any:
        """Send a request to the coordinator of the transactional id, once.

        Args:
            transactional_id: the client's; `message` has that of the place.

        Raises:
            Refused: nothing was sent.
            Lost: sent, not answered; or the write lease is over, and nobody may count on the answer.
        """
        self._require_lease()
        return self._leased(await self._call(place, transactional_id, message, cap))

    async def _call(self, place: Place, transactional_id: str, message: Any, cap: int) -> Any:
        name = id_at(transactional_id, place)
        cluster = self.cluster(place)
        return await self._send(cluster, cluster.transaction_coordinator(name, TIMEOUT_S), message, cap, name)

    def _require_lease(self) -> None:
        if not self._lease_valid():
            reason = "this gateway was not heard by its fleet for too long"
            raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, reason)

    def _leased(self, answer: Any) -> Any:
        if not self._lease_valid():
            raise Lost("the write lease of this gateway was over when the answer came")
        return answer

    async def call_group(self, place: Place, group: str, message: Any, cap: int) -> Any:
        """Send a request to the coordinator of a group, once. Raises as `call`."""
        self._require_lease()
        cluster = self.cluster(place)
        return self._leased(await self._send(cluster, cluster.coordinator(group, TIMEOUT_S), message, cap, group))

    async def _send(self, cluster: Cluster, coordinator: Any, message: Any, cap: int, name: str) -> Any:
        try:
            node = await coordinator
            connection = await cluster.connection(node, LANE, TIMEOUT_S)
            connection.version(int(message.API_KEY), cap)
        except BrokerError as exc:
            raise Refused(exc.code, str(exc)) from exc
        except UnsupportedVersion as exc:
            raise Refused(ErrorCode.UNSUPPORTED_VERSION, str(exc)) from exc
        except NetError as exc:
            self._forget(cluster, name)
            raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(exc)) from exc
        try:
            return await connection.request(message, cap=cap, timeout_s=TIMEOUT_S)
        except NetError as exc:
            self._forget(cluster, name)
            raise Lost(str(exc)) from exc

    def noticed(self, place: Place, transactional_id: str, code: int) -> None:
        """An error code of a coordinator's answer: it may have moved."""
        if code in _MOVED:
            self._forget(self.cluster(place), id_at(transactional_id, place))

    @staticmethod
    def _forget(cluster: Cluster, name: str) -> None:
        cluster.invalidate_transaction_coordinator(name)
        cluster.invalidate_coordinator(name)

    async def init(
        self, place: Place, transactional_id: str, timeout_ms: int, expected: ProducerIdentity | None
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
                transactional_id=id_at(transactional_id, place),
                transaction_timeout_ms=timeout_ms,
                producer_id=producer_id,
                producer_epoch=epoch,
            )
            answer = await self.call(place, transactional_id, request, _INIT_CAP)
            if not answer.error_code:
                return ProducerIdentity(answer.producer_id, answer.producer_epoch)
            self.noticed(place, transactional_id, answer.error_code)
            if answer.error_code not in _BUSY or asyncio.get_running_loop().time() >= deadline:
                raise Refused(answer.error_code, f"InitProducerId of {transactional_id!r} at {place}")
            await asyncio.sleep(_AGAIN_S)

    async def describe(self, place: Place, transactional_id: str) -> SeenTransaction | None:
        """The transactional id as its coordinator sees it; None when it does not know it.

        Raises:
            Unseen: the cluster cannot tell.
            Refused, Lost: no answer.
        """
        request = DescribeTransactionsRequest(transactional_ids=[id_at(transactional_id, place)])
        try:
            answer = await self._call(place, transactional_id, request, 0)
        except Refused as exc:
            if exc.code == ErrorCode.UNSUPPORTED_VERSION:
                raise Unseen(str(place)) from exc
            raise
        found = answer.transaction_states[0]
        if found.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            return None
        if found.error_code:
            self.noticed(place, transactional_id, found.error_code)
            raise Refused(found.error_code, f"DescribeTransactions of {transactional_id!r} at {place}")
        return SeenTransaction(
            ProducerIdentity(found.producer_id, found.producer_epoch),
            found.transaction_state,
            found.transaction_timeout_ms,
            frozenset(topic.topic for topic in found.topics),
        )

    async def unended(self, place: Place) -> frozenset[str]:
        """The transactional ids, as the cluster knows them, that have a transaction which is not wholly ended.

        Empty from a cluster that cannot tell (before Kafka 3.0), and of brokers that do not answer.
        """
        cluster = self.cluster(place)
        request = ListTransactionsRequest(state_filters=list(_UNENDED), producer_id_filters=[])
        asked = (cluster.request(request, node_id=node, cap=0, timeout_s=TIMEOUT_S) for node in cluster.view.brokers)
        answers = await asyncio.gather(*asked, return_exceptions=True)
        return frozenset(
            found.transactional_id
            for answer in answers
            if not isinstance(answer, BaseException)
            for found in answer.transaction_states
        )


_UNENDED = ("Ongoing", "PrepareCommit", "PrepareAbort")
_INIT_CAP = 5  # v6 is not stable
