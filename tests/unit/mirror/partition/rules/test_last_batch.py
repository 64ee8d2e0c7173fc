"""What of two last batches must be alike; and a start in mode translate, which compares the target's with the source's
at the place that the map says."""

from __future__ import annotations

import pytest

from gateway.mirror.offset_map.rules.codec import Chunk, PartitionKey
from gateway.mirror.offset_map.rules.ledger import OffsetLedger
from gateway.mirror.offset_map.rules.offset_map import Breakpoint
from gateway.mirror.partition.rules.last_batch import LastBatch, are_alike
from gateway.mirror.partition.rules.log_tail import LogTail
from gateway.mirror.partition.rules.partition import PartitionMirror
from gateway.mirror.partition.rules.state import PartitionPhase
from gateway.state.records import NOT_PADDED, MirrorError, PartitionStart
from protocol.batch.header import mirror_sequence, rewrite_batch
from protocol.batch.merge import merged
from protocol.batch.reencode import Piece, convert
from tests.support.mirror.partition_talk import PID, only_failure
from tests.support.mirror.source_log import CONTROL, Given, v2_batch
from tests.support.mirror.translate_sim import batch_of

TIME = 1_002


def started(tail: LogTail, *, handed_over_at: int = 0) -> PartitionMirror:
    """The copy's 7 records are the source's 0..3 and, behind an offset gap, 10..12: one batch each."""
    ledger = OffsetLedger(PartitionKey(1, 0, 0), Breakpoint(0, 0), lambda: 1)
    ledger.plan(4, Chunk.of(3, 0, [Breakpoint(10, 4)]))
    ledger.acknowledged(7)
    start = PartitionStart(0, NOT_PADDED)
    mirror = PartitionMirror(start, PID, wall_ms=lambda: 0, ledger=ledger, handed_over_at=handed_over_at)
    mirror.begin()
    mirror.target_log(0, 7, tail, 0.0)
    assert mirror.translator is not None
    ledger.decide_below(7, ())
    mirror.breakpoints_decided(7, mirror.translator.run)
    mirror.source_log(0, 100, 0.0)
    assert mirror.phase is PartitionPhase.COPYING
    return mirror


def copied(timestamp: int = TIME) -> LogTail:
    return LogTail(4, 7, PID, mirror_sequence(4), timestamp)


def answer(mirror: PartitionMirror, base: int) -> tuple[object, ...]:
    records = [(base + index, b"k") for index in range(3)]
    data = batch_of(base, base + 2, records) + batch_of(13, 13, [(13, b"k")])
    return mirror.fetched(memoryview(data), 100, 0.0, asked=mirror.source.cursor.fetch_offset)


def test_the_very_batch_is_gone_on_from() -> None:
    mirror = started(copied())
    assert mirror.mirrored_to == 13
    answer(mirror, 10)
    append = mirror.take()
    assert append is not None
    assert append.base == 7


def test_another_batch_there_fails_the_mirror_before_anything_is_appended() -> None:
    for tail, base in ((copied(5), 10), (copied(), 11)):
        mirror = started(tail)
        assert only_failure(answer(mirror, base)).error is MirrorError.UNEXPECTED_TRUNCATION  # type: ignore[arg-type]
        assert mirror.take() is None


def test_what_others_wrote_before_this_mirror_began_is_not_compared() -> None:
    mirror = started(copied(5), handed_over_at=7)
    answer(mirror, 10)
    assert mirror.phase is PartitionPhase.COPYING


def last_batch(*batches: bytes) -> LastBatch:
    return LastBatch.of([memoryview(batch) for batch in batches])


@pytest.mark.parametrize("codec", range(5))
def test_the_copy_of_a_log_append_time_batch_is_like_it(codec: int) -> None:
    """Its records were made at different times, which the copy does not keep: it has the log's own."""
    records = [Given(offset, 1_000 + offset * 5, b"k", b"v" * 50) for offset in range(3)]
    source = v2_batch(records, codec=codec, append_time=2_000)
    (piece,) = convert(memoryview(source), 0, [])
    assert isinstance(piece, Piece)
    copy = bytes(rewrite_batch(memoryview(piece.data), producer_id=PID, sequence=0))
    assert last_batch(source).records_crc != last_batch(copy).records_crc
    assert are_alike(last_batch(source), last_batch(copy), (0, 2), as_bytes=True)
    later = v2_batch(records, codec=codec, append_time=2_001)
    assert not are_alike(last_batch(later), last_batch(copy), (0, 2), as_bytes=True)


def test_the_bytes_of_other_batches_must_be_the_same() -> None:
    one, other = (v2_batch([Given(0, 1_000, b"k", value)]) for value in (b"a", b"b"))
    assert are_alike(last_batch(one), last_batch(one), (0, 0), as_bytes=True)
    assert not are_alike(last_batch(one), last_batch(other), (0, 0), as_bytes=True)
    assert are_alike(last_batch(one), last_batch(other), (0, 0), as_bytes=False)


@pytest.mark.parametrize("codec", range(5))
def test_a_copy_that_was_put_together_is_like_what_it_was_made_of(codec: int) -> None:
    def log(value: bytes, latest: int = 9_000) -> list[bytes]:
        times = (1_000, latest, 2_000)
        return [v2_batch([Given(at, time, b"k", value)], codec=codec) for at, time in enumerate(times)]

    views = [memoryview(batch) for batch in log(b"a")]
    copy = last_batch(b"".join(merged(views, producer_id=PID, sequence=0)))
    assert are_alike(last_batch(*log(b"a")), copy, (0, 2), as_bytes=True)
    assert not are_alike(last_batch(*log(b"b")), copy, (0, 2), as_bytes=True)
    assert are_alike(last_batch(*log(b"b")), copy, (0, 2), as_bytes=False)
    assert not are_alike(last_batch(*log(b"a", 9_001)), copy, (0, 2), as_bytes=False)
    assert are_alike(last_batch(*log(b"a")[1:]), copy, (0, 2), as_bytes=True), "retention took the first one"
    assert not are_alike(last_batch(*log(b"a", 9_001)[1:]), copy, (0, 2), as_bytes=True)
    assert are_alike(last_batch(*log(b"a")[::2]), copy, (0, 2), as_bytes=True), "compaction took one between"


def test_a_marker_within_what_was_copied_is_like_nothing() -> None:
    batches = [v2_batch([Given(at, 1_000, b"k", b"a")], attributes=CONTROL * at) for at in range(2)]
    one = v2_batch([Given(at, 1_000, b"k", b"a") for at in range(2)])
    assert not are_alike(last_batch(*batches), last_batch(one), (0, 1), as_bytes=True)
