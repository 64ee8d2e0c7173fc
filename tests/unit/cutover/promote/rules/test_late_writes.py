"""Late writes are told from what a mirror back appended, by the log alone."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gateway.cutover.promote.rules.late_writes import (
    MOST_KEPT,
    LateOfTopic,
    LateWrites,
    all_others,
    can_be_kept,
    count_late,
    why_not_home,
    why_not_kept,
)
from gateway.mirror.partition.rules.log_tail import LogTail
from gateway.state.records import MirrorState
from tests.support.control.mirror_records import changed, mirror_record

BACK = 2**60
FLOOR = 100


def log(*batches: tuple[int, int]) -> list[LogTail]:
    """(producer id, records) each from FLOOR on; a mirror's sequence is where it wanted to be."""
    tails, at, own = [], FLOOR, FLOOR
    for producer_id, count in batches:
        sequence = own if producer_id == BACK else 0
        tails.append(LogTail(at, at + count, producer_id, sequence, None))
        at += count
        own += count if producer_id == BACK else 0
    return tails


def counted(tails: Sequence[LogTail], end: int | None = None) -> tuple[LateWrites, int]:
    """What is found, and with how many reads."""
    end = (tails[-1].following if tails else FLOOR) if end is None else end
    reads, asked = count_late(FLOOR, end, BACK), 0
    try:
        at = next(reads)
        while True:
            asked += 1
            at = reads.send(next((tail for tail in tails if tail.following > at), None))
    except StopIteration as over:
        found: LateWrites = over.value
        return found, asked


@pytest.mark.parametrize(
    ("batches", "found"),
    [
        ([], LateWrites()),
        ([(BACK, 10)] * 50, LateWrites()),
        ([(7, 3)], LateWrites(3, 100)),
        ([(-1, 3), (8, 2)], LateWrites(5, 100)),
        ([(BACK, 10)] * 50 + [(-1, 3)], LateWrites(3, 600)),
        ([(BACK, 10)] * 50 + [(-1, 3), (BACK, 10), (BACK, 4), (9, 1)], LateWrites(4, 600)),
        ([(-1, 1), (BACK, 5)], LateWrites(1, 100)),
    ],
)
def test_records_of_others(batches: Sequence[tuple[int, int]], found: LateWrites) -> None:
    assert counted(log(*batches))[0] == found


def test_one_read_tells_that_there_are_none() -> None:
    assert counted(log(*[(BACK, 10)] * 1000)) == (LateWrites(), 1)


def test_reads_are_few_however_long_the_log_is() -> None:
    found, asked = counted(log(*[(BACK, 1000)] * 3000, *[(5, 1)] * 3000))
    assert found == LateWrites(3000, FLOOR + 3_000_000)
    assert asked < 70


def test_what_compaction_took_away_is_no_late_write() -> None:
    tails = log(*[(BACK, 10)] * 20, (4, 2))
    assert counted([tail for index, tail in enumerate(tails) if index % 3 == 2 or index == 20])[0].first <= 300
    assert counted(tails[::2])[0] == LateWrites(2, 300)


def test_what_is_gone_is_none() -> None:
    assert counted([], end=FLOOR + 5)[0] == LateWrites()


def test_the_refusal_says_how_many_where_and_what_can_be_done() -> None:
    record = mirror_record(
        link="l", source_topic="orders", mirror_topic="orders", mirror_id=1, state=MirrorState.ACTIVE
    )
    assert not why_not_home(record, LateOfTopic())
    words = why_not_home(record, LateOfTopic({1: LateWrites(3, 600), 4: LateWrites(2, 9)}))
    assert "5 records" in words
    assert "3 in partition 1 from offset 600 on, 2 in partition 4 from offset 9 on" in words
    assert f"lockgate mirror failover {record.mirror_topic}" in words
    failed = why_not_home(changed(record, state=MirrorState.FAILED), LateOfTopic({1: LateWrites(3, 600)}))
    assert "lockgate mirror failover" not in failed
    assert "lockgate mirror truncate-and-restore" in failed


def only_others(tails: Sequence[LogTail]) -> bool:
    reads = all_others(FLOOR, tails[-1].following, BACK)
    try:
        at = next(reads)
        while True:
            at = reads.send(next((tail for tail in tails if tail.following > at), None))
    except StopIteration as over:
        return bool(over.value)


@pytest.mark.parametrize(
    ("batches", "others"),
    [
        ([(7, 3)], True),
        ([(7, 3), (-1, 1), (8, 5)], True),
        ([(7, 3), (BACK, 1)], False),
        ([(BACK, 1), (7, 3)], False),
        ([(7, 3)] * 60 + [(BACK, 1)], False),
        ([(7, 1)] * MOST_KEPT, True),
        ([(7, 1)] * (MOST_KEPT + 1), False),
    ],
)
def test_that_nothing_of_the_mirror_is_among_them_is_looked_at_batch_by_batch(
    batches: Sequence[tuple[int, int]], others: bool
) -> None:
    assert only_others(log(*batches)) == others


def test_they_can_be_kept_while_they_are_the_end_of_the_log() -> None:
    record = mirror_record(
        link="l", source_topic="orders", mirror_topic="orders", mirror_id=1, state=MirrorState.ACTIVE
    )
    last = LateOfTopic({1: counted(log((BACK, 10), (7, 3)))[0]})
    assert can_be_kept(record, last)
    assert not why_not_kept(record, last)
    assert "mirror undo orders --link l --keep-late-writes" in why_not_home(record, last)
    failed = changed(record, state=MirrorState.FAILED)
    parted = LateOfTopic({1: counted(log((BACK, 10), (7, 3), (BACK, 2)))[0]})
    for refused in (why_not_kept(failed, last), why_not_kept(record, parted)):
        assert "--keep-late-writes" not in refused
        assert "cannot be kept where they are" in refused
