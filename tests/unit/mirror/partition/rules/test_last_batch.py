"""A start in mode translate compares the target's last batch with the source's at the place that the map says."""

from __future__ import annotations

from gateway.mirror.offset_map.rules.codec import Chunk, PartitionKey
from gateway.mirror.offset_map.rules.ledger import OffsetLedger
from gateway.mirror.offset_map.rules.offset_map import Breakpoint
from gateway.mirror.partition.rules.log_tail import LogTail
from gateway.mirror.partition.rules.partition import PartitionMirror
from gateway.mirror.partition.rules.state import PartitionPhase
from gateway.state.records import NOT_PADDED, MirrorError, PartitionStart
from protocol.batch.header import mirror_sequence
from tests.support.partition_talk import PID, only_failure
from tests.support.translate_sim import batch_of

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
    mirror.source_log(0, 100)
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
