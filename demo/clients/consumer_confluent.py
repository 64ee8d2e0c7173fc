"""A group member on confluent-kafka (librdkafka). Commits what it has logged before it polls for more."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from demo.clients.common import EventLog, Fetched, Parse, StopSignal, consumer_arguments, librdkafka_tls, log_reads
from demo.records import parse_value

MAX_BATCH = 2000
LINGER_S = 0.1  # how long records are gathered before they are logged and committed


class Member:
    """Gathers records, then logs and commits them together; a revoked partition's are committed in the callback."""

    def __init__(self, consumer: Consumer, log: EventLog, topic: str, parse: Parse = parse_value) -> None:
        self.consumer, self.log, self.topic, self.parse = consumer, log, topic, parse
        self.batch: list[Fetched] = []

    def gather(self) -> None:
        """Poll for at most LINGER_S. Callbacks run inside `poll`, one record in hand at most."""
        deadline = time.monotonic() + LINGER_S
        while len(self.batch) < MAX_BATCH and (left := deadline - time.monotonic()) > 0:
            message = self.consumer.poll(left)
            if message is not None and self.is_record(message):
                self.batch.append(Fetched(message.partition() or 0, message.offset() or 0, message.value()))

    def is_record(self, message: Message) -> bool:
        """False for an error event, which is logged when an application would see it as one."""
        error = message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            self.log.event("error", message=str(error))
        return error is None

    def process(self) -> None:
        """Log what was gathered and commit it, in this order."""
        batch, self.batch = self.batch, []
        positions = log_reads(self.log, batch, self.parse)
        if positions:
            offsets = [TopicPartition(self.topic, partition, at) for partition, at in positions.items()]
            try:
                self.consumer.commit(offsets=offsets, asynchronous=False)
            except KafkaException as error:
                self.log.event("error", message=f"commit: {error}")

    def assigned(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Rebalance callback."""
        self.log.event("assigned", p=[p.partition for p in partitions])

    def revoked(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Rebalance callback: still the owner, so what is in hand is committed first."""
        self.process()
        self.log.event("revoked", p=[p.partition for p in partitions])


def main() -> None:
    """Read until SIGTERM, then leave the group."""
    args, stop = consumer_arguments(), StopSignal()
    log = EventLog(args.name)
    consumer = Consumer(
        {
            "bootstrap.servers": args.bootstrap,
            **librdkafka_tls(args),
            "client.id": args.name,
            "group.id": args.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "partition.assignment.strategy": "range",
            "heartbeat.interval.ms": 1000,
            "session.timeout.ms": 10000,
            "fetch.min.bytes": 16384,
            "fetch.wait.max.ms": 100,
            "queued.max.messages.kbytes": 16384,
            "error_cb": lambda error: log.event("note", message=str(error)),
        }
    )
    member = Member(consumer, log, args.topic)
    log.event("started", bootstrap=args.bootstrap)
    consumer.subscribe([args.topic], on_assign=member.assigned, on_revoke=member.revoked)
    while not stop.is_set():
        member.gather()
        member.process()
    log.event("leaving")
    consumer.close()
    log.event("stopped")


if __name__ == "__main__":
    main()
