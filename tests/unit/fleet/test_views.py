"""The gateways of the fleet, as operators see them."""

from __future__ import annotations

import pytest

from gateway.errors import Conflict, NotFound
from gateway.fleet.views import Gateways
from gateway.mirror.rules.period import MirrorPartition
from tests.support.control.control_plane import Plane
from tests.unit.fleet.test_registry import Book


@pytest.fixture
def book(plane: Plane) -> Book:
    return Book(plane)


def views(book: Book) -> Gateways:
    mirrored = {name: frozenset({MirrorPartition("l", name, 0)}) for name in ("a", "b", "b#2")}
    made = Gateways("a", book.plane.store, book.registry, lambda: mirrored)
    made._runs = lambda partition: True  # type: ignore[method-assign]
    return made


async def test_a_gateway_of_several_processes_is_one(book: Book) -> None:
    await book.generation("a", "b", "b#2", "b#3")
    shown = views(book).list()
    assert [(one.name, one.workers, one.state, one.leads, len(one.mirrors)) for one in shown] == [
        ("a", 1, "up", True, 1),
        ("b", 3, "up", False, 2),
    ]
    assert shown[1].record.name == "b"
    with pytest.raises(NotFound):
        views(book).describe("b#2")


async def test_one_process_that_leads_is_the_gateway_that_leads(book: Book) -> None:
    await book.generation("a", "a#2")
    made = Gateways("a#2", book.plane.store, book.registry, dict)
    assert [(one.name, one.leads) for one in made.list()] == [("a", True)]


async def test_a_gateway_with_a_lost_process_is_lost(book: Book) -> None:
    await book.generation("a", "b", "b#2")
    await book.generation("a", "b")
    shown = views(book).describe("b")
    assert (shown.state, shown.workers) == ("lost", 2)
    assert shown.lease_left_s is not None
    book.registry.silent = frozenset({"b"})
    assert views(book).describe("b").state == "lost", "silent is less"


async def test_a_gateway_is_forgotten_with_those_of_its_processes_that_are_lost(book: Book) -> None:
    await book.generation("a", "b", "b#2", "b#3")
    with pytest.raises(Conflict):
        await views(book).forget("b")
    await book.generation("a", "b")
    await views(book).forget("b")
    assert sorted(book.plane.store.gateways) == ["a", "b"]


async def test_one_process_is_forgotten_by_the_name_that_a_promote_tells(book: Book) -> None:
    await book.generation("a", "b", "b#2", "b#3")
    await book.generation("a", "b")
    assert "lockgate gateway forget b#2" in book.registry.lost()
    await views(book).forget("b#2")
    assert sorted(book.plane.store.gateways) == ["a", "b", "b#3"]
    with pytest.raises(NotFound):
        await views(book).forget("c")


async def test_which_processes_would_be_forgotten(book: Book) -> None:
    await book.generation("a", "b", "b#2")
    with pytest.raises(Conflict, match="is there"):
        views(book).forgotten("b")
    await book.generation("a", "b")
    assert views(book).forgotten("b") == ["b#2"]
    assert sorted(book.plane.store.gateways) == ["a", "b", "b#2"]
    with pytest.raises(NotFound):
        views(book).forgotten("c")
