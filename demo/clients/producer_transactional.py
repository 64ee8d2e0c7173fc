"""A transactional producer on confluent-kafka (librdkafka): a transaction each 200 ms, every fifth one aborted."""

from __future__ import annotations

import time

from confluent_kafka import KafkaException, Message, Producer

from demo.clients.common import EventLog, StopSignal, now_ms, producer_arguments
from demo.records import headers_of, key_of, value_of

TRANSACTION_S = 0.2
ABORT_EVERY = 5
PATIENCE_S = 60.0


class Ledger:
    """Writes transactions and logs what became of each: its records acknowledged, or aborted."""

    def __init__(self, producer: Producer, log: EventLog, topic: str, name: str, partitions: int) -> None:
        self._producer, self._log = producer, log
        self._topic, self._name, self._partitions = topic, name, partitions
        self._written: list[tuple[int, int, int]] = []

    def transaction(self, first: int, count: int, *, abort: bool) -> int:
        """One transaction of `count` records from number `first` on; returns the number after it."""
        self._written = []
        self._producer.begin_transaction()
        for seq in range(first, first + count):
            self._produce(seq)
        if abort:
            self._producer.flush(PATIENCE_S)  # what is aborted has been written: otherwise it would prove nothing
            self._producer.abort_transaction(PATIENCE_S)
            self._log.event("aborted", first=first, next=first + count)
        else:
            self._producer.commit_transaction(PATIENCE_S)
            for written in self._written:
                self._log.ack(*written)
            self._log.flush()
        return first + count

    def _produce(self, seq: int) -> None:
        def delivered(error: object, message: Message) -> None:
            if error is None:
                self._written.append((seq, message.partition() or 0, message.offset() or 0))
            else:
                self._log.event("error", s=seq, message=str(error))

        self._producer.produce(
            self._topic,
            key=key_of(seq),
            value=value_of(self._name, seq),
            headers=list(headers_of(self._name, seq)),
            partition=seq % self._partitions,
            timestamp=now_ms(),
            on_delivery=delivered,
        )


def main() -> None:
    """Write until SIGTERM; the transaction in hand is ended first."""
    args, stop = producer_arguments(), StopSignal()
    log = EventLog(args.name)
    producer = Producer(
        {
            "bootstrap.servers": args.bootstrap,
            "client.id": args.name,
            "transactional.id": args.name,
            "compression.type": args.codec,
            "linger.ms": 5,
            "error_cb": lambda error: log.event("note", message=str(error)),
        }
    )
    ledger = Ledger(producer, log, args.topic, args.name, args.partitions)
    seq, turn, count = args.first, 0, max(1, round(args.rate * TRANSACTION_S))
    log.event("started", bootstrap=args.bootstrap, first=seq)
    try:
        producer.init_transactions(PATIENCE_S)
        while not stop.is_set():
            due = time.monotonic() + TRANSACTION_S
            turn += 1
            seq = ledger.transaction(seq, count, abort=turn % ABORT_EVERY == 0)
            while (left := due - time.monotonic()) > 0 and not stop.is_set():
                producer.poll(min(left, 0.05))
    except KafkaException as error:
        log.event("error", message=str(error))
    log.event("stopped", next=seq)


if __name__ == "__main__":
    main()
