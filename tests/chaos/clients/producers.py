"""librdkafka's producers, without and with transactions. Each sends numbered records at an even rate."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tests.chaos.clients.actor import Actor
from tests.support.clients.recorder import Recorder

Keys = Sequence[tuple[str, int]]
"""Partitions that a producer goes round: (topic, number)."""

_DELIVERY_MS: Final = 90_000
_AHEAD: Final = 2_000  # unanswered records at most
_CERTAINLY_NOT: Final = (KafkaError._QUEUE_FULL, KafkaError.MSG_SIZE_TOO_LARGE)
_TXN_S: Final = 30.0


def key_of(topic: str, partition: int) -> str:
    """A partition as the history names it."""
    return f"{topic}/{partition}"


class LibrdkafkaProducer(Actor):
    """Idempotent. `acknowledged`: records, over all its lives."""

    def __init__(self, recorder: Recorder, name: str, keys: Keys, rate: float) -> None:
        super().__init__(recorder, name)
        self._keys, self._rate = keys, rate
        self.acknowledged = 0

    def live(self) -> None:
        self.opened()
        self._unanswered, self._fatal = 0, False
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "client.id": self.process,
                "enable.idempotence": True,
                "linger.ms": 2,
                "delivery.timeout.ms": _DELIVERY_MS,
                "socket.timeout.ms": 10_000,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        number, due = 0, time.monotonic()
        while not self.stopping.is_set() and not self._fatal:
            if time.monotonic() >= due and self._unanswered < _AHEAD:
                due = max(due + 1 / self._rate, time.monotonic() - 1)
                self._send(producer, number)
                number += 1
            producer.poll(max(0.0, min(due - time.monotonic(), 0.05)))
        producer.flush(_DELIVERY_MS / 1000 + 5)  # what is not answered by then has no end in the history: unknown

    def _send(self, producer: Producer, number: int) -> None:
        (topic, partition), process = self._keys[number % len(self._keys)], self.process
        key, value = key_of(topic, partition), f"{process}:{number}"

        def done(error: KafkaError | None, message: Message) -> None:
            self._unanswered -= 1
            if error is None:
                self.acknowledged += 1
                offset = message.offset()
                told = offset if offset is not None and offset >= 0 else None
                self.recorder.write("ok", process, "send", [["send", key, [told, value]]], number)
                return
            self._fatal = self._fatal or error.fatal()
            self.failed(f"{key}: {error.name()} {error.str()}")
            kind = "fail" if error.code() in _CERTAINLY_NOT else "unknown"
            self.recorder.write(kind, process, "send", [["send", key, value]], number)

        self._unanswered += 1
        self.recorder.write("invoke", process, "send", [["send", key, value]], number)
        producer.produce(topic, value=value.encode(), partition=partition, on_delivery=done)


class TransactionalProducer(Actor):
    """Transactions over all its keys, some of them aborted. Its transactional id stays the same over its lives."""

    def __init__(self, recorder: Recorder, name: str, keys: Keys, rate: float, seed: int) -> None:
        super().__init__(recorder, name)
        self._keys, self._rate = keys, rate
        self._dice = random.Random(f"{seed}/{name}")

    def live(self) -> None:
        self.opened()
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "client.id": self.process,
                "transactional.id": self.name,
                "transaction.timeout.ms": 30_000,
                "delivery.timeout.ms": 30_000,
                "linger.ms": 0,
                "socket.timeout.ms": 10_000,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        producer.init_transactions(60.0)
        number, due = 0, time.monotonic()
        while not self.stopping.wait(max(0.0, due - time.monotonic())):
            count = self._dice.randint(2, 6)
            due = max(due + count / self._rate, time.monotonic() - 1)
            if not self._transact(producer, range(number, number + count)):
                return  # nobody knows how it ended: the next life fences this one
            number += count

    def _transact(self, producer: Producer, numbers: range) -> bool:
        """One transaction; False when the producer cannot be used any more."""
        chosen = [(*self._keys[n % len(self._keys)], f"{self.process}:{n}") for n in numbers]
        parts = [["send", key_of(topic, partition), value] for topic, partition, value in chosen]
        self.recorder.write("invoke", self.process, "txn", parts)
        committing = False
        try:
            producer.begin_transaction()
            for topic, partition, value in chosen:
                producer.produce(topic, value=value.encode(), partition=partition)
                producer.poll(0)
            if self._dice.random() < 0.15:
                producer.flush(_TXN_S)
                return self._aborted(producer, parts)
            committing = True
            self._commit(producer)
        except KafkaException as exc:
            error: KafkaError = exc.args[0]
            self.failed(f"{'commit' if committing else 'transaction'}: {error.name()} {error.str()}")
            if error.txn_requires_abort():
                return self._aborted(producer, parts)
            self.recorder.write("unknown", self.process, "txn", parts)
            return False
        told = [[what, key, [None, value]] for what, key, value in parts]
        self.recorder.write("ok", self.process, "txn", told)
        return True

    def _aborted(self, producer: Producer, parts: list[list[str]]) -> bool:
        try:
            producer.abort_transaction(_TXN_S)
        except KafkaException as exc:
            self.failed(f"abort: {exc.args[0].name()} {exc.args[0].str()}")
            self.recorder.write("unknown", self.process, "txn", parts)
            return False
        self.recorder.write("fail", self.process, "txn", parts)
        return True

    def _commit(self, producer: Producer) -> None:
        """An answer that is late is asked for again, a few times."""
        for attempt in range(4):
            try:
                producer.commit_transaction(_TXN_S)
            except KafkaException as exc:
                if attempt == 3 or not exc.args[0].retriable():
                    raise
            else:
                return
