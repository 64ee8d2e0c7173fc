"""Which rehearsals of a migration are due: once in each window, when all mirrors are there."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from gateway.migration.rules.file import parsed
from gateway.migration.rules.rehearsals import due
from gateway.migration.rules.resolve import resolve
from gateway.migration.rules.world import MirrorStanding, World
from gateway.state.records import MirrorState

FILE = parsed(
    {
        "migration": "m",
        "link": "l",
        "applications": [
            {"name": "a", "topics": ["orders", "payments"], "rehearsals": [{"from": "23:00", "to": "01:00"}]}
        ],
    }
)
NIGHT = datetime(2026, 7, 2, 0, 30, tzinfo=UTC)
OPENED_MS = int(datetime(2026, 7, 1, 23, 0, tzinfo=UTC).timestamp() * 1000)


def world(now: datetime = NIGHT, **states: MirrorState) -> World:
    mirrors = {name: MirrorStanding(mirror_topic=name, state=state, link="l", lag=0) for name, state in states.items()}
    return World(now=now, source_topics=frozenset({"orders", "payments"}), mirrors=mirrors)


def found(there: World, begun: dict[str, int] | None = None) -> list[tuple[str, list[str]]]:
    return [(one.application.name, topics) for one, topics in due(resolve(FILE, there), there, begun or {})]


def test_once_in_each_window() -> None:
    there = world(orders=MirrorState.ACTIVE, payments=MirrorState.ACTIVE)
    assert found(there) == [("a", ["orders", "payments"])]
    assert found(there, {"a": OPENED_MS - 1}) == [("a", ["orders", "payments"])]
    assert found(there, {"a": OPENED_MS}) == []
    assert found(replace(there, now=datetime(2026, 7, 2, 1, 0, tzinfo=UTC))) == []
    assert found(replace(there, now=datetime(2026, 7, 2, 23, 0, tzinfo=UTC)), {"a": OPENED_MS}) != []


def test_only_what_is_mirrored_and_not_promoted() -> None:
    assert found(world(orders=MirrorState.ACTIVE)) == []
    assert found(world(orders=MirrorState.ACTIVE, payments=MirrorState.FAILED)) == []
    assert found(world(orders=MirrorState.ACTIVE, payments=MirrorState.STOPPED)) == [("a", ["orders"])]
    assert found(world(orders=MirrorState.STOPPED, payments=MirrorState.STOPPED)) == []
