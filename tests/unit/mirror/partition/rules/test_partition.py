"""Conversations with one partition's mirror while it copies: what it is told, what it asks for."""

from __future__ import annotations

import pytest

from gateway.mirror.partition.rules.append_window import MAX_IN_FLIGHT
from gateway.mirror.partition.rules.commands import NOTHING, ReadSourceLog, RefreshSource
from gateway.mirror.partition.rules.source_side import PAUSE_BYTES
from gateway.mirror.partition.rules.state import PartitionPhase
from gateway.mirror.partition.rules.target_side import SLOW_RETRY_S
from gateway.state.records import MirrorError
from protocol.batch.header import read_batch_header
from protocol.errors import ErrorCode
from tests.support.mirror.batches import make_batch
from tests.support.mirror.partition_talk import PID, batch_taken, copying, feed, final_failure, only_failure, taken


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
        assert mirror.phase is PartitionPhase.STOPPED
        assert not mirror.wants_fetch(0.0)


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
        ],
    )
    def test_out_of_range(self, bounds: tuple[int, int], error: MirrorError, words: str) -> None:
        mirror = copying(100)
        assert mirror.fetch_failed(ErrorCode.OFFSET_OUT_OF_RANGE, 0.0) == (RefreshSource(), ReadSourceLog())
        assert not mirror.wants_fetch(100.0)
        failure = only_failure(mirror.source_log(*bounds, 0.0))
        assert failure.error is error
        assert words in failure.message

    def test_a_source_that_was_truncated(self) -> None:
        mirror = copying(100)
        mirror.fetch_failed(ErrorCode.OFFSET_OUT_OF_RANGE, 0.0)
        failure = final_failure(mirror, (0, 90))
        assert failure.error is MirrorError.UNEXPECTED_TRUNCATION
        assert "ends at 90, records up to 100 were read before" in failure.message

    def test_out_of_range_and_back_again(self) -> None:
        mirror = copying(100)
        mirror.fetch_failed(ErrorCode.OFFSET_OUT_OF_RANGE, 0.0)
        assert mirror.source_log(0, 500, 0.0) == NOTHING
        assert mirror.wants_fetch(100.0)
        mirror.fetch_failed(ErrorCode.OFFSET_OUT_OF_RANGE, 100.0)
        assert mirror.source_log_unknown("unreachable", 100.0) == NOTHING
        assert mirror.wants_fetch(200.0)

    def test_retention_overtakes_the_reading_below_the_position(self) -> None:
        mirror = copying(20_000)
        assert mirror.source.cursor.fetch_offset == 10_000
        mirror.fetch_failed(ErrorCode.OFFSET_OUT_OF_RANGE, 0.0)
        assert mirror.source_log(15_000, 30_000, 0.0) == NOTHING
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
