"""What one seed of four has more of what comes along with clients."""

from __future__ import annotations

from tests.simulation.plan import FURTHER_FROM, EventKind, plan
from tests.simulation.plan.roles import OLD_API, PIPE


def test_it_is_one_seed_of_four_from_there_on() -> None:
    runs = [plan(seed) for seed in (*range(0, FURTHER_FROM, 40), *range(FURTHER_FROM, FURTHER_FROM + 400))]
    old = {run.seed for run in runs if OLD_API in run.cast}
    refusing = {run.seed for run in runs if any(event.kind is EventKind.ACLS_REFUSED for event in run.events)}
    schemas = {run.seed for run in runs if run.schemas}
    assert min(len(old), len(refusing), len(schemas)) > 8
    assert not {seed for seed in old | refusing | schemas if seed % 4 or seed < FURTHER_FROM}
    assert all(PIPE in run.cast for run in runs if run.seed in old)
    assert all(run.acls for run in runs if run.seed in refusing)
