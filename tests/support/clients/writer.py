"""A producer that writes numbered records in the background and remembers what was acknowledged."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Final, NamedTuple, Self

from confluent_kafka import KafkaError, Message, Producer

from tests.support.waiting import wait_until

_STEP_S: Final = 0.01


class Acknowledged(NamedTuple):
    """Where an acknowledged record is, as the producer was told."""

    partition: int
    offset: int


class Writer:
    """Writes `number` = 0, 1, 2, … to partition `number % partitions`, at a steady rate, until stopped.

    The value of a record is its number and some padding. Leaving the block flushes and ends the producer.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        *,
        partitions: int,
        rate: int = 500,
        size: int = 200,
        config: Mapping[str, str | int | bool] | None = None,
    ) -> None:
        self.acknowledged: dict[int, Acknowledged] = {}
        self.failed: dict[int, str] = {}
        self.sent = 0
        self._topic = topic
        self._partitions = partitions
        self._rate = rate
        self._padding = b" " + b"x" * size
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "delivery.timeout.ms": 90_000,
                "socket.timeout.ms": 10_000,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
                **(config or {}),
            }
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Write no more, and wait until each record is acknowledged or failed."""
        self._stopping.set()
        self._thread.join()
        assert self._producer.flush(95.0) == 0, "records were neither acknowledged nor failed"

    @property
    def acks(self) -> int:
        """How many records were acknowledged so far."""
        return len(self.acknowledged)

    def wait_for_acks(self, more: int, deadline: float = 60.0) -> None:
        """Wait until `more` records are acknowledged than were when this was called."""
        wanted = self.acks + more
        wait_until(lambda: self.acks >= wanted, deadline, what=f"{wanted} acknowledgements")

    def wait_for_sends(self, more: int, deadline: float = 60.0) -> None:
        """Wait until `more` records are handed to the producer, acknowledged or not."""
        wanted = self.sent + more
        wait_until(lambda: self.sent >= wanted, deadline, what=f"{wanted} records sent")

    def _run(self) -> None:
        began = time.monotonic()
        while not self._stopping.is_set():
            due = int((time.monotonic() - began) * self._rate)
            while self.sent < due and len(self._producer) < 50_000:
                self._write(self.sent)
                self.sent += 1
            self._producer.poll(_STEP_S)

    def _write(self, number: int) -> None:
        def done(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self.failed[number] = error.str()
            else:
                self.acknowledged[number] = Acknowledged(message.partition() or 0, message.offset() or 0)

        self._producer.produce(
            self._topic,
            key=b"%d" % number,
            value=b"%d" % number + self._padding,
            partition=number % self._partitions,
            headers=[("number", b"%d" % number)],
            on_delivery=done,
        )
