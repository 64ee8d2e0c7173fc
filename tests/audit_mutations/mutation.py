"""A seeded difference: what it does to a pair of logs, and the names under one of which it must be found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from gateway.jobs.audit.asked import PartitionFacts
from gateway.jobs.audit.sums import Answer
from gateway.jobs.audit.verdict import PartitionVerdict
from gateway.state.records import MirrorMode
from tests.audit_mutations import edits
from tests.audit_mutations.history import SCENES, STATES, History
from tests.support.jobs.audit_logs import audit

NO_LINK: Final = ("no link", "no link, a map")
COMPACTED: Final = tuple(f"compacted, {state}" for state in STATES)
ODD: Final = (*NO_LINK, *COMPACTED)
PRESERVE, TRANSLATE = MirrorMode.PRESERVE, MirrorMode.TRANSLATE
BOTH: Final = (PRESERVE, TRANSLATE)
MISSING: Final = ("missing_on_target", "missing_on_source")
CONTENT: Final = ("key", "value", "headers", "timestamp")

Seed = Callable[[History], None]
Tamper = Callable[[list[Answer]], Iterable[Answer]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """A difference.

    Attributes:
        seed: puts it into the logs, the record or the maps.
        names: kinds, or words of a reason, one of which must be in the audit's sentence.
        verdict: what the audit must say.
        facts: changes what the clusters say, instead.
        tamper: changes what the tasks answer, instead.
        modes, states, besides: in which of `history.SCENES`.
        fraction: of the offsets, for a sample.
    """

    name: str
    names: Sequence[str]
    seed: Seed = lambda _: None
    verdict: str = "DIFFERENT"
    modes: Sequence[MirrorMode] = BOTH
    states: Sequence[str] = STATES
    besides: Sequence[str] = ()
    fraction: float = 1.0
    facts: Callable[[PartitionFacts], PartitionFacts] = lambda facts: facts
    tamper: Tamper = lambda answers: answers

    @property
    def scenes(self) -> tuple[str, ...]:
        """Their names."""
        return (*(f"{mode}, {state}" for mode in self.modes for state in self.states), *self.besides)

    def run(self, scene: str) -> PartitionVerdict:
        """What the audit says of it."""
        made = SCENES[scene]()
        self.seed(made)
        return audit(self.facts(made.facts()), made.logs, fraction=self.fraction, tamper=self.tamper)

    def is_found(self, finding: PartitionVerdict) -> bool:
        """By its name."""
        if finding.verdict != self.verdict:
            return False
        if finding.verdict == "DIFFERENT":
            return finding.sums.first is not None and finding.sums.first.kind in self.names
        return any(name in reason for name in self.names for reason in finding.reasons)


def mirrored(h: History) -> list[int]:
    """The offsets of the copy's records that are on both clusters."""
    other = h.target if h.copy is h.source else h.source
    there = {record.timestamp for record in other.records()}  # no two records have the same one
    return [record.offset for record in h.copy.records() if record.timestamp in there]


def front(h: History) -> int:
    """The first of them."""
    return mirrored(h)[0]


def middle(h: History) -> int:
    """One in the middle."""
    found = mirrored(h)
    return found[len(found) // 2]


def last(h: History) -> int:
    """The last one."""
    return mirrored(h)[-1]


def where(place: Callable[[History], int], how: edits.Change, wanted: edits.Change | None = None) -> Seed:
    """Change a record at a place; `wanted`: of both logs first, so that there is something to lose."""

    def seed(h: History) -> None:
        offset = place(h)
        if wanted is not None:
            both(h, offset, wanted)
        edits.change(h.copy, offset, how)

    return seed


def both(h: History, copy_offset: int, how: edits.Change) -> None:
    """Change a record on both logs."""
    record = next(r for r in h.copy.records() if r.offset == copy_offset)
    origin = h.target if h.copy is h.source else h.source
    there = next(r for r in origin.records() if r.timestamp == record.timestamp)
    edits.change(h.copy, copy_offset, how)
    edits.change(origin, there.offset, how)
