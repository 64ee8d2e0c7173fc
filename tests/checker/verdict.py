"""What was found: a count and a few examples per class, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

CLASSES = (
    "lost-write",
    "duplicate",
    "inconsistent-offsets",
    "aborted-read",
    "precommitted-read",
    "never-written",
    "int-poll-skip",
    "int-nonmonotonic-poll",
    "poll-skip",
    "nonmonotonic-poll",
    "int-nonmonotonic-send",
    "nonmonotonic-send",
    "unseen",
    "divergence",
    "gated-read",
    "split-write",
)
DIRECT = "direct-poll"
"""A skipped or repeated read of a group that had its cluster's brokers alone before it: told, and no fault."""
MAX_EXAMPLES = 5


class Findings:
    """Counts faults by class and keeps the first few of each in words."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys((*CLASSES, DIRECT), 0)
        self.examples: dict[str, list[str]] = {name: [] for name in self.counts}

    def add(self, name: str, example: str) -> None:
        """Count one fault."""
        self.counts[name] += 1
        if len(self.examples[name]) < MAX_EXAMPLES:
            self.examples[name].append(example)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The judgement of one history. `operations` counts by outcome; `faults` are operations of the nemesis."""

    operations: Mapping[str, int]
    records: int
    nemeses: int
    counts: Mapping[str, int]
    examples: Mapping[str, list[str]] = field(default_factory=dict)

    def faults(self, allowed: Iterable[str] = ()) -> dict[str, int]:
        """The classes with at least one fault, without those that are allowed."""
        skip = {DIRECT, *allowed}
        return {name: count for name, count in self.counts.items() if count and name not in skip}

    def as_json(self, allowed: Iterable[str] = ()) -> dict[str, Any]:
        """For a machine."""
        allowed = sorted(allowed)
        return {
            "valid": not self.faults(allowed),
            "allowed": allowed,
            "operations": dict(self.operations),
            "records": self.records,
            "nemeses": self.nemeses,
            "classes": {
                name: {"count": count, "examples": self.examples.get(name, [])} for name, count in self.counts.items()
            },
        }

    def as_text(self, allowed: Iterable[str] = ()) -> str:
        """For a person: one line per class, then the verdict."""
        allowed = {DIRECT, *allowed}
        total = sum(self.operations.values())
        outcomes = ", ".join(f"{count} {outcome}" for outcome, count in self.operations.items())
        lines = [f"{total} operations ({outcomes}), {self.records} records sent, {self.nemeses} nemeses"]
        for name, count in self.counts.items():
            note = " (allowed)" if count and name in allowed else ""
            first = f"  first: {self.examples[name][0]}" if self.examples.get(name) else ""
            lines.append(f"{name:<22}{count:>8}{note}{first}")
        faults = self.faults(allowed)
        lines.append("checker: VALID" if not faults else f"checker: INVALID {' '.join(faults)}")
        return "\n".join(lines)
