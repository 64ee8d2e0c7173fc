"""A producer that writes numbered records: a backlog and ends, or on and on at a pace until SIGTERM.

Once a second it prints {"acked": n}, and at the end {"next": first number not sent, "acked": n, "errors": n}.
Acknowledgements are counted, not listed: an idempotent producer's records are in the log in order and once, or its
count of errors says otherwise.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from confluent_kafka import KafkaError, Message, Producer

from demo.clients.common import TICK_S, StopSignal
from demo.records import headers_of, key_of, value_of

_QUEUED = 50_000
_TELL_S = 1.0


class Writer:
    """Writes under one name."""

    def __init__(self, bootstrap: str, topic: str, name: str, partitions: int) -> None:
        self._topic = topic
        self._name = name
        self._partitions = partitions
        self._told_at = time.monotonic()
        self.next = self.acked = self.errors = 0
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "client.id": name,
                "enable.idempotence": True,
                "batch.size": 16_384,
                "linger.ms": 20,
                "queue.buffering.max.messages": 2 * _QUEUED,
                "log_level": 3,
            }
        )

    def write(self) -> None:
        """Write the next record; waits while too many are on their way."""
        while len(self._producer) > _QUEUED:
            self._producer.poll(0.05)
        seq = self.next
        self._producer.produce(
            self._topic,
            key=key_of(seq),
            value=value_of(self._name, seq),
            headers=list(headers_of(self._name, seq)),
            partition=seq % self._partitions,
            on_delivery=self._delivered,
        )
        self.next += 1

    def poll(self) -> None:
        """Take in what was acknowledged."""
        self._producer.poll(0)
        if time.monotonic() - self._told_at >= _TELL_S:
            self._told_at = time.monotonic()
            _tell({"acked": self.acked})

    def end(self) -> None:
        """Wait for all acknowledgements."""
        self.errors += self._producer.flush(60)
        _tell({"next": self.next, "acked": self.acked, "errors": self.errors})

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self.acked += 1
        else:
            self.errors += 1


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser()
    for name in ("--bootstrap", "--topic", "--name"):
        parser.add_argument(name, required=True)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--rate", type=float, default=0.0)
    args = parser.parse_args()
    stop = StopSignal()
    writer = Writer(args.bootstrap, args.topic, args.name, args.partitions)
    began = time.monotonic()
    while not stop.is_set() and (not args.count or writer.next < args.count):
        due = args.count or int((time.monotonic() - began) * args.rate)
        for _ in range(min(1000, due - writer.next)):
            writer.write()
        writer.poll()
        if not args.count:
            time.sleep(TICK_S)
    writer.end()


def _tell(event: dict[str, int]) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
