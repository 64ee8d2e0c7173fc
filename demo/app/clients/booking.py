"""Reads a topic and writes another one in transactions, its offsets with its records; on librdkafka, until SIGTERM.

A value says which record it was made of and in which transaction of how many, so that the logs alone tell a torn one:
`producer seq NAME.START.NUMBER/SIZE `. `demo/app/java/Booking.java` writes the same form. A transaction that a
rebalance has overtaken is aborted, and what it read is read again.
"""

from __future__ import annotations

import argparse
from itertools import count

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from demo.clients.common import EventLog, StopSignal, now_ms
from demo.records import RecordId, parse_value

BATCH = 50
LINGER_S = 0.3
PATIENCE_S = 120.0


def booked_value(record: RecordId, tag: str) -> bytes:
    """What is written of a record in a transaction."""
    return f"{record.producer} {record.seq} {tag} ".encode()


class Booking:
    """One member of the application."""

    def __init__(self, consumer: Consumer, producer: Producer, log: EventLog, args: argparse.Namespace) -> None:
        self._consumer, self._producer, self._log, self._args = consumer, producer, log, args
        self._tags = (f"{args.name}.{now_ms()}.{number}" for number in count())

    def turn(self) -> None:
        """A transaction, if there is something to read."""
        messages = [message for message in self._consumer.consume(BATCH, timeout=LINGER_S) if message.error() is None]
        if not messages:
            return
        try:
            self._transact(messages)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            self._log.event("note", message=f"aborted: {error}")
            self._producer.abort_transaction(PATIENCE_S)
            self._consumer.unsubscribe()
            self._consumer.subscribe([self._args.topic])  # from what is committed

    def _transact(self, messages: list[Message]) -> None:
        tag, ends = f"{next(self._tags)}/{len(messages)}", dict[tuple[str, int], int]()
        self._producer.begin_transaction()
        for message in messages:
            topic, partition, offset = message.topic() or "", message.partition() or 0, message.offset() or 0
            value = booked_value(parse_value(message.value()), tag)
            self._producer.produce(self._args.sink, value, message.key(), partition=partition)
            ends[topic, partition] = offset + 1
        offsets = [TopicPartition(topic, partition, end) for (topic, partition), end in ends.items()]
        self._producer.send_offsets_to_transaction(offsets, self._consumer.consumer_group_metadata(), PATIENCE_S)
        self._producer.commit_transaction(PATIENCE_S)


def main() -> None:
    """Transform until SIGTERM; the transaction in hand is ended first."""
    args, stop = _arguments(), StopSignal()
    log = EventLog(args.name)
    producer = Producer(
        {
            "bootstrap.servers": args.bootstrap,
            "client.id": args.name,
            "transactional.id": args.name,
            "linger.ms": 5,
            "error_cb": lambda error: log.event("note", message=str(error)),
        }
    )
    consumer = Consumer(
        {
            "bootstrap.servers": args.bootstrap,
            "client.id": args.name,
            "group.id": args.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "partition.assignment.strategy": "range",
            "error_cb": lambda error: log.event("note", message=str(error)),
        }
    )
    booking = Booking(consumer, producer, log, args)
    log.event("started", bootstrap=args.bootstrap)
    try:
        consumer.subscribe([args.topic])
        producer.init_transactions(PATIENCE_S)
        while not stop.is_set():
            booking.turn()
    except KafkaException as error:
        log.event("error", message=str(error))
    log.event("leaving")
    consumer.close()
    log.event("stopped")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "topic", "name", "group", "sink"):
        parser.add_argument(f"--{name}", required=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()
