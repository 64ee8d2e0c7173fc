"""The write pause of a fleet, searched exhaustively; and every rule of it left out once, to see the search find out.

`test_widest.py` pauses a node, too. `LOCKGATE_MODEL=deep` searches with two faults at a time, too (minutes).
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.model.fleet_state import BROKEN, LIMITS
from tests.model.fleet_world import FleetWorld
from tests.support.models.search import Violation, search

pytestmark = pytest.mark.slow

DEEP = os.environ.get("LOCKGATE_MODEL") == "deep"
# What a group's demote needs: nothing to drain and nothing that may land late, so no grace hides a lease.
NOTHING_TO_DRAIN = replace(LIMITS, grace_s=0, unknown_grace_s=0)


@pytest.mark.parametrize(
    ("fault", "actors"),
    [("crash", (0, 2)), ("outcome_is_unknown", (0, 2)), ("pause", (2,)), ("cut", (2,))],
    ids=str,
)
def test_nothing_acknowledged_is_lost_and_nobody_writes_on_both_sides(fault: str, actors: tuple[int, ...]) -> None:
    found = search(FleetWorld({fault: 1}, actors=actors))
    assert found.states > 10_000
    assert found.endings["STOPPED"] > 20, "a promote succeeds although a gateway is lost"
    assert found.endings["ACTIVE"] > 100, "and is given up where that cannot be known in time"


@pytest.mark.parametrize("fault", ["release", "leave"])
def test_the_record_has_the_real_ends_whoever_has_the_partition(fault: str) -> None:
    """It is released to another gateway and comes back, or the leader is stopped in order."""
    found = search(FleetWorld({fault: 1}))
    assert found.states > 1_000
    assert found.endings["ACTIVE"] > 20
    assert found.endings["STOPPED"] > 2, "few: a run that is over remembers nothing that would tell them apart"


@pytest.mark.parametrize("fault", ["crash", "pause", "cut", "outcome_is_unknown"])
def test_a_group_is_never_served_on_both_sides(fault: str) -> None:
    """The same pause with the other end: after a demote no gateway may serve the group on the target."""
    assert search(FleetWorld({fault: 1}, writes=0, limits=NOTHING_TO_DRAIN)).endings["STOPPED"]


@pytest.mark.parametrize("fault", ["refusal", "crash"])
def test_rights_are_there_before_the_cutover_and_all_of_them_behind_it(fault: str) -> None:
    """One refusal holds no promote up: it is asked again before, and left to the sync of the link behind."""
    found = search(FleetWorld({fault: 1}, writes=0, limits=NOTHING_TO_DRAIN, acls=True))
    assert found.endings["STOPPED"]


CUT_OVER = (
    "a promote is asked for", "step", "step", "step", "0 acknowledges 1", "pause 1 reaches 1", "pause 1 reaches 2",
    "step", "ends answered", "step", "ends answered", "step", "step", "2 is cut off", "step", "2 is connected again",
)  # fmt: skip
"""A promote that has cut over, and gateway 2 has not read the record yet."""
PAUSED = CUT_OVER[:7]
"""A promote whose pause has reached every gateway."""
LEADS_AGAIN = (
    "a promote is asked for", "step", "step", "step", "the group drops 0, which lives", "0 renews",
    "2 reads its assignment", "partition returns",
)  # fmt: skip
"""A promote of a leader that was dropped from the group, and leads again: what it commanded before may come yet."""

# `begin`: where the way to the counterexample is long, its first part has happened.
SEEDED: dict[str, tuple[str, dict[str, Any]]] = {
    "lease ignored": ("pause", {"writes": 0}),
    "answered without a lease": ("pause", {"actors": (2,)}),
    "acknowledgement forgotten": ("crash", {}),
    "acknowledged in flight": ("crash", {}),
    "drift forgotten": ("pause", {"writes": 0, "limits": NOTHING_TO_DRAIN}),
    "presumed at once": ("pause", {"writes": 0, "limits": NOTHING_TO_DRAIN}),
    "epochs ignored": ("outcome_is_unknown", {"begin": LEADS_AGAIN}),
    "registry forgotten": ("pause", {"writes": 0}),
    "terms ignored": ("crash", {}),
    "ended by another operation": ("other", {"faults": 0}),
    "ended by a later leader's command": (
        "other",
        {"more": {"crash": 1, "cut": 1}, "faults": 2, "writes": 0, "limits": NOTHING_TO_DRAIN, "begin": CUT_OVER},
    ),
    "resumed after the cutover": ("cut", {"begin": PAUSED}),
    "empty taken for ends": ("release", {}),
    "rights left to the sync": ("refusal", {"writes": 0, "acls": True}),
}


FOUND = (
    r"acknowledged is not on the target|may write to the source after STOPPED"
    r"|the record of the cutover says|without the rights"
)


def begun(world: FleetWorld, names: Sequence[str]) -> FleetWorld:
    """The world in which these events have happened."""
    for name in names:
        events = dict(world.events())
        assert name in events, f"{name}: not among {sorted(events)}"
        world = world.clone()
        events[name](world)
    return world


def test_every_rule_is_left_out_once() -> None:
    assert set(SEEDED) == set(BROKEN)


@pytest.mark.parametrize("broken", BROKEN)
def test_the_search_finds_a_rule_that_is_left_out(broken: str) -> None:
    fault, settings = SEEDED[broken]
    budget, begin = {fault: 1, **settings.get("more", {})}, settings.get("begin", ())
    rest = {name: value for name, value in settings.items() if name not in ("more", "begin")}
    with pytest.raises(Violation, match=FOUND):
        search(begun(FleetWorld(budget, broken=broken, **rest), begin))


def test_what_has_begun_so_can_only_end_well() -> None:
    """With every rule in force."""
    world = FleetWorld({"other": 1, "crash": 1, "cut": 1}, faults=2, writes=0, limits=NOTHING_TO_DRAIN)
    assert search(begun(world, CUT_OVER)).endings["STOPPED"]


@pytest.mark.parametrize("fault", ["crash", "cut"])
def test_another_operation_of_the_leader_ends_no_pause_but_its_own(fault: str) -> None:
    found = search(FleetWorld({fault: 1, "other": 1}, writes=0, limits=NOTHING_TO_DRAIN))
    assert min(found.endings["STOPPED"], found.endings["ACTIVE"]) > 10


@pytest.mark.skipif(not DEEP, reason="LOCKGATE_MODEL=deep")
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("fault", ["crash", "pause", "cut", "outcome_is_unknown"])
def test_one_fault_everywhere_and_two_promotes(fault: str) -> None:
    search(FleetWorld({fault: 1}, promotes=2, actors=(0, 1, 2)), at_most=10_000_000)


@pytest.mark.skipif(not DEEP, reason="LOCKGATE_MODEL=deep")
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    "faults", [("crash", "pause"), ("crash", "cut"), ("pause", "cut"), ("pause", "outcome_is_unknown")]
)
def test_two_faults(faults: tuple[str, str]) -> None:
    world = FleetWorld(dict.fromkeys(faults, 1), faults=2, writes=0, actors=(0, 1, 2), limits=NOTHING_TO_DRAIN)
    search(world, at_most=10_000_000)
