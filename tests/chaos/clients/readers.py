"""Readers: members of groups on two libraries, and one that belongs to no group."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata
from kafka import TopicPartition as PythonPartition
from kafka.errors import KafkaError as PythonError

from tests.chaos.clients.actor import Actor, Positions
from tests.chaos.clients.producers import Keys, key_of
from tests.support.clients.recorder import Recorder

_CONNECTION: Final = {"socket.timeout.ms": 10_000, "reconnect.backoff.max.ms": 500, "log_level": 0}
_BATCH: Final = 200
_COMMIT_EVERY_S: Final = 0.25

Read = dict[str, list[list[Any]]]


class Member(Actor):
    """Of a group; its members share `positions`. It records what it read, then commits it."""

    def __init__(self, recorder: Recorder, name: str, group: str, topics: Sequence[str], positions: Positions) -> None:
        super().__init__(recorder, name)
        self.group, self.topics, self.positions = group, list(topics), positions

    def joined(self) -> None:
        """Say who it is."""
        self.opened(group=self.group, reset="earliest")

    def recorded(self, read: Read) -> dict[str, int]:
        """Record a poll; what is to be committed."""
        self.recorder.write("invoke", self.process, "poll", [["poll"]])
        self.recorder.write("ok", self.process, "poll", [["poll", read]])
        self.positions.got(read)
        return {key: records[-1][0] + 1 for key, records in read.items()}

    def moved(self, what: str, keys: Sequence[str]) -> None:
        """`assign` or `revoke`."""
        self.recorder.write("ok", self.process, what, list(keys))


class LibrdkafkaMember(Member):
    """confluent-kafka, one message at a time, so that rebalances fall between two.

    `protocol`: `classic` or `consumer` (KIP-848).
    """

    def __init__(
        self,
        recorder: Recorder,
        name: str,
        group: str,
        topics: Sequence[str],
        positions: Positions,
        protocol: str = "classic",
    ) -> None:
        super().__init__(recorder, name, group, topics, positions)
        self._protocol = protocol

    def config(self) -> dict[str, Any]:
        """Of its consumer."""
        classic = {"session.timeout.ms": 8_000, "heartbeat.interval.ms": 1_000}  # the coordinator's since KIP-848
        return {
            "bootstrap.servers": self.bootstrap,
            "group.id": self.group,
            "group.protocol": self._protocol,
            "client.id": self.process,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 100,
            **(classic if self._protocol == "classic" else {}),
            **_CONNECTION,
        }

    def live(self) -> None:
        self.joined()
        self._read: Read = {}
        self._since = time.monotonic()
        consumer = Consumer(self.config())
        consumer.subscribe(self.topics, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)
        try:
            while not self.stopping.is_set():
                self._take(consumer.poll(0.1))
                if self._read and (time.monotonic() - self._since > _COMMIT_EVERY_S):
                    self._come_to_rest(consumer)
            self._come_to_rest(consumer)
        finally:
            consumer.close()

    def _take(self, message: Message | None) -> None:
        if message is None:
            return
        if (error := message.error()) is not None:
            self.failed(f"{error.name()} {error.str()}")
            return
        if not self._read:
            self._since = time.monotonic()
        key = key_of(message.topic() or "", message.partition() or 0)
        self._read.setdefault(key, []).append([message.offset(), (message.value() or b"").decode()])

    def _come_to_rest(self, consumer: Consumer) -> None:
        """Record and commit what was read."""
        read, self._read = self._read, {}
        if not read:
            return
        commit = self.recorded(read)
        self.recorder.write("invoke", self.process, "commit", commit)
        offsets = [TopicPartition(*_partition(key), offset) for key, offset in commit.items()]
        try:
            done = consumer.commit(offsets=offsets, asynchronous=False)
            refused = [part.error for part in done or [] if part.error is not None]
        except KafkaException as exc:
            refused = [exc.args[0]]
        if refused:
            self.failed(f"commit: {refused[0].name()} {refused[0].str()}")
        self.recorder.write("unknown" if refused else "ok", self.process, "commit", commit)

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._come_to_rest(consumer)
        self.moved("assign", [key_of(p.topic, p.partition) for p in partitions])

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._come_to_rest(consumer)
        self.moved("revoke", [key_of(p.topic, p.partition) for p in partitions])

    def _lost(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        read, self._read = self._read, {}
        if read:
            self.recorded(read)
        self.moved("revoke", [key_of(p.topic, p.partition) for p in partitions])


class KafkaPythonMember(Member):
    """kafka-python."""

    def live(self) -> None:
        self.joined()
        consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap.split(","),
            group_id=self.group,
            client_id=self.process,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=8_000,
            heartbeat_interval_ms=1_000,
            request_timeout_ms=10_000,
            reconnect_backoff_max_ms=500,
            fetch_max_wait_ms=100,
            max_poll_records=_BATCH,
        )
        consumer.subscribe(self.topics, listener=_Moves(self))
        try:
            while not self.stopping.is_set():
                found = consumer.poll(timeout_ms=100)
                if found:
                    self._got(consumer, found)
        finally:
            consumer.close(autocommit=False)

    def _got(self, consumer: Any, found: Any) -> None:
        read = {
            key_of(at.topic, at.partition): [[record.offset, record.value.decode()] for record in records]
            for at, records in found.items()
        }
        commit = self.recorded(read)
        self.recorder.write("invoke", self.process, "commit", commit)
        offsets = {
            PythonPartition(*_partition(key)): OffsetAndMetadata(offset, "", -1) for key, offset in commit.items()
        }
        try:
            consumer.commit(offsets, timeout_ms=10_000)
        except PythonError as error:
            self.failed(f"commit: {error!r}")
            self.recorder.write("unknown", self.process, "commit", commit)
        else:
            self.recorder.write("ok", self.process, "commit", commit)


class _Moves(ConsumerRebalanceListener):  # type: ignore[misc]  # no type information
    """Everything read is committed before the next poll, in which these are called."""

    def __init__(self, member: KafkaPythonMember) -> None:
        self._member = member

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._member.moved("revoke", [key_of(p.topic, p.partition) for p in revoked])

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._member.moved("assign", [key_of(p.topic, p.partition) for p in assigned])


class Reader(Actor):
    """In no group: reads its partitions from the beginning, and goes on where it was in its next life.

    Each life is a process of its own, whose first read may be anywhere.
    """

    def __init__(self, recorder: Recorder, name: str, keys: Keys) -> None:
        super().__init__(recorder, name)
        self.positions = Positions()
        self.topics = sorted({topic for topic, _ in keys})
        self._keys = list(keys)
        self._lock = threading.Lock()

    def live(self) -> None:
        self.opened()
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "unused",  # demanded by the library; nothing is joined or committed
                "client.id": self.process,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 50,
                **_CONNECTION,
            }
        )
        try:
            consumer.assign([TopicPartition(t, p, self.positions.next.get(key_of(t, p), 0)) for t, p in self._keys])
            while not self.stopping.is_set():
                self._got(consumer.consume(_BATCH, timeout=0.05))
        finally:
            consumer.close()

    def _got(self, messages: list[Message]) -> None:
        read: Read = {}
        for message in messages:
            if (error := message.error()) is not None:
                if error.code() == KafkaError._AUTO_OFFSET_RESET:  # the library has given the partition up
                    raise KafkaException(error)
                self.failed(f"{error.name()} {error.str()}")
                continue
            key = key_of(message.topic() or "", message.partition() or 0)
            read.setdefault(key, []).append([message.offset(), (message.value() or b"").decode()])
        if read:
            self.recorder.write("invoke", self.process, "poll", [["poll"]])
            self.recorder.write("ok", self.process, "poll", [["poll", read]])
            self.positions.got(read)


def _partition(key: str) -> tuple[str, int]:
    topic, _, number = key.rpartition("/")
    return topic, int(number)
