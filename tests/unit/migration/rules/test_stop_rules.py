"""Rules that stop a migration: by what is promoted, beyond the bound, and beyond what somebody has accepted."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.migration.rules.client_errors import (
    LEAST_FAILURES,
    LEAST_SAMPLES,
    TOPIC,
    AnswerCount,
    ClientErrors,
    Failure,
    Name,
    summed,
)
from gateway.migration.rules.file import FileError, MigrationFile, parsed
from gateway.migration.rules.resolve import MigrationPlan, resolve
from gateway.migration.rules.stop_rules import Fired, fired, unmeasured
from gateway.migration.rules.world import GroupStanding, MirrorStanding, World
from gateway.state.records import GroupState, MirrorState
from protocol.errors import ErrorCode


def scene(rules: dict[str, Any], *, promoted: bool = True, **seen: Any) -> tuple[MigrationFile, MigrationPlan, World]:
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
        client_errors=seen.get("errors"),
    )
    applications = [{"name": f"a{name}", "topics": [name], "groups": [f"g{name}"]} for name in states]
    file = parsed({"migration": "m", "link": "l", "applications": applications, "stop_when": rules})
    return file, resolve(file, world), world


def stops(rules: dict[str, Any], *, accepted: dict[str, int] | None = None, **seen: Any) -> Any:
    return fired(*scene(rules, **seen), accepted or {})


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


def groups_alone(*, state: GroupState = GroupState.PROMOTED, **seen: Any) -> tuple[MigrationFile, MigrationPlan, World]:
    """An application that has a group and no topic."""
    rules = {"target_lag": 100, "client_errors_percent": 1}
    file = parsed({"migration": "m", "link": "l", "applications": [{"name": "a", "groups": ["g"]}], "stop_when": rules})
    group = GroupStanding(group="g", state=state, target_lag=seen.get("lag"))
    world = World(source_groups=frozenset({"g"}), groups={"g": group}, client_errors=seen.get("errors"))
    return file, resolve(file, world), world


def test_an_application_of_groups_alone_is_judged_when_they_are_promoted() -> None:
    assert fired(*groups_alone(lag=101), {}) == Fired("target_lag", 101, 100, "g")
    assert fired(*groups_alone(lag=100), {}) is None
    assert fired(*groups_alone(lag=101, state=GroupState.ACTIVE), {}) is None


def test_errors_of_clients_are_awaited_of_groups_alone_as_well() -> None:
    assert "not measured yet" in unmeasured(*groups_alone())
    assert unmeasured(*groups_alone(state=GroupState.ACTIVE)) == ""
    assert unmeasured(*groups_alone(errors=ClientErrors({}))) == ""


def test_before_something_is_promoted_no_rule_fires() -> None:
    assert stops({"late_writes": 0, "target_lag": 0}, promoted=False, late=7, lag=7) is None


def test_who_goes_on_accepts_the_value() -> None:
    assert stops({"late_writes": 0}, late=7, accepted={"late_writes": 7}) is None
    assert stops({"late_writes": 0}, late=8, accepted={"late_writes": 7}) == Fired("late_writes", 8, 0, "x")
    assert stops({"late_writes": 9}, late=9, accepted={"late_writes": 7}) is None


def errors(**counts: AnswerCount) -> ClientErrors:
    return ClientErrors({Name(TOPIC, name): count for name, count in counts.items()})


def count(failures: int, samples: int, *, each: int = 1) -> AnswerCount:
    """`each`: how many answers one that was looked at stands for."""
    denied = Failure(int(ErrorCode.TOPIC_AUTHORIZATION_FAILED), failures * each, "ann")
    return AnswerCount(samples * each, failures * each, samples, failures, (denied,) if failures else ())


BELOW, LEAST = LEAST_FAILURES - 1, LEAST_FAILURES


@pytest.mark.parametrize(
    ("seen", "share"),
    [
        (None, None),
        (errors(), None),
        (errors(x=count(0, 1_000)), None),
        (errors(x=count(1, 3)), None),  # too few answers
        (errors(x=count(BELOW, LEAST_SAMPLES)), None),  # too few errors
        (errors(x=count(LEAST, LEAST_SAMPLES)), 25.0),
        (errors(x=count(LEAST, LEAST_SAMPLES - 1)), None),
        (errors(x=count(10, 1_000)), None),  # the bound itself
        (errors(x=count(11, 1_000)), 1.1),
        (errors(x=count(20, 20), z=count(0, 100_000)), 100.0),  # of one topic, however small
        (errors(**{f"t{index}": count(1, 2) for index in range(20)}), 50.0),  # of all, where each has few
    ],
)
def test_errors_of_clients_stop_it_beyond_the_bound_when_enough_was_seen(
    seen: ClientErrors | None, share: float | None
) -> None:
    found = stops({"client_errors_percent": 1}, errors=seen)
    assert (None if found is None else round(found.value, 3)) == share


def test_without_the_rule_errors_of_clients_stop_nothing() -> None:
    assert stops({"late_writes": 0}, errors=errors(x=count(100, 100))) is None


def test_one_gateway_that_looks_seldom_counts_for_what_passes_there() -> None:
    """50 errors of 100 answers at one, each of which stands for one; 0 of 100 at another, each for 99."""
    told = [{Name(TOPIC, "x"): count(50, 100)}, {Name(TOPIC, "x"): count(0, 100, each=99)}]
    assert stops({"client_errors_percent": 0.4}, errors=summed(told)).value == 0.5
    assert stops({"client_errors_percent": 1}, errors=summed(told)) is None


def test_of_client_errors_it_is_told_where_and_which() -> None:
    found = stops({"client_errors_percent": 2.5}, errors=errors(x=count(30, 80)))
    assert str(found) == (
        "client_errors_percent is 37.5, 2.5 at most ('x': 30 of 80 answers looked at in 60 s, "
        "mostly TOPIC_AUTHORIZATION_FAILED, client 'ann')"
    )


def test_a_share_is_not_accepted_by_who_goes_on() -> None:
    assert stops({"client_errors_percent": 1}, errors=errors(x=count(30, 80))).accepted == {}
    assert Fired("late_writes", 7, 0, "x").accepted == {"late_writes": 7}


@pytest.mark.parametrize("bound", [0, -1, 101, "1", True])
def test_a_share_that_cannot_be_is_an_error(bound: Any) -> None:
    with pytest.raises(FileError, match="client_errors_percent"):
        stops({"client_errors_percent": bound})


def test_it_is_told_in_one_line() -> None:
    assert str(Fired("target_lag", 12_000, 10_000, "g")) == "target_lag is 12,000, 10,000 at most ('g')"


def test_a_rule_that_there_is_not_is_an_error() -> None:
    with pytest.raises(FileError, match="stop_when"):
        stops({"errors": 1})


@pytest.mark.parametrize(
    ("rules", "seen", "words"),
    [
        ({"client_errors_percent": 1}, {"errors": None}, "not measured yet: the gateways are being asked"),
        ({"client_errors_percent": 1}, {"errors": ClientErrors(unheard=["gw-2"])}, "gateway 'gw-2' does not tell"),
        ({"client_errors_percent": 1}, {"errors": ClientErrors()}, ""),
        ({"client_errors_percent": 1}, {"errors": ClientErrors(unheard=["gw-2"]), "promoted": False}, ""),
        ({"late_writes": 1}, {"errors": ClientErrors(unheard=["gw-2"])}, ""),
    ],
)
def test_what_a_gateway_does_not_tell_is_not_measured(rules: dict[str, Any], seen: dict[str, Any], words: str) -> None:
    """It may have all the clients that fail: the next wave would be promoted over their heads."""
    found = unmeasured(*scene(rules, **seen))
    assert words in found
    assert bool(words) is bool(found)
