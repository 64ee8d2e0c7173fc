"""Producers of every library in processes of their own, and the judgement over what they wrote."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

from confluent_kafka import Consumer, TopicPartition

from gateway.devcluster import ensure_jars
from gateway.devcluster.java import java_binary, jvm_options
from tests.support.brokers.logs import Log, Record
from tests.support.waiting import wait_until

CLIENTS = Path(__file__).parents[2] / "exact" / "clients"
KAFKA = "4.3.1"


class ProducerProcess:
    """One producer, begun by `start`. `library`: java, librdkafka, kafka-python, aiokafka.

    `config` takes the library's own names. `acknowledged` are the numbers that were acknowledged or committed, in the
    order in which that was said; `aborted` counts transactions.
    """

    def __init__(
        self,
        library: str,
        bootstrap: str,
        topic: str,
        *,
        partitions: int,
        name: str = "",
        rate: int = 100,
        transactional: bool = False,
        sizes: tuple[int, ...] = (100,),
        config: dict[str, Any] | None = None,
    ) -> None:
        self.library, self.name = library, name or library
        self.acknowledged: list[int] = []
        self.errors: list[str] = []
        self.aborted = 0
        self.transactional = transactional
        self._ended = False
        options = {
            "bootstrap": bootstrap,
            "topic": topic,
            "name": self.name,
            "partitions": partitions,
            "rate": rate,
            "transactional": transactional,
        }
        if library == "java":
            own = {"bootstrap.servers": bootstrap, **(config or {})}
            pairs = {**options, "sizes": ",".join(map(str, sizes)), **own}
            self._command = [*_java(), *(f"{key}={_text(value)}" for key, value in pairs.items())]
        else:
            body = {**options, "library": library, "sizes": list(sizes), "config": config or {}}
            self._command = [sys.executable, str(CLIENTS / "produce.py"), json.dumps(body)]
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> Self:
        """Begin to write."""
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._listener = threading.Thread(target=self._listen, name=self.name, daemon=True)
        self._listener.start()
        return self

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def wait_for(self, more: int, deadline: float = 60.0) -> None:
        """Wait until that many more records are acknowledged."""
        goal = len(self.acknowledged) + more
        wait_until(
            lambda: len(self.acknowledged) >= goal or self.errors, deadline, what=f"{more} records more of {self.name}"
        )

    def stop(self, deadline: float = 90.0) -> None:
        """End it, and wait until all that it sent has been answered."""
        process = self._process
        if process is None or process.stdin is None:
            return
        process.stdin.close()
        try:
            wait_until(lambda: self._ended, deadline, what=f"the end of {self.name}")
            process.wait(10)
        finally:
            process.kill()
            process.wait(10)
            self._listener.join(10)
            if process.stdout is not None:
                process.stdout.close()
            self._process = None

    def _listen(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = json.loads(line)
            if "ack" in event:
                self.acknowledged.append(event["ack"])
            elif "from" in event:
                self.acknowledged += range(event["from"], event["to"])
            elif "aborted" in event:
                self.aborted += 1
            elif "error" in event:
                self.errors.append(event["error"])
        self._ended = True


@contextmanager
def writing(producers: Sequence[ProducerProcess]) -> Iterator[Callable[[int], None]]:
    """All of them write in the block. Yields a wait: until each had that many more records acknowledged."""

    def traffic(more: int) -> None:
        for producer in producers:
            producer.wait_for(more)

    with ExitStack() as running:
        for producer in producers:
            running.enter_context(producer)
        yield traffic


def read_committed(bootstrap: str, topic: str, partitions: int, deadline: float = 60.0) -> list[Log]:
    """Each partition from its start to its last stable offset, without what was aborted."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    logs: list[Log] = [[] for _ in range(partitions)]
    left = set(range(partitions))
    end = time.monotonic() + deadline
    consumer.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
    try:
        while left:
            assert time.monotonic() < end, f"{topic} on {bootstrap} could not be read to its end: {left}"
            for message in consumer.consume(1000, timeout=0.5):
                index, error = message.partition() or 0, message.error()
                if error is not None:
                    assert error.name() == "_PARTITION_EOF", error
                    left.discard(index)
                    continue
                headers = tuple(message.headers() or ())
                record = Record(
                    message.offset() or 0, _b(message.key()), _b(message.value()), message.timestamp(), headers
                )
                logs[index].append(record)
    finally:
        consumer.close()
    return logs


def _b(data: str | bytes | None) -> bytes | None:
    return data.encode() if isinstance(data, str) else data


def judge(producers: Sequence[ProducerProcess], log: list[Log], *, exact: bool = True) -> None:
    """Nothing lost, doubled, or out of order; nothing aborted; and no producer was shown an error.

    `exact`: what was not acknowledged is not there either, as it must be once every producer has come to its end.
    """
    for producer in producers:
        assert not producer.errors, f"{producer.name}: {producer.errors[:5]}"
        expected = sorted(producer.acknowledged)
        assert len(expected) == len(set(expected)), f"{producer.name} was told of a record twice"
        found: list[int] = []
        for index, partition in enumerate(log):
            numbers = _numbers(producer.name, partition)
            assert numbers == sorted(set(numbers)), f"{producer.name}, partition {index}: {_disorder(numbers)}"
            found += numbers
        missing = sorted(set(expected) - set(found))
        assert not missing, f"{producer.name}: {len(missing)} of {len(expected)} are lost, from {missing[:5]} on"
        more = sorted(set(found) - set(expected))
        assert not exact or not more, f"{producer.name}: {len(more)} were never acknowledged, from {more[:5]} on"


def _numbers(name: str, log: Log) -> list[int]:
    keys = [(record.key or b"").decode() for record in log]
    mine = [key.split() for key in keys if key.startswith(f"{name} ")]
    assert not [key for key in mine if len(key) > 2], f"{name}: records of aborted transactions"
    return [int(key[1]) for key in mine]


def _disorder(numbers: list[int]) -> str:
    at = next((index for index, (one, two) in enumerate(pairwise(numbers)) if two <= one), 0)
    return f"… {numbers[max(0, at - 3) : at + 6]} …"


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _java() -> list[str]:
    jars = ensure_jars(KAFKA)
    names = ("kafka-clients", "slf4j-api", "lz4-java", "snappy-java", "zstd-jni")
    class_path = os.pathsep.join(str(jar) for name in names for jar in sorted(jars.glob(f"{name}-[0-9]*.jar")))
    return [java_binary(), *jvm_options(96), "-cp", class_path, str(CLIENTS / "Produce.java")]
