"""A group member on aiokafka. Commits what it has logged before it polls for more.

aiokafka rebalances in the background, so a lock keeps a rebalance out between a poll's return and its commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import KafkaError

from demo.clients.common import EventLog, Fetched, StopSignal, consumer_arguments, log_reads, python_tls


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no type hints
    """Logs the assignment; a revocation waits for the commit under way."""

    def __init__(self, log: EventLog, busy: asyncio.Lock) -> None:
        self.log, self.busy = log, busy

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Called before the member rejoins."""
        async with self.busy:
            if revoked:
                self.log.event("revoked", p=sorted(p.partition for p in revoked))

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Called when the member knows its partitions."""
        self.log.event("assigned", p=sorted(p.partition for p in assigned))


async def read(consumer: AIOKafkaConsumer, log: EventLog, busy: asyncio.Lock, topic: str) -> None:
    """One poll, logged and committed.

    `getmany` hands its records over and takes the lock without giving the loop a turn in between: no revocation can
    come between them. It must not hold the lock itself, as it waits for a rebalance to end.
    """
    batches = await consumer.getmany(timeout_ms=100, max_records=2000)
    async with busy:
        records = [Fetched(tp.partition, r.offset, r.value) for tp, batch in batches.items() for r in batch]
        positions = log_reads(log, records)
        if positions:
            try:
                await consumer.commit({TopicPartition(topic, p): at for p, at in positions.items()})
            except KafkaError as error:
                log.event("error", message=f"commit: {error!r}")


async def consume() -> None:
    """Read until SIGTERM, then leave the group."""
    args, stop = consumer_arguments(), StopSignal()
    log, busy = EventLog(args.name), asyncio.Lock()
    log.event("started", bootstrap=args.bootstrap)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=args.bootstrap,
        **python_tls(args),
        client_id=args.name,
        group_id=args.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        partition_assignment_strategy=(RangePartitionAssignor,),
        heartbeat_interval_ms=1000,
        session_timeout_ms=10000,
        fetch_min_bytes=16384,
        fetch_max_wait_ms=100,
    )
    await consumer.start()
    consumer.subscribe([args.topic], listener=Listener(log, busy))
    while not stop.is_set():
        reading = asyncio.create_task(read(consumer, log, busy, args.topic))
        while not (reading.done() or (stop.is_set() and not busy.locked())):
            await asyncio.wait([reading], timeout=0.2)
        if not reading.done():
            reading.cancel()  # `getmany` is waiting for a rebalance that may be long in coming
            break
        reading.result()
    log.event("leaving")
    await consumer.stop()
    log.event("stopped")


if __name__ == "__main__":
    asyncio.run(consume())
