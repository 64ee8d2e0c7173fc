"""In which runs promotes are called off, and where."""

from __future__ import annotations

from tests.simulation.plan import AS_ONE_FROM, CALLED_OFF_AT, FURTHER_FROM, EventKind, Operation, RunPlan, plan

_AS_ONE = {Operation.AS_ONE, Operation.AS_ONE_HOME}


def is_called_off(run: RunPlan) -> bool:
    return any(event.kind is EventKind.CALLED_OFF for event in run.events)


def steps_of(runs: list[RunPlan]) -> set[tuple[Operation, str]]:
    return {
        (act.operation, event.step)
        for run in runs
        for act in run.acts
        for event in run.events
        if event.act == act.number and event.kind is EventKind.CALLED_OFF
    }


def test_a_third_of_the_further_seeds_has_a_promote_called_off_at_each_of_its_steps() -> None:
    runs = [plan(FURTHER_FROM + number) for number in range(600)]
    assert 0.2 < sum(map(is_called_off, runs)) / len(runs) < 0.4
    wanted = {(op, step) for op, steps in CALLED_OFF_AT.items() if op not in _AS_ONE for step in ("", *steps)}
    assert steps_of(runs) == wanted
    assert not any(is_called_off(plan(seed)) for seed in range(0, FURTHER_FROM, 20))


def test_so_have_those_that_change_sides_as_one_behind_their_pairs() -> None:
    assert not any(is_called_off(plan(AS_ONE_FROM + number)) for number in range(200))
    wanted = {(op, step) for op in _AS_ONE for step in ("", *CALLED_OFF_AT[op])}
    assert steps_of([plan(AS_ONE_FROM + number) for number in range(300, 900)]) == wanted
