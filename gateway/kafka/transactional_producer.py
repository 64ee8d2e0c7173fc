"""A producer with a transactional id that writes to one topic of one partition, a transaction at a time.

    InitProducerId → (AddPartitionsToTxn → Produce → EndTxn)*        KIP-98, in the versions before KIP-890's

Whoever calls `init` last has the transactional id: everybody before is fenced, and their open transaction aborted.

**Unknown outcomes.** An EndTxn(commit) without an answer may be carried out at any later time, as by a broker that was
paused. Once its caller was told that the outcome is unknown, it is never asked for again. `resolve_outcome` ends it:
EndTxn(abort) aborts what is still open; InitProducerId with one's own id and epoch (KIP-360) waits for a commit that is
prepared, and raises the epoch, so that whatever is still on its way is refused. Then the log is read: it has the
records, or never will.
Before EndTxn(commit) was sent nothing is unknown: such a transaction is never committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.errors import (
    BrokerError,
    ClusterUnavailable,
    NetError,
    RequestTimedOut,
    UnsupportedVersion,
)
from gateway.kafka.logs.compacted_log import produce
from gateway.kafka.logs.log_follower import fetch_committed
from gateway.transport.backoff import Backoff
from protocol.batch.aborted import AbortedTransactions
from protocol.batch.header import iter_batches
from protocol.batch.keyed import KeyedRecord, transactional_batch
from protocol.batch.stamp import Stamp
from protocol.errors import ErrorCode, error_name, is_retriable
from protocol.fetch import FetchedPartition
from protocol.messages import (
    AddPartitionsToTxnRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
)

_T = TypeVar("_T")
_LANE: Final = "transactions"
_TRY_S: Final = 5.0  # one request's time; then another one is sent on another connection
_BACKOFF_S: Final = (0.005, 0.5)  # the first for CONCURRENT_TRANSACTIONS: the markers take some round trips of brokers
_SLOWEST: Final = 1024 * 1024  # bytes/s that a request may take longer for
_BATCH_BYTES: Final = 1024 * 1024  # of what is encoded, compressed and sent in one turn of the loop
_LOOK_S: Final = 0.5
_INIT_CAP, _ADD_CAP, _END_CAP = 4, 3, 4  # the last ones in which the epoch is the client's to raise (KIP-890)

_FENCED: Final = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
_MOVED: Final = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)


class Fenced(NetError):
    """Somebody else has the transactional id, or the coordinator has given this producer up. It can write no more."""


class NotCommitted(NetError):
    """The transaction was not committed, and never will be."""


class OutcomeUnknown(NetError):
    """The transaction was or will be committed, or not: `resolve_outcome` finds out."""


class _NoLonger(Exception):
    """`still` has raised; the cause says what."""


class _TransactionSpan(NamedTuple):
    """Where a transaction's records are in the log, if they are."""

    producer_id: int
    epoch: int
    first: int
    last: int


class LogProducer:
    """Calls must not overlap. `timeout_ms`: after which the coordinator aborts an open transaction."""

    def __init__(self, cluster: Cluster, transactional_id: str, topic: str, *, timeout_ms: int = 60_000) -> None:
        self._cluster = cluster
        self._name = transactional_id
        self._topic = topic
        self._timeout_ms = timeout_ms
        self._id, self._epoch, self._sequence = -1, -1, 0
        self._open = False  # the coordinator may have, or come to have, a transaction of this epoch
        self._lost = False  # a request of this epoch was not answered
        self._unknown: _TransactionSpan | None = None
        self._fenced = ""
        self._unmapped = False  # since the coordinator has no such producer id under this transactional id
        self._last = -1  # the offset of the last record that is known to be committed
        self._is_anew = False  # the transactional id was forgotten, and is taken anew: nothing was committed since

    async def init(self, timeout_s: float) -> None:
        """Take the transactional id over.

        Raises:
            ClusterUnavailable: no answer within the time.
            BrokerError: refused.
        """
        self._id, self._epoch = -1, -1
        await self._init(_now() + timeout_s)

    async def commit(
        self, records: Sequence[KeyedRecord], timeout_s: float, still: Callable[[], None] = lambda: None
    ) -> int:
        """Write records, at least one, in one transaction. Returns the offset of the last.

        Args:
            still: called right before each time that EndTxn(commit) is sent. What it raises is raised here, and nothing
                is written; but when one that was sent before turns out to have been carried out, that is the result.

        Raises:
            NotCommitted: nothing was written.
            OutcomeUnknown: `resolve_outcome` before the next commit.
            Fenced: somebody else has the transactional id.
        """
        self._require_usable()
        if self._unknown is not None:
            raise OutcomeUnknown("what became of the transaction before is not known yet")
        deadline = _now() + timeout_s
        try:
            await self._renew(deadline)  # one that was given up, if there is one
            self._open = True
            await self._begin(deadline)
            span = await self._produce_all(records, deadline)
            if self._is_anew:
                await self._require_own(span, deadline)
            sending = partial(self._is_sent, span, still)
            await self._ask("EndTxn", self._end_request(commit=True), _code, deadline, cap=_END_CAP, sending=sending)
        except ClusterUnavailable as exc:
            raise self._unanswered(exc) from exc
        except (BrokerError, _NoLonger) as exc:
            return await self._given_up(exc, deadline)
        # A request that was sent twice may arrive a second time: it must not meet the next transaction (KIP-890).
        self._open, self._unknown = self._lost, None
        self._last = span.last
        return span.last

    async def _begin(self, deadline: float) -> None:
        """The coordinator has a transaction of this producer, with the topic in it.

        A transactional id that nobody uses for `transactional.id.expiration.ms` (7 days) is forgotten, which is no
        take-over: whoever takes over makes the coordinator know it again, and is asked for (KIP-664). It is proved
        twice more that nobody did: a producer id that is new begins at epoch 0, so behind a higher one somebody came in
        between (or the answer to this very request was lost: then nothing is proved); and nobody's records are in the
        log behind the last own one (`_require_own`), who may have been forgotten as well by now.
        """
        try:
            await self._ask("AddPartitionsToTxn", self._add_request(), _code_of_partition, deadline, cap=_ADD_CAP)
        except Fenced:
            if not self._unmapped or not await self._is_forgotten(deadline):
                raise
            self._fenced, self._unmapped = "", False
            self._id, self._epoch, self._is_anew = -1, -1, True
            await self._init(deadline)
            if self._epoch:
                self._fenced = "the transactional id was forgotten, and somebody else has taken it meanwhile"
                self._require_usable()
            await self._ask("AddPartitionsToTxn", self._add_request(), _code_of_partition, deadline, cap=_ADD_CAP)

    async def _require_own(self, span: _TransactionSpan, deadline: float) -> None:
        """Nobody else has committed anything since this producer has: `span` is open, so the last stable offset is at
        its first record, and whatever is before it is to be read."""
        found = await self._first_of_others(span, deadline)
        if found < 0:
            self._is_anew = False
            return
        with suppress(ClusterUnavailable, BrokerError):  # else the coordinator does it in time
            await self._ask("EndTxn", self._end_request(commit=False), _code, deadline, cap=_END_CAP)
        self._fenced = f"the transactional id was forgotten, and somebody else has written offset {found} meanwhile"
        self._require_usable()

    async def _first_of_others(self, span: _TransactionSpan, deadline: float) -> int:
        """The first offset between the last own record and `span` that somebody has committed a record at, or that it
        cannot be said of; -1: there is none."""
        position = self._last + 1
        if not position:
            return 0

        async def once(timeout_s: float) -> tuple[int, FetchedPartition]:
            part = await fetch_committed(self._cluster, self._topic, position, min(timeout_s, _LOOK_S))
            if not part.error_code and part.last_stable_offset < span.first:  # has not heard of all yet
                return ErrorCode.OFFSET_NOT_AVAILABLE, part
            return 0 if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE else part.error_code, part

        while position < span.first:
            part = await self._again("Fetch", once, deadline)
            if part.error_code:
                return position
            aborted, before = AbortedTransactions(part.aborted), position
            for header, _ in iter_batches(part.records):
                gone = aborted.is_aborted(header) or header.is_control
                if header.last_offset >= position and header.base_offset < span.first:
                    if not gone:
                        return header.last_offset
                    position = header.next_offset
            if position == before:  # the rest was compacted away
                break
        return -1

    async def _is_forgotten(self, deadline: float) -> bool:
        """Whether the coordinator knows nothing of the transactional id; False too where it does not tell (before Kafka
        3.0)."""
        request = DescribeTransactionsRequest(transactional_ids=[self._name])

        async def once(timeout_s: float) -> tuple[int, bool | None]:
            node = await self._cluster.transaction_coordinator(self._name, timeout_s)
            connection = await self._cluster.connection(node, _LANE, timeout_s)
            (state,) = (await connection.request(request, timeout_s=timeout_s)).transaction_states
            if state.error_code in _MOVED:
                self._cluster.invalidate_transaction_coordinator(self._name, node)
                return state.error_code, None
            return 0, state.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND

        self._fenced, kept = "", self._fenced  # to be told by the answer alone
        try:
            return bool(await self._again("DescribeTransactions", once, deadline))
        except UnsupportedVersion:
            return False
        finally:
            self._fenced = kept

    async def resolve_outcome(self, timeout_s: float) -> int:
        """Find out what became of a commit of unknown outcome: the offset of its last record; -1: there was none.

        Raises:
            NotCommitted: it was not made, and never will be.
            OutcomeUnknown: still not known.
            Fenced: somebody else has the transactional id: who reads the topic sees what became of it.
        """
        return -1 if self._unknown is None else await self._resolve_outcome(self._unknown, _now() + timeout_s)

    async def _resolve_outcome(self, span: _TransactionSpan, deadline: float) -> int:
        try:
            await self._renew(deadline)
            made = await self._is_committed(span, deadline)
        except (ClusterUnavailable, BrokerError) as exc:
            raise OutcomeUnknown(str(exc)) from exc
        self._unknown = None
        if not made:
            raise NotCommitted("it was aborted")
        self._last = span.last
        return span.last

    def _unanswered(self, exc: ClusterUnavailable) -> NetError:
        return NotCommitted(str(exc)) if self._unknown is None else OutcomeUnknown(str(exc))

    def _is_sent(self, span: _TransactionSpan, still: Callable[[], None]) -> None:
        try:
            still()
        except Exception as exc:
            raise _NoLonger from exc
        self._unknown = span

    async def _given_up(self, exc: BrokerError | _NoLonger, deadline: float) -> int:
        """An EndTxn that was refused, or is not sent again, may have been carried out when it was sent before."""
        try:
            if self._unknown is not None:
                return await self._resolve_outcome(self._unknown, deadline)
            with suppress(ClusterUnavailable, BrokerError):  # else the next commit does it, or the coordinator in time
                await self._renew(deadline)
        except NotCommitted:
            pass
        if isinstance(exc, _NoLonger) and exc.__cause__ is not None:
            raise exc.__cause__
        raise NotCommitted(str(exc)) from exc

    async def _renew(self, deadline: float) -> None:
        """End what may be open, and go on with a higher epoch: what is still on its way is refused from then on."""
        self._require_usable()
        if not self._open:
            return
        # INVALID_TXN_STATE: nothing is open. It was committed, or is being, or had not been begun.
        await self._ask(
            "EndTxn", self._end_request(commit=False), _code, deadline, cap=_END_CAP, good=ErrorCode.INVALID_TXN_STATE
        )
        await self._init(deadline)
        self._open = False

    # -- requests ------------------------------------------------------------------------------------------------

    async def _init(self, deadline: float) -> None:
        request = InitProducerIdRequest(
            transactional_id=self._name,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=self._id,
            producer_epoch=self._epoch,
        )
        answer = await self._ask("InitProducerId", request, _code, deadline, cap=_INIT_CAP)
        self._id, self._epoch, self._sequence, self._lost = answer.producer_id, answer.producer_epoch, 0, False

    def _add_request(self) -> Any:
        topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=self._topic, partitions=[0])
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._name,
            v3_and_below_producer_id=self._id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[topic],
        )

    def _end_request(self, *, commit: bool) -> Any:
        return EndTxnRequest(
            transactional_id=self._name, producer_id=self._id, producer_epoch=self._epoch, committed=commit
        )

    async def _ask(
        self,
        what: str,
        request: Any,
        code_of: Callable[[Any], int],
        deadline: float,
        *,
        cap: int,
        good: int = 0,
        sending: Callable[[], None] = lambda: None,
    ) -> Any:
        """The coordinator's answer without an error. `sending`: called right before each time the request is sent."""

        async def once(timeout_s: float) -> tuple[int, Any]:
            node = await self._cluster.transaction_coordinator(self._name, timeout_s)
            try:
                connection = await self._cluster.connection(node, _LANE, timeout_s)
                sending()
                answer = await connection.request(request, cap=cap, timeout_s=timeout_s)
            except ClusterUnavailable:
                self._cluster.invalidate_transaction_coordinator(self._name, node)
                raise
            code = code_of(answer)
            if code in _MOVED:
                self._cluster.invalidate_transaction_coordinator(self._name, node)
            return (0 if code == good else code), answer

        return await self._again(what, once, deadline)

    async def _produce_all(self, records: Sequence[KeyedRecord], deadline: float) -> _TransactionSpan:
        first = last = -1
        for part in _parts(records):
            batch = transactional_batch(
                part, self._cluster.host.wall_ms(), Stamp(self._id, self._epoch, self._sequence)
            )

            async def once(timeout_s: float, batch: bytes = batch) -> tuple[int, int]:
                found = await produce(
                    self._cluster, self._topic, batch, lane=_LANE, timeout_s=timeout_s, transactional_id=self._name
                )
                return found.error_code, found.base_offset

            base = await self._again("Produce", once, deadline, _TRY_S + len(batch) / _SLOWEST)
            self._sequence += len(part)
            first, last = base if first < 0 else first, base + len(part) - 1
        return _TransactionSpan(self._id, self._epoch, first, last)

    async def _is_committed(self, span: _TransactionSpan, deadline: float) -> bool:
        """Whether the transaction, which has ended, is in the log."""

        async def once(timeout_s: float) -> tuple[int, bool | None]:
            part = await fetch_committed(self._cluster, self._topic, span.last, min(timeout_s, _LOOK_S))
            if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                return 0, False
            if part.error_code:
                self._cluster.invalidate(self._topic)
                return part.error_code, None
            if part.last_stable_offset <= span.last:  # a new leader that has not heard of all yet
                return ErrorCode.OFFSET_NOT_AVAILABLE, None
            aborted = AbortedTransactions(part.aborted)
            for header, _ in iter_batches(part.records):
                gone = aborted.is_aborted(header)
                if header.last_offset >= span.last:
                    ours = (header.producer_id, header.producer_epoch) == span[:2] and not header.is_control
                    return 0, ours and not gone
            return 0, False

        return bool(await self._again("Fetch", once, deadline))

    async def _again(
        self, what: str, once: Callable[[float], Awaitable[tuple[int, _T]]], deadline: float, try_s: float = _TRY_S
    ) -> _T:
        """Until there is an answer, or the time is over: ClusterUnavailable says why."""
        backoff = Backoff(*_BACKOFF_S, self._cluster.rng)
        problem = "no time was left"
        while (left_s := deadline - _now()) > 0:
            try:
                code, answer = await once(min(try_s, left_s))
                if not code:
                    return answer
                problem = self._refusal(what, code)
            except RequestTimedOut as exc:
                self._cluster.drop((_LANE,), str(exc))
                problem, self._lost = str(exc), True
            except ClusterUnavailable as exc:
                problem, self._lost = str(exc), True
            await asyncio.sleep(min(backoff.next(), max(0.0, deadline - _now())))
        raise ClusterUnavailable(problem)

    def _refusal(self, what: str, code: int) -> str:
        """An answer that may be another one later; raises for any other."""
        if code in _FENCED:
            self._fenced = f"{what}: {error_name(code)}"
        elif code == ErrorCode.INVALID_PRODUCER_ID_MAPPING:
            self._unmapped = True
            self._fenced = f"{what}: {error_name(code)}: the coordinator has forgotten it, or gave it another id"
        elif not is_retriable(code):
            raise BrokerError(code, f"{what}: {error_name(code)}")
        self._require_usable()
        return f"{what}: {error_name(code)}"

    def _require_usable(self) -> None:
        if self._fenced:
            raise Fenced(self._fenced)


def _parts(records: Sequence[KeyedRecord]) -> Iterator[Sequence[KeyedRecord]]:
    """Of about `_BATCH_BYTES` each."""
    begin = size = 0
    for index, record in enumerate(records):
        if size > _BATCH_BYTES:
            yield records[begin:index]
            begin, size = index, 0
        size += len(record.key) + len(record.value or b"")
    yield records[begin:]


def _now() -> float:
    return asyncio.get_running_loop().time()


def _code(answer: Any) -> int:
    return int(answer.error_code)


def _code_of_partition(answer: Any) -> int:
    return int(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)
