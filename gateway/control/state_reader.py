"""Reads the state topic in its order, one whole change after the other. Blocking; the store runs it in a thread.

The records of one change are written in one transaction, but may come in several answers of the broker. All but the
last of them carry the header `MORE`, so that nobody ever sees half a change.
"""

from __future__ import annotations

import json
import logging
import time
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from gateway.control.librdkafka import is_passing
from gateway.control.store_errors import StoreError

WRITER_KEY = "writer"
MORE = "lockgate.more"
_JUST_CREATED = KafkaError.UNKNOWN_TOPIC_OR_PART
_log = logging.getLogger("lockgate.state")


class Entry(NamedTuple):
    """One record as it stands in the topic. A value of None deletes the key."""

    offset: int
    key: str
    value: bytes | None


class StateReader:
    """A consumer of the whole topic, from its beginning. `properties`: librdkafka's, of the target."""

    def __init__(self, properties: dict[str, str | int | float | bool], topic: str, max_record_bytes: int) -> None:
        self._consumer = Consumer(
            {
                **properties,
                "group.id": "lockgate-state-unused",  # librdkafka asks for one; nothing is ever committed
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",  # a state topic that lost records is no state topic
                "isolation.level": "read_committed",
                "fetch.message.max.bytes": max_record_bytes,
                "fetch.wait.max.ms": 500,
            },
            logger=_log,
        )
        self._consumer.assign([TopicPartition(topic, 0, 0)])
        self._change: list[Entry] = []
        self._at_end = False

    def read_to_end(self, deadline: float) -> list[Entry]:
        """All that is committed now. `deadline`: monotonic seconds.

        Raises:
            StoreError: the end was not reached in time.
            KafkaException: the topic cannot be read.
        """
        entries: list[Entry] = []
        self._at_end = False
        while not self._at_end:
            if time.monotonic() >= deadline:
                raise StoreError("the state topic could not be read to its end in time")
            entries += self.read(0.2)
        return entries

    def read(self, timeout_s: float) -> list[Entry]:
        """The whole changes that have come; waits up to `timeout_s` for the first. Connections heal by themselves.

        Raises:
            KafkaException: the topic cannot be read any more.
        """
        first = self._consumer.poll(timeout_s)
        if first is None:
            return []
        ready: list[Entry] = []
        for message in (first, *self._consumer.consume(1_000, 0)):
            self._take(message, ready)
        return ready

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()

    def _take(self, message: Message, ready: list[Entry]) -> None:
        error = message.error()
        if error is not None:
            self._failed(error, ready)
            return
        key, value, offset = message.key(), message.value(), message.offset()
        if key is None or offset is None:
            return
        self._at_end = False
        self._change.append(Entry(offset, _text(key), None if value is None else _bytes(value)))
        if MORE not in dict(message.headers() or ()):
            self._whole(ready)

    def _failed(self, error: KafkaError, ready: list[Entry]) -> None:
        if error.code() == KafkaError._PARTITION_EOF:  # the last record of a change may have been compacted away
            self._at_end = True
            self._whole(ready)
        elif error.fatal() or not (error.retriable() or is_passing(error) or error.code() == _JUST_CREATED):
            raise KafkaException(error)

    def _whole(self, ready: list[Entry]) -> None:
        ready += self._change
        self._change = []


def writer_of(value: bytes | None) -> str:
    """The instance that a writer record names; '' for none."""
    try:
        return str(json.loads(value or b"{}").get("instance", ""))
    except (ValueError, AttributeError):
        return ""


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "replace")


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value
