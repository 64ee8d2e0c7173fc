"""When all routes are looked through: where something may have become of one, and not for what is known already."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from gateway.cutover.write_pause.publisher import RoutingPublisher
from gateway.cutover.write_pause.rules.routing import RoutingTable
from gateway.state.records import LinkRecord, MirrorRecord, PartitionStart

RECORD = MirrorRecord(link="l", source_topic="t", mirror_topic="t", mirror_id=1, starts=(PartitionStart(0, 0),))


class Store:
    """As much of a state store as routes need."""

    def __init__(self) -> None:
        self.links = {"l": LinkRecord(name="l", link_id=1, source_cluster_id="s", client={})}
        self.mirrors: dict[tuple[str, str], MirrorRecord] = {}
        self.changed: list[Callable[[], None]] = []

    def subscribe(self, subscriber: Callable[[], None]) -> None:
        self.changed.append(subscriber)


class Scene:
    """A publisher; `looks`: how often it has built all routes since the last time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store, self.table = Store(), RoutingTable()
        self._count = 0
        refresh = RoutingPublisher.refresh

        def counted(publisher: RoutingPublisher) -> None:
            self._count += 1
            refresh(publisher)

        monkeypatch.setattr(RoutingPublisher, "refresh", counted)
        self.publisher = RoutingPublisher(cast("Any", self.store), self.table, lambda: 0.0)

    def store_record(self) -> None:
        self.store.mirrors["l", "t"] = RECORD
        for changed in self.store.changed:
            changed()

    @property
    def looks(self) -> int:
        found, self._count = self._count, 0
        return found


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


def test_a_reservation_that_has_become_a_record_ends_without_a_look(scene: Scene) -> None:
    scene.publisher.reserve(RECORD)
    assert scene.looks == 1
    assert "t" in scene.table.current.topics
    scene.store_record()
    assert scene.looks == 1
    scene.publisher.release("t")
    assert scene.looks == 0
    assert "t" in scene.table.current.topics


def test_one_that_came_to_nothing_ends_the_route(scene: Scene) -> None:
    scene.publisher.reserve(RECORD)
    scene.publisher.release("t")
    assert scene.looks == 2
    assert "t" not in scene.table.current.topics
    scene.publisher.release("t")
    assert scene.looks == 0


def test_what_is_known_to_be_readable_is_not_news(scene: Scene) -> None:
    scene.store_record()
    assert scene.looks == 1
    scene.publisher.make_readable("t")
    scene.publisher.make_readable("t")
    assert scene.looks == 1
    assert scene.table.current.topics["t"].readable
    scene.publisher.forget("t")
    scene.publisher.make_readable("t")
    assert scene.looks == 2
