"""A producer on confluent-kafka (librdkafka), idempotent; chooses the partition itself."""

from __future__ import annotations

from confluent_kafka import KafkaError, Message, Producer

from demo.clients.common import EventLog, StopSignal, librdkafka_tls, now_ms, producer_arguments, send_at_rate
from demo.records import headers_of, key_of, value_of


def main() -> None:
    """Write until SIGTERM, then wait for every acknowledgement."""
    args, stop = producer_arguments(), StopSignal()
    log = EventLog(args.name)
    producer = Producer(
        {
            "bootstrap.servers": args.bootstrap,
            **librdkafka_tls(args),
            "client.id": args.name,
            "enable.idempotence": True,
            "compression.type": args.codec,
            "linger.ms": 5,
            "error_cb": lambda error: log.event("note", message=str(error)),
        }
    )

    def send(seq: int) -> None:
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
            timestamp=now_ms(),
            on_delivery=delivered,
        )

    def idle(seconds: float) -> None:
        producer.poll(seconds)
        log.flush()

    log.event("started", bootstrap=args.bootstrap, first=args.first)
    following = send_at_rate(args.rate, args.first, stop, send, idle)
    left = producer.flush(30)
    if left:
        log.event("error", message=f"{left} records unanswered 30 s after the stop")
    log.event("stopped", next=following)


if __name__ == "__main__":
    main()
