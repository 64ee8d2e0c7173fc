"""One client's requests take a bounded part of the event loop's time."""

from __future__ import annotations

from collections.abc import Callable

from gateway.proxy.rules.loop_shares import BURST_S, METERED, SHARE, SLICE_S, TURN_S, LoopShares
from protocol.apis import ApiKey


class Lab:
    """A loop that turns when told to, in whose time nothing passes but what requests take."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.soon: list[Callable[[], None]] = []
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.shares = LoopShares(lambda: self.now, self.soon.append, self._later)
        self.done: list[str] = []

    def _later(self, seconds: float, go_on: Callable[[], None]) -> None:
        self.timers.append((self.now + seconds, go_on))

    def takes(self, client: str, seconds: float, requests: int = 1) -> None:
        """A connection of the client's asks for so many requests, of which each takes so long."""
        share = self.shares.of(client)

        def go_on() -> None:
            nonlocal requests
            while requests:
                if self.shares.is_over(share, 0.0):
                    self.shares.wait(share, go_on)
                    return
                requests -= 1
                self.now += seconds
                self.shares.spend(share, seconds)
                self.done.append(client)

        go_on()

    def turn(self) -> int:
        """One turn of the loop; how many requests were served in it."""
        before, soon = len(self.done), self.soon[:]
        self.soon.clear()
        for call in soon:
            call()
        return len(self.done) - before

    def passes(self, seconds: float) -> None:
        self.now += seconds
        due = [each for each in self.timers if each[0] <= self.now]
        self.timers = [each for each in self.timers if each[0] > self.now]
        for _, go_on in due:
            go_on()


def test_a_thousand_requests_of_one_client_are_no_turn_of_the_loop() -> None:
    lab = Lab()
    lab.takes("mallory", 0.0001, 1_000)
    assert len(lab.done) == round(SLICE_S / 0.0001)
    while lab.soon:
        assert lab.turn() <= round(TURN_S / 0.0001) + 1
    assert lab.done == ["mallory"] * 1_000


def test_many_connections_of_one_client_have_its_slice_together() -> None:
    lab = Lab()
    for _ in range(50):
        lab.takes("mallory", 0.0001, 100)
    assert len(lab.done) == round(SLICE_S / 0.0001)
    assert lab.turn() <= round(SLICE_S / 0.0001) + 1


def test_who_waits_is_served_client_by_client() -> None:
    lab = Lab()
    for _ in range(50):
        lab.takes("mallory", 0.001, 100)
    lab.takes("alice", 0.001, 1)
    lab.turn()
    assert "alice" in lab.done


def test_a_client_alone_gets_all_turns() -> None:
    lab = Lab()
    began = lab.now
    lab.takes("alice", 0.0001, 1_000)
    while lab.soon:
        lab.turn()
    assert lab.now - began < 0.1001


def test_one_long_request_leaves_nothing_to_pay() -> None:
    lab = Lab()
    lab.takes("alice", 0.05, 2)
    assert lab.turn() == 1


def test_metered_requests_have_a_share_of_the_time() -> None:
    lab = Lab()
    share = lab.shares.of("mallory")
    began, served = lab.now, 0
    while lab.now - began < 100:
        if share.may_meter(lab.now):
            lab.now += 0.01
            share.meter(0.01, lab.now)
            served += 1
        else:
            lab.now += 0.001
    assert SHARE * 100 <= served * 0.01 <= SHARE * 100 + BURST_S + 0.02


def test_who_has_had_its_share_goes_on_when_it_is_paid_back() -> None:
    lab = Lab()
    share = lab.shares.of("mallory")
    share.meter(BURST_S + 0.1, lab.now)
    went: list[int] = []
    for number in range(3):
        lab.shares.rest(share, lambda number=number: went.append(number))  # type: ignore[misc]
    lab.passes(0.1 / SHARE - 0.001)
    assert went == []
    lab.passes(0.002)
    assert went == [0, 1, 2]


def test_who_owes_again_leaves_the_others_where_they_are() -> None:
    lab = Lab()
    share = lab.shares.of("mallory")
    share.meter(BURST_S + 0.1, lab.now)
    went: list[int] = []

    def go_on() -> None:
        went.append(1)
        share.meter(BURST_S + 0.1, lab.now)

    for _ in range(3):
        lab.shares.rest(share, go_on)
    lab.passes(0.1 / SHARE + 0.001)
    assert (len(went), len(lab.timers)) == (1, 1)


def test_no_measurement_has_anybody_wait_for_long() -> None:
    lab = Lab()
    share = lab.shares.of("alice")
    share.meter(3_600, lab.now)
    assert share.may_meter(lab.now + 4.0)


def test_connections_of_a_client_share_and_others_do_not() -> None:
    shares = Lab().shares
    alice = shares.of(("alice", "10.0.0.1"))
    assert shares.of(("alice", "10.0.0.1")) is alice
    assert shares.of(("alice", "10.0.0.2")) is not alice


def test_what_clients_send_at_any_rate_is_not_metered() -> None:
    assert {ApiKey.METADATA, ApiKey.CREATE_TOPICS, ApiKey.OFFSET_FETCH} <= METERED
    assert not METERED & {ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.HEARTBEAT, ApiKey.OFFSET_COMMIT, ApiKey.END_TXN}


def test_what_many_clients_begin_at_once_is_many_turns() -> None:
    lab = Lab()
    begun: list[int] = []
    for number in range(1_000):
        address = f"10.0.{number >> 6}.1"
        lab.shares.pace(lab.shares.of(("", address)), 0.0003, lambda number=number: begun.append(number))  # type: ignore[misc]
    assert len(begun) <= TURN_S / 0.0003 + 1
    turns = 0
    while lab.soon:
        before = len(begun)
        lab.turn()
        assert len(begun) - before <= TURN_S / 0.0003 + 1
        turns += 1
    assert sorted(begun) == list(range(1_000))
    assert turns <= 80
