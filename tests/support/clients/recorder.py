"""Records what clients do as a history for `tests.checker` (the form is in tests/checker/FORMAT.md).

`Recorder` is the file, `RecordedProducer` and `RecordedMember` are clients on librdkafka that write into it, each in a
thread of its own.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.support.brokers.logs import Log
from tests.support.waiting import wait_until


class Recorder:
    """Appends operations to a file of JSON lines, in the order of the calls, from any thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._file = path.open("w", encoding="utf-8")

    def write(self, kind: str, process: str, f: str, value: Any, number: int | None = None) -> None:
        """One line."""
        op = {"type": kind, "process": process, "f": f, "value": value}
        if number is not None:
            op["id"] = number
        with self._lock:
            op["time"] = time.monotonic_ns()
            self._file.write(json.dumps(op) + "\n")

    def setup(self, home: str, **more: Any) -> None:
        """The first line."""
        self.write("ok", "control", "setup", {"home": home, **more})

    def final_log(self, side: str, topic: str, logs: Iterable[Log]) -> None:
        """What a cluster holds of a topic at the end. Records without a value take up their offset only."""
        for partition, log in enumerate(logs):
            records = [[record.offset, record.value.decode()] for record in log if record.value]
            start, end = (log[0].offset, log[-1].offset + 1) if log else (0, 0)
            piece = {"side": side, "key": f"{topic}/{partition}", "start": start, "end": end, "records": records}
            self.write("ok", "control", "log", piece)

    def lines(self) -> list[str]:
        """Everything so far."""
        with self._lock:
            self._file.flush()
        return self.path.read_text(encoding="utf-8").splitlines()

    def close(self) -> None:
        """No more is written."""
        self._file.close()


class _Client:
    def __init__(self, recorder: Recorder, name: str) -> None:
        self.recorder, self.name = recorder, name
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End in order."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        raise NotImplementedError


class RecordedProducer(_Client):
    """Sends records at a rate, each in a batch of its own, so that faults of single batches are faults of records."""

    def __init__(
        self,
        recorder: Recorder,
        name: str,
        bootstrap: str,
        topic: str,
        *,
        side: str,
        partitions: int,
        rate: float = 100,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(recorder, name)
        self.acknowledged = self._sent = 0
        self._topic, self._partitions, self._rate = topic, partitions, rate
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 0,
                "batch.num.messages": 1,
                "delivery.timeout.ms": 30_000,
                "log_level": 0,
                **(config or {}),
            }
        )
        recorder.write("ok", name, "open", {"side": side})

    def wait_for(self, more: int) -> None:
        """Wait until `more` records are acknowledged than now."""
        wanted = self.acknowledged + more
        wait_until(lambda: self.acknowledged >= wanted, 60, what=f"{wanted} acknowledgements")

    def _run(self) -> None:
        began = time.monotonic()
        while not self._stopping.is_set():
            while self._sent < (time.monotonic() - began) * self._rate:
                self._send(self._sent)
                self._sent += 1
            self._producer.poll(0.005)
        self._producer.flush(60)  # what is not answered by then has no end in the history: unknown

    def _send(self, number: int) -> None:
        partition, value = number % self._partitions, f"{self.name}:{number}"
        key = f"{self._topic}/{partition}"

        def done(error: KafkaError | None, message: Message) -> None:
            if error is None:
                offset = message.offset()
                told = offset if offset is not None and offset >= 0 else None
                self.acknowledged += 1
                self.recorder.write("ok", self.name, "send", [["send", key, [told, value]]], number)
            else:
                kind = "fail" if error.code() in (KafkaError._QUEUE_FULL, KafkaError.MSG_SIZE_TOO_LARGE) else "unknown"
                self.recorder.write(kind, self.name, "send", [["send", key, value]], number)

        self.recorder.write("invoke", self.name, "send", [["send", key, value]], number)
        self._producer.produce(self._topic, value=value.encode(), partition=partition, on_delivery=done)


class RecordedMember(_Client):
    """A member of a group that reads, records, and commits what it has recorded before it polls again."""

    def __init__(self, recorder: Recorder, name: str, bootstrap: str, topic: str, group: str, *, side: str) -> None:
        super().__init__(recorder, name)
        self.read = 0
        self._topic = topic
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "client.id": name,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 6000,
                "fetch.wait.max.ms": 50,
                "log_level": 0,
            }
        )
        recorder.write("ok", name, "open", {"side": side, "group": group, "reset": "earliest"})

    def wait_for(self, more: int) -> None:
        """Wait until it has read `more` records than now."""
        wanted = self.read + more
        wait_until(lambda: self.read >= wanted, 60, what=f"{wanted} records read")

    def _run(self) -> None:
        self._consumer.subscribe([self._topic], on_assign=self._assigned, on_revoke=self._revoked)
        while not self._stopping.is_set():
            messages = [m for m in self._consumer.consume(100, timeout=0.05) if m.error() is None]
            if messages:
                self._got(messages)
        self._consumer.close()

    def _got(self, messages: list[Message]) -> None:
        read: dict[str, list[list[Any]]] = {}
        positions: dict[int, int] = {}
        for message in messages:
            partition, offset = message.partition() or 0, message.offset() or 0
            positions[partition] = offset + 1
            if value := message.value():
                read.setdefault(self._key(partition), []).append([offset, value.decode()])
        self.recorder.write("invoke", self.name, "poll", [["poll"]])
        self.recorder.write("ok", self.name, "poll", [["poll", read]])
        self.read += len(messages)
        commit = {self._key(partition): offset for partition, offset in positions.items()}
        self.recorder.write("invoke", self.name, "commit", commit)
        try:
            offsets = [TopicPartition(self._topic, partition, offset) for partition, offset in positions.items()]
            self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException:
            self.recorder.write("unknown", self.name, "commit", commit)
        else:
            self.recorder.write("ok", self.name, "commit", commit)

    def _assigned(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.recorder.write("ok", self.name, "assign", [self._key(p.partition) for p in partitions])

    def _revoked(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.recorder.write("ok", self.name, "revoke", [self._key(p.partition) for p in partitions])

    def _key(self, partition: int) -> str:
        return f"{self._topic}/{partition}"
