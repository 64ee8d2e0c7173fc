"""What the producers of the simulation decide, library by library, against answers made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.errors import ErrorCode
from tests.simulation.clients.java import Java
from tests.simulation.clients.librdkafka import Librdkafka
from tests.simulation.clients.records import Sent
from tests.simulation.clients.sequences import Batch, End, Identity, Sequences

KEY = ("t", 0)
OTHER = ("t", 1)
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
GAP = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
UNKNOWN = ErrorCode.UNKNOWN_PRODUCER_ID


class Lab:
    """A producer without connections. Each batch has two records; time is `now`."""

    def __init__(self, kind: type[Sequences], **options: Any) -> None:
        self.ended: list[tuple[int, End, int]] = []
        self.resent: list[int] = []
        said = {"idempotent": True, "transactional": False, "backoff": (0.1, 1.0), **options}
        self.it = kind(
            lambda b, end, at, _: self.ended.append((b.number, end, at)), lambda b: self.resent.append(b.number), **said
        )
        if said["idempotent"]:
            self.it.begin(Identity(7, 0))
        self.now = 0.0
        self.numbers = 0

    def add(self, count: int = 1, key: tuple[str, int] = KEY, deadline: float = 100.0) -> None:
        """Batches to send."""
        for _ in range(count):
            self.numbers += 1
            self.it.add(Batch(key, (Sent(None, b"a"), Sent(None, b"b")), b"", self.numbers, self.now, deadline))

    def take(self, key: tuple[str, int] = KEY, most: int = 5) -> list[Batch]:
        """All that may be sent."""
        found: list[Batch] = []
        while len(found) < most and (batch := self.it.take(key, self.now)) is not None:
            found.append(batch)
        return found

    def answer(self, batch: Batch, code: int = 0, offset: int = -1, log_start: int = 0) -> None:
        """The broker's."""
        self.it.answered(batch, code, offset, log_start, self.now)

    def lose(self, *batches: Batch) -> None:
        """The connection is gone."""
        for batch in batches:
            self.it.lost(batch, self.now)

    def wait(self, seconds: float = 1.0) -> None:
        """Time goes on."""
        self.now += seconds
        self.it.tick(self.now)


def stamps(batches: list[Batch]) -> list[tuple[int, int, int]]:
    """Number, epoch, sequence."""
    return [(b.number, b.identity.epoch if b.identity else -1, b.sequence) for b in batches]


@pytest.fixture(params=[Java, Librdkafka])
def either(request: pytest.FixtureRequest) -> Lab:
    return Lab(request.param)


@pytest.fixture
def java() -> Lab:
    return Lab(Java)


@pytest.fixture
def librdkafka() -> Lab:
    return Lab(Librdkafka)


def test_five_batches_go_out_with_their_sequences(either: Lab) -> None:
    either.add(5)
    sent = either.take()
    assert stamps(sent) == [(1, 0, 0), (2, 0, 2), (3, 0, 4), (4, 0, 6), (5, 0, 8)]
    for at, batch in enumerate(sent):
        either.answer(batch, 0, 10 + 2 * at)
    assert either.ended == [(n, End.OK, 8 + 2 * n) for n in (1, 2, 3, 4, 5)]
    assert either.it.unanswered == 0


def test_nothing_goes_out_without_an_identity() -> None:
    lab = Lab(Java)
    lab.it.identity = None
    lab.add()
    assert not lab.take()


def test_a_lost_answer_is_asked_for_with_the_same_sequence_and_a_duplicate_is_a_success(either: Lab) -> None:
    either.add(2)
    first, second = either.take()
    either.lose(first, second)
    assert not either.take()
    either.wait()
    again = either.take(most=1)
    assert stamps(again) == [(1, 0, 0)]
    either.answer(again[0], ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    assert either.ended == [(1, End.OK, -1)]
    assert stamps(either.take()) == [(2, 0, 2)]
    assert not either.resent


def test_java_retries_one_batch_at_a_time(java: Lab) -> None:
    java.add(3)
    sent = java.take()
    for batch in sent:
        java.answer(batch, NOT_LEADER)
    assert java.it.stale == {"t"}
    java.wait()
    assert stamps(java.take()) == [(1, 0, 0)]
    java.answer(sent[0], 0, 5)
    assert stamps(java.take()) == [(2, 0, 2)]


def test_librdkafka_waits_for_what_is_in_flight_then_sends_all_of_it_again(librdkafka: Lab) -> None:
    librdkafka.add(4)
    one, two, three = librdkafka.take(most=3)
    librdkafka.answer(one, NOT_LEADER)
    librdkafka.wait()
    assert not librdkafka.take()
    librdkafka.lose(two, three)
    librdkafka.wait()
    assert stamps(librdkafka.take()) == [(1, 0, 0), (2, 0, 2), (3, 0, 4), (4, 0, 6)]


def test_java_retries_a_gap_while_a_lower_batch_is_not_done(java: Lab) -> None:
    java.add(2)
    one, two = java.take()
    java.answer(two, GAP)
    java.answer(one, NOT_LEADER)
    java.wait()
    assert stamps(java.take()) == [(1, 0, 0)]
    assert java.it.bumps == 0


def test_java_bumps_the_epoch_when_the_next_sequence_is_refused(java: Lab) -> None:
    java.add(3)
    java.add(1, OTHER)
    one, two, three = java.take()
    java.answer(one, 0, 5)
    java.answer(two, GAP)
    assert java.it.identity == Identity(7, 1)
    assert (two.sequence, three.sequence) == (0, 2)
    assert java.resent == [3]  # is on the wire: it may be there already
    java.answer(three, GAP)
    java.wait()
    assert stamps(java.take()) == [(2, 1, 0)]
    assert stamps(java.take(OTHER)) == [(4, 1, 0)]


def test_a_partition_keeps_the_old_epoch_until_all_of_it_is_done(java: Lab) -> None:
    java.add(2, OTHER)
    other, more = java.take(OTHER)
    java.add()
    (one,) = java.take()
    java.answer(one, GAP)
    java.lose(other)
    java.answer(more, GAP)
    java.wait()
    assert stamps(java.take(OTHER)) == [(1, 0, 0)]


def test_librdkafka_ends_when_the_lowest_sequence_is_refused(librdkafka: Lab) -> None:
    librdkafka.add(2)
    one, two = librdkafka.take()
    librdkafka.answer(one, GAP)
    assert librdkafka.it.refused is not None
    assert librdkafka.it.refused.fatal
    librdkafka.answer(two, GAP)
    assert not librdkafka.take()


def test_librdkafka_bumps_its_epoch_behind_a_gap_and_marks_what_may_be_there(librdkafka: Lab) -> None:
    librdkafka.add(3)
    librdkafka.add(1, OTHER)
    one, two, three = librdkafka.take()
    (other,) = librdkafka.take(OTHER)
    librdkafka.answer(two, GAP)
    librdkafka.lose(one)
    librdkafka.answer(three, GAP)
    assert librdkafka.it.identity == Identity(7, 0)  # something is in flight, elsewhere
    librdkafka.answer(other, 0, 3)
    assert librdkafka.it.identity == Identity(7, 1)
    librdkafka.wait()
    assert stamps(librdkafka.take()) == [(1, 1, 0), (2, 1, 2), (3, 1, 4)]
    assert librdkafka.resent == [1]
    librdkafka.add(1, OTHER)
    assert stamps(librdkafka.take(OTHER)) == [(5, 1, 0)]


def test_librdkafka_takes_what_may_be_there_for_acknowledged_when_a_later_batch_is(librdkafka: Lab) -> None:
    librdkafka.add(2)
    one, two = librdkafka.take()
    librdkafka.lose(one)
    librdkafka.answer(two, 0, 9)
    assert librdkafka.ended == [(1, End.OK, -1), (2, End.OK, 9)]


def test_an_unknown_producer_is_begun_anew(java: Lab) -> None:
    java.add()
    (one,) = java.take()
    java.answer(one, UNKNOWN)
    java.wait()
    assert stamps(java.take()) == [(1, 1, 0)]
    assert not java.resent


def test_an_unknown_producer_ends_librdkafka_in_a_retry_only(librdkafka: Lab) -> None:
    librdkafka.add()
    (one,) = librdkafka.take()
    librdkafka.answer(one, UNKNOWN)
    librdkafka.wait()
    (one,) = librdkafka.take()
    assert stamps([one]) == [(1, 1, 0)]
    librdkafka.answer(one, UNKNOWN)
    assert librdkafka.it.refused is not None
    assert librdkafka.it.refused.fatal


def test_a_refusal_for_good_is_a_failure_and_the_epoch_is_bumped(either: Lab) -> None:
    either.add(2)
    (one,) = either.take(most=1)
    either.answer(one, ErrorCode.INVALID_PRODUCER_EPOCH)
    assert either.ended == [(1, End.FAIL, -1)]
    assert stamps(either.take()) == [(2, 1, 0)]


def late(lab: Lab) -> Batch:
    """One whose delivery timeout passes while it is in flight, and one behind it."""
    lab.add(1, deadline=5.0)
    lab.add(1, deadline=50.0)
    (one,) = lab.take(most=1)
    lab.wait(6.0)
    assert lab.ended == [(1, End.UNKNOWN, -1)]
    return one


def test_librdkafka_begins_a_new_epoch_after_a_delivery_timeout_when_nothing_is_in_flight(librdkafka: Lab) -> None:
    one = late(librdkafka)
    assert not librdkafka.take()
    librdkafka.answer(one, 0, 5)
    assert librdkafka.ended == [(1, End.UNKNOWN, -1)]
    assert stamps(librdkafka.take()) == [(2, 1, 0)]


def test_java_goes_on_after_the_delivery_timeout_of_a_first_attempt(java: Lab) -> None:
    late(java)
    assert stamps(java.take()) == [(2, 0, 2)]


def test_java_begins_a_new_epoch_after_the_delivery_timeout_of_a_retry(java: Lab) -> None:
    java.add(1, deadline=5.0)
    java.add(2, deadline=50.0)
    one, two = java.take(most=2)
    java.lose(one)
    java.wait(6.0)
    assert java.ended == [(1, End.UNKNOWN, -1)]
    assert not java.take()  # its sequence is not resolved, and one is in flight
    java.answer(two, GAP)
    java.wait()
    assert stamps(java.take()) == [(2, 1, 0), (3, 1, 2)]


def test_java_goes_on_when_the_numbers_fit_after_the_delivery_timeout_of_a_retry(java: Lab) -> None:
    java.add(1, deadline=5.0)
    java.add(2, deadline=50.0)
    one, two = java.take(most=2)
    java.lose(one)
    java.wait(6.0)
    java.answer(two, 0, 7)
    assert stamps(java.take()) == [(3, 0, 4)]


def test_what_was_never_sent_certainly_failed(either: Lab) -> None:
    either.add(1, deadline=5.0)
    either.wait(6.0)
    assert either.ended == [(1, End.FAIL, -1)]
    assert either.it.bumps == 0


@pytest.mark.parametrize("kind", [Java, Librdkafka])
def test_without_idempotence_only_what_is_certainly_not_there_is_tried_again(kind: type[Sequences]) -> None:
    lab = Lab(kind, idempotent=False)
    lab.add(2)
    one, two = lab.take()
    assert stamps([one, two]) == [(1, -1, -1), (2, -1, -1)]
    lab.answer(one, ErrorCode.NOT_ENOUGH_REPLICAS)
    lab.lose(two)
    assert lab.ended == [(2, End.UNKNOWN, -1)]
    lab.wait()
    assert [batch.number for batch in lab.take()] == [1]


@pytest.mark.parametrize(
    ("kind", "code", "fatal"),
    [
        (Java, ErrorCode.INVALID_PRODUCER_EPOCH, False),
        (Librdkafka, ErrorCode.INVALID_PRODUCER_EPOCH, True),
        (Java, ErrorCode.PRODUCER_FENCED, True),
        (Java, GAP, False),
        (Librdkafka, GAP, False),
    ],
)
def test_a_transaction_is_aborted_or_the_producer_ends(kind: type[Sequences], code: ErrorCode, fatal: bool) -> None:
    lab = Lab(kind, transactional=True)
    lab.add()
    (one,) = lab.take()
    lab.answer(one, code)
    assert lab.it.refused is not None
    assert lab.it.refused.fatal is fatal
    assert lab.it.bumps == 0
    assert lab.ended == [(1, End.FAIL, -1)]


def test_sequences_go_on_from_one_transaction_to_the_next() -> None:
    lab = Lab(Java, transactional=True)
    lab.add()
    (one,) = lab.take()
    lab.answer(one, 0, 1)
    lab.add()
    assert stamps(lab.take()) == [(2, 0, 2)]
    lab.it.begin(Identity(7, 1))
    lab.add()
    assert not lab.take()  # one of the old epoch is in flight


def test_what_was_not_sent_is_dropped_by_an_abort() -> None:
    lab = Lab(Java, transactional=True)
    lab.add(2)
    lab.take(most=1)
    lab.it.drop_unsent("abort")
    assert lab.ended == [(2, End.FAIL, -1)]
    lab.it.give_up("closed")
    assert lab.ended == [(2, End.FAIL, -1), (1, End.UNKNOWN, -1)]
