"""What a real cluster answered, kept in a file: the model can then be compared with it without any broker."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tests.broker_model.run import Difference, PlannedStep, Trace, first_difference, run_on_model


class Recorded(NamedTuple):
    """One sequence: what its names begin with, its steps, and what was answered in each."""

    prefix: str
    plan: list[PlannedStep]
    trace: Trace


@dataclass(slots=True)
class Recording:
    """Sequences (by their seed) that ran on a cluster, and what it answered."""

    kafka: str
    brokers: int
    sequences: dict[int, Recorded] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Write the file (JSON, compressed; the same bytes for the same answers)."""
        sequences = {str(seed): found for seed, found in sorted(self.sequences.items())}
        content = {"kafka": self.kafka, "brokers": self.brokers, "sequences": sequences}
        path.write_bytes(gzip.compress(json.dumps(content, separators=(",", ":")).encode(), mtime=0))

    @classmethod
    def load(cls, path: Path) -> Recording:
        """Read a file that `save` wrote."""
        content = json.loads(gzip.decompress(path.read_bytes()))
        sequences = {
            int(seed): Recorded(prefix, [PlannedStep(*each) for each in plan], trace)
            for seed, (prefix, plan, trace) in content["sequences"].items()
        }
        return cls(content["kafka"], content["brokers"], sequences)

    def compare(self, seed: int) -> tuple[Difference | None, int]:
        """Run a recorded sequence on the model: the first difference, and how many requests it sent."""
        recorded = self.sequences[seed]
        model, requests = run_on_model(self.kafka, self.brokers, recorded.prefix, recorded.plan)
        return first_difference(recorded.plan, plain(recorded.trace), plain(model)), requests


def plain(trace: Any) -> Any:
    """The trace as JSON has it: no tuples."""
    return json.loads(json.dumps(trace))
