"""What comparing a part of a partition gives: counts that add up, whatever the parts were. Pure.

In words the sums are one line for each log's offsets and one for each side's records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Self

from gateway.jobs.audit.kinds import DIFFERENT, DifferenceKind

DIGEST_BYTES: Final = 32
_MODULUS: Final = 1 << 8 * DIGEST_BYTES


@dataclass(slots=True, kw_only=True)
class SideSums:
    """One cluster's log as it was read.

    offsets: asked for. deleted: of these, below the log start by then. records: what a consumer sees. markers: of
    transactions. aborted: data of aborted transactions. gaps: offsets without any record. `digest`: the sum, modulo
    2^256, over the data batches (see `report.METHOD`). writers: records by who wrote them, as the producer ids of their
    batches say (`state/provenance.py` `kind_of_writer`).
    """

    offsets: int = 0
    deleted: int = 0
    records: int = 0
    markers: int = 0
    aborted: int = 0
    gaps: int = 0
    batches: int = 0
    digest: int = 0
    writers: Counter[int] = field(default_factory=Counter)

    @property
    def unaccounted(self) -> int:
        """Offsets that are in no count; 0 when the sum closes."""
        return self.offsets - self.deleted - self.records - self.markers - self.aborted - self.gaps

    def add_batch(self, digest: int) -> None:
        """A data batch more."""
        self.batches += 1
        self.digest = (self.digest + digest) % _MODULUS

    def add(self, other: SideSums) -> None:
        """Take in another part."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))
        self.digest %= _MODULUS


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Two records that differ, or one that has no partner. `at`: the target offset, or where it would be; `source` and
    `target`: the records as `evidence.record` shows them."""

    at: int
    kind: DifferenceKind
    source_offset: int | None
    target_offset: int | None
    source: dict[str, Any] | None
    target: dict[str, Any] | None


@dataclass(slots=True, kw_only=True)
class Sums:
    """Both sides, and what comparing them gave.

    compared: pairs of equal records. pairs: those that differ, by what they differ in first. source_only, target_only:
    records without a partner, by why. `newest_source`, `newest_target`: the highest timestamp (ms) of source records
    that are below the target's log start, and of target records below the source's; -1 for none. `source_start`,
    `target_start`: how far log starts had gone while they were read, as far as that was noticed. `open_at`: the lowest
    source offset of a record in `kinds.OPEN`. `decoded`: pairs compared record by record. `unknown_ids`: some ids of
    schemas, in records of the source, that the id map does not have.
    """

    source: SideSums = field(default_factory=SideSums)
    target: SideSums = field(default_factory=SideSums)
    compared: int = 0
    pairs: Counter[DifferenceKind] = field(default_factory=Counter)
    source_only: Counter[DifferenceKind] = field(default_factory=Counter)
    target_only: Counter[DifferenceKind] = field(default_factory=Counter)
    equal_batches: int = 0
    decoded: int = 0
    newest_source: int = -1
    newest_target: int = -1
    source_start: int = 0
    target_start: int = 0
    open_at: int | None = None
    first: Difference | None = None
    unknown_ids: set[int] = field(default_factory=set)

    @property
    def kinds(self) -> Counter[DifferenceKind]:
        """All that is not equal, by why."""
        return self.pairs + self.source_only + self.target_only

    @property
    def different(self) -> int:
        """Records, or pairs of them, that are faults."""
        return sum(count for kind, count in self.kinds.items() if kind in DIFFERENT)

    @property
    def unaccounted(self) -> tuple[int, int]:
        """Records of the source and of the target that are in no count; (0, 0) when the sums close."""
        paired = self.compared + self.pairs.total()
        return (
            self.source.records - paired - self.source_only.total(),
            self.target.records - paired - self.target_only.total(),
        )

    def note(self, found: Difference) -> None:
        """Keep the first one."""
        if self.first is None or (found.at, found.source_offset is None) < (
            self.first.at,
            self.first.source_offset is None,
        ):
            self.first = found

    def add(self, other: Sums) -> Self:
        """Take in another part."""
        self.source.add(other.source)
        self.target.add(other.target)
        self.compared += other.compared
        for mine, theirs in (
            (self.pairs, other.pairs),
            (self.source_only, other.source_only),
            (self.target_only, other.target_only),
        ):
            mine.update(theirs)
        self.equal_batches += other.equal_batches
        self.decoded += other.decoded
        self.newest_source = max(self.newest_source, other.newest_source)
        self.newest_target = max(self.newest_target, other.newest_target)
        self.source_start = max(self.source_start, other.source_start)
        self.target_start = max(self.target_start, other.target_start)
        if other.open_at is not None:
            self.open_at = other.open_at if self.open_at is None else min(self.open_at, other.open_at)
        if other.first is not None:
            self.note(other.first)
        self.unknown_ids |= other.unknown_ids
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What became of one piece: its sums, or why there are none."""

    topic: str
    partition: int
    piece: int
    sums: Sums | None
    problem: str = ""


_OFFSETS: Final = (
    ("records", "records"),
    ("markers", "transaction markers"),
    ("aborted", "aborted"),
    ("gaps", "without a record"),
    ("deleted", "deleted meanwhile"),
)
_BEYOND: Final = {"source": ("before_start", "before the mirror's start"), "target": ("since_cutover", "written since")}

_NAMES: Final = {
    "key": "with another key",
    "value": "with another value",
    "headers": "with other headers",
    "timestamp": "with another timestamp",
    "target_retention": "below the target's log start",
    "source_retention": "below the source's log start",
    "compaction": "compacted away on the other side",
    "behind": "not mirrored yet",
    "left_behind": "left behind at the failover",
    "not_in_map": "not in the offset map",
    "key_gone": "of keys that the target may have deleted since the cutover",
    "undecided": "not looked up by key",
    "missing_on_target": "missing on the target",
    "missing_on_source": "missing on the source",
    "record_in_gap": "where the map says that there is none",
    "beyond_end": "beyond the end",
    "after_cutover": "written after the cutover",
    "before_start": "before the mirror's start",
}


def sum_lines(sums: Mapping[str, Any]) -> list[str]:
    """Of a partition's JSON in the report, or of its `totals`."""
    lines = []
    for side in ("source", "target"):
        parts = [f"{sums[side][name]:,} {text}" for name, text in _OFFSETS if name == "records" or sums[side][name]]
        name, text = _BEYOND[side]
        beside = f"; besides {sums[name]:,} {text}" if sums[name] else ""
        lines.append(f"{side} offsets: {sums[side]['offsets']:,} = {' + '.join(parts)}{beside}")
    for side in ("source", "target"):
        parts = [f"{sums['compared']:,} equal"]
        parts += [f"{count:,} {_NAMES[kind]}" for kind, count in sums["pairs"].items()]
        parts += [f"{count:,} {_NAMES[kind]}" for kind, count in sums[f"{side}_only"].items()]
        lines.append(f"{side} records: {sums[side]['records']:,} = {' + '.join(parts)}")
    return lines
