"""What the two clusters hold, read back by a client library, and the judgement over it. Nothing of the gateway's own
counters or of the jobs' reports goes into it."""

from __future__ import annotations

import time
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import cast

from confluent_kafka import Consumer, TopicPartition

from demo.errors import DemoError
from demo.records import VALUE_BYTES, digest, parse_value

BATCH = 5_000


@dataclass(slots=True)
class PartitionLog:
    """One partition from its start to its end: of each record its offset, digest, producer and number."""

    offsets: array[int] = field(default_factory=lambda: array("q"))
    digests: array[int] = field(default_factory=lambda: array("Q"))
    producers: list[str] = field(default_factory=list)
    numbers: array[int] = field(default_factory=lambda: array("q"))
    end: int = 0

    def at(self, offset: int) -> int | None:
        """The digest of the first record at or after an offset; None at the end."""
        index = bisect_left(self.offsets, offset)
        return self.digests[index] if index < len(self.offsets) else None


Logs = dict[int, PartitionLog]


def read_logs(bootstrap: str, topic: str, partitions: int, timeout_s: float) -> Logs:
    """A whole topic as of now. Raises DemoError when it takes too long."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "demo-readback",  # demanded by the library; nothing is joined or committed
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "check.crcs": True,
            "log_level": 3,
        }
    )
    logs: Logs = {}
    left: set[int] = set()
    try:
        for index in range(partitions):
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, index), timeout=20)
            logs[index] = PartitionLog(end=high)
            if low < high:
                left.add(index)
        consumer.assign([TopicPartition(topic, index, 0) for index in left])
        deadline = time.monotonic() + timeout_s
        names: dict[str, str] = {}
        while left:
            if time.monotonic() > deadline:
                raise DemoError(f"waited {timeout_s:.0f} s for the rest of {topic} on {bootstrap}")
            for message in consumer.consume(BATCH, timeout=0.5):
                if message.error() is None:
                    index, offset = message.partition() or 0, message.offset() or 0
                    log = logs[index]
                    if offset < log.end:
                        record = parse_value(message.value())
                        headers = cast("list[tuple[str, bytes | None]]", message.headers() or [])
                        log.offsets.append(offset)
                        log.digests.append(digest(message.key(), message.value(), headers, message.timestamp()))
                        log.producers.append(names.setdefault(record.producer, record.producer))
                        log.numbers.append(record.seq)
                    if offset + 1 >= log.end:
                        left.discard(index)
    finally:
        consumer.close()
    return logs


@dataclass(slots=True)
class Counted:
    """What was found on the target. `unequal`: partitions whose logs differ on the two clusters."""

    acknowledged: int = 0
    found: int = 0
    lost: int = 0
    duplicated: int = 0
    reordered: int = 0
    unequal: list[str] = field(default_factory=list)
    copied_bytes: int = 0


def count(source: Logs, target: Logs, acknowledged: Mapping[str, int], copied_to: Mapping[int, int]) -> Counted:
    """Judge the target.

    Args:
        acknowledged: of each producer how many of its records were, which are its numbers from 0 on.
        copied_to: where the catch-up ended in each partition.
    """
    found = Counted(acknowledged=sum(acknowledged.values()))
    seen = {name: bytearray(total) for name, total in acknowledged.items()}
    for index, log in target.items():
        last: dict[str, int] = {}
        for producer, number in zip(log.producers, log.numbers, strict=True):
            flags = seen.get(producer)
            if flags is None or number >= len(flags):
                found.unequal.append(f"{producer} #{number} in partition {index} was never acknowledged")
                continue
            found.duplicated += flags[number]
            found.reordered += not flags[number] and number < last.get(producer, -1)
            flags[number] = 1
            last[producer] = max(number, last.get(producer, -1))
        found.found += len(log.numbers)
        found.copied_bytes += VALUE_BYTES * sum(offset < copied_to.get(index, 0) for offset in log.offsets)
        found.unequal += _unequal(index, source[index], log)
    found.lost = sum(flags.count(0) for flags in seen.values())
    return found


def _unequal(index: int, source: PartitionLog, target: PartitionLog) -> Iterable[str]:
    """Up to the source's end; what the target has beyond it shows as a duplicate."""
    count = len(source.offsets)
    if source.offsets != target.offsets[:count] or source.digests != target.digests[:count]:
        yield f"partition {index}: the records of the two clusters differ"


def exact_groups(
    source: Logs,
    target: Logs,
    before: Mapping[str, Mapping[int, int]],
    after: Mapping[str, Mapping[int, int]],
) -> int:
    """How many groups go on, in every partition, with the same record on the target as on the source.

    Args:
        before, after: committed offsets on the source and on the target.
    """

    def exact(group: str) -> bool:
        here, there = before[group], after.get(group, {})
        return here.keys() == there.keys() and all(
            source[index].at(offset) == target[index].at(there[index]) for index, offset in here.items()
        )

    return sum(exact(group) for group in before)
