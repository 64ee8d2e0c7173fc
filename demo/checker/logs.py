"""Judges the logs: what is on the target, how often, in which order, and at which offsets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from demo.history import Ack
from demo.records import RecordId

MAX_EXAMPLES = 5


class LogRecord(NamedTuple):
    """One record of a log: where it is, which one it is, and the digest of all a consumer sees of it."""

    offset: int
    id: RecordId
    digest: int


@dataclass(frozen=True, slots=True)
class TopicLog:
    """A topic read back in full: records per partition in offset order, and the log ends."""

    partitions: Mapping[int, list[LogRecord]]
    ends: Mapping[int, int] = field(default_factory=dict)

    def records(self) -> Iterator[tuple[int, LogRecord]]:
        """Every record with its partition."""
        for partition, records in self.partitions.items():
            for record in records:
                yield partition, record

    def __len__(self) -> int:
        return sum(len(records) for records in self.partitions.values())


class LogPosition(NamedTuple):
    """Where a record was first found."""

    partition: int
    offset: int


TransactionCoordinators = dict[str, dict[int, LogPosition]]  # producer -> number -> first place


@dataclass(slots=True)
class Finding:
    """A count of one kind of fault with its first few cases in words."""

    count: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, text: str) -> None:
        """Count one more case."""
        self.count += 1
        if len(self.examples) < MAX_EXAMPLES:
            self.examples.append(text)


def locate(log: TopicLog) -> tuple[TransactionCoordinators, Finding]:
    """The first place of every record, and the records found again."""
    places: TransactionCoordinators = {}
    duplicated = Finding()
    for partition, record in log.records():
        of_producer = places.setdefault(record.id.producer, {})
        first = of_producer.setdefault(record.id.seq, LogPosition(partition, record.offset))
        if first != (partition, record.offset):
            again = f"{partition}/{record.offset}, first at {first.partition}/{first.offset}"
            duplicated.add(f"duplicated: {name(record.id)} at {again}")
    return places, duplicated


def find_lost(acks: Mapping[str, Iterable[Ack]], places: TransactionCoordinators) -> tuple[int, Finding, Finding]:
    """Distinct records acknowledged, those not on the target, and those the target holds elsewhere."""
    lost, misplaced = Finding(), Finding()
    acknowledged: set[RecordId] = set()
    for producer, of_producer in acks.items():
        found = places.get(producer, {})
        for ack in of_producer:
            record = RecordId(producer, ack.seq)
            if record in acknowledged:
                continue
            acknowledged.add(record)
            place = found.get(ack.seq)
            if place is None:
                lost.add(f"lost: {name(record)}, acknowledged at {ack.partition}/{ack.offset}")
            elif place != (ack.partition, ack.offset if ack.offset >= 0 else place.offset):
                misplaced.add(
                    f"misplaced: {name(record)} acknowledged at {ack.partition}/{ack.offset},"
                    f" found at {place.partition}/{place.offset}"
                )
    return len(acknowledged), lost, misplaced


def find_reordered(source: TopicLog, target: TopicLog) -> Finding:
    """Records on the target that are behind one they should precede. Repeats of a record are not judged again."""
    reordered = Finding()
    for partition, records in target.partitions.items():
        rank = {record.id: at for at, record in enumerate(source.partitions.get(partition, ()))}
        highest: dict[str, int] = {}
        furthest = -1
        seen: set[RecordId] = set()
        for record in records:
            if record.id in seen:
                continue
            seen.add(record.id)
            producer, seq = record.id
            at = rank.get(record.id, furthest)
            if seq < highest.get(producer, -1) or at < furthest:
                reordered.add(f"reordered: {name(record.id)} at {partition}/{record.offset}")
            highest[producer] = max(seq, highest.get(producer, -1))
            furthest = max(at, furthest)
    return reordered


def find_unequal(source: TopicLog, target: TopicLog) -> Finding:
    """The first difference of each partition between the source's log and the target's up to the source's end."""
    unequal = Finding()
    for partition, records in source.partitions.items():
        end = source.ends.get(partition, records[-1].offset + 1 if records else 0)
        copies = [record for record in target.partitions.get(partition, []) if record.offset < end]
        if records == copies:
            continue
        at = next((i for i, (a, b) in enumerate(zip(records, copies, strict=False)) if a != b), None)
        if at is None:
            unequal.add(f"unequal: partition {partition}: {len(records)} on the source, {len(copies)} on the target")
        else:
            unequal.add(f"unequal: partition {partition}: source {show(records[at])}, target {show(copies[at])}")
    return unequal


def name(record: RecordId) -> str:
    """A record in words."""
    return f"{record.producer} #{record.seq}"


def show(record: LogRecord) -> str:
    """A log record in words; the digest tells two contents of the same record apart."""
    return f"{name(record.id)} at {record.offset} ({record.digest:016x})"
