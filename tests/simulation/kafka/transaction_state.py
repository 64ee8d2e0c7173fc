"""The state of one transactional id, as Kafka's TransactionMetadata keeps it, and the rules by which it changes.

Each change is prepared (`pending` says to what), written to `__transaction_state`, and then carried out; while it is
being written everybody else hears CONCURRENT_TRANSACTIONS. Every method is a decision on the state as it is: it returns
a `Change` to write, or the error code to answer. Versions: with TV1 a producer's epoch grows only by InitProducerId;
with TV2 (EndTxn from version 5 on) by every EndTxn as well (KIP-890).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from protocol.errors import ErrorCode

NO_ID = -1
NO_EPOCH = -1
LAST_EPOCH = 32766
"""The last epoch that a client may have: one more is kept so that it can always be fenced."""

TopicPartition = tuple[str, int]


class TxnState(StrEnum):
    """Kafka's names of the states, as DescribeTransactions shows them."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    FENCE = "PrepareEpochFence"


PREPARED = (TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT)
COMPLETE = (TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT)


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnRecord:
    """What the coordinator writes of a transactional id. Times are milliseconds, -1 for none."""

    producer_id: int
    epoch: int = NO_EPOCH
    previous_id: int = NO_ID
    next_id: int = NO_ID
    last_epoch: int = NO_EPOCH
    timeout_ms: int = 0
    state: TxnState = TxnState.EMPTY
    partitions: tuple[TopicPartition, ...] = ()
    start_ms: int = -1
    update_ms: int = -1
    bumps_epoch: bool = False


Change = TxnRecord


@dataclass(slots=True)
class Transaction:
    """One transactional id: what is written, and what is being written."""

    transactional_id: str
    now: TxnRecord
    pending: TxnState | None = None
    failed_pause: bool = False
    pause_epoch: int = field(default=NO_EPOCH)

    @property
    def exhausted(self) -> bool:
        """The producer id has no epoch left to give out."""
        return self.now.epoch >= LAST_EPOCH

    def _prepare(self, change: Change) -> Change:
        self.pending = change.state
        return change

    def carry_out(self, change: Change) -> None:
        """The change is written."""
        self.now = change
        self.pending = None

    def give_up(self) -> None:
        """The change could not be written."""
        self.pending = None

    def init(
        self, timeout_ms: int, expected: tuple[int, int] | None, new_id: Callable[[], int], now_ms: int
    ) -> Change | int:
        """InitProducerId. `expected` is the producer id and epoch that the client says it has (KIP-360).

        A change to state FENCE is not written: `abort_paused` comes next, and the answer is CONCURRENT_TRANSACTIONS.
        """
        now = self.now
        if self.pending is not None:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        if expected is not None and not self._may_init(expected):
            return ErrorCode.PRODUCER_FENCED
        if now.state in PREPARED:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        if now.state is TxnState.ONGOING:
            return self.fence()
        empty = replace(
            now, state=TxnState.EMPTY, partitions=(), update_ms=now_ms, timeout_ms=timeout_ms,
            previous_id=now.producer_id, next_id=NO_ID, bumps_epoch=False,
        )  # fmt: skip
        if self.exhausted and (expected is None or expected[1] == now.epoch):
            last = NO_EPOCH if expected is None else now.epoch
            return self._prepare(replace(empty, producer_id=new_id(), epoch=0, last_epoch=last))
        if expected is None:
            return self._prepare(replace(empty, epoch=now.epoch + 1, last_epoch=NO_EPOCH))
        if now.epoch == NO_EPOCH or expected[1] == now.epoch:
            return self._prepare(replace(empty, epoch=now.epoch + 1, last_epoch=now.epoch))
        if expected[1] == now.last_epoch:
            return self._prepare(empty)
        return ErrorCode.PRODUCER_FENCED

    def _may_init(self, expected: tuple[int, int]) -> bool:
        producer_id, epoch = expected
        return (
            self.now.epoch == NO_EPOCH
            or producer_id == self.now.producer_id
            or (producer_id == self.now.previous_id and epoch >= LAST_EPOCH)
        )

    def fence(self) -> Change:
        """Prepare to abort the open transaction with a higher epoch."""
        self.pause_epoch = self.now.epoch if self.failed_pause else self.now.epoch + 1
        return self._prepare(replace(self.now, state=TxnState.FENCE, epoch=self.pause_epoch, last_epoch=NO_EPOCH))

    def add(self, producer_id: int, epoch: int, partitions: Iterable[TopicPartition], now_ms: int) -> Change | int:
        """AddPartitionsToTxn or AddOffsetsToTxn. NONE: they are in it already."""
        now = self.now
        error = self._stale(producer_id, epoch)
        if error:
            return error
        if self.pending is not None or now.state in PREPARED:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        new = [key for key in partitions if key not in now.partitions]
        if now.state is TxnState.ONGOING and not new:
            return ErrorCode.NONE
        start_ms = now.start_ms if now.state is TxnState.ONGOING else now_ms
        return self._prepare(
            replace(
                now,
                state=TxnState.ONGOING,
                partitions=(*now.partitions, *new),
                start_ms=start_ms,
                update_ms=now_ms,
                next_id=NO_ID,
                bumps_epoch=False,
            )
        )

    def _stale(self, producer_id: int, epoch: int) -> int:
        if producer_id != self.now.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return ErrorCode.PRODUCER_FENCED if epoch != self.now.epoch else ErrorCode.NONE

    def verify(self, producer_id: int, epoch: int, partition: TopicPartition) -> int:
        """Whether a partition is in the open transaction (KIP-890)."""
        error = self._stale(producer_id, epoch)
        if error:
            return error
        if self.now.state in PREPARED:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        return ErrorCode.NONE if partition in self.now.partitions else ErrorCode.TRANSACTION_ABORTABLE

    def end(
        self, producer_id: int, epoch: int, commit: bool, *, bumps: bool, new_id: Callable[[], int], now_ms: int
    ) -> Change | int:
        """EndTxn of a client. `bumps`: it speaks TV2. NONE: the transaction had ended so before."""
        now = self.now
        overflowed = now.previous_id == producer_id and epoch == LAST_EPOCH and now.epoch == 0
        again = bumps and (now.epoch == epoch + 1 or overflowed)
        if now.producer_id != producer_id and not (bumps and overflowed):
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        fresh = epoch == now.epoch and not (bumps and now.state in PREPARED)
        if not fresh and not (again and now.state in (*PREPARED, *COMPLETE)):
            return ErrorCode.PRODUCER_FENCED
        if self.pending is not None:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        if now.state is TxnState.ONGOING:
            return self._prepare_end(commit, bumps, new_id, now_ms)
        if bumps and not commit and not again:
            return self._prepare_end(commit, bumps, new_id, now_ms)
        return self._end_again(commit, bumps and not again)

    def _prepare_end(self, commit: bool, bumps: bool, new_id: Callable[[], int], now_ms: int) -> Change:
        state = TxnState.PREPARE_COMMIT if commit else TxnState.PREPARE_ABORT
        change = replace(self.now, state=state, update_ms=now_ms, bumps_epoch=bumps)
        if change.start_ms < 0:
            change = replace(change, start_ms=now_ms)
        if bumps:
            next_id = new_id() if self.exhausted else NO_ID
            change = replace(change, epoch=change.epoch + 1, last_epoch=change.epoch, next_id=next_id)
        return self._prepare(change)

    def _end_again(self, commit: bool, fresh: bool) -> int:
        state = self.now.state
        if state is (TxnState.COMPLETE_COMMIT if commit else TxnState.COMPLETE_ABORT) and not fresh:
            return ErrorCode.NONE
        if state is (TxnState.PREPARE_COMMIT if commit else TxnState.PREPARE_ABORT):
            return ErrorCode.CONCURRENT_TRANSACTIONS
        return ErrorCode.INVALID_TXN_STATE

    def abort_paused(self, bumps: bool, now_ms: int) -> Change:
        """The coordinator's own abort, after `fence`: the epoch is one higher than the client's."""
        self.pending = None
        last = self.now.epoch if bumps else NO_EPOCH
        return self._prepare(
            replace(
                self.now,
                state=TxnState.PREPARE_ABORT,
                epoch=self.pause_epoch,
                last_epoch=last,
                update_ms=now_ms,
                bumps_epoch=bumps,
                next_id=NO_ID,
            )
        )

    def complete(self, now_ms: int) -> Change:
        """All markers are written."""
        now = self.now
        self.failed_pause = False
        state = TxnState.COMPLETE_COMMIT if now.state is TxnState.PREPARE_COMMIT else TxnState.COMPLETE_ABORT
        change = replace(now, state=state, partitions=(), update_ms=now_ms, next_id=NO_ID)
        if now.bumps_epoch:
            change = replace(change, previous_id=now.producer_id)
        if now.bumps_epoch and now.next_id != NO_ID:
            change = replace(change, producer_id=now.next_id, epoch=0, last_epoch=now.epoch)
        return self._prepare(change)

    def timed_out(self, now_ms: int) -> bool:
        """The open transaction is older than its timeout."""
        now = self.now
        return now.state is TxnState.ONGOING and self.pending is None and now.start_ms + now.timeout_ms < now_ms
