"""Conversations with one partition's mirror until it copies: padding, trimming, and what stands in the way."""

from __future__ import annotations

import pytest

from gateway.mirror.partition.rules.commands import (
    NOTHING,
    Commands,
    DeleteRecords,
    PlanStart,
    Readable,
    ReadSourceLog,
    ReadTargetLog,
    RefreshSource,
)
from gateway.mirror.partition.rules.partition import PartitionMirror
from gateway.mirror.partition.rules.state import PADDING_BATCH, PartitionPhase
from gateway.mirror.partition.rules.target_side import LOOK_AGAIN_S, LOW_LOG_END_S
from gateway.state.records import MirrorError, PartitionStart
from protocol.batch.header import read_batch_header
from protocol.errors import ErrorCode
from tests.support.mirror.partition_talk import PID, batch_taken, feed, final_failure, new, only_failure, tail, taken


class TestStart:
    def test_padding_then_trimming_then_copying(self) -> None:
        mirror = new(2_500_000)
        mirror.begin()
        mirror.target_log(0, 0, None, 0.0)
        assert mirror.source_log(2_500_000, 2_600_000, 0.0) == NOTHING
        assert mirror.phase is PartitionPhase.PADDING
        assert not mirror.wants_fetch(0.0)
        counts = []
        asked: list[Commands] = []
        for _ in range(3):
            base, data = batch_taken(mirror)
            header = read_batch_header(data)
            assert header.base_sequence == base
            counts.append(header.count)
            asked.append(mirror.append_answered(base, 0, base))
        assert counts == [PADDING_BATCH, PADDING_BATCH, 500_000]
        assert asked == [NOTHING, NOTHING, (ReadTargetLog(),)]  # both logs are read again: it may have taken long
        mirror.target_log(0, 2_500_000, tail(2_500_000, base=2_000_000), 0.0)
        assert mirror.source_log(2_500_000, 2_600_000, 0.0) == (DeleteRecords(2_500_000),)
        assert not mirror.wants_fetch(0.0)
        assert mirror.delete_failed("not now") == (DeleteRecords(2_500_000, 1.0),)
        assert mirror.records_deleted() == (Readable(),)
        assert mirror.wants_fetch(0.0)
        assert mirror.source.cursor.fetch_offset == 2_500_000

    def test_a_start_inside_a_batch_is_trimmed_when_the_batch_is_copied(self) -> None:
        mirror = new(source_start=105, pad_to=100)
        mirror.begin()
        mirror.target_log(0, 0, None, 0.0)
        mirror.source_log(105, 500, 0.0)
        base = taken(mirror).base
        mirror.append_answered(base, 0, base)
        mirror.target_log(0, 100, tail(100, base=0), 0.0)
        assert mirror.source_log(105, 500, 0.0) == NOTHING
        assert mirror.phase is PartitionPhase.COPYING
        assert mirror.source.cursor.fetch_offset == 105
        feed(mirror, (100, 10))
        assert taken(mirror).base == 100
        assert mirror.append_answered(100, 0, 100) == (DeleteRecords(105),)
        assert mirror.wants_fetch(0.0)
        assert mirror.records_deleted() == (Readable(),)

    def test_resumed_before_the_log_was_trimmed(self) -> None:
        mirror = new(source_start=105, pad_to=100)
        mirror.begin()
        mirror.target_log(0, 110, tail(110, base=100), 0.0)
        assert mirror.source_log(105, 500, 0.0) == (DeleteRecords(105),)
        assert mirror.records_deleted() == (Readable(),)
        assert mirror.window.position == 110

    def test_the_source_lost_records_before_any_was_copied(self) -> None:
        mirror = new(0)
        mirror.begin()
        mirror.target_log(0, 0, None, 0.0)
        assert mirror.source_log(60, 100, 0.0) == (PlanStart(),)
        assert mirror.start_planned(PartitionStart(60, 55)) == (ReadTargetLog(),)
        mirror.target_log(0, 0, None, 0.0)
        mirror.source_log(60, 100, 0.0)
        assert mirror.phase is PartitionPhase.PADDING
        assert read_batch_header(taken(mirror).batch).count == 55

    def test_the_source_lost_records_that_were_to_be_copied(self) -> None:
        mirror = new(0)
        mirror.begin()
        mirror.target_log(0, 40, tail(40), 0.0)
        failure = only_failure(mirror.source_log(60, 100, 0.0))
        assert failure.error is MirrorError.SOURCE_RECORDS_DELETED
        assert "deleted 20 records" in failure.message

    @pytest.mark.parametrize(
        ("position", "start", "error"),
        [(50, 0, MirrorError.TARGET_DIVERGED), (0, 50, MirrorError.UNEXPECTED_TRUNCATION)],
    )
    def test_a_mirror_ahead_of_its_source(self, position: int, start: int, error: MirrorError) -> None:
        mirror = new(start)
        mirror.begin()
        mirror.target_log(0, position, tail(position) if position else None, 0.0)
        failure = final_failure(mirror, (0, 49))
        assert failure.error is error
        assert "ends at 49, but its mirror stands at 50" in failure.message

    def test_a_source_that_is_asked_of_a_broker_that_leads_no_more(self) -> None:
        """Another gateway has copied up to here from the one that does."""
        mirror = new(0)
        mirror.begin()
        mirror.target_log(0, 50, tail(50), 0.0)
        mirror.source_log(0, 49, 0.0)
        assert mirror.source_log(0, 60, LOW_LOG_END_S) == (Readable(),)
        assert mirror.last_error == ""
        mirror.fetch_failed(ErrorCode.OFFSET_OUT_OF_RANGE, 100.0)
        waits = mirror.source_log(0, 49, 100.0)
        assert waits == (RefreshSource(), ReadSourceLog(LOOK_AGAIN_S)), "the grace of another time is over"

    def test_a_source_behind_that_falls_silent(self) -> None:
        """What the target holds can be served; the question comes back with the first fetch."""
        mirror = new(0)
        mirror.begin()
        mirror.target_log(0, 50, tail(50), 0.0)
        mirror.source_log(0, 49, 0.0)
        assert mirror.source_log_unknown("unreachable", LOW_LOG_END_S) == (Readable(),)
        assert mirror.fetch_failed(ErrorCode.OFFSET_OUT_OF_RANGE, LOW_LOG_END_S) == (RefreshSource(), ReadSourceLog())
        assert only_failure(mirror.source_log(0, 49, LOW_LOG_END_S)).error is MirrorError.UNEXPECTED_TRUNCATION

    def test_a_foreign_batch_at_the_end_of_the_target(self) -> None:
        mirror = new(0)
        mirror.begin()
        failure = only_failure(mirror.target_log(0, 10, tail(10, producer_id=77), 0.0))
        assert failure.error is MirrorError.TARGET_DIVERGED
        assert "written by another producer (producer id 77)" in failure.message

    def test_the_last_batch_from_before_the_mirror_began_is_not_compared(self) -> None:
        """After a failback the logs may end with different batches: a marker here, a record there."""
        mirror = PartitionMirror(PartitionStart(0, 0), PID, wall_ms=lambda: 1_700_000_000_000, handed_over_at=10)
        mirror.begin()
        mirror.target_log(0, 10, tail(10, producer_id=77), 0.0)
        assert mirror.source_log(0, 12, 0.0) == (Readable(),)
        assert feed(mirror, (7, 3), (10, 2)) == ()
        assert taken(mirror).base == 10

    def test_what_the_target_holds_is_resolved_without_the_source(self) -> None:
        mirror = new(0)
        mirror.begin()
        mirror.target_log(0, 40, tail(40), 0.0)
        assert mirror.source_log_unknown("unreachable", 0.0) == (Readable(),)
        assert mirror.last_error == "unreachable"
        assert mirror.wants_fetch(1.0)

    def test_padding_in_smaller_batches_where_messages_must_be_small(self) -> None:
        mirror = new(PADDING_BATCH)
        mirror.begin()
        for size in (PADDING_BATCH, PADDING_BATCH // 2, PADDING_BATCH // 4):
            mirror.target_log(0, 0, None, 0.0)
            mirror.source_log(PADDING_BATCH, PADDING_BATCH, 0.0)
            base, data = batch_taken(mirror)
            assert read_batch_header(data).count == size
            (command,) = mirror.append_answered(base, ErrorCode.MESSAGE_TOO_LARGE, -1)
            assert isinstance(command, ReadTargetLog)
            assert mirror.target_log(0, 0, None, 0.0) == (ReadTargetLog(),)

    def test_padding_that_is_overtaken_by_another_appender(self) -> None:
        mirror = new(3_000_000)
        mirror.begin()
        mirror.target_log(0, 0, None, 0.0)
        mirror.source_log(3_000_000, 3_000_000, 0.0)
        taken(mirror)
        assert mirror.append_answered(0, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1) == (ReadTargetLog(0.0),)
        last = tail(2_000_000, base=1_000_000)
        assert mirror.target_log(0, 2_000_000, last, 0.0) == (ReadTargetLog(),)
        mirror.target_log(0, 2_000_000, last, 0.0)
        mirror.source_log(3_000_000, 3_000_000, 0.0)
        assert taken(mirror).base == 2_000_000
