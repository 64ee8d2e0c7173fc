"""A member of a share group (KIP-932) that reads orders in Avro, and accepts each when it has logged it."""

from __future__ import annotations

from confluent_kafka import AcknowledgeType, KafkaException, ShareConsumer

from demo.carry.clients.common import arguments, consumer_properties, orders_of, read_config
from demo.clients.common import EventLog, Fetched, Parse, StopSignal, log_reads

_POLL_S = 0.5
_COMMIT_S = 10.0


def main() -> None:
    """Read until SIGTERM, then leave the group."""
    args, stop = arguments(("--group", str)), StopSignal()
    log, config = EventLog(args.name), read_config(args.config)
    parse = orders_of(config).parse
    consumer = ShareConsumer(
        {
            **consumer_properties(config, args.name, args.group),
            "share.acknowledgement.mode": "explicit",
            "error_cb": lambda error: log.event("note", message=str(error)),
        }
    )
    consumer.subscribe([args.topic])
    log.event("started")
    while not stop.is_set():
        _take(consumer, log, parse)
    log.event("leaving")
    consumer.close()
    log.event("stopped")


def _take(consumer: ShareConsumer, log: EventLog, parse: Parse) -> None:
    records = []
    for message in consumer.poll(_POLL_S):
        if message.error() is None:
            records.append(message)
        else:
            log.event("error", message=str(message.error()))
    log_reads(log, (Fetched(one.partition() or 0, one.offset() or 0, one.value()) for one in records), parse)
    for one in records:
        consumer.acknowledge(one, AcknowledgeType.ACCEPT)
    if records:
        _commit(consumer, log)


def _commit(consumer: ShareConsumer, log: EventLog) -> None:
    try:
        answers = consumer.commit_sync(_COMMIT_S)
    except KafkaException as error:
        log.event("error", message=f"acknowledge: {error}")
        return
    for where, refused in answers.items():
        if refused is not None:
            log.event("error", message=f"acknowledge {where}: {refused}")


if __name__ == "__main__":
    main()
