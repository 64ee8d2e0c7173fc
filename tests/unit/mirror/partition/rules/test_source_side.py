"""How much is asked of the source at a time, and when it is asked for no more."""

from __future__ import annotations

import pytest

from gateway.mirror.partition.rules.append_window import AppendWindow
from gateway.mirror.partition.rules.log_tail import CannotMirror
from gateway.mirror.partition.rules.source_side import (
    BATCH_BYTES,
    BATCHES_AT_ONCE,
    FETCH_BYTES,
    PAUSE_BYTES,
    SourceSide,
)
from gateway.state.records import MirrorError
from protocol.errors import ErrorCode
from tests.support.mirror.batches import make_batch


def answered(source: SourceSide, size: int, batches: int = 1) -> int:
    """An answer of so many bytes; how much is asked for next."""
    first = source.cursor.position
    made = [make_batch(first + at, 1, payload=bytes(max(1, size // batches - 61))) for at in range(batches)]
    source.fetched(memoryview(b"".join(made)), 10**9, 0.0)
    return source.fetch_bytes


def test_more_is_asked_for_after_full_answers_and_less_after_small_ones() -> None:
    source = SourceSide(AppendWindow(1))
    asked = [answered(source, source.fetch_bytes) for _ in range(5)]
    assert asked == [2 * FETCH_BYTES, 4 * FETCH_BYTES, 8 * FETCH_BYTES, 8 * FETCH_BYTES, 8 * FETCH_BYTES]
    assert asked[-1] == PAUSE_BYTES // 2, "two answers fill the queue"
    assert answered(source, asked[-1] // 2) == asked[-1]
    assert [answered(source, 1_000) for _ in range(4)] == [4 * FETCH_BYTES, 2 * FETCH_BYTES, FETCH_BYTES, FETCH_BYTES]


def test_no_more_than_the_share_of_memory_allows() -> None:
    source = SourceSide(AppendWindow(1))
    source.pause_bytes = 4 * FETCH_BYTES
    assert [answered(source, source.fetch_bytes) for _ in range(3)] == [2 * FETCH_BYTES] * 3
    source.pause_bytes = FETCH_BYTES // 4
    assert answered(source, source.fetch_bytes) == FETCH_BYTES


def test_answers_of_many_batches_are_not_made_larger() -> None:
    source = SourceSide(AppendWindow(1))
    assert answered(source, FETCH_BYTES) == 2 * FETCH_BYTES
    assert answered(source, 2 * FETCH_BYTES, BATCHES_AT_ONCE + 1) == FETCH_BYTES


def test_what_batches_take_beside_their_bytes_counts() -> None:
    source = SourceSide(AppendWindow(1))
    assert source.ready(0.0)
    count = PAUSE_BYTES // (BATCH_BYTES + 100) + 1
    while source.cursor.position < count:
        answered(source, 2_000 * 100, 2_000)
    assert not source.ready(0.0)
    assert source.full


def test_a_log_that_may_not_be_read_for_long_enough_is_final() -> None:
    source = SourceSide(AppendWindow(1))
    source.patience_s = 60.0
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    source.failed(refused, 100.0)
    source.failed(refused, 159.0)
    source.fetched(None, 0, 159.5)
    source.failed(refused, 160.0)
    source.failed(ErrorCode.NOT_LEADER_OR_FOLLOWER, 200.0)
    source.failed(refused, 220.0)
    assert "TOPIC_AUTHORIZATION_FAILED" in source.last_error
    with pytest.raises(CannotMirror, match="TOPIC_AUTHORIZATION_FAILED, for 60 s") as raised:
        source.failed(refused, 280.0)
    assert raised.value.error is MirrorError.AUTHORIZATION_ERROR
