"""Batches in order, nothing skipped."""

from __future__ import annotations

import pytest

from gateway.mirror.partition.rules.append_window import Pending
from gateway.mirror.partition.rules.fetch_cursor import WARM_UP_MOST, WARM_UP_RECORDS, CorruptBatch, FetchCursor
from gateway.mirror.partition.rules.log_tail import CannotMirror, CopiedTail
from gateway.mirror.partition.rules.producer_table import ProducerTable
from gateway.state.records import MirrorError
from protocol.batch.header import CONTROL, DELETE_HORIZON, LOG_APPEND_TIME, TRANSACTIONAL, read_batch_header
from tests.support.mirror.batches import make_batch

PID = 2**49 + 1


def cursor_at(position: int, log_start: int = 0, copied: CopiedTail | None = None) -> tuple[FetchCursor, list[Pending]]:
    queued: list[Pending] = []
    cursor = FetchCursor(queued.append, ProducerTable())
    cursor.start(position, log_start, copied)
    return cursor, queued


def read(cursor: FetchCursor, *batches: bytes) -> None:
    cursor.read(memoryview(b"".join(batches)))


def test_batches_are_queued_in_order() -> None:
    cursor, queued = cursor_at(0)
    first, second = make_batch(0, 3, leader_epoch=4), make_batch(3, 2, leader_epoch=5)
    read(cursor, first, second[:30])  # cut off by the broker's limit
    read(cursor, second)
    assert [(batch.base, batch.following, bytes(batch.data or b"")) for batch in queued] == [
        (0, 3, first),
        (3, 5, second),
    ]
    assert (cursor.position, cursor.fetch_offset, cursor.last_epoch) == (5, 5, 5)


def test_reading_starts_below_the_position_to_warm_the_table() -> None:
    cursor, queued = cursor_at(50_000)
    assert cursor.fetch_offset == 50_000 - WARM_UP_RECORDS
    read(cursor, make_batch(39_990, 9_000, producer_id=PID, epoch=0, sequence=7))
    assert not queued
    assert cursor.fetch_offset == 48_990
    read(cursor, make_batch(48_990, 1_010), make_batch(50_000, 1))
    assert [batch.base for batch in queued] == [50_000]
    assert [entry.base_offset for entry in cursor.producers.entries()] == [39_990]
    assert cursor.gateway_records == 9_000


def test_a_log_that_starts_inside_a_batch_is_read_from_its_start() -> None:
    cursor, queued = cursor_at(95, log_start=100)
    assert cursor.fetch_offset == 100
    read(cursor, make_batch(95, 10))
    assert [batch.base for batch in queued] == [95]
    assert cursor.fetch_offset == 105


def test_batches_read_twice_are_queued_once() -> None:
    cursor, queued = cursor_at(0)
    batch = make_batch(0, 3, producer_id=PID, epoch=0, sequence=0)
    read(cursor, batch)
    read(cursor, batch)
    assert len(queued) == 1
    assert (cursor.position, cursor.fetch_offset, cursor.gateway_records) == (3, 3, 3)


@pytest.mark.parametrize(
    ("batch", "error", "words"),
    [
        (make_batch(12, 1), MirrorError.OFFSET_GAP, "offsets 10..11: the next batch begins at 12, expected 10"),
        (make_batch(8, 5), MirrorError.TARGET_DIVERGED, "ends at 10, inside the source batch 8..12"),
        (make_batch(10, 2, last_offset_delta=4), MirrorError.OFFSET_GAP, "2 records for offsets 10..14"),
        (make_batch(10, 1, attributes=TRANSACTIONAL), MirrorError.UNSUPPORTED_MESSAGE_FORMAT, "is transactional"),
        (
            make_batch(10, 1, attributes=TRANSACTIONAL | CONTROL),
            MirrorError.UNSUPPORTED_MESSAGE_FORMAT,
            "offset 10 is a control batch",
        ),
        (make_batch(10, 1, attributes=LOG_APPEND_TIME), MirrorError.UNSUPPORTED_MESSAGE_FORMAT, "LogAppendTime"),
        (make_batch(10, 1, attributes=DELETE_HORIZON), MirrorError.UNSUPPORTED_MESSAGE_FORMAT, "compacted"),
        (make_batch(10, 1, magic=1), MirrorError.UNSUPPORTED_MESSAGE_FORMAT, "source offset 10: records of format v1"),
    ],
)
def test_what_cannot_be_copied(batch: bytes, error: MirrorError, words: str) -> None:
    cursor, queued = cursor_at(10, log_start=10)
    with pytest.raises(CannotMirror) as caught:
        read(cursor, batch)
    assert caught.value.error is error
    assert words in str(caught.value)
    assert not queued


def test_broken_bytes_are_not_blessed_with_a_new_checksum() -> None:
    cursor, queued = cursor_at(0)
    good, bad = make_batch(0, 1), bytearray(make_batch(1, 1))
    bad[-1] ^= 1
    with pytest.raises(CorruptBatch, match="offset 1 fails its checksum"):
        read(cursor, good, bytes(bad))
    assert [batch.base for batch in queued] == [0]
    assert cursor.fetch_offset == 1
    with pytest.raises(CorruptBatch):
        read(cursor, make_batch(1, 1, magic=7))


def test_another_appender_is_ahead() -> None:
    cursor, queued = cursor_at(0)
    cursor.skip_to(20)
    read(cursor, make_batch(0, 20), make_batch(20, 1))
    assert [batch.base for batch in queued] == [20]
    cursor.skip_to(5)
    assert cursor.position == 21


@pytest.mark.parametrize(("timestamp", "same"), [(1000, True), (999, False), (None, True)])
def test_the_last_copied_batch_is_compared(timestamp: int | None, same: bool) -> None:
    cursor, _ = cursor_at(10, copied=CopiedTail(5, 9, timestamp, is_equal=True))
    batches = make_batch(0, 5, timestamp_ms=7), make_batch(5, 5, timestamp_ms=1000)
    if same:
        read(cursor, *batches)
    else:
        with pytest.raises(CannotMirror, match="truncated and written again") as caught:
            read(cursor, *batches)
        assert caught.value.error is MirrorError.UNEXPECTED_TRUNCATION


def carried(read_to: int) -> tuple[FetchCursor, list[Pending]]:
    queued: list[Pending] = []
    cursor = FetchCursor(queued.append, ProducerTable())
    cursor.carried_to = read_to
    return cursor, queued


def test_with_a_table_that_was_carried_over_only_the_batch_before_is_read() -> None:
    cursor, queued = carried(50_000)
    cursor.start(50_000, 0)
    assert cursor.fetch_offset == 49_999
    read(cursor, make_batch(49_000, 1_000), make_batch(50_000, 1))
    assert [batch.base for batch in queued] == [50_000]
    cursor.start(50_001, 0)
    assert cursor.fetch_offset == 50_000, "what has been read since is known, too"


def test_what_the_table_that_was_carried_over_does_not_reach_to_is_read() -> None:
    cursor, _ = carried(20_000)
    cursor.start(50_000, 0)
    assert (cursor.fetch_offset, cursor.table_read_to) == (20_000, 20_000)
    read(cursor, make_batch(20_000, 10_000, producer_id=PID, epoch=0, sequence=0))
    cursor.start(50_000, 0)
    assert cursor.fetch_offset == 20_000, "there is a gap in it still"
    read(cursor, make_batch(20_000, 10_000), make_batch(30_000, 20_000))
    assert cursor.table_read_to == 50_000


def test_a_table_that_was_not_read_to_the_position_is_not_whole() -> None:
    cursor = FetchCursor(lambda _: None, ProducerTable())
    assert cursor.table_read_to is None, "it has not begun"
    cursor.start(50_000, 0)
    assert cursor.table_read_to is None
    read(cursor, make_batch(40_000, 10_000))
    assert cursor.table_read_to == 50_000


def test_the_last_batches_of_another_appender_are_read_for_the_table_and_not_queued() -> None:
    cursor, queued = cursor_at(0)
    read(cursor, make_batch(0, 10))
    cursor.skip_to(30)
    assert (cursor.position, cursor.fetch_offset) == (30, 10)
    read(cursor, make_batch(10, 20, producer_id=PID, epoch=0, sequence=7), make_batch(30, 5))
    assert [batch.base for batch in queued] == [0, 30]
    assert [entry.base_offset for entry in cursor.producers.entries()] == [10]


def test_of_much_that_another_has_appended_only_the_end_is_read() -> None:
    cursor, _ = cursor_at(0)
    cursor.skip_to(10_000_000)  # a job that has copied for hours
    assert cursor.fetch_offset == 10_000_000 - WARM_UP_MOST


def test_a_busy_log_is_read_back_by_time() -> None:
    """At 10,000 records a second 10,000 offsets would be one second."""
    cursor, _ = cursor_at(0)
    cursor.recent = 1_100_000
    cursor.start(2_000_000, 0)
    assert cursor.fetch_offset == 1_100_000


@pytest.mark.parametrize(("recent", "begins"), [(8_999_000, 8_990_000), (0, 7_000_000), (None, 8_990_000)])
def test_the_time_has_bounds_in_offsets(recent: int | None, begins: int) -> None:
    """Timestamps are the producers' own: too young, too old, or none."""
    cursor, _ = cursor_at(0)
    cursor.recent = recent
    cursor.start(9_000_000, 0)
    assert cursor.fetch_offset == begins


def test_warm_is_where_reading_stands_and_no_memory_of_it() -> None:
    cursor, _ = cursor_at(0)
    assert bool(cursor.warm)
    read(cursor, make_batch(0, 10))
    assert bool(cursor.warm)
    cursor.skip_to(100)
    assert cursor.fetch_offset < cursor.position
    read(cursor, make_batch(10, 90, producer_id=PID, epoch=0, sequence=7))
    assert cursor.warm
    assert [entry.base_offset for entry in cursor.producers.entries()] == [10]


def whole(base: int, last: int, timestamp: int | None = 1_700_000_000_000) -> CopiedTail:
    return CopiedTail(base, last, timestamp)


@pytest.mark.parametrize(
    ("copied", "batch"),
    [
        (whole(10, 14), make_batch(10, 5)),
        (whole(10, 14, None), make_batch(10, 5, timestamp_ms=7)),  # the target set its own time
        (whole(11, 12), make_batch(10, 5, timestamp_ms=7)),  # a part of a large one
        (whole(10, 14, 7), make_batch(10, 3, last_offset_delta=4)),  # thinned out by compaction meanwhile
    ],
)
def test_the_batch_that_was_copied_last_is_where_the_map_says(copied: CopiedTail, batch: bytes) -> None:
    cursor = FetchCursor(lambda _: None, ProducerTable())
    cursor.start(20, 0, copied=copied)
    cursor._check_copied(copied, memoryview(make_batch(5, 5) + batch))
    assert cursor._copied is None


@pytest.mark.parametrize(
    "batch",
    [
        make_batch(10, 5, timestamp_ms=7),  # as long, and another one
        make_batch(12, 5),  # begins within what was copied as one
        make_batch(10, 5, attributes=CONTROL),
    ],
)
def test_a_source_that_was_written_again_is_not_gone_on_with_in_mode_translate(batch: bytes) -> None:
    cursor = FetchCursor(lambda _: None, ProducerTable())
    cursor.start(20, 0, copied=whole(10, 14))
    with pytest.raises(CannotMirror, match="is not the one that was copied from 10..14") as found:
        cursor._check_copied(whole(10, 14), memoryview(make_batch(5, 5) + batch))
    assert found.value.error is MirrorError.UNEXPECTED_TRUNCATION


def test_what_was_copied_last_is_read_even_with_a_producer_table_at_hand() -> None:
    cursor = FetchCursor(lambda _: None, ProducerTable())
    cursor.carried_to = 20
    cursor.start(20, 0, copied=whole(10, 14))
    assert cursor.fetch_offset == 10
    cursor.carried_to = 20 + 2 * WARM_UP_RECORDS
    cursor.start(20 + 2 * WARM_UP_RECORDS, 0, copied=whole(10, 14))
    assert cursor.fetch_offset == 19 + 2 * WARM_UP_RECORDS, "gaps of that length are not read again"


def merged_copy(timestamp: int | None, *, is_equal: bool) -> CopiedTail:
    """Of the source's batches 10..12, 13..14 and 15..19."""
    return CopiedTail(10, 19, timestamp, is_equal=is_equal)


@pytest.mark.parametrize("is_equal", [False, True])
@pytest.mark.parametrize(
    ("timestamps", "same"),
    [
        ((5, 9, 7), True),
        ((9, 7, 5), True),
        ((5, 7, 8), False),  # the latest of them is another
        ((5, 10, 9), False),
    ],
)
def test_a_copy_that_was_put_together_is_compared_with_all_that_it_was_made_of(
    is_equal: bool, timestamps: tuple[int, ...], same: bool
) -> None:
    extents = (5, 5), (10, 3), (13, 2), (15, 5), (20, 1)
    batches = [make_batch(*at, timestamp_ms=time) for at, time in zip(extents, (1, *timestamps, 99), strict=True)]
    copied = merged_copy(9, is_equal=is_equal)
    seen = [copied.saw(read_batch_header(batch)) for batch in batches[:3]]
    assert not any(seen)
    if same:
        assert copied.saw(read_batch_header(batches[3]))
    else:
        with pytest.raises(CannotMirror, match="truncated and written again"):
            copied.saw(read_batch_header(batches[3]))
    if not same and is_equal:  # and nothing is queued behind it
        cursor, queued = cursor_at(20, copied=merged_copy(9, is_equal=True))
        with pytest.raises(CannotMirror):
            read(cursor, *batches)
        assert not queued


@pytest.mark.parametrize("is_equal", [False, True])
@pytest.mark.parametrize(("latest", "same"), [(9, True), (3, True), (10, False)])
def test_of_a_copy_whose_beginning_the_source_has_deleted_the_rest_is_compared(
    is_equal: bool, latest: int, same: bool
) -> None:
    copied = merged_copy(9, is_equal=is_equal)
    first, last = (read_batch_header(make_batch(*at)) for at in ((13, 2), (15, 5)))
    assert not copied.saw(first._replace(max_timestamp=latest))
    last = last._replace(max_timestamp=3)
    if same:
        assert copied.saw(last)
    else:
        with pytest.raises(CannotMirror, match="timestamps 10 and 9"):
            copied.saw(last)


def test_where_offsets_are_equal_no_batch_lies_across_the_beginning_of_a_copy() -> None:
    with pytest.raises(CannotMirror, match="it begins before it"):
        merged_copy(9, is_equal=True).saw(read_batch_header(make_batch(8, 5, timestamp_ms=9)))
    parts = merged_copy(9, is_equal=False)
    assert not parts.saw(read_batch_header(make_batch(8, 5, timestamp_ms=12)))  # it was copied from 10 on
    assert parts.saw(read_batch_header(make_batch(13, 7, timestamp_ms=9)))


def test_compaction_of_what_a_copy_was_made_of_says_nothing() -> None:
    copied = merged_copy(9, is_equal=False)
    assert not copied.saw(read_batch_header(make_batch(10, 1, last_offset_delta=2, timestamp_ms=5)))
    assert copied.saw(read_batch_header(make_batch(15, 5, timestamp_ms=5)))
    assert merged_copy(9, is_equal=False).saw(read_batch_header(make_batch(21, 1))), "all of it is gone"
