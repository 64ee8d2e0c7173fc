"""Writes orders in Avro: looks its schemas up in the registry that it knows, and registers none."""

from __future__ import annotations

from confluent_kafka import KafkaError, Message, Producer

from demo.carry.clients.common import arguments, read_config
from demo.carry.orders import KEY, KEYS, VALUES, VERSIONS, key_of, text_of, value_of
from demo.carry.registry import Registry
from demo.clients.common import EventLog, StopSignal, now_ms, send_at_rate


def main() -> None:
    """Write until SIGTERM, then wait for every acknowledgement."""
    args = arguments(("--rate", float), ("--first", int), ("--partitions", int))
    stop, config = StopSignal(), read_config(args.config)
    log, registry, schema = EventLog(args.name), Registry(config.registry), VERSIONS[config.version]
    key_id, value_id = registry.id_of(KEYS, text_of(KEY)), registry.id_of(VALUES, text_of(schema))
    producer = Producer(
        {
            **config.kafka,
            "client.id": args.name,
            "enable.idempotence": True,
            "compression.type": "lz4",
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
            key=key_of(key_id, seq),
            value=value_of(value_id, schema, args.name, seq),
            partition=seq % args.partitions,
            timestamp=now_ms(),
            on_delivery=delivered,
        )

    def idle(seconds: float) -> None:
        producer.poll(seconds)
        log.flush()

    log.event("started", first=args.first, ids=[key_id, value_id])
    following = send_at_rate(args.rate, args.first, stop, send, idle)
    left = producer.flush(30)
    if left:
        log.event("error", message=f"{left} records unanswered 30 s after the stop")
    log.event("stopped", next=following)


if __name__ == "__main__":
    main()
