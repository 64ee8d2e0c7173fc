"""The writing half of the simulated state topic: a producer with a transactional id, as librdkafka's behaves.

What is retriable is tried again until the time is over; then the outcome is unknown, and `settle` goes on with the same
step. A fenced producer is of no use any more; any other refusal aborts the transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

from gateway.control.state_reader import MORE
from gateway.control.state_topic import TOPIC, TRANSACTIONAL_ID, Change
from gateway.control.store_errors import ProducerFenced, StoreError, StoreUncertain
from gateway.net.backoff import Backoff
from gateway.net.cluster import Cluster
from gateway.net.connection import Connection
from gateway.net.errors import ClusterUnavailable
from gateway.net.host import Host
from protocol.apis import ApiKey
from protocol.errors import ErrorCode, error_name, is_retriable
from protocol.messages import AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest
from protocol.produce import build_request_body as build_produce
from protocol.produce import scan_response as scan_produced
from tests.simulation.clients.records import Sent, record_body, stamped_batch

_T = TypeVar("_T")
TRY_S: Final = 5.0
BACKOFF_S: Final = (0.05, 0.5)
_COMMIT_S: Final = 20.0
_TIMEOUT_MS: Final = 60_000
_BY_NAME_PRODUCE: Final = 9
_FENCED: Final = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
_MOVED: Final = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
_INIT_S: Final = 30.0


class _Abortable(Exception):
    """The transaction can only be aborted."""


class Writer:
    """A producer with the state's transactional id. One call at a time.

    `unended`: a commit or an abort whose outcome is unknown.
    """

    def __init__(self, cluster: Cluster, host: Host) -> None:
        self._cluster = cluster
        self._host = host
        self._loop = asyncio.get_running_loop()
        self._id, self._epoch, self._sequence = -1, -1, 0
        self._fatal = ""
        self._records: list[Sent] = []
        self._added = False
        self._last_offset = -1
        self.unended: Callable[[float], Awaitable[int]] | None = None

    async def init(self) -> None:
        """Get an identity; fences whoever had the id before. Raises StoreError, ProducerFenced."""
        try:
            await self._init(self._loop.time() + _INIT_S)
        except TimeoutError:
            raise StoreError("the state topic on the target could not be taken over: no answer in time") from None
        except _Abortable as exc:
            raise StoreError(f"the state topic on the target could not be taken over: {exc}") from exc

    async def commit(self, changes: Sequence[Change]) -> int:
        """See `StateTopic.commit`."""
        self._require_usable()
        self._records = [
            Sent(key.encode(), value, ((MORE, b""),) if left else ())  # type: ignore[arg-type]
            for left, (key, value) in zip(reversed(range(len(changes))), changes, strict=True)
        ]
        self._added, self._last_offset = False, -1
        return await self._end(self._commit)

    async def settle(self) -> int:
        """See `StateTopic.settle`."""
        self._require_usable()
        if self.unended is None:
            return -1
        ending = self.unended
        offset = await self._end(ending)
        if ending == self._abort:
            raise StoreError("the last change of the state was not made")
        return offset

    async def _end(self, attempt: Callable[[float], Awaitable[int]]) -> int:
        self.unended = None
        try:
            return await attempt(self._loop.time() + _COMMIT_S)
        except TimeoutError:
            self.unended = attempt
            raise StoreUncertain("the target has not answered a change of the state") from None
        except _Abortable as exc:
            reason = str(exc)
        await self._end(self._abort)
        raise StoreError(f"the state was not changed: {reason}")

    async def _commit(self, deadline: float) -> int:
        if not self._added:
            await self._ask("AddPartitionsToTxn", self._add_request(), deadline, _code_of_partition, cap=3)
            self._added = True
        if self._last_offset < 0:
            await self._produce(deadline)
        await self._ask("EndTxn", self._end_request(committed=True), deadline, _code, cap=4)
        return self._last_offset

    async def _abort(self, deadline: float) -> int:
        if self._added:
            await self._ask("EndTxn", self._end_request(committed=False), deadline, _code, cap=4)
            self._added = False
        await self._init(deadline)  # what became of the batch's sequence is not known
        return -1

    # -- requests ------------------------------------------------------------------------------------------------

    async def _init(self, deadline: float) -> None:
        request = InitProducerIdRequest(
            transactional_id=TRANSACTIONAL_ID,
            transaction_timeout_ms=_TIMEOUT_MS,
            producer_id=self._id,
            producer_epoch=self._epoch,
        )
        answer = await self._ask("InitProducerId", request, deadline, _code, cap=4)
        self._id, self._epoch, self._sequence = answer.producer_id, answer.producer_epoch, 0

    def _add_request(self) -> Any:
        topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=TRANSACTIONAL_ID,
            v3_and_below_producer_id=self._id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[topic],
        )

    def _end_request(self, *, committed: bool) -> Any:
        return EndTxnRequest(
            transactional_id=TRANSACTIONAL_ID,
            producer_id=self._id,
            producer_epoch=self._epoch,
            committed=committed,
        )

    async def _ask(self, what: str, request: Any, deadline: float, code_of: Callable[[Any], int], *, cap: int) -> Any:
        """The coordinator's answer without an error. TimeoutError: not by the deadline."""

        async def once() -> tuple[int, Any]:
            try:
                node = await self._cluster.transaction_coordinator(TRANSACTIONAL_ID, TRY_S)
                connection = await self._cluster.connection(node, "state-coordinator", TRY_S)
                answer = await connection.request(request, cap=cap, timeout_s=TRY_S)
            except ClusterUnavailable:
                self._cluster.invalidate_transaction_coordinator(TRANSACTIONAL_ID)
                raise
            if (code := code_of(answer)) in _MOVED:
                self._cluster.invalidate_transaction_coordinator(TRANSACTIONAL_ID)
            return code, answer

        return await self._again(what, once, deadline)

    async def _produce(self, deadline: float) -> None:
        batch = stamped_batch(
            record_body(self._records),
            len(self._records),
            self._host.wall_ms(),
            producer_id=self._id,
            epoch=self._epoch,
            sequence=self._sequence,
            transactional=True,
        )

        async def once() -> tuple[int, int]:
            try:
                connection = await to_leader(self._cluster, "state-writer")
                version = connection.version(ApiKey.PRODUCE, _BY_NAME_PRODUCE)
                pieces = build_produce(version, TRANSACTIONAL_ID, -1, int(TRY_S * 1000), {TOPIC: [(0, batch)]})
                body = b"".join(pieces)
                answer = await connection.exchange(connection.send, ApiKey.PRODUCE, version, body, TRY_S)
            except ClusterUnavailable:
                self._cluster.invalidate(TOPIC)
                raise
            result = scan_produced(answer, version)[0]
            if result.error_code:
                self._cluster.invalidate(TOPIC)
            return result.error_code, result.base_offset

        base = await self._again("Produce", once, deadline)
        self._sequence += len(self._records)
        self._last_offset = base + len(self._records) - 1

    async def _again(self, what: str, once: Callable[[], Awaitable[tuple[int, _T]]], deadline: float) -> _T:
        backoff = Backoff(*BACKOFF_S, self._cluster.rng)
        while True:
            async with asyncio.timeout_at(deadline):
                with suppress(ClusterUnavailable):
                    code, answer = await once()
                    if not code:
                        return answer
                    self._refuse_final(what, code)
                await asyncio.sleep(backoff.next())

    def _refuse_final(self, what: str, code: int) -> None:
        if code in _FENCED:
            self._fatal = "another lockgate process has taken over the state topic; this one must stop"
        elif code in (ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_ID_MAPPING):
            self._fatal = f"this process can no longer write the state topic: {what}: {error_name(code)}"
        elif not is_retriable(code) and code != ErrorCode.CONCURRENT_TRANSACTIONS:
            raise _Abortable(f"{what}: {error_name(code)}")
        self._require_usable()

    def _require_usable(self) -> None:
        if self._fatal:
            raise ProducerFenced(self._fatal)


async def to_leader(cluster: Cluster, lane: str) -> Connection:
    """A connection of that lane to whoever leads the state topic. ClusterUnavailable: nobody does."""
    leader = cluster.leader(TOPIC, 0)
    if leader is None:
        await cluster.refresh((TOPIC,), TRY_S)
        leader = cluster.leader(TOPIC, 0)
    if leader is None:
        raise ClusterUnavailable(f"{TOPIC} has no leader")
    return await cluster.connection(leader, lane, TRY_S)


def _code(answer: Any) -> int:
    return int(answer.error_code)


def _code_of_partition(answer: Any) -> int:
    return int(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)
