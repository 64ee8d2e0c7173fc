"""The fence of a fleet, searched exhaustively; and every rule of it left out once, to see the search find out.

`LOCKGATE_MODEL=deep` searches with two faults at a time, too (minutes).
"""

import os
from dataclasses import replace
from typing import Any

import pytest

from tests.model.fleet_state import BROKEN, LIMITS
from tests.model.fleet_world import FleetWorld
from tests.model.search import Violation, search

DEEP = os.environ.get("LOCKGATE_MODEL") == "deep"
# What a group's demote needs: nothing to drain and nothing that may land late, so no grace hides a lease.
NOTHING_TO_DRAIN = replace(LIMITS, grace_s=0, unknown_grace_s=0)


@pytest.mark.parametrize(
    ("fault", "actors"),
    [("crash", (0, 2)), ("doubt", (0, 2)), ("pause", (0,)), ("pause", (2,)), ("cut", (2,))],
    ids=str,
)
def test_nothing_acknowledged_is_lost_and_nobody_writes_on_both_sides(fault: str, actors: tuple[int, ...]) -> None:
    found = search(FleetWorld({fault: 1}, actors=actors))
    assert found.states > 10_000
    assert found.endings["STOPPED"] > 100, "a promote succeeds although a gateway is lost"
    assert found.endings["ACTIVE"] > 100, "and is given up where that cannot be known in time"


@pytest.mark.parametrize("fault", ["release", "leave"])
def test_the_record_has_the_real_ends_whoever_has_the_partition(fault: str) -> None:
    """It is released to another gateway and comes back, or the leader is stopped in order."""
    found = search(FleetWorld({fault: 1}))
    assert found.states > 1_000
    assert min(found.endings["STOPPED"], found.endings["ACTIVE"]) > 20


@pytest.mark.parametrize("fault", ["crash", "pause", "cut", "doubt"])
def test_a_group_is_never_served_on_both_sides(fault: str) -> None:
    """The same fence with the other end: after a demote no gateway may serve the group on the target."""
    assert search(FleetWorld({fault: 1}, writes=0, limits=NOTHING_TO_DRAIN)).endings["STOPPED"]


SEEDED: dict[str, tuple[str, dict[str, Any]]] = {
    "lease ignored": ("pause", {"writes": 0}),
    "answered without a lease": ("pause", {"actors": (2,)}),
    "acknowledgement forgotten": ("crash", {}),
    "acknowledged in flight": ("crash", {}),
    "drift forgotten": ("pause", {"writes": 0, "limits": NOTHING_TO_DRAIN}),
    "presumed at once": ("pause", {"writes": 0, "limits": NOTHING_TO_DRAIN}),
    "epochs ignored": ("doubt", {}),
    "registry forgotten": ("pause", {"writes": 0}),
    "terms ignored": ("crash", {}),
    "empty taken for ends": ("release", {}),
}


FOUND = r"acknowledged is not on the target|may write to the source after STOPPED|the record of the cutover says"


def test_every_rule_is_left_out_once() -> None:
    assert set(SEEDED) == set(BROKEN)


@pytest.mark.parametrize("broken", BROKEN)
def test_the_search_finds_a_rule_that_is_left_out(broken: str) -> None:
    fault, settings = SEEDED[broken]
    with pytest.raises(Violation, match=FOUND):
        search(FleetWorld({fault: 1}, broken=broken, **settings))


@pytest.mark.skipif(not DEEP, reason="LOCKGATE_MODEL=deep")
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("fault", ["crash", "pause", "cut", "doubt"])
def test_one_fault_everywhere_and_two_promotes(fault: str) -> None:
    search(FleetWorld({fault: 1}, promotes=2, actors=(0, 1, 2)), at_most=10_000_000)


@pytest.mark.skipif(not DEEP, reason="LOCKGATE_MODEL=deep")
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("faults", [("crash", "pause"), ("crash", "cut"), ("pause", "cut"), ("pause", "doubt")])
def test_two_faults(faults: tuple[str, str]) -> None:
    world = FleetWorld(dict.fromkeys(faults, 1), faults=2, writes=0, actors=(0, 1, 2), limits=NOTHING_TO_DRAIN)
    search(world, at_most=10_000_000)
