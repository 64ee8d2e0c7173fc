"""A simulated run."""

import gc

import pytest

from tests.simulation.mutations.lives import Operation, brief, life
from tests.simulation.world import World, simulate

pytestmark = pytest.mark.slow


def test_a_run_that_is_over_leaves_nothing_of_its_world_behind() -> None:
    """Thousands of them run in one process."""
    for seed in (1, 2):
        assert not simulate(brief(life(Operation.CREATE), seed=seed)).failure
        assert not [each for each in gc.get_objects() if isinstance(each, World)]
