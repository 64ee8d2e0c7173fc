"""Consume-transform-produce: a group writes what it reads to another topic, and its offsets in the same transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.chaos.actor import Positions
from tests.chaos.plan import PIPELINE
from tests.chaos.producers import key_of
from tests.chaos.readers import CONNECTION, LibrdkafkaMember, Read
from tests.support.logs import Log
from tests.support.recorder import Recorder

GROUP, OUTPUT = PIPELINE
OUTPUT_PARTITIONS: Final = 2
_BATCH: Final = 50
_TXN_S: Final = 30.0
_OF: Final = "|"


class Pipeline(LibrdkafkaMember):
    """The one member of its group. What it writes names what it read: "input value|its own number"."""

    def __init__(self, recorder: Recorder, name: str, topics: Sequence[str], positions: Positions) -> None:
        super().__init__(recorder, name, GROUP, topics, positions)

    def live(self) -> None:
        self.opened(group=self.group, reset="earliest", commits=False)
        self._number = 0
        self._read: Read = {}
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "client.id": self.process,
                "transactional.id": self.name,
                "transaction.timeout.ms": 30_000,
                "delivery.timeout.ms": 30_000,
                "linger.ms": 0,
                **CONNECTION,
            }
        )
        producer.init_transactions(60.0)
        consumer = Consumer(self.config())
        consumer.subscribe(self.topics, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)
        try:
            while not self.stopping.is_set():
                found = [one for one in consumer.consume(_BATCH, timeout=0.2) if not self._is_error(one)]
                if found and not self._transact(producer, consumer, found):
                    return  # nobody knows how it ended, or where to go on: the next life does
        finally:
            consumer.close()

    def _is_error(self, message: Message) -> bool:
        error = message.error()
        if error is not None:
            self.failed(f"{error.name()} {error.str()}")
        return error is not None

    def _transact(self, producer: Producer, consumer: Consumer, found: list[Message]) -> bool:
        """One transaction; False when this life cannot go on."""
        read: Read = {}
        parts: list[tuple[int, str]] = []
        for message in found:
            value = (message.value() or b"").decode()
            partition = message.partition() or 0
            read.setdefault(key_of(message.topic() or "", partition), []).append([message.offset(), value])
            parts.append((partition % OUTPUT_PARTITIONS, f"{value}{_OF}{self.process}:{self._number}"))
            self._number += 1
        sent = [["send", key_of(OUTPUT, partition), value] for partition, value in parts]
        self.recorder.write("invoke", self.process, "txn", [["poll"], *sent])
        try:
            producer.begin_transaction()
            for partition, value in parts:
                producer.produce(OUTPUT, value=value.encode(), partition=partition)
            producer.send_offsets_to_transaction(_next(read), consumer.consumer_group_metadata(), _TXN_S)
            producer.commit_transaction(_TXN_S)
        except KafkaException as exc:
            return self._ended(producer, consumer, exc.args[0], read)
        told: list[Any] = [[what, key, [None, value]] for what, key, value in sent]
        self.recorder.write("ok", self.process, "txn", [["poll", read], *told])
        self.positions.got(read)
        return True

    def _ended(self, producer: Producer, consumer: Consumer, error: KafkaError, read: Read) -> bool:
        """After an abort the same records are read again."""
        self.failed(f"transaction: {error.name()} {error.str()}")
        try:
            if not error.txn_requires_abort():
                raise KafkaException(error)
            producer.abort_transaction(_TXN_S)
        except KafkaException:
            self.recorder.write("unknown", self.process, "txn", [])
            return False
        self.recorder.write("fail", self.process, "txn", [])
        self.stopping.wait(0.3)
        try:
            for key, records in read.items():
                topic, _, partition = key.rpartition("/")
                consumer.seek(TopicPartition(topic, int(partition), records[0][0]))
        except KafkaException:
            return False  # no longer its partition
        return True


def _next(read: Read) -> list[TopicPartition]:
    found = ((*key.rsplit("/", 1), records[-1][0] + 1) for key, records in read.items())
    return [TopicPartition(topic, int(partition), offset) for topic, partition, offset in found]


def not_once(inputs: Mapping[str, Sequence[Log]], outputs: Sequence[Log]) -> str:
    """What was not written exactly once of what the group's topics hold, in one line; '' when everything was."""
    read = Counter(record.value or b"" for topic in inputs.values() for log in topic for record in log)
    written = Counter((record.value or b"").rsplit(_OF.encode(), 1)[0] for log in outputs for record in log)
    if missing := read - written:
        return f"{sum(missing.values())} record(s) were not processed, such as {next(iter(missing))!r}"
    if more := written - read:
        return f"{sum(more.values())} record(s) were processed again, such as {next(iter(more))!r}"
    return ""
