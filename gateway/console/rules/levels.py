"""The numbers of which trends are kept, as they are now. Pure: of numbers that the control plane has at hand.

Lag and throughput are of what is mirrored, over all partitions; a lag that lacks a partition is null. A group's lag is
that on the side it reads on. A pause is told while it is fresh, so that each is in one look at least.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from gateway.console.rules.trends import Levels
from gateway.telemetry.numbers import ControlNumbers, GroupNumbers, MirrorNumbers

EVERY_S: Final = 15.0
"""How often gateways look."""
_FRESH_S: Final = 2 * EVERY_S  # a look that comes late does not miss it


def levels(numbers: ControlNumbers) -> Levels:
    """Links first: where there are more objects than trends, those are kept."""
    by_link: dict[str, list[Sequence[float | None]]] = {one.link: [] for one in numbers.link_numbers}
    topics: dict[str, Sequence[float | None]] = {}
    for one in numbers.mirrors:
        level = topics[f"topic/{one.link}/{one.topic}"] = _topic(one)
        by_link.setdefault(one.link, []).append(level)
    links = {f"link/{link}/{link}": _link(own) for link, own in by_link.items()}
    groups = {f"group/{one.link}/{one.group}": [_group(one)] for one in numbers.groups}
    return {**links, **dict(sorted(topics.items())), **dict(sorted(groups.items()))}


def _topic(one: MirrorNumbers) -> Sequence[float | None]:
    parts = one.partitions
    pause = one.last_pause
    fresh = pause is not None and pause.ago_s < _FRESH_S
    return (
        _all(part.lag for part in parts),
        sum(part.bytes_per_s for part in parts) if parts else None,
        round(pause.seconds * 1000) if pause is not None and fresh else 0,
    )


def _link(topics: Sequence[Sequence[float | None]]) -> Sequence[float | None]:
    """Of what is measured: what is promoted is measured no more, and is behind nothing."""
    running = [one for one in topics if one[1] is not None]
    return (
        _all(one[0] for one in running),
        sum(one[1] or 0 for one in running) if running else None,
        max((one[2] or 0 for one in topics), default=0),
    )


def _group(one: GroupNumbers) -> float | None:
    lags = one.target_lag if one.state == "PROMOTED" else one.source_lag
    return sum(lags.values()) if lags else None


def _all(values: Iterable[float | None]) -> float | None:
    found = list(values)
    known = [value for value in found if value is not None]
    return sum(known) if found and len(known) == len(found) else None
