"""Over changes of leader no batch overtakes another one of its partition."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from gateway.proxy.rules.leader_order import Leader, LeaderOrder


class Part(NamedTuple):
    topic: str
    partition: int


SENDS = st.tuples(st.just("send"), st.sets(st.integers(0, 2), min_size=1))
MOVES = st.tuples(st.just("move"), st.integers(0, 2))
ENDS = st.tuples(st.just("end"), st.integers(0, 20))


class World:
    """Three partitions on two brokers; `in_flight`: what was sent where and has no answer."""

    def __init__(self) -> None:
        self.order = LeaderOrder()
        self.leader = [1, 1, 2]
        self.view = object()
        self.in_flight: list[tuple[int, int, list[Part]]] = []

    def send(self, partitions: set[int]) -> bool:
        plan: dict[Leader, list[Part]] = {}
        for number in sorted(partitions):
            plan.setdefault(("west", self.leader[number]), []).append(Part("t", number))
        if self.order.overtakes(plan, lambda _: self.view, self._leads):
            return False
        for (link, node), parts in plan.items():
            self.in_flight.append((self.order.sent((link, node), parts), node, parts))
        return True

    def _leads(self, leader: Leader, topic: str, partition: int) -> bool:
        return self.leader[partition] == leader[1]

    def move(self, number: int) -> None:
        self.leader[number] = 3 - self.leader[number]
        self.view = object()

    def end(self, at: int) -> None:
        if self.in_flight:
            self.order.ended(self.in_flight.pop(at % len(self.in_flight))[0])

    def would_overtake(self, partitions: set[int]) -> bool:
        return any(
            part.partition in partitions and self.leader[part.partition] != node
            for _, node, parts in self.in_flight
            for part in parts
        )


@given(st.lists(st.one_of(SENDS, MOVES, ENDS), max_size=60))
def test_what_would_overtake_is_held_and_nothing_else(steps: list[tuple[str, object]]) -> None:
    world = World()
    for name, what in steps:
        if name == "send":
            assert isinstance(what, set)
            would = world.would_overtake(what)
            assert world.send(what) is not would
        else:
            getattr(world, name)(what)


def test_who_waits_is_called_until_it_has_enough() -> None:
    order, called = LeaderOrder(), []
    requests = [order.sent(("west", 1), [Part("t", 0)]) for _ in range(3)]
    leave = order.when_ended(lambda: called.append(1))
    order.ended(requests[0])
    order.ended(requests[1])
    leave()
    order.ended(requests[2])
    assert called == [1, 1]
