"""The verdict of a run: its last line, and build/chaos.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.checker.verdict import Verdict

COUNTED: Final = {
    "lost": ("lost-write", "unseen"),
    "duplicated": ("duplicate",),
    "reordered": ("nonmonotonic-send", "int-nonmonotonic-send", "divergence", "inconsistent-offsets"),
    "gated_reads": ("gated-read",),
    "split_writes": ("split-write",),
}
"""Numbers of the last line, by classes of the checker."""


@dataclass
class Report:
    """What a run came to. `broken`: why it could not be carried out to its end, in one line."""

    verdict: Verdict | None = None
    broken: str = ""
    faults: int = 0
    migrations: int = 0
    handovers_ms: list[float] = field(default_factory=list)
    handover_p99_ms: float = 0.0
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Carried out to the end, with nothing found."""
        return not self.broken and self.verdict is not None and not self.verdict.faults()

    def last_line(self) -> str:
        """`chaos: PASS …`, or FAIL with the class and its first example."""
        counts: Mapping[str, int] = self.verdict.counts if self.verdict else {}
        ops = sum(self.verdict.operations.values()) if self.verdict else 0
        numbers = {name: sum(counts.get(one, 0) for one in classes) for name, classes in COUNTED.items()}
        text = " ".join(f"{name}={number}" for name, number in numbers.items())
        line = (
            f"ops={ops} faults={self.faults} migrations={self.migrations} {text} "
            f"handover_p99_ms={self.handover_p99_ms:.0f}"
        )
        return f"chaos: PASS {line}" if self.passed else f"chaos: FAIL {line} {self._why()}"

    def _why(self) -> str:
        found = self.verdict.faults() if self.verdict else {}
        if not found or self.verdict is None:
            return " ".join(self.broken.split()) or "there is no verdict"
        name = next(iter(found))
        also = f" also: {' '.join(list(found)[1:])}" if len(found) > 1 else ""
        return f"{name}: {self.verdict.examples[name][0]}{also}{f' also: {self.broken}' if self.broken else ''}"

    def as_json(self) -> dict[str, Any]:
        """Everything."""
        return {
            "passed": self.passed,
            "line": self.last_line(),
            "broken": self.broken,
            "faults": self.faults,
            "migrations": self.migrations,
            "handovers_ms": [round(each) for each in self.handovers_ms],
            "verdict": self.verdict.as_json() if self.verdict else None,
            **self.more,
        }
