"""The time in which a retry over a cutover may come, counted by each gateway for itself."""

from __future__ import annotations

from dataclasses import replace

from gateway.cutover.write_pause.rules.cutovers_seen import RETRIED_S, CutoversSeen
from gateway.state.records import MirrorDirection, MirrorState, ProducerEntry
from tests.support.control.mirror_records import changed, mirror_record

TABLE = ((ProducerEntry(1, 0, 0, 4, 10),), ())
STOPPED = mirror_record(
    link="l",
    source_topic="t",
    mirror_topic="t",
    mirror_id=1,
    state=MirrorState.STOPPED,
    producers=TABLE,
    cutover_ms=1_700_000_000_000,
)


def test_the_time_begins_when_the_cutover_is_seen_whatever_the_record_names() -> None:
    for cutover_ms in (1, 1_700_000_000_000, 2**60):
        cutovers = CutoversSeen()
        cutovers.saw("t", changed(STOPPED, cutover_ms=cutover_ms), 100.0)
        assert cutovers.left_s("t", 100.0 + RETRIED_S - 1) == 1
        assert cutovers.left_s("t", 100.0 + RETRIED_S) == 0
        assert (cutovers.left_s("t", 130.0), cutovers.left_s("t", 10_000.0)) == (RETRIED_S - 30, 0.0)


def test_a_change_that_is_no_cutover_does_not_begin_it_anew() -> None:
    cutovers = CutoversSeen()
    cutovers.saw("t", STOPPED, 0.0)
    cutovers.saw("t", replace(STOPPED, state=MirrorState.PENDING_SYNCHRONIZE), 500.0)
    back = changed(STOPPED, state=MirrorState.ACTIVE, direction=MirrorDirection.REVERSE, pause_epoch=3)
    cutovers.saw("t", back, 600.0)
    assert cutovers.left_s("t", RETRIED_S) == 0


def test_the_next_cutover_does() -> None:
    cutovers = CutoversSeen()
    cutovers.saw("t", STOPPED, 0.0)
    cutovers.saw(
        "t", changed(STOPPED, state=MirrorState.PENDING_MIRROR, failback_epoch=1), 800.0
    )  # at the same time of day
    assert cutovers.left_s("t", 1000.0) == RETRIED_S - 200


def test_ends_of_transactions_are_waited_for_without_a_batch_that_may_be_retried() -> None:
    cutovers = CutoversSeen()
    cutovers.saw("t", changed(STOPPED, producers=((), ())), 0.0)
    cutovers.saw("u", changed(STOPPED, state=MirrorState.ACTIVE, producers=((), ())), 0.0)
    assert (cutovers.left_s("t", 1.0), cutovers.ends_left_s("t", 1.0)) == (0.0, RETRIED_S - 1)
    assert cutovers.ends_left_s("u", 1.0) == 0.0, "it was never cut over"
    assert cutovers.ends_left_s("t", RETRIED_S) == 0.0


def test_a_topic_that_hands_over_nothing_or_is_gone_is_not_waited_for() -> None:
    cutovers = CutoversSeen()
    cutovers.saw("t", changed(STOPPED, producers=((), ())), 0.0)
    cutovers.saw("u", replace(STOPPED, mirror_topic="u"), 0.0)
    assert (cutovers.left_s("t", 0.0), cutovers.left_s("u", 0.0)) == (0.0, RETRIED_S)
    cutovers.saw("u", None, 1.0)
    assert cutovers.left_s("u", 1.0) == 0.0
