"""The ways of a topic, from its record: each begins where the one before ended."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.map_codec import way_number
from gateway.domain.mirror_way import way_of
from gateway.domain.per_partition import WrongLength, of_this_version
from gateway.domain.records import Flip, MirrorDirection, MirrorMode, MirrorRecord, MirrorState, PartitionStart
from gateway.domain.way_home import stopped
from gateway.domain.ways import KEPT, at_its_end, before, begin_of, remembered

S = MirrorState


def mirror(**more: Any) -> MirrorRecord:
    fields = {"link": "l", "source_topic": "t", "mirror_topic": "t", "mirror_id": 1, "starts": (PartitionStart(0, 0),)}
    return MirrorRecord(**{**fields, **more})


def promoted(record: MirrorRecord, source: int, target: int) -> MirrorRecord:
    return stopped(replace(record, state=S.PENDING_STOPPED), (source,), (target,), ((),), 1)


def reversed_(record: MirrorRecord) -> MirrorRecord:
    """As the run of a way back changes the record."""
    return replace(
        record,
        state=S.ACTIVE,
        direction=MirrorDirection.REVERSE,
        handed_over_at=record.stopped_at,
        handed_over_from=record.stopped_copy_at,
        flips=remembered(record),
    )


def home(record: MirrorRecord, source: int, target: int) -> MirrorRecord:
    return replace(stopped(replace(record, state=S.PENDING_STOPPED), (target,), (source,), ((),), 1), state=S.ACTIVE)


def ways(record: MirrorRecord) -> list[MirrorRecord]:
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
    found = ways(present)
    assert [(one.direction.value, one.generation) for one in found] == [
        ("REVERSE", 1), ("FORWARD", 1), ("REVERSE", 0), ("FORWARD", 0),
    ]  # fmt: skip
    kept = ("stopped_at", "stopped_copy_at", "handed_over_at", "handed_over_from", "flips")
    for told, was in zip(found[1:], (second, back, first), strict=True):
        if was is back:  # it ended with the way home
            assert (told.stopped_at, told.stopped_copy_at) == ((130,), (150,))
            assert all(getattr(told, name) == getattr(was, name) for name in kept[2:])
        else:
            assert all(getattr(told, name) == getattr(was, name) for name in kept)
        assert way_of(told, 7).implied == way_of(was, 7).implied
    numbers = [way_of(one, 7).number for one in found]
    assert numbers == [way_number(one.generation, reverse=one.is_reverse) for one in found]
    assert len(set(numbers)) == len(numbers)


def test_a_first_way_has_none_before_it() -> None:
    assert begin_of(mirror()) is None
    assert before(mirror()) is None
    assert before(promoted(mirror(), 5, 5)) is None


def test_offsets_that_were_equal_are_so_on_both_sides() -> None:
    record = mirror(direction=MirrorDirection.REVERSE, handed_over_at=(7,))
    assert begin_of(of_this_version(record)) == Flip((7,), (7,))  # an older version wrote the number once


def test_where_offsets_differ_the_other_side_is_not_made_up() -> None:
    record = of_this_version(mirror(mode=MirrorMode.TRANSLATE, handed_over_at=(7,)))
    with pytest.raises(WrongLength):
        begin_of(record)


def test_what_is_not_remembered_is_not_made_up() -> None:
    record = mirror(generation=1, handed_over_at=(7,), handed_over_from=(7,))  # of a version that did not keep it
    assert before(record) is None
    zeros = {"handed_over_at": (0,), "handed_over_from": (0,)}
    filled_anew = mirror(direction=MirrorDirection.REVERSE, **zeros, reverse_starts=(PartitionStart(9, 9),))
    assert before(filled_anew) is None
    assert remembered(filled_anew) == ()


def test_a_record_does_not_grow_for_ever() -> None:
    record = mirror()
    for n in range(1, 10):
        record = home(reversed_(promoted(record, 20 * n, 20 * n)), 20 * n + 10, 20 * n + 10)
    assert len(record.flips) == KEPT
    assert len(ways(record)) == KEPT + 1


@pytest.mark.parametrize("rounds", [0, 2])
def test_a_mirror_back_that_is_given_up_leaves_the_record_as_the_promote_did(rounds: int) -> None:
    record = mirror()
    for n in range(1, rounds + 1):
        record = home(reversed_(promoted(record, 40 * n, 40 * n)), 40 * n + 10, 40 * n + 10)
    ended = promoted(record, 500, 400)
    back = reversed_(ended)
    assert replace(back, **at_its_end(back), state=ended.state, direction=ended.direction) == ended
