"""An application that reads one topic and writes another in transactions, its offsets with its records."""

from __future__ import annotations

import threading
from typing import Self

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.support.waiting import wait_until

TIMEOUT_S = 30.0


class Transformer:
    """Runs until the block ends. Each key of `source` is written once to the same partition of `sink`.

    `protocol`: of its group, classic or consumer (KIP-848). `rewinds`: it aborts a transaction that a rebalance has
    overtaken, and reads again from what is committed; else that is an error. `aborted`: how often that was.
    """

    def __init__(
        self,
        bootstrap: str,
        source: str,
        sink: str,
        name: str,
        *,
        protocol: str = "classic",
        rewinds: bool = False,
    ) -> None:
        self.errors: list[str] = []
        self.committed = self.aborted = 0
        self._source, self._rewinds = source, rewinds
        self._sink, self._name = sink, name
        self._stopping = threading.Event()
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": name, "linger.ms": 0, "log_level": 0}
        )
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": name,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "log_level": 0,
                "group.protocol": protocol,
                **({"session.timeout.ms": 6000} if protocol == "classic" else {}),
            }
        )
        self._consumer.subscribe([source])
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(60)
        self._consumer.close()

    def wait_for(self, more: int, deadline: float = 60.0) -> None:
        """Wait until that many more records are committed."""
        goal = self.committed + more
        wait_until(lambda: self.committed >= goal or self.errors, deadline, what=f"{more} records more of {self._name}")

    def _run(self) -> None:
        try:
            self._producer.init_transactions(TIMEOUT_S)
            while not self._stopping.is_set():
                self._turn_or_rewind()
        except KafkaException as error:
            self.errors.append(str(error))

    def _turn_or_rewind(self) -> None:
        try:
            self._turn()
        except KafkaException as error:
            if not (self._rewinds and error.args[0].txn_requires_abort()):
                raise
            self.aborted += 1
            self._producer.abort_transaction(TIMEOUT_S)
            self._consumer.unsubscribe()
            self._consumer.subscribe([self._source])

    def _turn(self) -> None:
        batch = [m for m in self._consumer.consume(20, timeout=0.2) if m.error() is None]
        if not batch:
            return
        self._producer.begin_transaction()
        ends: dict[tuple[str, int], int] = {}
        for message in batch:
            topic, partition, offset = message.topic() or "", message.partition() or 0, message.offset() or 0
            self._producer.produce(self._sink, message.value(), message.key(), partition=partition)
            ends[topic, partition] = offset + 1
        offsets = [TopicPartition(topic, partition, offset) for (topic, partition), offset in ends.items()]
        self._producer.send_offsets_to_transaction(offsets, self._consumer.consumer_group_metadata(), TIMEOUT_S)
        self._producer.commit_transaction(TIMEOUT_S)
        self.committed += len(batch)
