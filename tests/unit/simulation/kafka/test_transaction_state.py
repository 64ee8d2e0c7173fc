"""The rules of a transactional id in the broker model."""

from __future__ import annotations

from itertools import count

from protocol.errors import ErrorCode
from tests.simulation.kafka.groups.group_offsets import CommittedOffset, GroupOffsets
from tests.simulation.kafka.transaction_state import LAST_EPOCH, Transaction, TxnRecord, TxnState

T0 = ("t", 0)
T1 = ("t", 1)


class Lab:
    """One transactional id whose changes are written at once."""

    def __init__(self, epoch: int = -1) -> None:
        self.ids = count(7)
        self.txn = Transaction("x", TxnRecord(producer_id=next(self.ids), epoch=epoch))

    def _done(self, change: TxnRecord | int) -> int:
        if not isinstance(change, TxnRecord):
            return change
        self.txn.carry_out(change)
        return 0

    def init(self, expected: tuple[int, int] | None = None) -> int:
        change = self.txn.init(1000, expected, lambda: next(self.ids), 0)
        if isinstance(change, TxnRecord) and change.state is TxnState.FENCE:
            self._done(self.txn.abort_paused(False, 0))
            return ErrorCode.CONCURRENT_TRANSACTIONS
        return self._done(change)

    def add(self, *partitions: tuple[str, int], epoch: int | None = None) -> int:
        now = self.txn.now
        return self._done(self.txn.add(now.producer_id, now.epoch if epoch is None else epoch, partitions, 5))

    def end(self, commit: bool, *, epoch: int | None = None, bumps: bool = False) -> int:
        now = self.txn.now
        at = now.epoch if epoch is None else epoch
        return self._done(
            self.txn.end(now.producer_id, at, commit, bumps=bumps, new_id=lambda: next(self.ids), now_ms=9)
        )

    def complete(self) -> None:
        self._done(self.txn.complete(10))

    @property
    def producer(self) -> tuple[int, int]:
        return self.txn.now.producer_id, self.txn.now.epoch


def test_a_transaction_from_beginning_to_end() -> None:
    lab = Lab()
    assert lab.init() == 0
    assert lab.producer == (7, 0)
    assert lab.end(True) == ErrorCode.INVALID_TXN_STATE
    assert lab.add(T0) == 0
    assert lab.add(T0, T1) == 0
    assert list(lab.txn.now.partitions) == [T0, T1]
    assert lab.end(True) == 0
    assert lab.end(True) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert lab.end(False) == ErrorCode.INVALID_TXN_STATE
    assert lab.add(T0) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert lab.init() == ErrorCode.CONCURRENT_TRANSACTIONS
    lab.complete()
    assert lab.end(True) == 0
    assert lab.end(False) == ErrorCode.INVALID_TXN_STATE
    assert list(lab.txn.now.partitions) == []


def test_while_a_change_is_written_others_wait() -> None:
    lab = Lab()
    lab.init()
    lab.txn.add(7, 0, [T0], 0)
    assert lab.end(True) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert lab.init() == ErrorCode.CONCURRENT_TRANSACTIONS


def test_a_second_producer_fences_the_first_and_aborts_its_transaction() -> None:
    lab = Lab()
    lab.init()
    lab.add(T0)
    assert lab.init() == ErrorCode.CONCURRENT_TRANSACTIONS
    assert lab.txn.now.state is TxnState.PREPARE_ABORT
    assert lab.end(True, epoch=0) == ErrorCode.PRODUCER_FENCED
    lab.complete()
    assert lab.init() == 0
    assert lab.producer == (7, 2)
    assert lab.add(T0, epoch=0) == ErrorCode.PRODUCER_FENCED


def test_a_producer_recovers_with_its_own_id_and_epoch() -> None:
    lab = Lab()
    lab.init()
    assert lab.init((7, 0)) == 0
    assert lab.producer == (7, 1)
    assert lab.init((7, 0)) == 0  # a retry whose answer was lost
    assert lab.producer == (7, 1)
    lab.init()
    assert lab.init((7, 0)) == ErrorCode.PRODUCER_FENCED
    assert lab.init((8, 2)) == ErrorCode.PRODUCER_FENCED


def test_an_exhausted_producer_id_is_replaced() -> None:
    lab = Lab(epoch=LAST_EPOCH)
    assert lab.init() == 0
    assert lab.producer == (8, 0)
    lab = Lab(epoch=LAST_EPOCH)
    assert lab.init((7, LAST_EPOCH)) == 0
    assert lab.producer == (8, 0)
    assert lab.init((7, LAST_EPOCH)) == 0
    assert lab.producer == (8, 0)


def test_with_transactions_v2_every_end_bumps_the_epoch() -> None:
    lab = Lab()
    lab.init()
    lab.add(T0)
    assert lab.end(True, bumps=True) == 0
    assert lab.producer == (7, 1)
    assert lab.end(True, epoch=0, bumps=True) == ErrorCode.CONCURRENT_TRANSACTIONS
    lab.complete()
    assert lab.end(True, epoch=0, bumps=True) == 0
    assert lab.end(True, bumps=True) == ErrorCode.INVALID_TXN_STATE


def test_verification() -> None:
    lab = Lab()
    lab.init()
    lab.add(T0)
    assert lab.txn.verify(7, 0, T0) == 0
    assert lab.txn.verify(7, 0, T1) == ErrorCode.TRANSACTION_ABORTABLE
    assert lab.txn.verify(8, 0, T0) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert lab.txn.verify(7, 1, T0) == ErrorCode.PRODUCER_FENCED


def test_timeouts_are_of_open_transactions() -> None:
    lab = Lab()
    lab.init()
    assert not lab.txn.timed_out(10_000)
    lab.add(T0)
    assert not lab.txn.timed_out(1005)
    assert lab.txn.timed_out(1006)


def test_pending_offsets_count_from_when_they_were_sent() -> None:
    offsets = GroupOffsets()
    offsets.commit_pending(7, "g", {T0: CommittedOffset(5, -1, "")})
    assert offsets.is_unstable("g", T0)
    offsets.commit("g", {T0: CommittedOffset(9, -1, "")})
    offsets.commit_pending(7, "g", {T1: CommittedOffset(6, -1, "")})
    offsets.complete(7, True, lambda group: group == "other")
    assert offsets.is_unstable("g", T1)
    offsets.complete(7, True, lambda group: group == "g")
    assert {key: found.offset for key, found in offsets.of("g").items()} == {T0: 9, T1: 6}
    assert not offsets.is_unstable("g", T0)


def test_aborted_offsets_are_dropped() -> None:
    offsets = GroupOffsets()
    offsets.commit_pending(7, "g", {T0: CommittedOffset(5, -1, "")})
    offsets.complete(7, False, lambda group: True)
    assert offsets.of("g") == {}
