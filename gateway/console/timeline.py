"""What happened, as this gateway saw it in the state topic: one event for each change of an object's state.

Every gateway reads the same records in the same order, so each has the same events, whoever leads; one that starts
begins with the last change of each object. At most `KEPT` are kept, the newest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any, Final, NamedTuple

from gateway.console.rules.events import Event, of_gateway, of_group, of_journal, of_link, of_mirror
from gateway.console.rules.sections import Row
from gateway.state.migration_records import MigrationRecord
from gateway.state.views import StateViews

KEPT: Final = 500

_Key = Any
_Change = Callable[[Any, Any], Iterator[Event]]


class _Kind(NamedTuple):
    of: Callable[[StateViews], Mapping[Any, Any]]
    change: _Change


# Few by number, or seldom changed: looked through at each change of the state. Mirror topics tell by themselves.
_KINDS: Final = (
    _Kind(lambda views: views.links, of_link),
    _Kind(lambda views: views.groups, of_group),
    _Kind(lambda views: views.gateways, of_gateway),
)


class Timeline:
    """Args.

    views: followed from now on, until `close`.
    wall_ms: stamps what carries no time of its own.
    """

    def __init__(self, views: StateViews, wall_ms: Callable[[], int]) -> None:
        self._views = views
        self._wall_ms = wall_ms
        self._number = count(1)
        self._events: deque[tuple[str, Row]] = deque(maxlen=KEPT)
        self._changes = views.mirror_changes()
        self._mirrors: dict[str, Any] = {}
        self._before: list[dict[_Key, Any]] = [{} for _ in _KINDS]
        self._migrations: dict[str, MigrationRecord] = {}
        self._look()
        views.subscribe(self._look)

    def close(self) -> None:
        """Follow no more."""
        self._views.unsubscribe(self._look)

    def rows(self) -> dict[str, Row]:
        """Number -> event, oldest first."""
        return dict(self._events)

    def _look(self) -> None:
        found: list[Event] = []
        for kind, before in zip(_KINDS, self._before, strict=True):
            now = kind.of(self._views)
            for key in [key for key in before if key not in now]:
                found += kind.change(before.pop(key), None)
            for key, record in now.items():
                old = before.get(key)
                if old is not record:
                    before[key] = record
                    found += kind.change(old, record)
        topics, _ = self._changes.take()
        for topic in topics:
            record = self._views.mirror_of(topic)
            before = self._mirrors.pop(topic, None)
            if record is not None:
                self._mirrors[topic] = record
            found += of_mirror(before, record)
        for name, migration in self._views.migrations.items():
            old = self._migrations.get(name)
            if old is not migration:
                self._migrations[name] = migration
                found += of_journal(old, migration)
        self._keep(found)

    def _keep(self, found: list[Event]) -> None:
        now = self._wall_ms()
        for event in sorted(found, key=lambda each: each.at_ms or now):
            self._events.append((f"{next(self._number):09d}", event.row(event.at_ms or now)))
