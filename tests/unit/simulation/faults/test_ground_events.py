"""The state topic loses what it has acknowledged: the fleet writes it again, and the judges read on."""

from __future__ import annotations

from tests.simulation.plan import Act, Event, EventKind, Operation, RunPlan
from tests.simulation.world import simulate


def test_a_promote_whose_record_is_lost_stays_one() -> None:
    acts = (Act(0, Operation.CREATE, ("plain",)), Act(1, Operation.PROMOTE, ("plain",), pause_s=2.0))
    lost = Event(EventKind.STATE_LOST, 1, "restore_configs", 0.2, 3.59)
    told: list[str] = []
    outcome = simulate(
        RunPlan(1, acts=acts, events=(lost,), brief=True, notes="of a test"), lambda line: told.append(str(line))
    )
    assert outcome.verdict is not None
    assert outcome.verdict.passed, outcome.verdict.first
    assert any("which leads the state, dies" in line for line in told)
