"""The judges of a simulated run: the history by `tests.checker`, both clusters record by record, the state topic."""

from tests.simulation.judge.findings import CLASSES, Findings
from tests.simulation.judge.judge import Judge, Verdict, verdict

__all__ = ["CLASSES", "Findings", "Judge", "Verdict", "verdict"]
