"""Which batch of a producer may be the first behind a cutover."""

from __future__ import annotations

import pytest

from gateway.cutover.write_pause.rules.routing import Routing, TopicRoute, routing_of
from gateway.cutover.write_pause.rules.write_pause import WritePhase
from gateway.proxy.rules.cutover_order import LATE_S, WATCHED_S, CutoverOrder, SentBatch
from gateway.state.records import ProducerEntry
from tests.support.control.pausing import in_phase

LAST = 2**31 - 1
NOW = 101.0
ENTRIES = (ProducerEntry(7, 2, 0, 4, 10), ProducerEntry(7, 2, 5, 9, 15))


def routing(phase: WritePhase, failback_epoch: int = 0, *, goes_on: bool = True) -> Routing:
    route = TopicRoute(
        link="l",
        mirror_topic="t",
        source_topic="t",
        pause=in_phase(phase),
        failback_epoch=failback_epoch,
        goes_on=goes_on,
    )
    return routing_of({"t": route})


def sent(first: int, *, epoch: int = 2, entries: tuple[ProducerEntry, ...] = ENTRIES) -> SentBatch:
    return SentBatch("t", 0, 7, epoch, first, (first + 4) & LAST, entries)


@pytest.fixture
def order() -> CutoverOrder:
    """Behind a cutover, at 100."""
    made = CutoverOrder()
    for phase in (WritePhase.FORWARD, WritePhase.PAUSED, WritePhase.SWITCHED):
        made.routing_changed(routing(phase), ["t"], 100.0)
    return made


@pytest.mark.parametrize(
    ("batch", "passes"),
    [
        (sent(10), True),
        (sent(15), False),
        (sent(0, epoch=3), True),
        (sent(5, epoch=3), False),
        (sent(10, epoch=1), False),
        (sent(0, entries=(ProducerEntry(7, 2, LAST - 4, LAST, 10),)), True),
        (sent(3, entries=()), True),
    ],
    ids=["next", "later", "new epoch", "later of a new epoch", "old epoch", "counted round", "unknown, none held"],
)
def test_what_the_broker_before_would_have_taken_next(order: CutoverOrder, batch: SentBatch, passes: bool) -> None:
    assert (order.too_early(1, [batch], NOW) == []) is passes


def test_a_request_is_sent_whole_or_not_at_all(order: CutoverOrder) -> None:
    other = sent(15)._replace(partition=1)
    assert order.too_early(1, [sent(10), other], NOW) == [other]
    assert order.too_early(2, [sent(15)], NOW), "the first one was not sent"


def test_what_is_on_its_way_is_followed_on_its_own_connection_until_it_is_refused(order: CutoverOrder) -> None:
    assert not order.too_early(1, [sent(10)], NOW)
    assert not order.too_early(1, [sent(10)], NOW), "looked at once more"
    assert not order.too_early(1, [sent(15)], NOW)
    assert order.too_early(2, [sent(20)], NOW)
    order.answered(sent(10), known=False)
    assert order.too_early(1, [sent(20)], NOW)
    assert not order.too_early(2, [sent(10)], NOW)


def test_the_earliest_that_was_held_comes_first(order: CutoverOrder) -> None:
    order.routing_changed(routing(WritePhase.PAUSED), ["t"], 200.0)
    order.held([sent(5, entries=()), sent(LAST - 2, entries=()), sent(2, entries=())])
    order.routing_changed(routing(WritePhase.FORWARD, failback_epoch=1), ["t"], 200.0)
    assert order.too_early(1, [sent(2, entries=())], NOW)
    assert not order.too_early(1, [sent(LAST - 2, entries=())], NOW)


def test_who_gives_up_what_was_held_begins_anew(order: CutoverOrder) -> None:
    order.routing_changed(routing(WritePhase.PAUSED), ["t"], 200.0)
    order.held([sent(5, entries=())])
    order.routing_changed(routing(WritePhase.FORWARD, failback_epoch=1), ["t"], 200.0)
    assert order.too_early(1, [sent(5, epoch=3, entries=())], NOW)
    assert order.too_early(1, [sent(0, epoch=1, entries=())], NOW)
    assert not order.too_early(1, [sent(0, epoch=3, entries=())], NOW)


def failed_over(*, held: tuple[SentBatch, ...] = (), unanswered: tuple[SentBatch, ...] = ()) -> CutoverOrder:
    made = CutoverOrder()
    made.held([sent(0)])  # before there is a pause: it may be anywhere by now
    for phase in (WritePhase.FORWARD, WritePhase.PAUSED):
        made.routing_changed(routing(phase), ["t"], 100.0)
    made.held(held)
    made.held(unanswered)
    made.routing_changed(routing(WritePhase.SWITCHED, goes_on=False), ["t"], 100.0)
    return made


def test_after_a_failover_a_batch_need_not_follow_what_was_handed_over() -> None:
    order = failed_over()
    assert order.too_early(1, [sent(15)], 99.9 + LATE_S), "another gateway may have held what follows"
    assert not order.too_early(1, [sent(15)], 100.0 + LATE_S)
    assert not failed_over().too_early(1, [sent(10)], NOW)


def test_after_a_failover_the_earliest_that_was_held_comes_first() -> None:
    """The leader has moved: the earlier ones came to a broker that leads no more. Librdkafka would take them for
    acknowledged with the first later one that is (seed 339 of the simulation)."""
    order = failed_over(held=(sent(20), sent(15)))
    assert order.too_early(2, [sent(20)], 100.0 + LATE_S)
    assert not order.too_early(1, [sent(15)], 100.0 + LATE_S)
    order.answered(sent(15), known=False)
    assert order.too_early(2, [sent(20)], 100.0 + LATE_S)
    assert not order.too_early(2, [sent(15)], 100.0 + LATE_S)
    order.answered(sent(15), known=True)
    assert not order.too_early(2, [sent(20)], 100.0 + LATE_S)


def test_after_a_failover_what_was_under_way_comes_before_what_was_held() -> None:
    order = failed_over(held=(sent(20),), unanswered=(sent(15),))
    assert order.too_early(2, [sent(20)], 100.0 + LATE_S)
    assert not order.too_early(1, [sent(15)], 100.0 + LATE_S)


def test_after_a_failover_what_was_under_way_may_be_mirrored_and_is_not_sent_again() -> None:
    """Its retry is answered from the producer table, which says what follows."""
    mirrored = (*ENTRIES, ProducerEntry(7, 2, 10, 14, 20))
    order = failed_over(held=(sent(15, entries=mirrored),), unanswered=(sent(10, entries=mirrored),))
    assert not order.too_early(1, [sent(15, entries=mirrored)], NOW)


def test_it_ends(order: CutoverOrder) -> None:
    assert order.watches(100.0)
    assert order.watches(99.9 + WATCHED_S)
    assert not order.watches(100.0 + WATCHED_S)
    assert not order.too_early(1, [sent(15)], NOW)


def test_a_topic_that_is_gone_is_forgotten(order: CutoverOrder) -> None:
    order.routing_changed(routing_of(), ["t"], 101.0)
    assert not order.watches(101.0)


def test_what_waits_for_another_topics_pause_says_nothing_of_this_ones_cutover() -> None:
    order = CutoverOrder()
    order.routing_changed(routing(WritePhase.FORWARD), ["t"], 100.0)
    order.held([sent(5, entries=())])  # "t" is not paused: the request has parts of a topic that is
    for phase in (WritePhase.PAUSED, WritePhase.SWITCHED):
        order.routing_changed(routing(phase), ["t"], 200.0)
    assert not order.too_early(1, [sent(500, entries=())], NOW)
