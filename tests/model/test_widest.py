"""The widest searches, each a minute of one core: `make test-exact` runs them, `make test` the narrower ones.

The narrower ones are in `test_write_pause.py` and, of the promote, beside its rules.
"""

import pytest

from tests.model.fleet_world import FleetWorld
from tests.support.models.promote_model import World, assert_all_end_well
from tests.support.models.search import search

pytestmark = pytest.mark.slow


def test_a_fleet_whose_node_is_paused_at_any_moment() -> None:
    found = search(FleetWorld({"pause": 1}, actors=(0,)))
    assert found.states > 10_000
    assert found.endings["STOPPED"] > 20
    assert found.endings["ACTIVE"] > 100


def test_a_promote_with_two_writes_and_a_fault() -> None:
    assert_all_end_well(World(1, 1, 2))


@pytest.mark.parametrize(
    "left_out",
    [("release", "leave", "copy loses"), ("bypass", "outage", "break", "ack lost")],
    ids=["of the source", "of the partition"],
)
def test_a_promote_with_two_faults(left_out: tuple[str, ...]) -> None:
    world = World(1, 2, 1)
    world.budget.update(dict.fromkeys(left_out, 0))
    assert_all_end_well(world)
