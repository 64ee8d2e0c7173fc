"""The transaction coordinators of a cluster: transactional ids, their producers, and the markers they send.

What is written into `__transaction_state` (`records`) outlives a move of the coordinator. The broker that takes a
partition over begins to send markers again for transactions that were being ended. Markers reach their partitions a
little later (`MARKER_S`), each on its own; until all have, everybody hears CONCURRENT_TRANSACTIONS. Open transactions
older than their timeout are aborted, looked at every `transaction.abort.timed.out.transaction.cleanup.interval.ms`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from protocol.errors import ErrorCode
from tests.simulation.kafka.shards import Shard, Shards
from tests.simulation.kafka.topics import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from tests.simulation.kafka.transaction_state import PREPARED, Change, TopicPartition, Transaction, TxnRecord, TxnState

if TYPE_CHECKING:
    from tests.simulation.kafka.broker import Broker
    from tests.simulation.kafka.cluster import ClusterModel

MARKER_S: Final = (0.001, 0.006)
"""Shortest and longest way of a marker from the coordinator into a partition's log."""
REPLICATED_S: Final = 0.005
"""Between two looks whether a marker is in all of the ISR."""
AGAIN_S: Final = 0.1
"""Between two tries to write a marker on a partition whose leader does not take it."""
DEFAULTS: Final = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 10000,
    "transaction.max.timeout.ms": 900000,
    "transaction.partition.verification.enable": 1,
}

_GONE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_PRODUCER_EPOCH)
_FENCED = (ErrorCode.TRANSACTION_COORDINATOR_FENCED,)


class Transactions:
    """The transactional ids of one partition of `__transaction_state`, as the broker that leads it has them."""

    def __init__(self, owner: TransactionCoordinators, shard: Shard[Transactions]) -> None:
        self.owner = owner
        self.shard = shard
        self.known: dict[str, Transaction] = {}
        for transactional_id, record in sorted(owner.records.items()):
            if owner.index(transactional_id) == shard.partition.index:
                self.known[transactional_id] = found = Transaction(transactional_id, record)
                if record.state in PREPARED:
                    self._send_markers(found)
        self._watch()

    @property
    def now_ms(self) -> int:
        """The broker's wall clock."""
        return self.shard.broker.now_ms()

    def end(self) -> None:
        """Another broker coordinates them now: markers that are not written yet are its task."""
        self.known.clear()

    def _watch(self) -> None:
        every_ms = self.owner.config("transaction.abort.timed.out.transaction.cleanup.interval.ms")

        def look() -> None:
            for found in list(self.known.values()):
                if found.timed_out(self.now_ms):
                    found.fence()
                    self.abort(found)
            self._watch()

        self.shard.timers.schedule(("timeouts",), every_ms, look)

    def init(self, transactional_id: str, timeout_ms: int, expected: tuple[int, int] | None) -> tuple[int, int] | int:
        """InitProducerId: (producer id, epoch), or why not."""
        found = self.known.get(transactional_id)
        if found is None:
            record = TxnRecord(producer_id=self.owner.new_producer_id(), timeout_ms=timeout_ms)
            self.known[transactional_id] = found = Transaction(transactional_id, record)
        change = found.init(timeout_ms, expected, self.owner.new_producer_id, self.now_ms)
        if not isinstance(change, TxnRecord):
            return change
        if change.state is TxnState.FENCE:
            return self.abort(found) or ErrorCode.CONCURRENT_TRANSACTIONS
        if self.owner.is_v2:  # brokers of 3.9 go on telling when the last transaction began
            change = replace(change, start_ms=-1)
        return self._write(found, change) or (found.now.producer_id, found.now.epoch)

    def add(self, transactional_id: str, producer: tuple[int, int], partitions: Iterable[TopicPartition]) -> int:
        """AddPartitionsToTxn: the error code."""
        found = self.known.get(transactional_id)
        if found is None:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        change = found.add(*producer, partitions, self.now_ms)
        return self._write(found, change) if isinstance(change, TxnRecord) else change

    def finish(self, transactional_id: str, producer: tuple[int, int], commit: bool, bumps: bool) -> int:
        """EndTxn: the error code; the markers follow."""
        found = self.known.get(transactional_id)
        if found is None:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        change = found.end(*producer, commit, bumps=bumps, new_id=self.owner.new_producer_id, now_ms=self.now_ms)
        if not isinstance(change, TxnRecord):
            return change
        error = self._write(found, change)
        if not error:
            self._send_markers(found)
        return error

    def abort(self, found: Transaction) -> int:
        """Abort a transaction whose producer is being fenced: the error code."""
        change = found.abort_paused(self.owner.is_v2, self.now_ms)
        error = self._write(found, change)
        if error:
            found.failed_pause = True
        else:
            self._send_markers(found)
        return error

    def _write(self, found: Transaction, change: Change) -> int:
        error = self.shard.write_error
        if error:
            found.give_up()
            return error
        found.carry_out(change)
        self.owner.records[found.transactional_id] = change
        return ErrorCode.NONE

    def _send_markers(self, found: Transaction) -> None:
        """To every partition of the transaction; when all have it the transaction is complete."""
        record = found.now
        missing = set(record.partitions)
        change = found.complete(self.now_ms)
        if not missing:
            self._later(found.transactional_id, 0.0, lambda: self._complete(found, change))
        for key in sorted(missing):
            self._later(
                f"{found.transactional_id}/{key[0]}/{key[1]}",
                self.owner.cluster.rng.uniform(*MARKER_S),
                partial(self._marker, found, record, change, key, missing),
            )

    def _marker(
        self, found: Transaction, record: TxnRecord, change: Change, key: TopicPartition, missing: set[TopicPartition]
    ) -> None:
        error = self._append(record, key)
        if error in _FENCED:
            return
        if error and error not in _GONE:
            again = partial(self._marker, found, record, change, key, missing)
            self._later(f"{found.transactional_id}/{key[0]}/{key[1]}", AGAIN_S, again)
            return
        partition = self.owner.cluster.lookup(*key)
        leader = partition.leader if partition is not None and key[0] != GROUPS_TOPIC and not error else None
        if partition is None or leader is None:
            self._written(found, change, key, missing)
            return
        end, leading = leader.log.end, leader.leading

        def look() -> None:
            """Markers are written with acks=all: what its leader alone has may be lost with it."""
            if partition.topic.deleted or (partition.leader is leader and leader.log.high_watermark >= end):
                self._written(found, change, key, missing)
            elif partition.leader is not leader or leader.leading is not leading:
                self._marker(found, record, change, key, missing)
            else:
                self._later(f"{found.transactional_id}/{key[0]}/{key[1]}", REPLICATED_S, look)

        look()

    def _written(self, found: Transaction, change: Change, key: TopicPartition, missing: set[TopicPartition]) -> None:
        missing.discard(key)
        if not missing:
            self._complete(found, change)

    def _append(self, record: TxnRecord, key: TopicPartition) -> ErrorCode:
        cluster, commit = self.owner.cluster, record.state is TxnState.PREPARE_COMMIT
        partition = cluster.lookup(*key)
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        leader = cluster.brokers.get(partition.leader_id)
        if leader is None or not leader.connected:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if key[0] == GROUPS_TOPIC:
            return cluster.groups.complete_transaction(key[1], record.producer_id, record.epoch, commit)
        return partition.append_marker(record.producer_id, record.epoch, commit, self.shard.epoch)

    def _complete(self, found: Transaction, change: Change) -> None:
        error = self._write(found, change)
        if error and error != ErrorCode.NOT_COORDINATOR:
            self._later(found.transactional_id, AGAIN_S, lambda: self._complete(found, change))

    def _later(self, name: str, delay_s: float, action: Callable[[], None]) -> None:
        self.shard.timers.schedule(("marker", name), int(delay_s * 1000), action)


class TransactionCoordinators:
    """All transactional ids of a cluster."""

    def __init__(self, cluster: ClusterModel) -> None:
        self.cluster = cluster
        self.records: dict[str, TxnRecord] = {}
        self.shards: Shards[Transactions] = Shards(
            cluster, "transaction", TRANSACTIONS_TOPIC, partial(Transactions, self), Transactions.end
        )

    def config(self, name: str) -> int:
        """A broker configuration that is a number."""
        return int(self.cluster.configs.get(name, DEFAULTS[name]))

    @property
    def is_v2(self) -> bool:
        """The cluster's transaction.version is 2 (the default of 4.x): the coordinator's own aborts bump the epoch."""
        return self.cluster.version.startswith("4.")

    def index(self, transactional_id: str) -> int:
        """The partition of `__transaction_state` that has the id."""
        return self.cluster.coordinator("transaction", transactional_id).index

    def new_producer_id(self) -> int:
        """A producer id that nobody has had."""
        return self.cluster.new_producer_id()

    def find(self, broker: Broker, transactional_id: str) -> Transactions | ErrorCode:
        """The transactional ids among which this one is, when this broker coordinates it."""
        shard = self.shards.find(broker, transactional_id)
        if not isinstance(shard, Shard):
            return shard
        assert shard.state is not None
        return shard.state

    def _of(self, transactional_id: str) -> Transactions | ErrorCode:
        """As another broker finds them."""
        partition = self.cluster.coordinator("transaction", transactional_id)
        broker = self.cluster.brokers.get(partition.leader_id)
        if broker is None or not broker.connected:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return self.find(broker, transactional_id)

    def verify(self, transactional_id: str, producer_id: int, epoch: int, topic: str, partition: int) -> ErrorCode:
        """What a leader asks the coordinator before a transaction's first batch (KIP-890): is the partition in it?

        As AddPartitionsToTxn with verify_only answers it: TRANSACTION_ABORTABLE when it is not, PRODUCER_FENCED,
        INVALID_PRODUCER_ID_MAPPING, CONCURRENT_TRANSACTIONS. The leader words it for its client: `for_client`.
        """
        found = self._of(transactional_id)
        if isinstance(found, ErrorCode):
            return found
        transaction = found.known.get(transactional_id)
        if transaction is None:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return ErrorCode(transaction.verify(producer_id, epoch, (topic, partition)))

    def add_implicitly(
        self, transactional_id: str, producer_id: int, epoch: int, topic: str, partition: int
    ) -> ErrorCode:
        """What a leader asks for a producer of TV2 (Produce from version 12 on): take the partition into it."""
        found = self._of(transactional_id)
        if isinstance(found, ErrorCode):
            return found
        return ErrorCode(found.add(transactional_id, (producer_id, epoch), [(topic, partition)]))

    @staticmethod
    def for_client(error: int, *, abortable: bool) -> ErrorCode:
        """The answer to a producer whose batch was not verified. `abortable`: it knows TRANSACTION_ABORTABLE."""
        if error == ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if error == ErrorCode.TRANSACTION_ABORTABLE and not abortable:
            return ErrorCode.INVALID_TXN_STATE
        return ErrorCode(error)

    def verify_offsets(
        self, transactional_id: str, producer_id: int, epoch: int, index: int, *, adds: bool, abortable: bool
    ) -> ErrorCode:
        """The same for TxnOffsetCommit; `adds`: its producer is one of TV2."""
        ask = self.add_implicitly if adds else self.verify
        return self.for_client(ask(transactional_id, producer_id, epoch, GROUPS_TOPIC, index), abortable=abortable)
