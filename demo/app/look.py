"""What a cluster holds at the end, as a consumer with read_committed sees it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from demo.app.settings import BOOKED, JUDGED
from demo.checker import TopicLog
from demo.readback import read_topic
from demo.records import RecordId, parse_value
from demo.settings import READ_BACK_S


@dataclass(frozen=True, slots=True)
class Held:
    """`logs`: by topic. In COUNTS and the changelog a record's id is a bucket and its count. `transactions`: tag of a
    transaction of `booking`, which ends in its size -> how many of its records can be seen."""

    logs: Mapping[str, TopicLog]
    transactions: Mapping[str, int] = field(default_factory=dict)


def held(bootstrap: str, partitions: int, topics: tuple[str, ...] = JUDGED) -> Held:
    """Read topics back. Raises DemoError when it takes too long, or a record is not one of the demo's."""
    transactions: Counter[str] = Counter()

    def booked(value: bytes | None) -> RecordId:
        record, tag = parse_booked(value)
        transactions[tag] += 1
        return record

    logs = {
        topic: read_topic(bootstrap, topic, partitions, READ_BACK_S, parse=booked if topic == BOOKED else parse_value)
        for topic in topics
    }
    return Held(logs, transactions)


def parse_booked(value: bytes | None) -> tuple[RecordId, str]:
    """Which record it was made of, and the tag of its transaction. Raises ValueError for another form."""
    record = parse_value(value)
    parts = (value or b"").split(b" ")
    if len(parts) != 4 or size_of(tag := parts[2].decode()) < 1:
        raise ValueError(f"not written by an application of the demo: {(value or b'')[:80]!r}")
    return record, tag


def size_of(tag: str) -> int:
    """How many records the transaction has; 0 for something else."""
    _, _, size = tag.rpartition("/")
    return int(size) if size.isdigit() else 0


def last_counts(log: TopicLog) -> dict[str, int]:
    """The last count of each bucket."""
    return {record.id.producer: record.id.seq for _, record in log.records()}
