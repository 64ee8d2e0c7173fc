"""When a promote may begin. Pure: the clock is an argument, time zones are the machine's.

Waves say which applications are promoted before which, and how long it rests in between. A wave is over when all that
its applications are about is promoted. Then it rests for `wave_rest`, in which people and rules (`stop_rules.py`) look
at what has become of it; the next wave begins after that, in a window of its own applications. When a wave was over is
told by the cutovers of its topics and the promotes of its groups, so nothing is remembered, and whoever leads goes on.
What is before a promote (mirrors, groups) is in no wave.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from gateway.migration.rules.file import Application, Day, MigrationFile, Window, ordered
from gateway.migration.rules.world import World


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


def waves_of(file: MigrationFile) -> Sequence[Sequence[Application]]:
    """The applications by wave, each in an order in which they can go; one wave where the file asks for none.

    With a number of waves, as many as there are applications at most. Applications that no wave names go last.
    """
    order = ordered(file.applications)
    if isinstance(file.waves, int):
        count = max(1, min(file.waves, len(order)))
        cuts = [round(index * len(order) / count) for index in range(count + 1)]
        return [order[begin:end] for begin, end in pairwise(cuts)]
    named = [frozenset(names) for names in file.waves]
    rest = [one for one in order if not any(one.name in names for names in named)]
    found = [[one for one in order if one.name in names] for names in named]
    return [*found, rest] if rest else found


def wave_waits(
    index: int,
    waves: Sequence[Sequence[Application]],
    behind: Mapping[str, bool],
    over_ms: int,
    rest_s: float,
    world: World,
) -> str:
    """Why wave `index` does not begin yet; '' when it may.

    Args:
        behind: application of an earlier wave -> something of it is not promoted.
        over_ms: when the last of their topics and groups was promoted, wall clock; 0: nothing was.
        rest_s: between two waves.
    """
    for number, wave in enumerate(waves[:index], start=1):
        left = [one.name for one in wave if behind[one.name]]
        if left:
            return f"wave {number} goes first: application '{left[0]}' is not promoted"
    begins = datetime.fromtimestamp(over_ms / 1000, UTC) + timedelta(seconds=rest_s)
    if index and world.now < begins:
        return f"wave {index} is over, and rests until {begins.isoformat(timespec='seconds')}"
    return ""
