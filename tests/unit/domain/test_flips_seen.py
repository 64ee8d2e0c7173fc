"""The time in which a retry over a flip may come, counted by each gateway for itself."""

from __future__ import annotations

from dataclasses import replace

from gateway.domain.flips_seen import RETRIED_S, FlipsSeen
from gateway.domain.records import MirrorDirection, MirrorRecord, MirrorState, ProducerEntry

TABLE = ((ProducerEntry(1, 0, 0, 4, 10),), ())
STOPPED = MirrorRecord(
    link="l",
    source_topic="t",
    mirror_topic="t",
    mirror_id=1,
    state=MirrorState.STOPPED,
    producers=TABLE,
    flipped_ms=1_700_000_000_000,
)


def test_the_time_begins_when_the_flip_is_seen_whatever_the_record_names() -> None:
    for flipped_ms in (1, 1_700_000_000_000, 2**60):
        flips = FlipsSeen()
        flips.saw([replace(STOPPED, flipped_ms=flipped_ms)], 100.0)
        assert flips.retried(100.0 + RETRIED_S - 1) == {"t"}
        assert flips.retried(100.0 + RETRIED_S) == frozenset()
        assert (flips.left_s("t", 130.0), flips.left_s("t", 10_000.0)) == (RETRIED_S - 30, 0.0)


def test_a_change_that_is_no_flip_does_not_begin_it_anew() -> None:
    flips = FlipsSeen()
    flips.saw([STOPPED], 0.0)
    flips.saw([replace(STOPPED, state=MirrorState.PENDING_SYNCHRONIZE)], 500.0)
    back = replace(STOPPED, state=MirrorState.ACTIVE, direction=MirrorDirection.REVERSE, fence_epoch=3)
    flips.saw([back], 600.0)
    assert flips.retried(RETRIED_S) == frozenset()


def test_the_next_flip_does() -> None:
    flips = FlipsSeen()
    flips.saw([STOPPED], 0.0)
    flips.saw([replace(STOPPED, state=MirrorState.PENDING_MIRROR, generation=1)], 800.0)  # at the same time of day
    assert flips.left_s("t", 1000.0) == RETRIED_S - 200


def test_a_topic_that_hands_over_nothing_or_is_gone_is_not_waited_for() -> None:
    flips = FlipsSeen()
    flips.saw([replace(STOPPED, producers=((), ())), replace(STOPPED, mirror_topic="u")], 0.0)
    assert flips.left_s("t", 0.0) == 0.0
    assert flips.retried(0.0) == {"u"}
    flips.saw([], 1.0)
    assert flips.retried(1.0) == frozenset()
