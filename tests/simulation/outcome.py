"""What a run came to."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.simulation.judge import Verdict
from tests.simulation.plan import FaultKind, Operation, RunPlan
from tests.simulation.story import Line


@dataclass
class Outcome:
    """What a run came to. `broken`: it could not be carried out, in one line; '' otherwise. `leaders_lost`: how often a
    leader was lost that had an append of a mirror, or of an offset map, and its successor had not."""

    plan: RunPlan
    verdict: Verdict | None = None
    broken: str = ""
    migrations: int = 0
    faults: int = 0
    leaders_lost: int = 0
    pairs: Counter[tuple[Operation, str, FaultKind]] = field(default_factory=Counter)
    virtual_s: float = 0.0
    story: list[Line] = field(default_factory=list)
    digest: str = ""

    @property
    def failure(self) -> str:
        """The class of what went wrong first, '' when all is well."""
        if self.broken:
            return f"broken: {self.broken.split(':', 1)[0]}"
        return self.why.split(":", 1)[0]

    @property
    def why(self) -> str:
        """One line for a person."""
        return self.broken or (self.verdict.first if self.verdict is not None else "there is no verdict")
