"""Rules that stop a migration: by what is promoted, beyond the bound, and beyond what somebody has accepted."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.migration.rules.file import FileError, parsed
from gateway.migration.rules.resolve import resolve
from gateway.migration.rules.stop_rules import Fired, fired
from gateway.migration.rules.world import GroupStanding, MirrorStanding, World
from gateway.state.records import GroupState, MirrorState


def stops(rules: dict[str, Any], *, promoted: bool = True, accepted: dict[str, int] | None = None, **seen: Any) -> Any:
    """Two applications, the first of which is promoted."""
    states = {"x": MirrorState.STOPPED if promoted else MirrorState.ACTIVE, "y": MirrorState.ACTIVE}
    late = {"x": seen.get("late", 0), "y": 9_999}
    lags = {"gx": seen.get("lag", 0), "gy": 9_999}
    world = World(
        source_topics=frozenset(states),
        source_groups=frozenset(lags),
        mirrors={
            name: MirrorStanding(mirror_topic=name, state=state, link="l", lag=0, late=late[name])
            for name, state in states.items()
        },
        groups={
            name: GroupStanding(group=name, state=GroupState.PROMOTED, target_lag=lag) for name, lag in lags.items()
        },
    )
    applications = [{"name": f"a{name}", "topics": [name], "groups": [f"g{name}"]} for name in states]
    file = parsed({"migration": "m", "link": "l", "applications": applications, "stop_when": rules})
    return fired(file, resolve(file, world), world, accepted or {})


def test_nothing_fires_that_is_not_asked_for() -> None:
    assert stops({}, late=5, lag=5_000) is None


@pytest.mark.parametrize(
    ("rules", "seen", "found"),
    [
        ({"late_writes": 0}, {"late": 0}, None),
        ({"late_writes": 0}, {"late": 1}, Fired("late_writes", 1, 0, "x")),
        ({"target_lag": 100}, {"lag": 100}, None),
        ({"target_lag": 100}, {"lag": 101}, Fired("target_lag", 101, 100, "gx")),
        ({"target_lag": 100}, {"lag": None}, None),
        ({"target_lag": 100, "late_writes": 3}, {"lag": 101, "late": 4}, Fired("late_writes", 4, 3, "x")),
    ],
)
def test_by_what_is_promoted(rules: dict[str, Any], seen: dict[str, Any], found: Fired | None) -> None:
    assert stops(rules, **seen) == found


def test_before_something_is_promoted_no_rule_fires() -> None:
    assert stops({"late_writes": 0, "target_lag": 0}, promoted=False, late=7, lag=7) is None


def test_who_goes_on_accepts_the_value() -> None:
    assert stops({"late_writes": 0}, late=7, accepted={"late_writes": 7}) is None
    assert stops({"late_writes": 0}, late=8, accepted={"late_writes": 7}) == Fired("late_writes", 8, 0, "x")
    assert stops({"late_writes": 9}, late=9, accepted={"late_writes": 7}) is None


def test_it_is_told_in_one_line() -> None:
    assert str(Fired("target_lag", 12_000, 10_000, "g")) == "target_lag is 12,000, 10,000 at most ('g')"


def test_a_rule_that_there_is_not_is_an_error() -> None:
    with pytest.raises(FileError, match="stop_when"):
        stops({"errors": 1})
