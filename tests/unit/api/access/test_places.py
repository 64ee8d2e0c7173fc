"""Connections to REST: lent to strangers, kept by who has proved who it is, and never all of them by one."""

from __future__ import annotations

from gateway.api.access.places import NewConnections, Place, Places


class Scene:
    def __init__(self, most: int = 64, most_of_one: int = 32) -> None:
        self.places = Places(most, most_of_one)
        self.ended: list[int] = []
        self.busy: set[int] = set()

    def enter(self, number: int, address: str = "a") -> Place | None:
        return self.places.enter(address, lambda: self.ended.append(number), lambda: number in self.busy)

    def proved(self, number: int, caller: str, address: str = "a", *, is_admin: bool = False) -> bool:
        place = self.enter(number, address)
        return place is not None and self.places.prove(place, caller, is_admin=is_admin)


def test_the_oldest_stranger_gives_its_place_up_one_without_a_question_first() -> None:
    scene = Scene(most_of_one=4)
    scene.busy = {0}
    places = [scene.enter(number) for number in range(4)]
    assert scene.places.prove(places[1], "vera", is_admin=False)  # type: ignore[arg-type]
    scene.enter(4)
    scene.enter(5, "another")
    assert scene.ended == [2]
    scene.busy = {0, 3, 4}
    scene.enter(6)
    assert scene.ended == [2, 0]


def test_there_are_always_places_for_probes() -> None:
    """However many have proved who they are, of one address and of all."""
    scene = Scene(64, 32)
    assert sum(scene.proved(number, f"caller {number}", is_admin=number % 2 == 0) for number in range(200)) == 28
    assert scene.enter(1_000) is not None
    scene = Scene(64, 64)
    assert sum(scene.proved(number, "root", f"address {number}", is_admin=True) for number in range(200)) == 56
    assert scene.enter(1_000, "probe") is not None


def test_one_caller_has_a_quarter_and_admins_what_others_may_not_have() -> None:
    scene = Scene(64, 64)
    assert sum(scene.proved(number, "vera", f"{number}") for number in range(100)) == 16
    assert sum(scene.proved(number, f"caller {number}", f"{number}") for number in range(100)) == 32
    assert sum(scene.proved(number, "root", f"{number}", is_admin=True) for number in range(100)) == 8


def test_few_places_are_places_all_the_same() -> None:
    scene = Scene(1, 1)
    assert scene.proved(0, "vera")
    assert scene.enter(1) is None


def test_new_connections_have_a_rate_for_each_address() -> None:
    now = 0.0
    rate = NewConnections(10, lambda: now)
    assert sum(rate.take("a") for _ in range(100)) == 20
    assert rate.take("b")
    assert rate.take("")
    now = 1.0
    assert sum(rate.take("a") for _ in range(100)) == 10
    for number in range(10_000):
        rate.take(str(number))
    assert len(rate._buckets) <= 4_096
