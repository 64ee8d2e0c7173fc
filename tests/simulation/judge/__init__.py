"""The judges of a simulated run: the history by `tests.checker`, both clusters record by record, the state topic."""

from tests.simulation.judge.findings import CLASSES, Findings
from tests.simulation.judge.judge import Judge, verdict
from tests.simulation.judge.outcome import Verdict
from tests.simulation.judge.rest import unread

__all__ = ["CLASSES", "Findings", "Judge", "Verdict", "unread", "verdict"]
