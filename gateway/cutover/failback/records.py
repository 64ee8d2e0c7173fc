"""The record of a mirror topic once its failback destination is the copy: synchronized with it, or recreated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gateway.cutover.failback.copy_setup import PreparedCopy
from gateway.cutover.failback.rules.snapshot import FailbackDestination
from gateway.mirror.offset_map.rules.periods import remembered
from gateway.operations.records import Records
from gateway.state.mirror_states import MirrorOperation, WrongState, apply
from gateway.state.per_partition import grown, stopped
from gateway.state.records import MirrorCutover, MirrorError, MirrorRecord, SequenceRecord, Undo


def begun(record: MirrorRecord, *, then_pause: bool = False, undo_until_ms: int = 0) -> MirrorRecord:
    """The record of a failback that begins, without kept configs; `then_pause`: PAUSED once the mirror has begun.

    `undo_until_ms`: the mirror back begins automatically, and is kept until then.
    """
    if undo_until_ms:
        record = replace(record, cutover=replace(record.cutover, undo=Undo.OPEN, undo_until_ms=undo_until_ms))
    return replace(record, failback=replace(record.failback, then_pause=then_pause, recreate={}))


def not_begun(record: MirrorRecord, *, again: bool) -> MirrorRecord:
    """The record of a reverse that was given up. An automatic one begins `again` later, or is refused."""
    record = nothing_kept(record)
    if record.cutover.undo is not Undo.OPEN:
        return record
    undo = Undo.NONE if again else Undo.REFUSED
    return replace(record, cutover=replace(record.cutover, undo=undo))


def nothing_kept(record: MirrorRecord) -> MirrorRecord:
    """The record without the kept configs of the failback destination."""
    return replace(record, failback=replace(record.failback, recreate={}))


def synchronized(record: MirrorRecord, copy: PreparedCopy) -> MirrorRecord:
    """The record of a reverse: the mirror back continues where the failback destination ended at the cutover.

    Raises:
        WrongLength, WrongState: the record does not have these ends.
    """
    record = grown(record, copy.partitions)
    at_cutover = stopped(record)
    if at_cutover is None:
        raise WrongState(f"mirror topic '{record.mirror_topic}' was never promoted")
    ends, copy_ends = at_cutover
    return replace(
        record,
        failback=replace(
            record.failback,
            handed_over_at=ends,
            handed_over_from=copy_ends,
            reverse_starts=(),
            recreate={},
            cutovers=remembered(record),
        ),
        restore_configs=dict(copy.configs.restore),
        error=MirrorError.NO_ERROR,
        error_message="",
    )


async def store_recreated(
    records: Records,
    current: Callable[[], MirrorRecord],
    source: FailbackDestination,
    copy: PreparedCopy,
) -> MirrorRecord:
    """Store that the source topic was recreated, and is empty. Returns the new record.

    It has a new mirror id: producer ids and offset map of the old copy mean nothing in the new one.

    Args:
        current: returns the present record.

    Raises:
        WrongState: it was changed meanwhile.
        StoreError: as the store's `put`.
    """
    old = current()
    mirror_id = records.next_mirror_id()
    new = _recreated(old, source, copy, mirror_id, records.now_ms())

    def unchanged() -> None:
        if current() != old:
            raise WrongState("changed meanwhile")

    await records.store.put(new, SequenceRecord("mirror", mirror_id), guard=unchanged, with_others=True)
    return new


def _recreated(
    old: MirrorRecord, source: FailbackDestination, copy: PreparedCopy, mirror_id: int, now_ms: int
) -> MirrorRecord:
    return apply(
        MirrorOperation.RECREATED,
        old,
        now_ms,
        mirror_id=mirror_id,
        source_topic_id=source.topic_id,
        starts=grown(old, copy.partitions).starts,
        cutover=MirrorCutover(
            pause_epoch=old.cutover.pause_epoch, at_ms=old.cutover.at_ms, producers=old.cutover.producers
        ),
        failback=replace(
            old.failback,
            handed_over_at=(0,) * copy.partitions,
            handed_over_from=(0,) * copy.partitions,
            reverse_starts=copy.starts,
            recreate={},
            cutovers=(),
        ),
        restore_configs=dict(copy.configs.restore),
        error=MirrorError.NO_ERROR,
        error_message="",
    )
