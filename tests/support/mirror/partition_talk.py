"""What tests say to one partition's mirror, and what they hear."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from gateway.mirror.engine.topic import TopicMirror
from gateway.mirror.partition.rules.append_window import Append
from gateway.mirror.partition.rules.commands import (
    Commands,
    Fail,
    Readable,
    ReadSourceLog,
    ReadTargetLog,
    RefreshSource,
)
from gateway.mirror.partition.rules.log_tail import LogTail
from gateway.mirror.partition.rules.partition import PartitionMirror
from gateway.mirror.partition.rules.state import PartitionPhase
from gateway.mirror.partition.rules.target_side import LOOK_AGAIN_S, LOW_LOG_END_S
from gateway.state.producer_ids import mirror_producer_id
from gateway.state.records import MirrorRecord, PartitionStart
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
    assert mirror.source_log(0, source_end, 0.0) == (Readable(),)
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


def final_failure(mirror: PartitionMirror, bounds: tuple[int, int]) -> Fail:
    """The source's log ends too low: it is asked again, of whoever leads by then, before that is an error."""
    for now in (100.0, 100.0 + LOW_LOG_END_S - 0.1):
        assert mirror.source_log(*bounds, now) == (RefreshSource(), ReadSourceLog(LOOK_AGAIN_S))
        assert "asked again, as the broker that says so may lead no more" in mirror.last_error
        assert not mirror.wants_fetch(now + 60.0)
    return only_failure(mirror.source_log(*bounds, 100.0 + LOW_LOG_END_S))


def only_failure(commands: Commands) -> Fail:
    """It asks for nothing else than to fail."""
    (failure,) = commands
    assert isinstance(failure, Fail)
    return failure


def topic_mirror(record: MirrorRecord) -> TopicMirror:
    """One in mode preserve, whose questions nobody answers but the test."""
    dependencies: Any = SimpleNamespace(
        link="l", link_id=1, maps=None, skip_deleted=False, retry_s=300.0, wall_ms=lambda: 5_000, clock=lambda: 0.0,
        source=SimpleNamespace(invalidate=lambda name: None), progress=SimpleNamespace(advance=lambda *_: None),
        events=SimpleNamespace(topic_readable=lambda *_: None),
        source_logs=SimpleNamespace(ask=lambda *_, **__: None), target_logs=SimpleNamespace(ask=lambda *_: None),
    )  # fmt: skip
    return TopicMirror(record, dependencies, lambda runner: None)
