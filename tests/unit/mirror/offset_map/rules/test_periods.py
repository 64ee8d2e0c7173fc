"""The ways of a topic, from its record: each begins where the one before ended."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.cutover.failback.rules.failback_promote import stopped
from gateway.mirror.offset_map.rules.codec import period_number
from gateway.mirror.offset_map.rules.periods import KEPT, at_its_end, before, begin_of, remembered
from gateway.mirror.rules.period import period_of
from gateway.state.codec import mirror_of, values_of
from gateway.state.per_partition import with_copy_ends
from gateway.state.records import Cutover, MirrorDirection, MirrorMode, MirrorRecord, MirrorState, PartitionStart
from tests.support.control.mirror_records import changed, mirror_record

S = MirrorState


def mirror(**more: Any) -> MirrorRecord:
    fields = {"link": "l", "source_topic": "t", "mirror_topic": "t", "mirror_id": 1, "starts": (PartitionStart(0, 0),)}
    return mirror_record(**{**fields, **more})


def promoted(record: MirrorRecord, source: int, target: int) -> MirrorRecord:
    return stopped(replace(record, state=S.PENDING_STOPPED), (source,), (target,), ((),), 1)


def reversed_(record: MirrorRecord) -> MirrorRecord:
    """As the run of a failback changes the record."""
    return changed(
        record,
        state=S.ACTIVE,
        direction=MirrorDirection.REVERSE,
        handed_over_at=record.cutover.stopped_at,
        handed_over_from=record.cutover.stopped_copy_at,
        cutovers=remembered(record),
    )


def home(record: MirrorRecord, source: int, target: int) -> MirrorRecord:
    return replace(stopped(replace(record, state=S.PENDING_STOPPED), (target,), (source,), ((),), 1), state=S.ACTIVE)


def periods(record: MirrorRecord) -> list[MirrorRecord]:
    found: list[MirrorRecord] = []
    at: MirrorRecord | None = record
    while at is not None:
        found.append(at)
        at = before(at)
    return found


def test_each_way_is_told_as_it_was() -> None:
    """To the target, back, home, to the target, back: five ways, and what their maps are kept under."""
    first = promoted(mirror(), 100, 80)
    back = reversed_(first)
    again = home(back, 150, 130)
    second = promoted(again, 200, 170)
    present = reversed_(second)
    found = periods(present)
    assert [(one.failback.direction.value, one.failback.epoch) for one in found] == [
        ("REVERSE", 1), ("FORWARD", 1), ("REVERSE", 0), ("FORWARD", 0),
    ]  # fmt: skip
    kept = ("stopped_at", "stopped_copy_at", "handed_over_at", "handed_over_from", "cutovers")
    for told, was in zip(found[1:], (second, back, first), strict=True):
        if was is back:  # it ended with the failback
            assert (told.cutover.stopped_at, told.cutover.stopped_copy_at) == ((130,), (150,))
            assert all(values_of(told)[name] == values_of(was)[name] for name in kept[2:])
        else:
            assert all(values_of(told)[name] == values_of(was)[name] for name in kept)
        assert period_of(told, 7).implied == period_of(was, 7).implied
    numbers = [period_of(one, 7).number for one in found]
    assert numbers == [period_number(one.failback.epoch, reverse=one.is_reverse) for one in found]
    assert len(set(numbers)) == len(numbers)


def test_a_first_way_has_none_before_it() -> None:
    assert begin_of(mirror()) is None
    assert before(mirror()) is None
    assert before(promoted(mirror(), 5, 5)) is None


def test_offsets_that_were_equal_are_so_on_both_sides() -> None:
    values = values_of(mirror(direction=MirrorDirection.REVERSE)) | {"handed_over_at": (7,)}
    record = mirror_of(with_copy_ends(values))  # an older version wrote the number once
    assert begin_of(record) == Cutover((7,), (7,))


def test_where_offsets_differ_the_other_side_is_not_made_up() -> None:
    values = values_of(mirror(mode=MirrorMode.TRANSLATE)) | {"handed_over_at": (7,)}
    with pytest.raises(ValueError, match="handed_over_from 0"):
        mirror_of(with_copy_ends(values))


def test_what_is_not_remembered_is_not_made_up() -> None:
    record = mirror(failback_epoch=1, handed_over_at=(7,), handed_over_from=(7,))  # of a version that did not keep it
    assert before(record) is None
    zeros = {"handed_over_at": (0,), "handed_over_from": (0,)}
    filled_anew = mirror(direction=MirrorDirection.REVERSE, **zeros, reverse_starts=(PartitionStart(9, 9),))
    assert before(filled_anew) is None
    assert remembered(filled_anew) == ()


def test_a_record_does_not_grow_for_ever() -> None:
    record = mirror()
    for n in range(1, 10):
        record = home(reversed_(promoted(record, 20 * n, 20 * n)), 20 * n + 10, 20 * n + 10)
    assert len(record.failback.cutovers) == KEPT
    assert len(periods(record)) == KEPT + 1


@pytest.mark.parametrize("rounds", [0, 2])
def test_a_mirror_back_that_is_given_up_leaves_the_record_as_the_promote_did(rounds: int) -> None:
    record = mirror()
    for n in range(1, rounds + 1):
        record = home(reversed_(promoted(record, 40 * n, 40 * n)), 40 * n + 10, 40 * n + 10)
    ended = promoted(record, 500, 400)
    back = reversed_(ended)
    assert changed(at_its_end(back), state=ended.state, direction=ended.failback.direction) == ended
