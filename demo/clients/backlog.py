"""A short-lived producer that writes its share of the backlog with one codec and ends."""

from __future__ import annotations

from confluent_kafka import KafkaError, Message, Producer

from demo.clients.common import EventLog, backlog_arguments, librdkafka_tls, now_ms
from demo.records import headers_of, key_of, value_of

AGE_MS = 24 * 3600 * 1000  # the oldest record's timestamp is a day ago
STEP_MS = 100
MAX_QUEUED = 20_000  # records


def main() -> None:
    """Write `count` records, wait for every acknowledgement, end."""
    args = backlog_arguments()
    log, oldest = EventLog(args.name), now_ms() - AGE_MS
    producer = Producer(
        {
            "bootstrap.servers": args.bootstrap,
            **librdkafka_tls(args),
            "client.id": args.name,
            "enable.idempotence": True,
            "compression.type": args.codec,
            "linger.ms": 20,
            "batch.num.messages": 250,
        }
    )

    def write(seq: int) -> None:
        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                log.ack(seq, message.partition() or 0, message.offset() or 0)
            else:
                log.event("error", s=seq, message=str(error))

        producer.produce(
            args.topic,
            key=key_of(seq),
            value=value_of(args.name, seq),
            headers=list(headers_of(args.name, seq)),
            partition=seq % args.partitions,
            timestamp=oldest + seq * STEP_MS,
            on_delivery=delivered,
        )

    log.event("started", bootstrap=args.bootstrap, first=0)
    for seq in range(args.count):
        while len(producer) > MAX_QUEUED:
            producer.poll(0.05)
        write(seq)
        producer.poll(0)
    left = producer.flush(60)
    if left:
        log.event("error", message=f"{left} records unanswered after 60 s")
    log.event("stopped", next=args.count)


if __name__ == "__main__":
    main()
