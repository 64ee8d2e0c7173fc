"""What a write reports: which source offsets are on the target now, and where."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from pyspark.sql.datasource import WriterCommitMessage

from gateway.jobs.lost_records import LostRange


@dataclass(frozen=True, slots=True)
class Segment:
    """`count` offsets from `source_base` on are on the target from `target_base` on, in the same order.

    In mode preserve both bases are the same number.
    """

    topic: str
    partition: int
    source_base: int
    target_base: int
    count: int


@dataclass(frozen=True, slots=True)
class CopyFailure:
    """A partition of the source that could not be copied, or not to the end; and why, in one line.

    `final`: it must not be tried again.
    """

    topic: str
    partition: int
    why: str
    final: bool = False


@dataclass(frozen=True)
class WriterReport(WriterCommitMessage):
    """What one task did.

    `records`, `bytes`: what it saw the target acknowledge; what was there already, from another attempt or appender,
    is in the segments alone. `failed`: what of its ranges could not be copied; the others were. `lost`: what it went on
    without, in those that failed too.
    """

    segments: tuple[Segment, ...] = ()
    records: int = 0
    bytes: int = 0
    failed: tuple[CopyFailure, ...] = ()
    lost: tuple[LostRange, ...] = ()


class MapPublisher(Protocol):
    """Keeps map segments where consumers' offsets are translated by them."""

    def publish(self, segments: Sequence[Segment]) -> None:
        """Called on the driver, once all tasks of a write are done; again with the same ones when it is repeated."""


class NoMap:
    """Mode preserve: offsets are the same on both clusters. (Mode translate has a publisher of its own.)"""

    def publish(self, segments: Sequence[Segment]) -> None:
        """Nothing."""


@dataclass(frozen=True, slots=True)
class WriteReport:
    """All tasks of one write."""

    segments: tuple[Segment, ...]
    records: int
    bytes: int
    tasks: int
    failed: tuple[CopyFailure, ...] = ()
    lost: tuple[LostRange, ...] = ()

    @classmethod
    def of(cls, messages: Iterable[WriterCommitMessage | None]) -> WriteReport:
        """Add the tasks' messages up; segments that touch become one."""
        done = [message for message in messages if isinstance(message, WriterReport)]
        all_done = total(done)
        return cls(all_done.segments, all_done.records, all_done.bytes, len(done), all_done.failed, all_done.lost)

    def save(self, path: str) -> None:
        """As JSON."""
        Path(path).write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def load(cls, path: str) -> WriteReport:
        """What `save` wrote; an empty report if nothing was: Spark makes no write of a query without any row."""
        if not Path(path).exists():
            return cls((), 0, 0, 0)
        value = json.loads(Path(path).read_text(encoding="utf-8"))
        segments = tuple(Segment(**segment) for segment in value.pop("segments"))
        failed = tuple(CopyFailure(**failure) for failure in value.pop("failed"))
        lost = tuple(LostRange(**one) for one in value.pop("lost"))
        return cls(segments=segments, failed=failed, lost=lost, **value)


def total(parts: Sequence[WriterReport]) -> WriterReport:
    """Several as one."""
    segments = merge(segment for part in parts for segment in part.segments)
    failed = tuple(failure for part in parts for failure in part.failed)
    lost = tuple(one for part in parts for one in part.lost)
    return WriterReport(segments, sum(part.records for part in parts), sum(part.bytes for part in parts), failed, lost)


def merge(segments: Iterable[Segment]) -> tuple[Segment, ...]:
    """The same map with as few segments as possible, by topic, partition and source offset.

    Segments that overlap must agree, as those of two attempts do.
    """
    merged: list[Segment] = []
    for segment in sorted(segments, key=lambda s: (s.topic, s.partition, s.source_base)):
        last = merged[-1] if merged else None
        if last is not None and _continues(last, segment):
            end = max(last.source_base + last.count, segment.source_base + segment.count)
            merged[-1] = Segment(last.topic, last.partition, last.source_base, last.target_base, end - last.source_base)
        else:
            merged.append(segment)
    return tuple(merged)


def _continues(last: Segment, segment: Segment) -> bool:
    same_shift = segment.target_base - segment.source_base == last.target_base - last.source_base
    same_log = (segment.topic, segment.partition) == (last.topic, last.partition)
    return same_log and same_shift and segment.source_base <= last.source_base + last.count
