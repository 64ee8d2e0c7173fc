"""Conversations with one partition's mirror about appends whose outcome is not known."""

from __future__ import annotations

import pytest

from gateway.mirror.offset_map.rules.codec import PartitionKey
from gateway.mirror.offset_map.rules.ledger import OffsetLedger
from gateway.mirror.offset_map.rules.offset_map import Breakpoint
from gateway.mirror.partition.rules.commands import (
    NOTHING,
    DecideBreakpoints,
    ReadSourceLog,
    ReadTargetLog,
    RefreshSource,
)
from gateway.mirror.partition.rules.log_tail import LogTail
from gateway.mirror.partition.rules.partition import PartitionMirror
from gateway.mirror.partition.rules.target_side import LOOK_AGAIN_S, LOW_LOG_END_S, SLOW_RETRY_S
from gateway.state.records import MirrorError, PartitionStart
from protocol.errors import ErrorCode
from tests.support.mirror.batches import make_batch
from tests.support.mirror.partition_talk import PID, copying, feed, final_failure, only_failure, tail, taken

OUTCOME_UNKNOWN = (
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


class TestUnknownOutcome:
    @pytest.mark.parametrize("code", OUTCOME_UNKNOWN)
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

    def test_a_later_success_resolves_an_earlier_unknown_outcome(self) -> None:
        mirror = self.in_flight(2)
        mirror.append_answered(1, ErrorCode.REQUEST_TIMED_OUT, -1)
        mirror.append_answered(2, 0, 2)
        assert mirror.window.position == 3

    def test_another_appender_is_ahead_of_what_was_fetched(self) -> None:
        mirror = self.in_flight(1, source_end=10)
        mirror.append_answered(1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
        assert mirror.target_log(0, 30, tail(30), 0.0) == (ReadSourceLog(),)
        assert not mirror.wants_fetch(0.0)
        assert mirror.source_log(0, 40, 0.0) == NOTHING
        assert mirror.window.position == mirror.source.cursor.position == 30
        assert mirror.source.cursor.fetch_offset < 30  # the other's batches are read, for the producer table
        assert mirror.last_error == ""
        feed(mirror, (30, 2), source_end=40)
        assert taken(mirror).base == 30

    def test_a_log_end_beyond_the_source(self) -> None:
        mirror = self.in_flight(1, source_end=10)
        mirror.append_answered(1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
        mirror.target_log(0, 30, tail(30), 0.0)
        failure = final_failure(mirror, (0, 29))
        assert failure.error is MirrorError.TARGET_DIVERGED
        assert "ends at 30, beyond the source's end 29" in failure.message

    def test_a_broker_that_leads_the_source_no_more_tells_of_a_lower_end(self) -> None:
        """Another appender has copied from the one that does."""
        mirror = self.in_flight(1, source_end=10)
        mirror.append_answered(1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
        mirror.target_log(0, 30, tail(30), 0.0)
        assert mirror.source_log(0, 29, 0.0) == (RefreshSource(), ReadSourceLog(LOOK_AGAIN_S))
        assert mirror.source_log_unknown("unreachable", 2.0) == (ReadSourceLog(1.0),)
        assert mirror.source_log(0, 30, LOW_LOG_END_S - 0.1) == NOTHING
        assert (mirror.window.position, mirror.last_error) == (30, "")
        feed(mirror, (30, 2), source_end=32)
        assert taken(mirror).base == 30

    def test_the_source_must_answer_before_a_log_end_ahead_is_believed(self) -> None:
        mirror = self.in_flight(1, source_end=10)
        mirror.append_answered(1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
        mirror.target_log(0, 30, tail(30), 0.0)
        assert mirror.source_log_unknown("unreachable", 0.0) == (ReadSourceLog(1.0),)
        assert mirror.window.take() is None

    def test_a_log_end_below_what_was_acknowledged(self) -> None:
        """A deposed leader may say so for a moment; for good, the target has lost it, and gets it again."""
        mirror = self.in_flight(1)
        mirror.append_unknown("connection lost")
        assert mirror.target_log(0, 0, None, 100.0) == (ReadTargetLog(0.5),)
        assert mirror.target_log(0, 0, None, 100.0 + LOW_LOG_END_S - 0.1) == (ReadTargetLog(0.5),)
        assert mirror.target_log(0, 0, None, 100.0 + LOW_LOG_END_S) == (ReadTargetLog(),)  # it lost what it had: anew
        assert mirror.target_log(0, 0, None, 106.0) == (ReadSourceLog(),)
        assert mirror.source_log(0, 1_000_000, 0.0) == NOTHING
        assert (mirror.mirrored_to, mirror.source.cursor.position) == (0, 0)
        feed(mirror, (0, 1), (1, 1))
        assert taken(mirror).base == 0

    def test_a_copy_that_lost_records_and_got_others_has_diverged(self) -> None:
        mirror = self.in_flight(1)
        mirror.append_unknown("connection lost")
        for at in (100.0, 100.0 + LOW_LOG_END_S):
            mirror.target_log(0, 0, None, at)
        failure = only_failure(mirror.target_log(0, 1, tail(1, producer_id=-1), 106.0))
        assert failure.error is MirrorError.TARGET_DIVERGED

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


def test_an_empty_answer_does_not_say_that_all_was_read() -> None:
    """Others took up the answer's size: the producers below the position are as unknown as before."""
    mirror = copying(position=20_000, source_end=20_000)
    cursor = mirror.source.cursor
    assert not cursor.warm
    mirror.fetched(memoryview(b""), 20_000, now=0.0)
    assert not cursor.warm
    feed(mirror, (10_000, 9_999), (19_999, 1), source_end=20_000)
    assert cursor.warm


def test_what_another_appender_has_copied_is_read_before_producers_are_known_again() -> None:
    mirror = copying(position=0, source_end=100)
    cursor = mirror.source.cursor
    feed(mirror, (0, 10), source_end=100)
    assert bool(cursor.warm)
    append = taken(mirror)
    mirror.append_answered(append.base, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    mirror.target_log(0, 100, tail(100, base=90), now=1.0)
    assert (mirror.mirrored_to, cursor.fetch_offset) == (100, 10)
    assert cursor.fetch_offset < cursor.position
    feed(mirror, (10, 90), source_end=100)
    assert bool(cursor.warm)


def test_an_answer_from_before_the_target_lost_appends_is_no_offset_gap() -> None:
    """The mirror begins anew, further back; the fetch under way was asked from where it had been."""
    mirror = copying(0)
    late = memoryview(make_batch(557, 1))
    assert mirror.fetched(late, 1_000, 0.0, asked=557) == NOTHING
    assert len(mirror.window) == 0
    assert mirror.fetched(memoryview(make_batch(0, 1)), 1_000, 0.0, asked=0) == NOTHING
    assert len(mirror.window) == 1


def test_the_source_is_not_read_before_the_map_says_from_where() -> None:
    """An answer would be thrown away, and asked for again at once."""
    ledger = OffsetLedger(PartitionKey(2, 0, 0), Breakpoint(0, 0), lambda: 1)
    mirror = PartitionMirror(PartitionStart(0, 0), PID, wall_ms=lambda: 0, ledger=ledger)
    mirror.begin()
    (decide,) = mirror.target_log(0, 0, None, now=0.0)
    assert isinstance(decide, DecideBreakpoints)
    mirror.breakpoints_decided(decide.log_end, decide.run)
    mirror.source_log(0, 100, 0.0)
    assert mirror.wants_fetch(0.0)
    mirror.fetched(memoryview(make_batch(0, 1)), 100, 0.0)
    assert mirror.take()
    mirror.append_unknown("no answer")
    (decide,) = mirror.target_log(0, 0, None, now=1.0)
    assert isinstance(decide, DecideBreakpoints)
    assert not mirror.wants_fetch(1.0)
    mirror.breakpoints_decided(decide.log_end, decide.run)
    assert mirror.wants_fetch(1.0)
