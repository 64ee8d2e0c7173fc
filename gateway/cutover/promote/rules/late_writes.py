"""Counts late writes: records of a source's log that no mirror appended. Pure: it yields which batches to read.

Theory of operation
-------------------
A mirror back appends under its own producer id, and each of its batches has its own offset as sequence number
(`mirror/partition/rules/log_tail.py`). From its floor on it is the only writer, unless there are late writes. So the
log above the floor begins with batches that are the mirror's and *in place*, and the first late batch shifts all later
ones away from their sequence numbers: the batches in place are a prefix. Then

* the last batch alone proves that there are no late writes: one read, whatever the length of the log;
* if it is not in place, a binary search finds the first batch that is not: some twenty reads;
* after that, all batches are late but those that the mirror had in flight when it noticed, and FAILED: a few, which are
  looked for one by one, `MOST_LOOKED_AT` at most.

**They may be kept**, if an operator asks for it, while they are the end of the log: no batch of the mirror is after
them. Then the topic goes home with them in place. The stored cutover is where the mirror stood, below them, so the
mirror forward begins with them: on the target they come after the records that clients wrote there, and before those
that clients write to the source from then on, and both logs are the same. Under the write pause every one of these
batches is checked not to be the mirror's (`all_others`). Once the mirror back has met a late write, the logs have
diverged: each has records after the same offset that the other lacks, and Kafka removes nothing from the end of a log,
so the source must become a copy again.

Only the log is read, so every leader gets the same result. Offsets count, as everywhere, including transaction markers
and records that compaction has removed.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Final

from gateway.mirror.partition.rules.log_tail import LogTail
from gateway.state.records import MirrorRecord, MirrorState
from protocol.batch.header import mirror_sequence

MOST_LOOKED_AT: Final = 40
"""Batches after the first late one; the mirror has at most 32 appends of a partition in flight. Its batches farther
behind, among many late writes, are counted as late."""

MOST_KEPT: Final = 500
"""Batches of a partition checked under the write pause: one read of the source each, some milliseconds."""

Reads = Generator[int, LogTail | None, "LateWrites"]
"""Yields an offset, and is sent its batch, or the next one (None: there is none); returns the count."""


@dataclass(frozen=True, slots=True)
class LateWrites:
    """The late writes of one partition. `first`: offset of the first one, if `count` is above 0; `end`: of the log."""

    count: int = 0
    first: int = 0
    end: int = field(default=0, compare=False)

    @property
    def is_last(self) -> bool:
        """No batch of the mirror is after the first late write."""
        return self.count == self.end - self.first


def count_late(floor: int, end: int, producer_id: int) -> Reads:
    """Count the records in [floor, end) that the mirror under `producer_id` did not append. `end`: high watermark."""

    def in_place(tail: LogTail) -> bool:
        return tail.producer_id == producer_id and tail.sequence == mirror_sequence(tail.base)

    if end <= floor:
        return LateWrites()
    last = yield end - 1
    if last is None or in_place(last):
        return LateWrites()
    first = max(floor, last.base)
    low, high = floor, first  # batches below `low` are in place; the one at `high`, or next after it, is not
    while low < high:
        middle = (low + high) // 2
        tail = yield middle
        if tail is None:  # truncated meanwhile: the next look has another end
            return LateWrites()
        if in_place(tail):
            low = min(high, tail.following)
        else:
            first = max(floor, tail.base)  # not `middle`: records may be gone from there
            high = max(low, min(middle, tail.base))
    count, at = end - first, first
    for _ in range(MOST_LOOKED_AT):
        tail = (yield at) if at < end else None
        if tail is None or tail.base >= end:
            break
        if tail.producer_id == producer_id:
            count -= min(end, tail.following) - max(at, tail.base)
        at = tail.following
    return LateWrites(count, first, end)


def all_others(first: int, end: int, producer_id: int) -> Generator[int, LogTail | None, bool]:
    """Whether no batch in [first, end) is the mirror's. Reads each batch, `MOST_KEPT` at most; False beyond that."""
    at = first
    for _ in range(MOST_KEPT):
        if at >= end:
            return True
        tail = yield at
        if tail is None or tail.base >= end:
            return True
        if tail.producer_id == producer_id:
            return False
        at = tail.following
    return at >= end


def is_looked_at(record: MirrorRecord) -> bool:
    """True for a topic that is written on the target, so that only a mirror back may write its source topic."""
    if not record.created or not record.cutover.stopped_at:
        return False
    return record.state in (MirrorState.STOPPED, MirrorState.PENDING_SYNCHRONIZE) or is_mirrored_back(record)


def is_mirrored_back(record: MirrorRecord) -> bool:
    """True for a mirror back, even one that is held up; not for one being recreated, or failing back."""
    return record.is_reverse and record.state in (
        MirrorState.PENDING_MIRROR,
        MirrorState.ACTIVE,
        MirrorState.PAUSED,
        MirrorState.SOURCE_UNAVAILABLE,
        MirrorState.LINK_FAILED,
        MirrorState.FAILED,
    )


@dataclass(frozen=True, slots=True)
class LateOfTopic:
    """The late writes of a topic, by partition."""

    partitions: Mapping[int, LateWrites] = field(default_factory=dict)

    @property
    def counts(self) -> Mapping[int, int]:
        """Partition -> records."""
        return {partition: late.count for partition, late in self.partitions.items()}


def why_not_home(record: MirrorRecord, late: LateOfTopic) -> str:
    """Why the topic cannot fail back with these late writes on the source, and what can be done; '' without any."""
    if not late.partitions:
        return ""
    topic, link = record.mirror_topic, record.link
    where = ", ".join(
        f"{each.count} in partition {partition} from offset {each.first} on"
        for partition, each in sorted(late.partitions.items())[:_NAMED]
    )
    if len(late.partitions) > _NAMED:
        where += f" and {len(late.partitions) - _NAMED} more partitions"
    restore = f"lockgate mirror truncate-and-restore {topic} --link {link}"
    if can_be_kept(record, late):
        keep = (
            f"To go home and keep them where they are: lockgate mirror undo {topic} --link {link} --keep-late-writes; "
            "the target gets them behind the cutover, before what clients write from then on. "
        )
    else:
        keep = (
            "They cannot be kept where they are: both logs have records at the same offsets that the other one lacks. "
        )
    if record.state is not MirrorState.FAILED:
        restore = f"lockgate mirror failover {topic} --link {link}, then {restore}"
    return (
        f"mirror topic '{topic}' cannot go home: {sum(late.counts.values())} records were written to topic "
        f"{record.source_topic} on the source beside the gateway ({where}) and are not on the target. Nothing was "
        f"changed. Stop that writer first. To stay: do nothing, the target is written. {keep}To go home with these "
        f"records: read them on the source and write them to the topic at the gateway, then {restore}: that makes the "
        "source a copy of the target, asks before it DELETES what only the source has, and the undo is possible again. "
        "To go home without them: the same without the copy"
    )


def can_be_kept(record: MirrorRecord, late: LateOfTopic) -> bool:
    """Whether the topic may fail back with its late writes in place, as far as is known before the write pause."""
    return record.state is not MirrorState.FAILED and all(each.is_last for each in late.partitions.values())


def why_not_kept(record: MirrorRecord, late: LateOfTopic) -> str:
    """Why the topic may not fail back with its late writes in place; '' when it may, or has none."""
    return "" if can_be_kept(record, late) else why_not_home(record, late)


_NAMED: Final = 5
