"""Who takes part in random runs: `tests.simulation.plan.roles`."""

from __future__ import annotations

import pytest

from tests.simulation.plan import FURTHER_FROM, NEWCOMER, RANDOM_FROM, Operation, RunPlan, plan, systematic_runs
from tests.simulation.plan.roles import OUT, PIPE, ROLES, topics_of

RUNS = [plan(seed) for seed in range(RANDOM_FROM, RANDOM_FROM + 60)]


def test_every_role_takes_part_in_some_run() -> None:
    assert {role for run in RUNS for role in run.cast} == {*ROLES, NEWCOMER}
    assert {run.synced for run in RUNS} == {True, False}


def test_a_newcomer_takes_part_in_every_run() -> None:
    for seed in (0, systematic_runs(), FURTHER_FROM, RANDOM_FROM):
        assert plan(seed).cast.count(NEWCOMER) == 1


@pytest.mark.parametrize("run", RUNS, ids=lambda run: str(run.seed))
def test_a_life_with_a_cast_is_one_that_can_be(run: RunPlan) -> None:
    """Numbers name acts; a topic is created before it is promoted, and fails back after it was taken back."""
    numbers = [act.number for act in run.acts]
    assert len(set(numbers)) == len(numbers)
    for topic in topics_of(run.cast):
        course = [act.operation for act in run.acts if act.topics == (topic,)]
        whole = [Operation.CREATE, Operation.PROMOTE, Operation.REVERSE, Operation.FAILBACK]
        assert course
        assert course == whole[: len(course)]
    assert RunPlan.from_json(run.as_json()) == run


def test_a_pipeline_and_what_it_writes_are_not_parted_at_the_end() -> None:
    for run in RUNS:
        if PIPE in run.cast:
            last = [act.operation for act in run.acts if act.topics == (OUT,)][-1]
            assert last is Operation.FAILBACK
            assert run.acts[-1].operation is Operation.RESTART
