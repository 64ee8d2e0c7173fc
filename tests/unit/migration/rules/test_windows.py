"""When a promote may begin: by days, hours and time zones, over midnight, and over a change of the clocks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from gateway.migration.rules.file import Day, Window
from gateway.migration.rules.windows import is_open, next_opening

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
