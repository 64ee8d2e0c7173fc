"""A producer of the Java client: TransactionManager, RecordAccumulator, Sender.

A batch keeps its sequence until it is done. A retried one goes to the front, and only the lowest that is not done may
be sent, so that in a retry one is in flight. A sequence that the broker did not expect is retried while a lower one
is not done; else the epoch is bumped here (no RPC), and what is not done on that partition gets sequences of the new
epoch from 0 on. A batch that expires after it was sent leaves the partition *unresolved*: nothing new is sent until
all in flight are done, then either the numbers fit or the epoch is bumped (KIP-360, KAFKA-5494).
"""

from __future__ import annotations

from typing import Final

from protocol.errors import ErrorCode, is_retriable
from tests.simulation.clients.sequences import NO_SEQUENCE, Batch, Identity, Key, Partition, Refused, Sequences

_E: Final = ErrorCode


class Java(Sequences):
    """See the module."""

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        self._to_rewrite: dict[Key, None] = {}

    def begin(self, identity: Identity) -> None:
        """As the libraries' initTransactions, or their first metadata."""
        super().begin(identity)
        self._to_rewrite.clear()

    def _may_go(self, partition: Partition, batch: Batch) -> bool:
        if batch.sequence != NO_SEQUENCE:
            return partition.flight[0] is batch
        if partition.identity != self.identity:
            if partition.flight:
                return False
            self._begin_at_zero(partition)
        return not partition.unresolved

    def _may_retry(self, batch: Batch, code: int, log_start: int) -> bool:
        if not self.idempotent:
            return is_retriable(code) and not batch.outcome_is_unknown
        partition = self.partitions[batch.key]
        if code == _E.UNKNOWN_PRODUCER_ID:
            if log_start < 0:
                return False
            if batch.reset:
                return True
            if not self.transactional:
                self._to_rewrite[batch.key] = None
                return True
            if partition.last_acked_offset < log_start:
                self._begin_at_zero(partition)
                return True
            return False
        if code == _E.OUT_OF_ORDER_SEQUENCE_NUMBER:
            if not partition.unresolved and (batch.reset or batch.sequence != partition.last_acked + 1):
                return True
            if not self.transactional:
                self._to_rewrite[batch.key] = None
                return True
            return False
        return is_retriable(code)

    def _failed_for_good(self, partition: Partition, batch: Batch, code: int) -> None:
        if self.refused is not None and self.refused.fatal:
            return
        if not self.transactional:
            self._to_rewrite[batch.key] = None
            return
        for other in partition.flight:  # the numbers close up
            if other.sequence > batch.sequence:
                other.sequence -= batch.count
                other.reset = True
        if batch.sequence != NO_SEQUENCE and batch.identity == partition.identity:
            partition.next_sequence -= batch.count

    def _conclude(self) -> None:
        for key, partition in self.partitions.items():
            if partition.unresolved and not partition.flight:
                partition.unresolved = False
                if partition.next_sequence != partition.last_acked + 1:
                    if self.transactional:
                        self.refused = self.refused or Refused(_E.REQUEST_TIMED_OUT, "unresolved sequence", fatal=False)
                    else:
                        self._to_rewrite[key] = None
        if self._to_rewrite and not self.transactional and self.identity is not None:
            self.identity = self.identity._replace(epoch=self.identity.epoch + 1)
            self.bumps += 1
            for key in self._to_rewrite:
                self.partitions[key].unresolved = False
                self._begin_at_zero(self.partitions[key])
            self._to_rewrite.clear()

    def _begin_at_zero(self, partition: Partition) -> None:
        self._told_again(partition.flight)
        partition.identity, partition.last_acked = self.identity, NO_SEQUENCE
        at = 0
        for batch in partition.flight:
            batch.identity, batch.sequence, batch.reset = self.identity, at, True
            at += batch.count
        partition.next_sequence = at
