"""The failback cutover as a promote, and what is handed over at a cutover."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.cutover.failback.rules.failback_promote import as_promote, handed_over, stopped
from gateway.cutover.write_pause.rules.routing import WritePhase
from gateway.cutover.write_pause.rules.write_pause import phase_of
from gateway.mirror.partition.rules.producer_table import BATCHES_PER_PRODUCER, MAX_PRODUCERS
from gateway.state.mirror_states import WrongState
from gateway.state.per_partition import WrongLength, grown
from gateway.state.producer_ids import GATEWAY_PID_BASE
from gateway.state.records import MirrorDirection, MirrorMode, MirrorRecord, MirrorState, PartitionStart, ProducerEntry
from tests.support.control.mirror_records import changed, mirror_record

S = MirrorState
FORWARD, REVERSE = MirrorDirection.FORWARD, MirrorDirection.REVERSE


def mirror(state: MirrorState = S.PENDING_STOPPED, **changes: object) -> MirrorRecord:
    values = {"link": "l", "source_topic": "t", "mirror_topic": "t", "mirror_id": 1, "state": state}
    values |= {"starts": (PartitionStart(0, 0),)} | changes
    return mirror_record(**values)


def entry(producer: int, first: int, offset: int, epoch: int = 0) -> ProducerEntry:
    return ProducerEntry(GATEWAY_PID_BASE + producer, epoch, first, first, offset)


@pytest.mark.parametrize("state", [S.ACTIVE, S.PENDING_STOPPED, S.SOURCE_UNAVAILABLE])
def test_before_the_failback_cutover_the_target_is_the_origin(state):
    record = mirror(state, direction=REVERSE, restore_configs={"a": "b"})
    seen, phases = as_promote(record, {"g": phase_of(record, is_paused=False)})
    assert (seen.state, phases) == (state, {"g": WritePhase.FORWARD})
    assert not seen.restore_configs  # those of the source, which are not the promote's


@pytest.mark.parametrize("state", [S.PENDING_MIRROR, S.ACTIVE, S.PAUSED, S.FAILED])
def test_after_it_whatever_the_mirror_forward_does_it_is_cut_over(state):
    record = mirror(state)
    seen, phases = as_promote(record, {"g": phase_of(record, is_paused=False)})
    assert (seen.state, phases) == (S.STOPPED, {"g": WritePhase.SWITCHED})


def test_a_pause_is_a_pause():
    record = mirror(direction=REVERSE)
    assert as_promote(record, {"g": phase_of(record, is_paused=True)})[1] == {"g": WritePhase.PAUSED}


@pytest.mark.parametrize("copy_end", [30, 29])
def test_the_record_of_a_promote_says_translate_where_both_ends_differ(copy_end: int) -> None:
    """The mirror's news of it may not have come yet."""
    promoted = stopped(mirror(), [30], [copy_end], ((),), 77)
    assert promoted.mode is (MirrorMode.PRESERVE if copy_end == 30 else MirrorMode.TRANSLATE)
    assert bool(promoted.mode_reason) == (copy_end != 30)


def test_the_failback_cutover_begins_a_failback_epoch_and_the_mirror_forward_takes_over_at_both_ends():
    home = stopped(mirror(direction=REVERSE, failback_epoch=2, stopped_at=(5,)), [30], [30], ((entry(1, 0, 9),),), 77)
    assert (home.state, home.failback.direction, home.failback.epoch, home.cutover.at_ms) == (
        S.PENDING_MIRROR,
        FORWARD,
        3,
        77,
    )
    assert (home.failback.handed_over_at, home.failback.handed_over_from, home.cutover.stopped_at) == ((30,), (30,), ())
    assert (home.mode, home.readable) == (MirrorMode.PRESERVE, True)
    assert home.cutover.producers == ((entry(1, 0, 9),),)


def test_logs_that_end_at_different_offsets_are_translated_from_then_on():
    home = stopped(mirror(direction=REVERSE), [30], [28], ((),), 77)
    assert (home.failback.handed_over_at, home.failback.handed_over_from, home.mode) == (
        (30,),
        (28,),
        MirrorMode.TRANSLATE,
    )


def test_a_cutover_to_the_target_keeps_the_failback_epoch():
    cut_over = stopped(mirror(failback_epoch=2), [30], [28], ((),), 77)
    assert (cut_over.state, cut_over.failback.direction, cut_over.failback.epoch) == (S.STOPPED, FORWARD, 2)
    assert (cut_over.cutover.stopped_at, cut_over.cutover.stopped_copy_at, cut_over.cutover.at_ms) == ((30,), (28,), 77)


def test_nothing_is_cut_over_that_is_not_pending():
    with pytest.raises(WrongState):
        stopped(mirror(S.ACTIVE), [1], [1], ((),), 5)


@pytest.mark.parametrize(
    ("ends", "copied", "seen"), [([1, 2], [1], ((),)), ([1], [], ((),)), ([1], [1], ()), ([1], [1], ((), ()))]
)
@pytest.mark.parametrize("direction", [FORWARD, REVERSE])
def test_nothing_is_cut_over_whose_ends_or_producers_are_not_all_known(ends, copied, seen, direction):
    with pytest.raises(WrongLength):
        stopped(mirror(direction=direction), ends, copied, seen, 5)


@pytest.mark.parametrize("clock_ahead_ms", [0, 10**9])
def test_a_batch_from_before_the_last_cutover_is_still_known(clock_ahead_ms):
    """Whatever the leader's time of day: it may be another gateway's than the last cutover's."""
    record = mirror(producers=((entry(1, 0, 1), entry(2, 0, 2)),), cutover_ms=1000)
    seen = ((entry(1, 5, 30),),)
    found = stopped(record, [31], [31], seen, 1001 + clock_ahead_ms)
    assert found.cutover.producers == ((entry(1, 0, 1), entry(1, 5, 30), entry(2, 0, 2)),)


def test_of_an_older_epoch_nothing_is_kept():
    record = mirror(producers=((entry(1, 0, 1),),), cutover_ms=1000)
    assert handed_over(record, ((entry(1, 0, 30, epoch=1),),)) == ((entry(1, 0, 30, epoch=1),),)


def test_partitions_that_came_since_have_no_past():
    record = grown(mirror(producers=((entry(1, 0, 1),),), cutover_ms=1000), 2)
    assert handed_over(record, ((), (entry(2, 0, 2),))) == ((entry(1, 0, 1),), (entry(2, 0, 2),))


def test_a_table_that_is_not_whole_is_not_joined():
    record = mirror(producers=((entry(1, 0, 1),), ()), cutover_ms=1000)
    with pytest.raises(WrongLength):
        handed_over(record, ((),))


def test_no_more_producers_than_a_table_holds():
    old = tuple(entry(n, 0, n) for n in range(MAX_PRODUCERS))
    new = tuple(entry(MAX_PRODUCERS + n, 0, n) for n in range(10))
    (found,) = handed_over(mirror(producers=(old,), cutover_ms=1), (new,))
    assert len(found) == MAX_PRODUCERS
    assert found == old[10:] + new  # those that wrote last


batches = st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=12)  # producer, and is its epoch bumped?


@given(batches, batches)
def test_what_is_handed_over_is_what_a_broker_would_remember_of_both(before, after):
    """The last five batches of each producer's last epoch, over all that was written in order."""

    epochs = dict.fromkeys(range(3), 0)

    def entries(written: list[tuple[int, bool]], first: int) -> tuple[ProducerEntry, ...]:
        found = []
        for number, (producer, bumped) in enumerate(written, first):
            epochs[producer] += bumped
            found.append(entry(producer, number, number, epochs[producer]))
        return tuple(found)

    old, new = entries(before, 0), entries(after, 100)

    def remembered(written: tuple[ProducerEntry, ...]) -> dict[int, list[ProducerEntry]]:
        found: dict[int, list[ProducerEntry]] = {}
        for one in written:
            kept = [other for other in found.get(one.producer_id, []) if other.epoch == one.epoch]
            found[one.producer_id] = [*kept, one][-BATCHES_PER_PRODUCER:]
        return found

    def table(written: tuple[ProducerEntry, ...]) -> tuple[ProducerEntry, ...]:
        return tuple(sorted((e for kept in remembered(written).values() for e in kept), key=lambda e: e.base_offset))

    record = changed(mirror(), producers=(table(old),), cutover_ms=1)
    (found,) = handed_over(record, (table(new),))
    assert set(found) == set(table(old + new))
