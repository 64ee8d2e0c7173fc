"""When a promote may begin: by days, hours and time zones, over midnight, and over a change of the clocks.

Waves: who is in which, and what the next one waits for.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gateway.migration.rules.file import Day, FileError, MigrationFile, Window, parsed
from gateway.migration.rules.resolve import resolve
from gateway.migration.rules.windows import is_open, next_opening, waves_of
from gateway.migration.rules.world import GroupStanding, MirrorStanding, World
from gateway.state.records import GroupState, MirrorState

MONDAY = datetime(2026, 11, 23, tzinfo=UTC)


def window(begins: str, ends: str, *days: Day, zone: str = "UTC") -> Window:
    return Window.model_validate({"from": begins, "to": ends, "days": list(days or Day), "zone": zone})


def at(text: str, day: datetime = MONDAY) -> datetime:
    hour, minute = map(int, text.split(":"))
    return day.replace(hour=hour, minute=minute)


def test_without_windows_it_is_always_open() -> None:
    assert is_open([], MONDAY)
    assert next_opening([], MONDAY) is None


@pytest.mark.parametrize(("now", "expected"), [("21:59", False), ("22:00", True), ("22:59", True), ("23:00", False)])
def test_it_begins_with_its_first_minute_and_ends_before_its_last(now: str, expected: bool) -> None:
    assert is_open([window("22:00", "23:00")], at(now)) is expected


@pytest.mark.parametrize(
    ("day", "now", "expected"),
    [(0, "21:59", False), (0, "22:00", True), (1, "01:59", True), (1, "02:00", False), (1, "23:00", False)],
)
def test_one_that_ends_before_it_begins_ends_on_the_next_day(day: int, now: str, expected: bool) -> None:
    assert is_open([window("22:00", "02:00", Day.MON)], at(now, MONDAY + timedelta(days=day))) is expected


def test_the_same_hour_twice_is_a_whole_day() -> None:
    one = [window("06:00", "06:00", Day.MON)]
    assert [is_open(one, at("06:00") + timedelta(hours=hours)) for hours in (-1, 0, 23, 24)] == [
        False,
        True,
        True,
        False,
    ]


def test_days_and_hours_are_the_windows_own() -> None:
    """22:30 on Monday in UTC is half past seven on Tuesday in Tokyo."""
    assert is_open([window("07:00", "08:00", Day.TUE, zone="Asia/Tokyo")], at("22:30"))
    assert not is_open([window("07:00", "08:00", Day.MON, zone="Asia/Tokyo")], at("22:30"))


def test_an_hour_of_the_day_stays_one_when_the_clocks_change() -> None:
    """In Berlin 22:00 is 20:00 UTC in summer and 21:00 in winter; the clocks went back on 25 October 2026."""
    night = [window("22:00", "23:00", zone="Europe/Berlin")]
    assert is_open(night, datetime(2026, 10, 24, 20, 30, tzinfo=UTC))
    assert not is_open(night, datetime(2026, 10, 25, 20, 30, tzinfo=UTC))
    assert is_open(night, datetime(2026, 10, 25, 21, 30, tzinfo=UTC))


def test_the_next_opening_is_that_of_the_window_that_opens_first() -> None:
    two = [window("22:00", "23:00", Day.WED), window("08:00", "09:00", Day.TUE)]
    assert next_opening(two, at("12:00")) == at("08:00", MONDAY + timedelta(days=1))
    assert next_opening(two, at("08:30", MONDAY + timedelta(days=1))) is None  # it is open


def test_one_that_has_just_closed_opens_a_week_later() -> None:
    assert next_opening([window("08:00", "09:00", Day.MON)], at("09:00")) == at("08:00", MONDAY + timedelta(days=7))


NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def file(*names: str, after: dict[str, list[str]] | None = None, **more: Any) -> MigrationFile:
    applications = [{"name": one, "topics": [f"t-{one}"], "after": (after or {}).get(one, [])} for one in names]
    return parsed({"migration": "m", "link": "l", "applications": applications, **more})


def dealt(one: MigrationFile) -> list[list[str]]:
    return [[each.name for each in wave] for wave in waves_of(one)]


def world(now: datetime = NOON, **promoted: datetime | None) -> World:
    """Application -> when its topic was promoted; None: it is mirrored."""
    mirrors = {
        f"t-{name}": MirrorStanding(
            mirror_topic=f"t-{name}",
            state=MirrorState.ACTIVE if at is None else MirrorState.STOPPED,
            link="l",
            lag=0,
            promoted_ms=0 if at is None else round(at.timestamp() * 1000),
        )
        for name, at in promoted.items()
    }
    return World(now=now, mirrors=mirrors)


def waits(one: MigrationFile, there: World, name: str) -> str:
    plan = next(each for each in resolve(one, there).applications if each.application.name == name)
    return next(step.waits_for for step in plan.steps)


@pytest.mark.parametrize(
    ("waves", "found"),
    [
        (1, [["a", "b", "c"]]),
        (2, [["a", "b"], ["c"]]),
        (3, [["a"], ["b"], ["c"]]),
        (9, [["a"], ["b"], ["c"]]),
        ([["c"], ["a"]], [["c"], ["a"], ["b"]]),
        ([["c", "a", "b"]], [["a", "b", "c"]]),
    ],
)
def test_who_is_in_which(waves: Any, found: list[list[str]]) -> None:
    assert dealt(file("a", "b", "c", waves=waves)) == found


def test_a_number_deals_out_in_the_order_in_which_they_can_go() -> None:
    assert dealt(file("a", "b", after={"a": ["b"]}, waves=2)) == [["b"], ["a"]]


@pytest.mark.parametrize(
    ("waves", "after", "words"),
    [
        ([["a"], ["x"]], {}, "names 'x', which is no application"),
        ([["a"], ["a"]], {}, "'a' is named twice"),
        ([[]], {}, "wave 1 names no application"),
        ([["a"], ["b"]], {"a": ["b"]}, "'a' goes after 'b', which is in a later wave"),
        ([["a"]], {"a": ["b"]}, "'a' goes after 'b', which is in a later wave"),
        (0, {}, "waves"),
    ],
)
def test_waves_that_cannot_be(waves: Any, after: dict[str, list[str]], words: str) -> None:
    with pytest.raises(FileError, match=words):
        file("a", "b", after=after, waves=waves)


def test_the_next_wave_waits_for_all_of_the_one_before_and_for_its_rest() -> None:
    one = file("a", "b", "c", waves=[["a", "b"], ["c"]], wave_rest="30m")
    assert waits(one, world(a=None, b=None, c=None), "a") == ""
    assert waits(one, world(a=NOON, b=None, c=None), "c") == "wave 1 goes first: application 'b' is not promoted"
    over = world(a=NOON, b=NOON.replace(minute=10), c=None, now=NOON.replace(minute=39))
    assert waits(one, over, "c") == "wave 1 is over, and rests until 2026-03-02T12:40:00+00:00"
    rested = world(a=NOON, b=NOON.replace(minute=10), c=None, now=NOON.replace(minute=40))
    assert waits(one, rested, "c") == ""


def of_groups(*, promoted_ms: int, now: datetime) -> tuple[MigrationFile, World]:
    """Application a has a group only, which is promoted; b waits for its wave."""
    applications = [{"name": "a", "groups": ["g"]}, {"name": "b", "topics": ["t-b"]}]
    there = world(b=None, now=now)
    group = GroupStanding(group="g", state=GroupState.PROMOTED, promoted_ms=promoted_ms)
    one = parsed({"migration": "m", "link": "l", "waves": 2, "wave_rest": "30m", "applications": applications})
    return one, replace(there, groups={"g": group})


def test_a_wave_of_groups_alone_rests_as_well() -> None:
    noon_ms = round(NOON.timestamp() * 1000)
    resting = of_groups(promoted_ms=noon_ms, now=NOON.replace(minute=29))
    assert waits(*resting, "b") == "wave 1 is over, and rests until 2026-03-02T12:30:00+00:00"
    assert waits(*of_groups(promoted_ms=noon_ms, now=NOON.replace(minute=30)), "b") == ""


def test_a_group_that_is_not_promoted_yet_begins_no_rest() -> None:
    one, there = of_groups(promoted_ms=round(NOON.timestamp() * 1000), now=NOON)
    declared = replace(there, groups={"g": GroupStanding(group="g", state=GroupState.ACTIVE)})
    assert waits(one, declared, "b") == "wave 1 goes first: application 'a' is not promoted"


def test_a_window_counts_behind_the_rest() -> None:
    one = file("a", "b", waves=2)
    shut = {"days": ["sun"], "from": "01:00", "to": "02:00"}
    windowed = parsed(
        {
            "migration": "m",
            "link": "l",
            "waves": 2,
            "applications": [{"name": "a", "topics": ["t-a"]}, {"name": "b", "topics": ["t-b"], "windows": [shut]}],
        }
    )
    assert waits(one, world(a=NOON, b=None), "b") == ""
    assert "no window is open" in waits(windowed, world(a=NOON, b=None), "b")
