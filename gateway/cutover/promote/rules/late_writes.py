"""How many records of a source's log came by no mirror: late writes. Pure; which batches to read is asked for.

Theory of operation
-------------------
A mirror back appends under its own producer id, and each of its batches has its own offset as sequence number
(`mirror/partition/rules/log_tail.py`). Only it writes from its floor on, while nobody else does. So the log above the
floor begins with batches that are the mirror's and *in place*, and the first that somebody else wrote pushes all later
ones away from their sequence numbers: in place is a prefix. Then

* the last batch alone says that there are no late writes: one read, whatever the length of the log;
* where it is not in place, the first that is not is found by halving: some twenty reads;
* behind that, all is somebody else's but what the mirror had on its way when it found out, and FAILED for: few
  batches, which are looked for one by one, `MOST_LOOKED_AT` at most.

**They may be kept**, if somebody says so, while they are the end of the log: nothing of the mirror lies behind them.
Then the topic goes home with them in their place. The cutover is stored where the mirror stood, below them, so the
mirror forward begins with them: the target gets them behind what clients wrote there, before what clients write to the
source from then on, and both logs are the same. That nothing of the mirror's is among them is looked at batch by batch
under the write pause (`all_others`). Once the mirror back has met one the logs have parted: each has records behind the
same offset that the other one lacks, and Kafka takes nothing off the end of a log: the source is to be a copy again.

Nothing but the log is asked, so every leader finds the same. Offsets count, as everywhere: markers of transactions are
among them, and so are records that compaction has taken away.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Final

from gateway.mirror.partition.rules.log_tail import LogTail
from gateway.state.records import MirrorRecord, MirrorState
from protocol.batch.header import mirror_sequence

MOST_LOOKED_AT: Final = 40
"""Batches behind the first late one; the mirror has 32 appends of a partition on their way at most. Those that lie
farther behind, among many late writes, are counted as late."""

MOST_KEPT: Final = 500
"""Batches of a partition that are looked at under the write pause: a read of the source each, some milliseconds."""

Reads = Generator[int, LogTail | None, "LateWrites"]
"""Yields the offset whose batch (or the next one; None: none follows) is to be sent back; returns the count."""


@dataclass(frozen=True, slots=True)
class LateWrites:
    """Of one partition. `first`: the offset of the first of them, where `count` is above 0; `end`: of the log."""

    count: int = 0
    first: int = 0
    end: int = field(default=0, compare=False)

    @property
    def is_last(self) -> bool:
        """Nothing of the mirror lies behind the first of them."""
        return self.count == self.end - self.first


def count_late(floor: int, end: int, producer_id: int) -> Reads:
    """Records in [floor, end) that the mirror under `producer_id` has not appended. `end`: the high watermark."""

    def in_place(tail: LogTail) -> bool:
        return tail.producer_id == producer_id and tail.sequence == mirror_sequence(tail.base)

    if end <= floor:
        return LateWrites()
    last = yield end - 1
    if last is None or in_place(last):
        return LateWrites()
    first = max(floor, last.base)
    low, high = floor, first  # what is below `low` is in place; what is at `high`, or next after it, is not
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
    """Whether nothing in [first, end) is by the mirror: asked of each batch, of `MOST_KEPT` at most."""
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
    """True of a topic that is written on the target, and whose source topic nobody is to write but a mirror back."""
    if not record.created or not record.cutover.stopped_at:
        return False
    return record.state in (MirrorState.STOPPED, MirrorState.PENDING_SYNCHRONIZE) or is_mirrored_back(record)


def is_mirrored_back(record: MirrorRecord) -> bool:
    """True of a mirror back, whatever keeps it from going on; not of one that is being made anew, or going home."""
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
    """Of a topic, by partition."""

    partitions: Mapping[int, LateWrites] = field(default_factory=dict)

    @property
    def counts(self) -> Mapping[int, int]:
        """Partition -> records."""
        return {partition: late.count for partition, late in self.partitions.items()}


def why_not_home(record: MirrorRecord, late: LateOfTopic) -> str:
    """Why the topic cannot go home with these late writes on the source, and what can be done; '' without any."""
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
    """Whether the topic may go home with its late writes in their place, as far as is known before the write pause."""
    return record.state is not MirrorState.FAILED and all(each.is_last for each in late.partitions.values())


def why_not_kept(record: MirrorRecord, late: LateOfTopic) -> str:
    """Why it may not; '' when it may, or has none."""
    return "" if can_be_kept(record, late) else why_not_home(record, late)


_NAMED: Final = 5
