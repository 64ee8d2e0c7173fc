"""A producer of librdkafka: rd_kafka_handle_Produce_error, rdkafka_idempotence.c.

After a retriable error nothing is sent to the partition until everything in flight is answered; then all are sent
again, in order, with their sequences. An unexpected sequence ends the producer if it was the lowest that is not done,
else the epoch is bumped once nothing is in flight anywhere. Every partition begins at sequence 0 in a new epoch.
"""

from __future__ import annotations

from typing import Final

from protocol.errors import ErrorCode, error_name, is_retriable
from tests.simulation.clients.sequences import NO_SEQUENCE, Batch, Identity, Partition, Refused, Sequences

_E: Final = ErrorCode


class Librdkafka(Sequences):
    """See the module."""

    fenced_by = frozenset((_E.PRODUCER_FENCED, _E.INVALID_PRODUCER_EPOCH))

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        self._bumping = False

    def begin(self, identity: Identity) -> None:
        """A new identity ends the drain."""
        super().begin(identity)
        self._bumping = False

    def _may_go(self, partition: Partition, batch: Batch) -> bool:
        if self._bumping or (partition.draining and partition.on_wire):
            return False
        partition.draining = False
        if partition.identity != self.identity:
            if partition.on_wire:
                return False
            self._told_again(partition.queue)
            for each in partition.queue:
                each.sequence = NO_SEQUENCE
            partition.flight.clear()
            partition.identity, partition.next_sequence, partition.last_acked = self.identity, 0, NO_SEQUENCE
            partition.unresolved = False
        return True

    def _acknowledged(self, batch: Batch, offset: int) -> None:
        """What is before it and may be there is there."""
        partition = self.partitions[batch.key]
        before = [
            b
            for b in partition.queue
            if b.outcome_is_unknown and b.identity == batch.identity and b.sequence < batch.sequence
        ]
        for earlier in before if self.idempotent else ():
            super()._acknowledged(earlier, -1)
        super()._acknowledged(batch, offset)

    def _may_retry(self, batch: Batch, code: int, log_start: int) -> bool:
        if not self.idempotent:
            return is_retriable(code) and not batch.outcome_is_unknown
        partition = self.partitions[batch.key]
        if code in (_E.OUT_OF_ORDER_SEQUENCE_NUMBER, _E.UNKNOWN_PRODUCER_ID):
            lowest = min((b.sequence for b in partition.flight if b.identity == batch.identity), default=batch.sequence)
            unknown = code == _E.UNKNOWN_PRODUCER_ID
            if self.transactional:
                return False
            if batch.attempts == 1 if unknown else batch.sequence > lowest:
                self._bumping = partition.draining = True
                return True
            self._refuse(Refused(code, f"{error_name(code)} of the first batch that is not done", fatal=True))
            return False
        if not is_retriable(code):
            return False
        partition.draining = True
        return True

    def _failed_for_good(self, partition: Partition, batch: Batch, code: int) -> None:
        if not self.transactional:
            self._bumping = True  # its numbers are a gap now

    def _expire(self, partition: Partition, batch: Batch) -> None:
        super()._expire(partition, batch)
        if self.idempotent and not self.transactional and batch.attempts:
            self._bumping = True

    def _conclude(self) -> None:
        if not self._bumping or self.identity is None:
            return
        if any(partition.on_wire for partition in self.partitions.values()):
            return
        self._bumping = False
        if not self.transactional:
            self.identity = self.identity._replace(epoch=self.identity.epoch + 1)
            self.bumps += 1
