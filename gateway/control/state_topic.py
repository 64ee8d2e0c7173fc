"""The state topic's I/O: create, read to the end, write in transactions. Blocking; the store runs it in threads.

One process writes at a time: opening takes over the transactional id, which fences the process that had it
before (KIP-98) and ends a transaction it left open. Each process also writes a `writer` record first. Reading
up to one's own record is reading everything; seeing another's later means having been replaced.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType  # type: ignore[attr-defined]

from gateway.control.librdkafka import error_of, is_fenced, is_passing, librdkafka_properties, translated
from gateway.control.store_errors import StoreError, StoreUncertain
from gateway.net.config import ClusterConfig

TOPIC = "__lockgate_state"
TRANSACTIONAL_ID = "lockgate-state"
WRITER_KEY = "writer"

_MAX_RECORD_BYTES = 32 * 1024 * 1024  # a promoted topic's producer tables may be long
_COMMIT_S = 20.0
_log = logging.getLogger("lockgate.state")

Change = tuple[str, bytes | None]  # key and value; None deletes


class StateTopic:
    """The topic as seen by one process, named by `instance` (unique per start).

    `commit_s`: seconds after which a commit that nobody answers counts as uncertain.
    """

    def __init__(
        self,
        config: ClusterConfig,
        instance: str,
        *,
        topic: str = TOPIC,
        transactional_id: str = TRANSACTIONAL_ID,
        commit_s: float = _COMMIT_S,
    ) -> None:
        self._config = config
        self._instance = instance
        self._topic = topic
        self._transactional_id = transactional_id
        self._commit_s = commit_s
        self._producer: Producer | None = None
        self._consumer: Consumer | None = None
        self._unended: Callable[[float], None] | None = None  # a commit or abort that was not answered in time

    def open(self, timeout_s: float = 30.0) -> list[Change]:
        """Create the topic if absent, fence the process before, and read all changes in order.

        Raises:
            StoreError: the target is not reachable or the topic is not what it must be.
        """
        deadline = time.monotonic() + timeout_s
        common = librdkafka_properties(self._config)
        try:
            self._ensure_topic(AdminClient(common), timeout_s)
            self._producer = Producer(
                {
                    **common,
                    "transactional.id": self._transactional_id,
                    "transaction.timeout.ms": 60_000,
                    "message.max.bytes": _MAX_RECORD_BYTES,
                    "compression.type": "zstd",
                },
                logger=_log,
            )
            self._producer.init_transactions(timeout_s)
            self.commit([(WRITER_KEY, json.dumps({"v": 1, "instance": self._instance}).encode())])
            self._consumer = Consumer(
                {
                    **common,
                    "group.id": "lockgate-state-unused",  # librdkafka asks for one; nothing is ever committed
                    "enable.auto.commit": False,
                    "isolation.level": "read_committed",
                    "fetch.message.max.bytes": _MAX_RECORD_BYTES,
                    "fetch.wait.max.ms": 500,
                },
                logger=_log,
            )
            self._consumer.assign([TopicPartition(self._topic, 0, 0)])
            return self._read_to_own_record(self._consumer, deadline)
        except KafkaException as exc:
            raise translated(exc, "the state topic on the target could not be opened") from exc

    def commit(self, changes: Sequence[Change]) -> None:
        """Write all changes in one transaction.

        Raises:
            StoreError: nothing was written.
            StoreUncertain: the outcome is unknown; `settle` before the next commit.
            ProducerFenced: see the class.
        """
        producer = self._opened()
        failures: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failures.append(error)

        try:
            producer.begin_transaction()
            for key, value in changes:
                producer.produce(self._topic, key=key.encode(), value=value, partition=0, on_delivery=delivered)
            self._end(producer.commit_transaction)
        except KafkaException as exc:
            self._abort_if_needed(producer, exc)
            reason = KafkaException(failures[0]) if failures else exc
            raise translated(reason if not is_fenced(error_of(exc)) else exc, "the state was not changed") from exc

    def settle(self) -> bool:
        """Bring a commit of unknown outcome to its end. True when there was one and it is now in the topic.

        Raises:
            StoreUncertain: still unknown.
            StoreError: it is not in the topic.
        """
        if self._unended is None:
            return False
        producer, ending = self._opened(), self._unended
        try:
            self._end(ending)
        except KafkaException as exc:
            self._abort_if_needed(producer, exc)
            raise translated(exc, "the last change of the state was not made") from exc
        if ending == producer.abort_transaction:
            raise StoreError("the last change of the state was not made")
        return True

    def replaced_by(self) -> str:
        """The instance that took over, or ''. Does not wait. Errors of the connection are librdkafka's to heal."""
        if self._consumer is None:
            return ""
        for message in self._consumer.consume(100, 0):
            if message.error() is None and message.key() == WRITER_KEY.encode():
                writer = _writer_of(message.value())
                if writer != self._instance:
                    return writer
        return ""

    def close(self) -> None:
        """Close the clients. Waits for nothing: what was not committed is not in the state."""
        if self._consumer is not None:
            self._consumer.close()
        self._consumer = self._producer = None

    def _opened(self) -> Producer:
        if self._producer is None:
            raise StoreError("the state topic is not open")
        return self._producer

    def _abort_if_needed(self, producer: Producer, failure: KafkaException) -> None:
        if error_of(failure).txn_requires_abort():
            self._end(producer.abort_transaction)

    def _end(self, attempt: Callable[[float], None]) -> None:
        """Commit or abort, again while the error says so: librdkafka resumes where the last attempt stopped."""
        deadline = time.monotonic() + self._commit_s
        while True:
            left_s = deadline - time.monotonic()
            try:
                attempt(max(left_s, 0.1))
            except KafkaException as exc:
                if not error_of(exc).retriable():
                    self._unended = None
                    raise
                if left_s <= 0:
                    self._unended = attempt
                    raise StoreUncertain(
                        f"the target has not answered a change of the state: {error_of(exc).str()}"
                    ) from exc
            else:
                self._unended = None
                return

    def _ensure_topic(self, admin: AdminClient, timeout_s: float) -> None:
        metadata = admin.list_topics(timeout=timeout_s)
        if self._topic in metadata.topics:
            self._check_topic(admin, len(metadata.topics[self._topic].partitions), timeout_s)
            return
        new = NewTopic(
            self._topic,
            num_partitions=1,
            replication_factor=min(3, len(metadata.brokers)),
            config={"cleanup.policy": "compact", "max.message.bytes": str(_MAX_RECORD_BYTES), "retention.ms": "-1"},
        )
        try:
            admin.create_topics([new], operation_timeout=timeout_s)[self._topic].result(timeout_s)
        except KafkaException as exc:
            if error_of(exc).code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise

    def _check_topic(self, admin: AdminClient, partitions: int, timeout_s: float) -> None:
        resource = ConfigResource(ResourceType.TOPIC, self._topic)
        configs = admin.describe_configs([resource])[resource].result(timeout_s)
        if partitions != 1 or configs["cleanup.policy"].value != "compact":
            raise StoreError(
                f"topic {self._topic} exists on the target, but is not a compacted topic of one partition: "
                "it is not lockgate's state"
            )

    def _read_to_own_record(self, consumer: Consumer, deadline: float) -> list[Change]:
        changes: list[Change] = []
        while time.monotonic() < deadline:
            for message in consumer.consume(1_000, 0.5):
                error, key, value = message.error(), message.key(), message.value()
                if error is not None and (error.fatal() or not error.retriable()) and not is_passing(error):
                    raise KafkaException(error)
                if error is not None or key is None:
                    continue
                if key == WRITER_KEY.encode():
                    if _writer_of(value) == self._instance:
                        return changes
                    continue
                changes.append((_text(key), None if value is None else _bytes(value)))
        raise StoreError("the state topic could not be read to its end in time")


def _writer_of(value: str | bytes | None) -> str:
    try:
        return str(json.loads(value or "{}").get("instance", ""))
    except (ValueError, AttributeError):
        return ""


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "replace")


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value
