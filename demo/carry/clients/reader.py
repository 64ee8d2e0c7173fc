"""A member of a consumer group that reads orders in Avro."""

from __future__ import annotations

from confluent_kafka import Consumer

from demo.carry.clients.common import arguments, consumer_properties, orders_of, read_config
from demo.clients.common import EventLog, StopSignal
from demo.clients.consumer_confluent import Member


def main() -> None:
    """Read until SIGTERM, then leave the group."""
    args, stop = arguments(("--group", str)), StopSignal()
    log, config = EventLog(args.name), read_config(args.config)
    consumer = Consumer(
        {
            **consumer_properties(config, args.name, args.group),
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "heartbeat.interval.ms": 1000,
            "session.timeout.ms": 10000,
            "fetch.wait.max.ms": 100,
            "error_cb": lambda error: log.event("note", message=str(error)),
        }
    )
    member = Member(consumer, log, args.topic, orders_of(config).parse)
    log.event("started")
    consumer.subscribe([args.topic], on_assign=member.assigned, on_revoke=member.revoked)
    while not stop.is_set():
        member.gather()
        member.process()
    log.event("leaving")
    consumer.close()
    log.event("stopped")


if __name__ == "__main__":
    main()
