"""What a real cluster answered, kept in a file: the model can then be compared with it without any broker."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.broker_model.run import Difference, Trace, first_difference, make_plan, run_on_model


@dataclass(slots=True)
class Recording:
    """Sequences (by their seed) that ran on a cluster, and what it answered in each step."""

    kafka: str
    brokers: int
    steps: int
    traces: dict[int, tuple[str, Trace]] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Write the file (JSON, compressed; the same bytes for the same answers)."""
        content = {
            "kafka": self.kafka,
            "brokers": self.brokers,
            "steps": self.steps,
            "traces": {str(seed): found for seed, found in sorted(self.traces.items())},
        }
        path.write_bytes(gzip.compress(json.dumps(content, separators=(",", ":")).encode(), mtime=0))

    @classmethod
    def load(cls, path: Path) -> Recording:
        """Read a file that `save` wrote."""
        content = json.loads(gzip.decompress(path.read_bytes()))
        traces = {int(seed): (found[0], found[1]) for seed, found in content["traces"].items()}
        return cls(content["kafka"], content["brokers"], content["steps"], traces)

    def compare(self, seed: int) -> tuple[Difference | None, int]:
        """Run a recorded sequence on the model: the first difference, and how many requests it sent."""
        prefix, real = self.traces[seed]
        plan = make_plan(seed, self.steps)
        model, requests = run_on_model(self.kafka, self.brokers, prefix, plan)
        return first_difference(plan, plain(real), plain(model)), requests


def plain(trace: Any) -> Any:
    """The trace as JSON has it: no tuples."""
    return json.loads(json.dumps(trace))
