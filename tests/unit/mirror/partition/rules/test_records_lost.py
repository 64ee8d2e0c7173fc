"""Records that the source deleted before they were mirrored: the mirror goes on behind them where it may."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.mirror.offset_map.rules.codec import PartitionKey
from gateway.mirror.offset_map.rules.ledger import OffsetLedger
from gateway.mirror.offset_map.rules.offset_map import Breakpoint
from gateway.mirror.partition.rules.commands import (
    Commands,
    DecideBreakpoints,
    Fail,
    Readable,
    RecordsLost,
    WriteBreakpoints,
)
from gateway.mirror.partition.rules.log_tail import LogTail
from gateway.mirror.partition.rules.partition import PartitionMirror
from gateway.mirror.partition.rules.state import PartitionPhase
from gateway.state.producer_ids import mirror_producer_id
from gateway.state.records import LostRecords, MirrorError, PartitionStart
from protocol.errors import ErrorCode
from tests.support.mirror.source_log import Given, v2_batch

PID = mirror_producer_id(1, 2)
OF = PartitionKey(2, 0, 0)


def batch(first: int, count: int) -> memoryview:
    return memoryview(v2_batch([Given(first + n, 1_700_000_000_000, None, b"v") for n in range(count)]))


def started(position: int, source: tuple[int, int], *, skip: bool = True, ledger: bool = True) -> tuple:  # type: ignore[type-arg]
    """A mirror whose target ends at `position`, and what it asks for once both logs are known."""
    kept = OffsetLedger(OF, Breakpoint(0, 0), lambda: 1) if ledger else None
    mirror = PartitionMirror(PartitionStart(0, 0), PID, wall_ms=lambda: 0, ledger=kept, skip_deleted=skip)
    mirror.begin()
    tail = LogTail(position - 1, position, PID, position - 1, None)
    commands = mirror.target_log(0, position, tail, now=0.0)
    for command in commands:
        if isinstance(command, DecideBreakpoints):
            mirror.breakpoints_decided(command.log_end, command.run)
    return mirror, mirror.source_log(*source, 0.0)


def written(mirror: PartitionMirror, commands: Commands) -> Commands:
    """What is left once breakpoints are durable."""
    for command in commands:
        if isinstance(command, WriteBreakpoints):
            mirror.breakpoints_written(command.planned)
    return tuple(command for command in commands if not isinstance(command, WriteBreakpoints))


def test_at_the_start() -> None:
    mirror, commands = started(100, (150, 900))
    assert set(written(mirror, commands)) == {RecordsLost(100, 150), Readable()}
    assert mirror.phase is PartitionPhase.COPYING
    assert mirror.source.cursor.fetch_offset == 150


def test_what_comes_behind_gets_the_next_target_offset_and_a_breakpoint() -> None:
    mirror, commands = started(100, (150, 900))
    written(mirror, commands)
    (write,) = mirror.fetched(batch(150, 3), 900, now=0.0)
    assert isinstance(write, WriteBreakpoints)
    assert mirror.window.take() is None, "before its breakpoint is durable"
    mirror.breakpoints_written(write.planned)
    append = mirror.window.take()
    assert append is not None
    assert append.base == 100
    mirror.append_answered(100, 0, 100)
    assert mirror.mirrored_to == 153
    assert "offsets 100..149 were deleted" in mirror.translator.reason


def test_while_copying() -> None:
    mirror, _ = started(100, (0, 900))
    mirror.fetched(batch(100, 5), 900, now=0.0)
    mirror.fetch_failed(ErrorCode.OFFSET_OUT_OF_RANGE, now=1.0)
    assert written(mirror, mirror.source_log(300, 900, 0.0)) == (RecordsLost(105, 300),)
    assert mirror.source.cursor.fetch_offset == 300
    append = mirror.window.take()
    assert append is not None
    assert append.base == 100
    assert written(mirror, mirror.append_answered(100, 0, 100)) == ()
    assert mirror.mirrored_to == 300


@pytest.mark.parametrize(("skip", "ledger"), [(False, True), (True, False)])
def test_without_the_option_or_without_a_map_it_fails(skip: bool, ledger: bool) -> None:
    _, (failure,) = started(100, (150, 900), skip=skip, ledger=ledger)
    assert isinstance(failure, Fail)
    assert failure.error is MirrorError.SOURCE_RECORDS_DELETED


@given(st.lists(st.integers(0, 50), min_size=2, unique=True).map(sorted), st.data())
def test_a_loss_that_is_reported_again_counts_once(bounds: list[int], data: st.DataObject) -> None:
    lost, reported = LostRecords(0, 0), set()
    for first, following in pairwise(bounds):
        for _ in range(data.draw(st.integers(1, 2))):
            lost = lost.and_also(first, following)
        reported |= set(range(first, following))
    assert lost.count == len(reported)
