"""What the judges found: a number per class, and the first few of each in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

CLASSES: Final = (
    "lost",
    "duplicated",
    "reordered",
    "torn",
    "gated_reads",
    "split_writes",
    "wrong_offsets",
    "configs_wrong",
    "log_starts_wrong",
    "stamps_wrong",
    "rights_wrong",
    "schemas_wrong",
    "claims_wrong",
    "failed_topics",
    "stuck",
    "diverged",
    "broken",
)
"""`configs_wrong`, `log_starts_wrong`, `stamps_wrong`, `rights_wrong`, `schemas_wrong`: a topic has its records, and
not what it is to have beside them; `claims_wrong`: what `describe` says is not so, or what somebody
was told who called a promote off (`judge/configs.py` and those beside it).
`diverged`: the logs of both clusters do not hold the same records; `broken`: the state topic breaks an invariant."""

OF_CHECKER: Final[Mapping[str, str]] = {
    "lost-write": "lost",
    "unseen": "lost",
    "duplicate": "duplicated",
    "inconsistent-offsets": "diverged",
    "aborted-read": "torn",
    "precommitted-read": "torn",
    "never-written": "diverged",
    "int-poll-skip": "wrong_offsets",
    "int-nonmonotonic-poll": "wrong_offsets",
    "poll-skip": "wrong_offsets",
    "nonmonotonic-poll": "wrong_offsets",
    "int-nonmonotonic-send": "reordered",
    "nonmonotonic-send": "reordered",
    "divergence": "diverged",
    "gated-read": "gated_reads",
    "split-write": "split_writes",
}
"""Which number counts a class of `tests.checker`."""
_EXAMPLES: Final = 5


class Findings:
    """Counts, and examples. What is said twice counts once: judges look again and again."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = dict.fromkeys(CLASSES, 0)
        self.examples: dict[str, list[str]] = {name: [] for name in CLASSES}
        self._said: set[tuple[str, str]] = set()

    def add(self, name: str, where: str, what: str, at: float) -> bool:
        """One fault. `where`: topic/partition or what else is concerned; `at`: virtual seconds. False: it was said."""
        said = name, f"{where}: {what}"
        if said in self._said:
            return False
        self._said.add(said)
        self.count(name, 1, f"{where}: {what} [t={at:.3f}]")
        return True

    def count(self, name: str, number: int, example: str) -> None:
        """Some faults, judged elsewhere."""
        self.counts[name] += number
        if len(self.examples[name]) < _EXAMPLES:
            self.examples[name].append(example)

    @property
    def faults(self) -> dict[str, int]:
        """The classes with at least one."""
        return {name: count for name, count in self.counts.items() if count}
