"""Every class of the checker finds the fault that is seeded for it, and finds nothing without one."""

import json
import random
import sys

import pytest

from tests.checker.check import check
from tests.checker.verdict import CLASSES
from tests.mutations.edits import History, Op
from tests.mutations.history_faults import FAULTS, Fault
from tests.support.models.simulated_history import SimulatedHistory

SEEDS = (1, 2, random.SystemRandom().randrange(1 << 32))


@pytest.fixture(scope="module", params=SEEDS, ids=["seed-1", "seed-2", "seed-of-this-run"])  # each worker draws its own
def recorded(request: pytest.FixtureRequest) -> list[Op]:
    sys.stdout.write(f"seed {request.param}\n")
    return list(SimulatedHistory(request.param, steps=3000).operations())


def test_every_class_has_a_fault() -> None:
    assert {fault.found_as for fault in FAULTS} == set(CLASSES)


def test_nothing_is_found_where_nothing_is_wrong(recorded: list[Op]) -> None:
    verdict = check(json.dumps(op) for op in recorded)
    assert verdict.faults() == {}, verdict.as_text()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name.replace(" ", "-"))
def test_a_seeded_fault_is_found(fault: Fault, recorded: list[Op]) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    history = History(recorded, seed)
    fault.seed(history)
    verdict = check(history.lines())
    assert verdict.counts[fault.found_as] > 0, f"seeded with {seed}:\n{verdict.as_text()}"
