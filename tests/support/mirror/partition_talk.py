"""What tests say to one partition's mirror, and what they hear."""

from __future__ import annotations

from gateway.mirror.partition.rules.append_window import Append
from gateway.mirror.partition.rules.commands import Commands, Fail, Readable, ReadSourceLog, ReadTargetLog
from gateway.mirror.partition.rules.log_tail import LogTail
from gateway.mirror.partition.rules.partition import PartitionMirror
from gateway.mirror.partition.rules.state import PartitionPhase
from gateway.state.producer_ids import mirror_producer_id
from gateway.state.records import PartitionStart
from tests.support.mirror.batches import make_batch

PID = mirror_producer_id(1, 2)


def new(source_start: int = 0, pad_to: int | None = None) -> PartitionMirror:
    """A mirror that has not begun; its copy is to begin at `pad_to`, else at `source_start`."""
    start = PartitionStart(source_start, source_start if pad_to is None else pad_to)
    return PartitionMirror(start, PID, wall_ms=lambda: 1_700_000_000_000)


def tail(following: int, *, base: int | None = None, producer_id: int = PID) -> LogTail:
    """The last batch of a log that ends at `following`: one record of the mirror's, unless said otherwise."""
    base = following - 1 if base is None else base
    return LogTail(base, following, producer_id, base % 2**31, None)


def copying(position: int = 0, *, source_end: int = 1_000_000) -> PartitionMirror:
    """A mirror that has begun to copy at `position`."""
    mirror = new()
    assert mirror.begin() == (ReadTargetLog(),)
    known = tail(position) if position else None
    assert mirror.target_log(0, position, known, now=0.0) == (ReadSourceLog(),)
    assert mirror.source_log(0, source_end) == (Readable(),)
    assert mirror.phase is PartitionPhase.COPYING
    return mirror


def feed(mirror: PartitionMirror, *bounds: tuple[int, int], source_end: int = 1_000_000) -> Commands:
    """The source answers with batches, as (base, count)."""
    data = b"".join(make_batch(*each) for each in bounds)
    return mirror.fetched(memoryview(data), source_end, now=0.0)


def taken(mirror: PartitionMirror) -> Append:
    """The append that goes out next."""
    append = mirror.window.take()
    assert append is not None
    return append


def batch_taken(mirror: PartitionMirror) -> tuple[int, bytes]:
    """Its offset on the target, and its bytes."""
    append = taken(mirror)
    return append.base, append.batch


def only_failure(commands: Commands) -> Fail:
    """It asks for nothing else than to fail."""
    (failure,) = commands
    assert isinstance(failure, Fail)
    return failure
