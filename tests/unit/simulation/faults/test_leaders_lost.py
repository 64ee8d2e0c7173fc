"""Leaders of the target that are lost between an append and its replication, in a short life."""

from __future__ import annotations

import pytest

from tests.simulation.mutations.lives import Operation, brief, life
from tests.simulation.plan import RunPlan, plan
from tests.simulation.world import simulate

pytestmark = pytest.mark.slow

_LIFE = life(Operation.CREATE, Operation.PROMOTE, pause_s=4.0)


def test_appends_are_lost_with_their_leaders_and_nothing_that_was_said_is() -> None:
    outcome = simulate(brief(_LIFE, leaders_lost=12, ack_both=True))
    assert not outcome.failure, outcome.why
    assert outcome.leaders_lost >= 2
    strokes = [line for line in outcome.story if "is lost" in str(line) and "FAULT" in str(line)]
    assert outcome.leaders_lost <= len(strokes) <= 12


def test_a_plan_without_them_loses_none() -> None:
    outcome = simulate(brief(_LIFE))
    assert (outcome.failure, outcome.leaders_lost) == ("", 0)


def test_most_seeds_have_them_and_a_file_keeps_that() -> None:
    plans = [plan(seed) for seed in range(16)]
    assert sum(one.leaders_lost > 0 for one in plans) == 14
    assert sum(one.ack_both for one in plans) == 4
    assert RunPlan.from_json(plans[1].as_json()) == plans[1]
