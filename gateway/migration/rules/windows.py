"""When a promote may begin. Pure: the clock is an argument, time zones are the machine's."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from gateway.migration.rules.file import Day, Window


def is_open(windows: Sequence[Window], now: datetime) -> bool:
    """Whether one of the windows is open; without any, always. `now` has a time zone."""
    return not windows or any(_holds(window, now) for window in windows)


def opened_at(windows: Sequence[Window], now: datetime) -> datetime | None:
    """When the one that is open began, the last one of several; None: none is open."""
    found = (
        begins
        for window in windows
        for local in (now.astimezone(ZoneInfo(window.zone)),)
        for begins, ends in (_on(window, local, -1), _on(window, local, 0))
        if begins is not None and begins <= local < ends
    )
    return max(found, default=None)


def next_opening(windows: Sequence[Window], now: datetime) -> datetime | None:
    """When the next one opens, within a week and a day; None when one is open, or there are none."""
    if is_open(windows, now):
        return None
    return min(opening for window in windows if (opening := _opening(window, now)) is not None)


def _holds(window: Window, now: datetime) -> bool:
    """It began today or yesterday, and has not ended."""
    local = now.astimezone(ZoneInfo(window.zone))
    return any(begins <= local < ends for begins, ends in (_on(window, local, -1), _on(window, local, 0)) if begins)


def _opening(window: Window, now: datetime) -> datetime | None:
    local = now.astimezone(ZoneInfo(window.zone))
    begins = (_on(window, local, days)[0] for days in range(9))
    return next((one for one in begins if one is not None and one > local), None)


def _on(window: Window, local: datetime, days: int) -> tuple[datetime | None, datetime]:
    """(begin, end) of the window on a day from today; no begin on a day that it does not name."""
    day = local.date() + timedelta(days=days)
    begins = datetime.combine(day, time.fromisoformat(window.begins), tzinfo=local.tzinfo)
    last = day if window.ends > window.begins else day + timedelta(days=1)
    ends = datetime.combine(last, time.fromisoformat(window.ends), tzinfo=local.tzinfo)
    return (begins if list(Day)[day.weekday()] in window.days else None), ends
