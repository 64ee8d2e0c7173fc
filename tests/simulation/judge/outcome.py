"""What a run came to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


class Ended(Protocol):
    """What is asked of a client at the end."""

    name: str
    fatal: str
    revives: bool

    @property
    def running(self) -> bool:
        """A life is under way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`counts` by class (`judge.findings.CLASSES`), with examples. `cutovers`: cutovers of topics, either way, and
    `moves`
    of groups that were seen. `late`: records that landed on the source behind a cutover, of which nobody was told.
    """

    operations: Mapping[str, int]
    records: int
    counts: Mapping[str, int]
    examples: Mapping[str, list[str]] = field(default_factory=dict)
    cutovers: int = 0
    moves: int = 0
    late: int = 0

    @property
    def passed(self) -> bool:
        """Nothing was found."""
        return not any(self.counts.values())

    @property
    def first(self) -> str:
        """The first class with a fault and its first example; "" when there is none."""
        for name, examples in self.examples.items():
            if self.counts[name]:
                return f"{name}: {examples[0]}" if examples else name
        return ""

    def and_also(self, other: Verdict) -> Verdict:
        """Both as one: of a run that has several judges."""
        return Verdict(
            operations={name: self.operations.get(name, 0) + count for name, count in other.operations.items()}
            | {name: count for name, count in self.operations.items() if name not in other.operations},
            records=self.records + other.records,
            counts={name: count + other.counts.get(name, 0) for name, count in self.counts.items()},
            examples={name: [*found, *other.examples.get(name, ())] for name, found in self.examples.items()},
            cutovers=self.cutovers + other.cutovers,
            moves=self.moves + other.moves,
            late=self.late + other.late,
        )

    def numbers(self) -> str:
        """As in the last line of a run."""
        return " ".join(f"{name}={count}" for name, count in self.counts.items())
