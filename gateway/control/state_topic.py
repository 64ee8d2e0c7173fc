"""The state topic's I/O: create, read, take over, write in transactions. Blocking; the store runs it in threads.

Any process reads. One writes at a time: `lead` takes over the transactional id, which fences the process that had it
before (KIP-98) and ends a transaction it left open. It then writes a `writer` record: the offset of that record is the
**term**, higher than all before. Who reads another's writer record behind its own has been replaced.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Sequence

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType  # type: ignore[attr-defined]

from gateway.control.librdkafka import error_of, is_fenced, librdkafka_properties, translated
from gateway.control.state_reader import MORE, WRITER_KEY, Entry, StateReader
from gateway.control.store_errors import StoreError, StoreUncertain
from gateway.domain.topic_configs import INTERNAL
from gateway.net.config import ClusterConfig

TOPIC = "__lockgate_state"
TRANSACTIONAL_ID = "lockgate-state"

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
        self._properties = librdkafka_properties(config)
        self._instance = instance
        self._topic = topic
        self._transactional_id = transactional_id
        self._commit_s = commit_s
        self._producer: Producer | None = None
        self._reader: StateReader | None = None
        self._unended: Callable[[float], None] | None = None  # a commit or abort that was not answered in time
        self._written = -1  # offset of the last record that was handed to the broker

    # -- reading -------------------------------------------------------------------------------------------------

    def open(self, timeout_s: float = 30.0) -> list[Entry]:
        """Create the topic if absent, and read all of it.

        Raises:
            StoreError: the target is not reachable or the topic is not what it must be.
        """
        deadline = time.monotonic() + timeout_s
        try:
            self._ensure_topic(AdminClient(self._properties), timeout_s)
            self._reader = StateReader(self._properties, self._topic, _MAX_RECORD_BYTES)
            return self._reader.read_to_end(deadline)
        except KafkaException as exc:
            raise translated(exc, "the state topic on the target could not be opened") from exc

    def read(self, timeout_s: float) -> list[Entry]:
        """What came since, whole changes only; waits up to `timeout_s` for the first.

        Raises:
            StoreError: the topic cannot be read any more.
        """
        if self._reader is None:
            raise StoreError("the state topic is not open")
        try:
            return self._reader.read(timeout_s)
        except KafkaException as exc:
            raise translated(exc, "the state topic on the target cannot be read") from exc

    # -- writing -------------------------------------------------------------------------------------------------

    def lead(self, timeout_s: float = 30.0) -> int:
        """Fence whoever wrote before. Returns the term.

        Raises:
            StoreError: the target does not answer, or refuses.
            ProducerFenced: somebody else took over in the meantime.
        """
        self.resign()
        try:
            self._producer = Producer(
                {
                    **self._properties,
                    "transactional.id": self._transactional_id,
                    "transaction.timeout.ms": 60_000,
                    "message.max.bytes": _MAX_RECORD_BYTES,
                    "compression.type": "zstd",
                },
                logger=_log,
            )
            self._producer.init_transactions(timeout_s)
            return self.commit([(WRITER_KEY, json.dumps({"v": 1, "instance": self._instance}).encode())])
        except KafkaException as exc:
            raise translated(exc, "the state topic on the target could not be taken over") from exc

    def resign(self) -> None:
        """Write no more; reading goes on. A commit of unknown outcome stays so until it is read."""
        self._producer = self._unended = None

    def commit(self, changes: Sequence[Change]) -> int:
        """Write all changes in one transaction. Returns the offset of the last record.

        Raises:
            StoreError: nothing was written.
            StoreUncertain: the outcome is unknown; `settle` before the next commit.
            ProducerFenced: another process leads.
        """
        producer = self._opened()
        failures: list[KafkaError] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                failures.append(error)
            else:
                self._written = max(self._written, message.offset() or 0)

        try:
            producer.begin_transaction()
            for left, (key, value) in zip(reversed(range(len(changes))), changes, strict=True):
                headers: dict[str, str | bytes | None] = {MORE: b""} if left else {}
                producer.produce(
                    self._topic, key=key.encode(), value=value, partition=0, headers=headers, on_delivery=delivered
                )
            self._end(producer.commit_transaction)
        except KafkaException as exc:
            self._abort_if_needed(producer, exc)
            reason = KafkaException(failures[0]) if failures else exc
            raise translated(reason if not is_fenced(error_of(exc)) else exc, "the state was not changed") from exc
        return self._written

    def settle(self) -> int:
        """Bring a commit of unknown outcome to its end. Returns the offset of its last record; -1: there was none.

        Raises:
            StoreUncertain: still unknown.
            StoreError: it is not in the topic.
        """
        if self._unended is None:
            return -1
        producer, ending = self._opened(), self._unended
        try:
            self._end(ending)
        except KafkaException as exc:
            self._abort_if_needed(producer, exc)
            raise translated(exc, "the last change of the state was not made") from exc
        if ending == producer.abort_transaction:
            raise StoreError("the last change of the state was not made")
        return self._written

    def close(self) -> None:
        """Close the clients. Waits for nothing: what was not committed is not in the state."""
        self.resign()
        if self._reader is not None:
            self._reader.close()
        self._reader = None

    def _opened(self) -> Producer:
        if self._producer is None:
            raise StoreError("this gateway does not lead the fleet: it cannot change the state")
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
            config={**INTERNAL, "max.message.bytes": str(_MAX_RECORD_BYTES)},
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
