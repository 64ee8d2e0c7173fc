"""What the audit says of one partition. Pure: counts and offsets in, a verdict out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Verdict(StrEnum):
    """IDENTICAL: all that was compared is equal, up to the source's end when the audit began. INCOMPLETE: equal as far
    as the target goes, which is not to that end. DIVERGED: something differs."""

    IDENTICAL = "IDENTICAL"
    INCOMPLETE = "INCOMPLETE"
    DIVERGED = "DIVERGED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One partition's range. Source offsets start .. end - 1 were compared, where the source's log was
    source_start .. source_end - 1 and the target's target_start .. target_end - 1 when the audit began."""

    topic: str
    partition: int
    source_start: int
    source_end: int
    target_start: int
    target_end: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What was found. Batches and records as read; `decoded` records were compared one by one, `different` of them."""

    source_batches: int = 0
    target_batches: int = 0
    equal_batches: int = 0
    source_records: int = 0
    target_records: int = 0
    decoded: int = 0
    different: int = 0
    source_digest: str = ""
    target_digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The audit's word on one partition. `identical_up_to`: every compared record before this source offset is equal.
    `first_divergence`: both records, as JSON, or None. `notes`: what a reader should know."""

    range: Compared
    counts: Counts
    verdict: Verdict
    identical_up_to: int
    first_divergence: dict[str, Any] | None = None
    notes: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """One line for people."""
        end = self.range.source_end
        if self.verdict is Verdict.IDENTICAL:
            return f"IDENTICAL up to offset {self.identical_up_to}"
        if self.verdict is Verdict.INCOMPLETE:
            return f"INCOMPLETE: identical up to offset {self.identical_up_to}, the source ends at {end}"
        what = self.first_divergence["difference"] if self.first_divergence else "unknown"
        return f"DIVERGED at offset {self.identical_up_to}: {what}"


def judge(compared: Compared, counts: Counts, divergence: dict[str, Any] | None) -> Finding:
    """The verdict on a partition.

    Args:
        divergence: `source_offset`, `target_offset`, `difference`, `source` and `target` of the first pair that
            differs; None when none does.
    """
    if divergence is not None:
        at = divergence["source_offset"]
        up_to = divergence["target_offset"] if at is None else at
        return Finding(
            range=compared,
            counts=counts,
            verdict=Verdict.DIVERGED,
            identical_up_to=up_to,
            first_divergence=divergence,
            notes=_notes(compared),
        )
    complete = compared.end >= compared.source_end
    verdict = Verdict.IDENTICAL if complete else Verdict.INCOMPLETE
    return Finding(range=compared, counts=counts, verdict=verdict, identical_up_to=compared.end, notes=_notes(compared))


def overall(findings: list[Finding]) -> Verdict:
    """The worst verdict of all partitions."""
    verdicts = {finding.verdict for finding in findings}
    for verdict in (Verdict.DIVERGED, Verdict.INCOMPLETE):
        if verdict in verdicts:
            return verdict
    return Verdict.IDENTICAL


def _notes(compared: Compared) -> tuple[str, ...]:
    notes = []
    if compared.start > compared.source_start:
        notes.append(
            f"source offsets {compared.source_start}..{compared.start - 1} were not compared: "
            f"the target's log begins after them"
        )
    return tuple(notes)
