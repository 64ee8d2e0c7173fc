"""Conversations with one partition's mirror: what it is told, what it asks for."""

from __future__ import annotations

import pytest

from gateway.domain.append_window import MAX_IN_FLIGHT, Append
from gateway.domain.log_tail import LogTail
from gateway.domain.padding import PADDING_BATCH
from gateway.domain.partition import PartitionMirror
from gateway.domain.partition_commands import (
    NOTHING,
    Commands,
    DeleteRecords,
    Fail,
    PlanStart,
    ReadSourceLog,
    ReadTargetLog,
    RefreshSource,
    Settled,
)
from gateway.domain.partition_state import Phase
from gateway.domain.producer_ids import mirror_producer_id
from gateway.domain.records import MirrorError, PartitionStart
from gateway.domain.source_side import PAUSE_BYTES
from gateway.domain.target_side import LOW_LOG_END_S, SLOW_RETRY_S
from protocol.errors import ErrorCode
from protocol.records import read_batch_header
from tests.support.batches import make_batch

PID = mirror_producer_id(1, 2)


def new(source_start: int = 0, pad_to: int | None = None) -> PartitionMirror:
    start = PartitionStart(source_start, source_start if pad_to is None else pad_to)
    return PartitionMirror(start, PID, wall_ms=lambda: 1_700_000_000_000)


def tail(following: int, *, base: int | None = None, producer_id: int = PID) -> LogTail:
    base = following - 1 if base is None else base
    return LogTail(base, following, producer_id, base % 2**31, None)


def copying(position: int = 0, *, source_end: int = 1_000_000) -> PartitionMirror:
    """A mirror that has begun to copy at `position`."""
    mirror = new()
    assert mirror.begin() == (ReadTargetLog(),)
    known = tail(position) if position else None
    assert mirror.target_log(0, position, known, now=0.0) == (ReadSourceLog(),)
    assert mirror.source_log(0, source_end) == (Settled(),)
    assert mirror.phase is Phase.COPYING
    return mirror


def feed(mirror: PartitionMirror, *bounds: tuple[int, int], source_end: int = 1_000_000) -> Commands:
    """Batches as (base, count)."""
    data = b"".join(make_batch(*each) for each in bounds)
    return mirror.fetched(memoryview(data), source_end, now=0.0)


def taken(mirror: PartitionMirror) -> Append:
    append = mirror.window.take()
    assert append is not None
    return append


def batch_taken(mirror: PartitionMirror) -> tuple[int, bytes]:
    append = taken(mirror)
    return append.base, append.batch


def only_failure(commands: Commands) -> Fail:
    (failure,) = commands
    assert isinstance(failure, Fail)
    return failure


class TestCopying:
    def test_a_batch_carries_its_offset_as_sequence_number(self) -> None:
        mirror = copying(7)
        feed(mirror, (7, 3))
        base, data = batch_taken(mirror)
        header = read_batch_header(data)
        assert base == 7
        assert (header.producer_id, header.producer_epoch, header.base_sequence, header.base_offset) == (PID, 0, 7, 0)

    def test_the_first_append_travels_alone_then_five_do(self) -> None:
        mirror = copying()
        feed(mirror, *((number, 1) for number in range(10)))
        assert taken(mirror).base == 0
        assert mirror.window.take() is None
        assert mirror.append_answered(0, 0, 0) == NOTHING
        assert [taken(mirror).base for _ in range(MAX_IN_FLIGHT)] == [1, 2, 3, 4, 5]
        assert mirror.window.take() is None
        mirror.append_answered(1, 0, 1)
        assert taken(mirror).base == 6
        assert mirror.window.position == 2

    def test_an_append_that_lands_elsewhere(self) -> None:
        mirror = copying()
        feed(mirror, (0, 2))
        taken(mirror)
        failure = only_failure(mirror.append_answered(0, 0, 5))
        assert failure.error is MirrorError.TARGET_DIVERGED
        assert "offset 0 landed at target offset 5" in failure.message

    def test_fetching_pauses_while_much_waits_for_the_target(self) -> None:
        mirror = copying()
        assert mirror.wants_fetch(0.0)
        big = make_batch(0, 1, payload=bytes(PAUSE_BYTES // 4))
        count = 0
        while mirror.wants_fetch(0.0):
            mirror.fetched(memoryview(make_batch(count, 1, payload=big)), 100, 0.0)
            count += 1
        assert mirror.source.full
        for number in range(count):
            taken(mirror)
            assert not mirror.wants_fetch(0.0) or mirror.window.pending_bytes <= PAUSE_BYTES // 2
            mirror.append_answered(number, 0, number)
        assert mirror.wants_fetch(0.0)

    def test_what_comes_after_the_end_is_only_counted(self) -> None:
        mirror = copying()
        feed(mirror, (0, 1))
        taken(mirror)
        mirror.stop()
        assert mirror.window.outstanding == 1
        assert mirror.append_answered(0, ErrorCode.CORRUPT_MESSAGE, -1) == NOTHING
        assert mirror.window.outstanding == 0
        assert feed(mirror, (1, 1)) == NOTHING
        assert mirror.phase is Phase.STOPPED
        assert not mirror.wants_fetch(0.0)


IN_DOUBT = (
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,  # in no table: an unknown error proves nothing
)


class TestDoubt:
    @pytest.mark.parametrize("code", IN_DOUBT)
    def test_wait_for_all_answers_then_read_the_log_end(self, code: int) -> None:
        mirror = self.in_flight(3)
        assert mirror.append_answered(1, code, -1) == NOTHING
        assert mirror.window.take() is None
        assert mirror.append_answered(2, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1) == NOTHING
        assert mirror.append_unknown("connection lost") == (ReadTargetLog(0.0),)
        assert ErrorCode(code).name in mirror.last_error  # the first error is the cause
        assert mirror.target_log(0, 1, tail(1), 0.0) == NOTHING
        assert taken(mirror).base == 1
        assert mirror.window.take() is None  # alone again
        mirror.append_answered(1, 0, 1)
        assert mirror.last_error == ""
        assert [taken(mirror).base for _ in range(3)] == [2, 3, 4]

    def test_some_had_been_appended(self) -> None:
        mirror = self.in_flight(3)
        commands = [mirror.append_unknown("connection lost") for _ in range(3)]
        assert commands == [NOTHING, NOTHING, (ReadTargetLog(0.0),)]
        mirror.target_log(0, 3, tail(3), 0.0)
        assert mirror.window.position == 3
        assert taken(mirror).base == 3

    def test_a_later_success_settles_an_earlier_doubt(self) -> None:
        mirror = self.in_flight(2)
        mirror.append_answered(1, ErrorCode.REQUEST_TIMED_OUT, -1)
        mirror.append_answered(2, 0, 2)
        assert mirror.window.position == 3

    def test_another_appender_is_ahead_of_what_was_fetched(self) -> None:
        mirror = self.in_flight(1, source_end=10)
        mirror.append_answered(1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
        assert mirror.target_log(0, 30, tail(30), 0.0) == (ReadSourceLog(),)
        assert not mirror.wants_fetch(0.0)
        assert mirror.source_log(0, 40) == NOTHING
        assert mirror.window.position == mirror.source.cursor.position == 30
        assert mirror.source.cursor.fetch_offset < 30  # the other's batches are read, for the producer table
        assert mirror.last_error == ""
        feed(mirror, (30, 2), source_end=40)
        assert taken(mirror).base == 30

    def test_a_log_end_beyond_the_source(self) -> None:
        mirror = self.in_flight(1, source_end=10)
        mirror.append_answered(1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
        mirror.target_log(0, 30, tail(30), 0.0)
        failure = only_failure(mirror.source_log(0, 29))
        assert failure.error is MirrorError.TARGET_DIVERGED
        assert "ends at 30, beyond the source's end 29" in failure.message

    def test_the_source_must_answer_before_a_log_end_ahead_is_believed(self) -> None:
        mirror = self.in_flight(1, source_end=10)
        mirror.append_answered(1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
        mirror.target_log(0, 30, tail(30), 0.0)
        assert mirror.source_log_unknown("unreachable", 0.0) == (ReadSourceLog(1.0),)
        assert mirror.window.take() is None

    def test_a_log_end_below_what_was_acknowledged(self) -> None:
        """A deposed leader may say so for a moment; for good, it is a divergence."""
        mirror = self.in_flight(1)
        mirror.append_unknown("connection lost")
        assert mirror.target_log(0, 0, None, 100.0) == (ReadTargetLog(0.5),)
        assert mirror.target_log(0, 0, None, 100.0 + LOW_LOG_END_S - 0.1) == (ReadTargetLog(0.5),)
        failure = only_failure(mirror.target_log(0, 0, None, 100.0 + LOW_LOG_END_S))
        assert failure.error is MirrorError.TARGET_DIVERGED
        assert "ends at 0, although it acknowledged everything below 1" in failure.message

    def test_a_low_log_end_that_was_a_mistake(self) -> None:
        mirror = self.in_flight(1)
        mirror.append_unknown("connection lost")
        mirror.target_log(0, 0, None, 100.0)
        assert mirror.target_log(0, 1, tail(1), 103.0) == NOTHING
        assert taken(mirror).base == 1

    def test_a_log_end_inside_a_batch(self) -> None:
        mirror = copying()
        feed(mirror, (0, 4))
        taken(mirror)
        mirror.append_unknown("connection lost")
        failure = only_failure(mirror.target_log(0, 2, tail(2), 0.0))
        assert failure.error is MirrorError.TARGET_DIVERGED
        assert "inside the source batch 0..3" in failure.message

    @pytest.mark.parametrize("last", [tail(3, producer_id=-1), LogTail(2, 3, PID, 1, None)])
    def test_the_last_batch_is_not_ours(self, last: LogTail) -> None:
        mirror = self.in_flight(3)
        for _ in range(3):
            mirror.append_unknown("connection lost")
        failure = only_failure(mirror.target_log(0, 3, last, 0.0))
        assert failure.error is MirrorError.TARGET_DIVERGED

    def test_waits_grow_while_it_does_not_get_better(self) -> None:
        mirror, waits = self.in_flight(1), []
        for _ in range(7):
            (command,) = mirror.append_answered(1, ErrorCode.NOT_ENOUGH_REPLICAS, -1)
            assert isinstance(command, ReadTargetLog)
            waits.append(command.delay_s)
            mirror.target_log(0, 1, tail(1), 0.0)
            taken(mirror)
        assert waits == [0.0, 0.05, 0.1, 0.2, 0.5, 1.0, 1.0]

    def test_a_target_that_cannot_be_read_is_asked_again(self) -> None:
        mirror = self.in_flight(1)
        mirror.append_unknown("connection lost")
        (command,) = mirror.target_log_unknown("unreachable")
        assert isinstance(command, ReadTargetLog)
        assert command.delay_s > 0
        assert mirror.last_error == "unreachable"

    def test_a_missing_right_is_retried_slowly(self) -> None:
        mirror = self.in_flight(1)
        assert mirror.append_answered(1, ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1) == (ReadTargetLog(SLOW_RETRY_S),)
        assert "TOPIC_AUTHORIZATION_FAILED" in mirror.last_error

    @pytest.mark.parametrize(
        "code",
        [
            ErrorCode.MESSAGE_TOO_LARGE,
            ErrorCode.INVALID_RECORD,
            ErrorCode.CORRUPT_MESSAGE,
            ErrorCode.INVALID_TIMESTAMP,
            ErrorCode.INVALID_PRODUCER_EPOCH,
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ],
    )
    def test_what_the_target_will_never_take(self, code: int) -> None:
        mirror = self.in_flight(2)
        failure = only_failure(mirror.append_answered(1, code, -1, "the broker says why"))
        assert failure.error is MirrorError.TARGET_REJECTED
        assert failure.message == f"append at target offset 1: {ErrorCode(code).name} (the broker says why)"
        assert mirror.append_answered(2, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1) == NOTHING
        assert mirror.window.outstanding == 0

    @staticmethod
    def in_flight(count: int, *, source_end: int = 1_000_000) -> PartitionMirror:
        """Offset 0 is acknowledged; 1, 2, … are in flight, and four more wait."""
        mirror = copying(source_end=source_end)
        feed(mirror, *((number, 1) for number in range(count + 5)), source_end=source_end)
        taken(mirror)
        mirror.append_answered(0, 0, 0)
        for _ in range(count):
            taken(mirror)
        return mirror


class TestFetchErrors:
    @pytest.mark.parametrize(
        "code",
        [
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.FENCED_LEADER_EPOCH,
            ErrorCode.UNKNOWN_LEADER_EPOCH,
            ErrorCode.KAFKA_STORAGE_ERROR,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.UNKNOWN_TOPIC_ID,
            ErrorCode.INCONSISTENT_TOPIC_ID,
        ],
    )
    def test_metadata_is_refreshed(self, code: int) -> None:
        mirror = copying()
        assert mirror.fetch_failed(code, 10.0) == (RefreshSource(),)
        assert not mirror.wants_fetch(10.0)
        assert mirror.wants_fetch(11.0)
        assert ErrorCode(code).name in mirror.last_error
        feed(mirror)
        assert mirror.last_error == ""

    @pytest.mark.parametrize("code", [ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.UNKNOWN_SERVER_ERROR, 9999])
    def test_backoff_grows(self, code: int) -> None:
        mirror = copying()
        assert mirror.fetch_failed(code, 10.0) == NOTHING
        assert mirror.wants_fetch(10.06)
        for _ in range(5):
            mirror.fetch_failed(code, 20.0)
        assert not mirror.wants_fetch(20.9)
        assert mirror.wants_fetch(21.1)

    def test_a_missing_right_is_retried_slowly(self) -> None:
        mirror = copying()
        mirror.fetch_failed(ErrorCode.TOPIC_AUTHORIZATION_FAILED, 10.0)
        assert not mirror.wants_fetch(10.0 + SLOW_RETRY_S - 0.1)
        assert mirror.wants_fetch(10.0 + SLOW_RETRY_S)

    def test_a_log_that_cannot_be_read(self) -> None:
        failure = only_failure(copying().fetch_failed(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, 0.0))
        assert failure.error is MirrorError.UNSUPPORTED_MESSAGE_FORMAT

    @pytest.mark.parametrize(
        ("bounds", "error", "words"),
        [
            ((150, 900), MirrorError.SOURCE_RECORDS_DELETED, "deleted 50 records before they were mirrored"),
            ((0, 90), MirrorError.UNEXPECTED_TRUNCATION, "ends at 90, records up to 100 were read before"),
        ],
    )
    def test_out_of_range(self, bounds: tuple[int, int], error: MirrorError, words: str) -> None:
        mirror = copying(100)
        assert mirror.fetch_failed(ErrorCode.OFFSET_OUT_OF_RANGE, 0.0) == (RefreshSource(), ReadSourceLog())
        assert not mirror.wants_fetch(100.0)
        failure = only_failure(mirror.source_log(*bounds))
        assert failure.error is error
        assert words in failure.message

    def test_out_of_range_and_back_again(self) -> None:
        mirror = copying(100)
        mirror.fetch_failed(ErrorCode.OFFSET_OUT_OF_RANGE, 0.0)
        assert mirror.source_log(0, 500) == NOTHING
        assert mirror.wants_fetch(100.0)
        mirror.fetch_failed(ErrorCode.OFFSET_OUT_OF_RANGE, 100.0)
        assert mirror.source_log_unknown("unreachable", 100.0) == NOTHING
        assert mirror.wants_fetch(200.0)

    def test_retention_overtakes_the_reading_below_the_position(self) -> None:
        mirror = copying(20_000)
        assert mirror.source.cursor.fetch_offset == 10_000
        mirror.fetch_failed(ErrorCode.OFFSET_OUT_OF_RANGE, 0.0)
        assert mirror.source_log(15_000, 30_000) == NOTHING
        assert mirror.source.cursor.fetch_offset == 15_000

    def test_a_diverging_epoch(self) -> None:
        failure = only_failure(copying(100).fetch_diverged(3, 80))
        assert failure.error is MirrorError.UNEXPECTED_TRUNCATION
        assert "leader epoch 3 ends at offset 80" in failure.message

    def test_broken_bytes_are_fetched_again(self) -> None:
        mirror = copying()
        data = bytearray(make_batch(0, 1))
        data[-1] ^= 1
        assert mirror.fetched(memoryview(data), 1, 0.0) == (RefreshSource(),)
        assert "fails its checksum" in mirror.last_error
        assert mirror.source.cursor.fetch_offset == 0
        feed(mirror, (0, 1))
        assert (taken(mirror).base, mirror.last_error) == (0, "")

    def test_a_gap(self) -> None:
        failure = only_failure(feed(copying(), (5, 1)))
        assert failure.error is MirrorError.OFFSET_GAP


class TestStart:
    def test_padding_then_trimming_then_copying(self) -> None:
        mirror = new(2_500_000)
        mirror.begin()
        mirror.target_log(0, 0, None, 0.0)
        assert mirror.source_log(2_500_000, 2_600_000) == NOTHING
        assert mirror.phase is Phase.PADDING
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
        assert mirror.source_log(2_500_000, 2_600_000) == (DeleteRecords(2_500_000),)
        assert not mirror.wants_fetch(0.0)
        assert mirror.delete_failed("not now") == (DeleteRecords(2_500_000, 1.0),)
        assert mirror.records_deleted() == (Settled(),)
        assert mirror.wants_fetch(0.0)
        assert mirror.source.cursor.fetch_offset == 2_500_000

    def test_a_start_inside_a_batch_is_trimmed_when_the_batch_is_copied(self) -> None:
        mirror = new(source_start=105, pad_to=100)
        mirror.begin()
        mirror.target_log(0, 0, None, 0.0)
        mirror.source_log(105, 500)
        base = taken(mirror).base
        mirror.append_answered(base, 0, base)
        mirror.target_log(0, 100, tail(100, base=0), 0.0)
        assert mirror.source_log(105, 500) == NOTHING
        assert mirror.phase is Phase.COPYING
        assert mirror.source.cursor.fetch_offset == 105
        feed(mirror, (100, 10))
        assert taken(mirror).base == 100
        assert mirror.append_answered(100, 0, 100) == (DeleteRecords(105),)
        assert mirror.wants_fetch(0.0)
        assert mirror.records_deleted() == (Settled(),)

    def test_resumed_before_the_log_was_trimmed(self) -> None:
        mirror = new(source_start=105, pad_to=100)
        mirror.begin()
        mirror.target_log(0, 110, tail(110, base=100), 0.0)
        assert mirror.source_log(105, 500) == (DeleteRecords(105),)
        assert mirror.records_deleted() == (Settled(),)
        assert mirror.window.position == 110

    def test_the_source_lost_records_before_any_was_copied(self) -> None:
        mirror = new(0)
        mirror.begin()
        mirror.target_log(0, 0, None, 0.0)
        assert mirror.source_log(60, 100) == (PlanStart(),)
        assert mirror.start_planned(PartitionStart(60, 55)) == (ReadTargetLog(),)
        mirror.target_log(0, 0, None, 0.0)
        mirror.source_log(60, 100)
        assert mirror.phase is Phase.PADDING
        assert read_batch_header(taken(mirror).batch).count == 55

    def test_the_source_lost_records_that_were_to_be_copied(self) -> None:
        mirror = new(0)
        mirror.begin()
        mirror.target_log(0, 40, tail(40), 0.0)
        failure = only_failure(mirror.source_log(60, 100))
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
        failure = only_failure(mirror.source_log(0, 49))
        assert failure.error is error
        assert "ends at 49, but its mirror stands at 50" in failure.message

    def test_a_foreign_batch_at_the_end_of_the_target(self) -> None:
        mirror = new(0)
        mirror.begin()
        failure = only_failure(mirror.target_log(0, 10, tail(10, producer_id=77), 0.0))
        assert failure.error is MirrorError.TARGET_DIVERGED
        assert "written by another producer (producer id 77)" in failure.message

    def test_the_last_batch_from_before_the_mirror_began_is_not_compared(self) -> None:
        """After a way home the logs may end with different batches: a marker here, a record there."""
        mirror = PartitionMirror(PartitionStart(0, 0), PID, wall_ms=lambda: 1_700_000_000_000, handed_over_at=10)
        mirror.begin()
        mirror.target_log(0, 10, tail(10, producer_id=77), 0.0)
        assert mirror.source_log(0, 12) == (Settled(),)
        assert feed(mirror, (7, 3), (10, 2)) == ()
        assert taken(mirror).base == 10

    def test_what_the_target_holds_is_settled_without_the_source(self) -> None:
        mirror = new(0)
        mirror.begin()
        mirror.target_log(0, 40, tail(40), 0.0)
        assert mirror.source_log_unknown("unreachable", 0.0) == (Settled(),)
        assert mirror.last_error == "unreachable"
        assert mirror.wants_fetch(1.0)

    def test_padding_in_smaller_batches_where_messages_must_be_small(self) -> None:
        mirror = new(PADDING_BATCH)
        mirror.begin()
        for size in (PADDING_BATCH, PADDING_BATCH // 2, PADDING_BATCH // 4):
            mirror.target_log(0, 0, None, 0.0)
            mirror.source_log(PADDING_BATCH, PADDING_BATCH)
            base, data = batch_taken(mirror)
            assert read_batch_header(data).count == size
            (command,) = mirror.append_answered(base, ErrorCode.MESSAGE_TOO_LARGE, -1)
            assert isinstance(command, ReadTargetLog)
            assert mirror.target_log(0, 0, None, 0.0) == (ReadTargetLog(),)

    def test_padding_that_is_overtaken_by_another_appender(self) -> None:
        mirror = new(3_000_000)
        mirror.begin()
        mirror.target_log(0, 0, None, 0.0)
        mirror.source_log(3_000_000, 3_000_000)
        taken(mirror)
        assert mirror.append_answered(0, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1) == (ReadTargetLog(0.0),)
        last = tail(2_000_000, base=1_000_000)
        assert mirror.target_log(0, 2_000_000, last, 0.0) == (ReadTargetLog(),)
        mirror.target_log(0, 2_000_000, last, 0.0)
        mirror.source_log(3_000_000, 3_000_000)
        assert taken(mirror).base == 2_000_000


def test_what_stalls_is_copied_out_of_the_answers_it_came_in() -> None:
    mirror = copying()
    feed(mirror, (0, 1), (1, 1))
    before = taken(mirror)
    mirror.window.compact()
    mirror.append_unknown("connection lost")
    mirror.target_log(0, 0, None, 0.0)
    assert taken(mirror) == before
    oldest = mirror.window.oldest
    assert oldest is not None
    assert oldest.data is not None
    assert oldest.data.obj == make_batch(0, 1)
