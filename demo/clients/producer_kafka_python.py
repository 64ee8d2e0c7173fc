"""A producer on kafka-python 3, idempotent as it is by default; the key chooses the partition."""

from __future__ import annotations

import time
from typing import Any

from kafka import KafkaProducer

from demo.clients.common import EventLog, StopSignal, now_ms, producer_arguments, python_tls, send_at_rate
from demo.records import headers_of, key_of, value_of


def main() -> None:
    """Write until SIGTERM, then wait for every acknowledgement."""
    args, stop = producer_arguments(), StopSignal()
    log = EventLog(args.name)
    producer = KafkaProducer(
        bootstrap_servers=args.bootstrap,
        **python_tls(args),
        client_id=args.name,
        compression_type=None if args.codec == "none" else args.codec,
        linger_ms=5,
        allow_auto_create_topics=False,
    )

    def send(seq: int) -> None:
        def acknowledged(metadata: Any) -> None:
            log.ack(seq, metadata.partition, metadata.offset)

        def failed(error: BaseException) -> None:
            log.event("error", s=seq, message=repr(error))

        future = producer.send(
            args.topic,
            key=key_of(seq),
            value=value_of(args.name, seq),
            headers=headers_of(args.name, seq),
            timestamp_ms=now_ms(),
        )
        future.add_callback(acknowledged)
        future.add_errback(failed)

    def idle(seconds: float) -> None:
        time.sleep(seconds)
        log.flush()

    log.event("started", bootstrap=args.bootstrap, first=args.first)
    following = send_at_rate(args.rate, args.first, stop, send, idle)
    producer.flush(timeout=30)
    producer.close(timeout=30)
    log.event("stopped", next=following)


if __name__ == "__main__":
    main()
