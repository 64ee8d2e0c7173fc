"""Answers that clients do not take have room for each client and for all; who reads nothing makes way for others."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from gateway.proxy.rules.held_answers import LARGE, PATIENCE_S, HeldAnswers
from gateway.proxy.rules.loop_shares import ClientShare

MB = 1 << 20
LIMIT = 64 * MB
OF_CLIENT = 16 * MB


class Connection:
    """Of a client. It takes what it is told to."""

    def __init__(self, answers: HeldAnswers, share: ClientShare | None = None) -> None:
        self.answers, self.share = answers, share or ClientShare()
        self.held = self.unsent = 0
        self.got: list[int] = []
        self.closed = ""

    def asks(self, size: int) -> None:
        if self.answers.has_room(self.share, size):
            self._takes(size)
        else:
            self.answers.wait(self, size, lambda: self._takes(size))

    def _takes(self, size: int) -> None:
        self.got.append(size)
        self.held += size
        self.unsent += size
        self.answers.holds(self, self.held)

    def reads(self, size: int) -> None:
        self.held -= size
        self.unsent -= size
        self.answers.holds(self, self.held)

    def untaken(self) -> int:
        return self.unsent

    def close(self, reason: str) -> None:
        self.closed = reason
        self.answers.ended(self)


def looks(answers: HeldAnswers, *times: float) -> list[Connection]:
    closed: list[Connection] = []
    for now in times:
        for taker in answers.too_slow(now):
            assert isinstance(taker, Connection)
            taker.close("slow")
            closed.append(taker)
    return closed


def test_fifty_answers_of_a_client_that_reads_none_hold_a_quarter() -> None:
    answers, share = HeldAnswers(LIMIT), ClientShare()
    connections = [Connection(answers, share) for _ in range(50)]
    for connection in connections:
        connection.asks(5 * MB)
    assert (answers.bytes, share.unread, answers.waiting, answers.waited) == (15 * MB, 15 * MB, 47, 47)
    other = Connection(answers)
    other.asks(10 * MB)
    assert other.got == [10 * MB]
    connections[0].reads(5 * MB)
    assert [len(connection.got) for connection in connections] == [1] * 4 + [0] * 46


def test_one_of_any_size_goes_where_its_client_holds_nothing() -> None:
    answers = HeldAnswers(LIMIT)
    one = Connection(answers)
    one.asks(50 * MB)
    assert one.got == [50 * MB]
    huge = Connection(answers)
    huge.asks(100 * MB)
    other = Connection(answers)
    other.asks(100 * MB)
    assert (huge.got, other.got) == ([100 * MB], [])
    huge.reads(100 * MB)
    assert other.got == [100 * MB]


def test_nobody_overtakes_who_waits_for_all() -> None:
    answers = HeldAnswers(LIMIT)
    full = [Connection(answers) for _ in range(4)]
    for connection in full:
        connection.asks(15 * MB)
    waiting, late = Connection(answers), Connection(answers)
    waiting.asks(12 * MB)
    late.asks(2 * MB)
    assert (waiting.got, late.got) == ([], [])
    full[0].reads(15 * MB)
    assert (waiting.got, late.got) == ([12 * MB], [2 * MB])


def test_small_answers_go_while_their_client_holds_little() -> None:
    answers = HeldAnswers(LIMIT)
    for _ in range(4):
        Connection(answers).asks(OF_CLIENT)
    one = Connection(answers)
    one.asks(1_000)
    one.asks(LARGE)
    assert one.got == [1_000]
    flood = ClientShare()
    many = [Connection(answers, flood) for _ in range(100)]
    for connection in many:
        connection.asks(LARGE - 1)
    assert flood.unread <= LIMIT // 64


def test_who_reads_nothing_is_closed_when_others_wait_for_it() -> None:
    answers, share = HeldAnswers(LIMIT), ClientShare()
    mute, slow = Connection(answers, share), Connection(answers, share)
    mute.asks(9 * MB)
    slow.asks(6 * MB)
    assert looks(answers, 0.0, PATIENCE_S, 600.0) == []  # nobody waits
    waiting = Connection(answers, share)
    waiting.asks(5 * MB)
    slow.reads(10_000)
    assert looks(answers, 601.0) == [mute]
    assert (waiting.got, slow.closed) == ([5 * MB], "")


def test_a_slow_line_is_never_closed() -> None:
    """Fifty megabytes at a kilobyte a second, while others wait."""
    answers, share = HeldAnswers(LIMIT), ClientShare()
    slow, waiting = Connection(answers, share), Connection(answers, share)
    slow.asks(50 * MB)
    waiting.asks(5 * MB)
    for second in range(3, 600, 3):
        slow.reads(3 * 1_024)
        assert looks(answers, float(second)) == []


def test_a_trickle_is_not_reading() -> None:
    answers, share = HeldAnswers(LIMIT), ClientShare()
    trickle, waiting = Connection(answers, share), Connection(answers, share)
    trickle.asks(14 * MB)
    waiting.asks(5 * MB)
    closed = []
    for second in range(0, 30, 3):
        if not trickle.closed:
            trickle.reads(1)
        closed += looks(answers, float(second))
    assert closed == [trickle]


def test_no_more_are_closed_than_it_takes_and_those_of_others_stay() -> None:
    answers, share = HeldAnswers(LIMIT), ClientShare()
    mute = [Connection(answers, share) for _ in range(3)]
    for connection, size in zip(mute, (3 * MB, 8 * MB, 4 * MB), strict=True):
        connection.asks(size)
    other, waiting = Connection(answers), Connection(answers, share)
    other.asks(12 * MB)
    waiting.asks(5 * MB)
    assert looks(answers, 0.0, PATIENCE_S) == [mute[1]]
    assert waiting.got == [5 * MB]


def test_who_is_closed_waits_for_nothing_and_holds_nothing() -> None:
    answers, share = HeldAnswers(LIMIT), ClientShare()
    one, gone = Connection(answers, share), Connection(answers, share)
    one.asks(OF_CLIENT)
    gone.asks(5 * MB)
    gone.close("gone")
    one.close("gone")
    assert (answers.bytes, answers.waiting, share.unread, gone.got) == (0, 0, 0, [])


def test_a_login_takes_what_is_held_along() -> None:
    answers = HeldAnswers(LIMIT)
    one = Connection(answers)
    one.asks(5 * MB)
    before, one.share = one.share, ClientShare()
    answers.holds(one, one.held)
    assert (before.unread, one.share.unread, answers.bytes) == (0, 5 * MB, 5 * MB)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 20 * MB), st.booleans()), max_size=60))
def test_it_is_bounded_and_everybody_is_served(steps: Iterable[tuple[int, int, bool]]) -> None:
    answers = HeldAnswers(LIMIT)
    shares = [ClientShare() for _ in range(3)]
    connections = [Connection(answers, shares[number % 3]) for number in range(6)]
    asked = 0
    for which, size, reads in steps:
        connection = connections[which]
        if reads:
            connection.reads(connection.held)
        else:
            connection.asks(size)
            asked += 1
        assert answers.bytes <= LIMIT
        assert answers.bytes == sum(each.held for each in connections) == sum(share.unread for share in shares)
    while any(each.held for each in connections):
        for each in connections:
            each.reads(each.held)
    assert (answers.waiting, sum(len(each.got) for each in connections)) == (0, asked)
