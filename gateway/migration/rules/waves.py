"""Waves: which applications are promoted before which, and how long it rests in between. Pure.

A wave is over when all that its applications are about is promoted. Then it rests for `wave_rest`, in which people and
rules (`stop_rules.py`) look at what has become of it; the next wave begins after that, in a window of its own
applications. When a wave was over is told by the cutovers of its topics and the promotes of its groups, so nothing is
remembered, and whoever leads goes on. What is before a promote (mirrors, groups) is in no wave.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from gateway.migration.rules.file import Application, MigrationFile, ordered
from gateway.migration.rules.world import World


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
