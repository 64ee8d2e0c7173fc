"""A group member on kafka-python 3. Commits what it has logged before it polls for more.

Rebalances happen inside `poll` only, so there is never anything in hand when partitions are taken away.
"""

from __future__ import annotations

from collections.abc import Collection

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from demo.clients.common import EventLog, Fetched, StopSignal, consumer_arguments, log_reads, python_tls


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no type hints
    """Logs the assignment."""

    def __init__(self, log: EventLog) -> None:
        self.log = log

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Called before the member rejoins."""
        if revoked:
            self.log.event("revoked", p=sorted(p.partition for p in revoked))

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Called when the member knows its partitions."""
        self.log.event("assigned", p=sorted(p.partition for p in assigned))


def main() -> None:
    """Read until SIGTERM, then leave the group."""
    args, stop = consumer_arguments(), StopSignal()
    log = EventLog(args.name)
    consumer = KafkaConsumer(
        bootstrap_servers=args.bootstrap,
        **python_tls(args),
        client_id=args.name,
        group_id=args.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        partition_assignment_strategy=[RangePartitionAssignor],
        heartbeat_interval_ms=1000,
        session_timeout_ms=10000,
        fetch_min_bytes=16384,
        fetch_max_wait_ms=100,
        max_poll_records=2000,
        allow_auto_create_topics=False,
    )
    log.event("started", bootstrap=args.bootstrap)
    consumer.subscribe([args.topic], listener=Listener(log))
    while not stop.is_set():
        batches = consumer.poll(timeout_ms=100)
        records = [Fetched(tp.partition, r.offset, r.value) for tp, batch in batches.items() for r in batch]
        positions = log_reads(log, records)
        if positions:
            offsets = {TopicPartition(args.topic, p): OffsetAndMetadata(at, "", -1) for p, at in positions.items()}
            try:
                consumer.commit(offsets)
            except KafkaError as error:
                log.event("error", message=f"commit: {error!r}")
    log.event("leaving")
    consumer.close()
    log.event("stopped")


if __name__ == "__main__":
    main()
