"""What the record of a mirror topic says once its old source is the copy: synchronized with it, or created anew."""

from __future__ import annotations

from collections.abc import Callable

from gateway.control.context import ControlContext
from gateway.control.copy_setup import PreparedCopy
from gateway.domain.mirror_states import MirrorOperation, WrongState, apply
from gateway.domain.per_partition import grown, stopped
from gateway.domain.records import MirrorDirection, MirrorError, MirrorRecord, SequenceRecord
from gateway.domain.way_back_snapshot import OldSource
from gateway.domain.ways import remembered


def synchronized(record: MirrorRecord, copy: PreparedCopy) -> dict[str, object]:
    """The changes of a reverse: the mirror back goes on where the old source ended at the flip.

    Raises:
        WrongLength, WrongState: the record does not say where that was.
    """
    record = grown(record, copy.partitions)
    at_flip = stopped(record)
    if at_flip is None:
        raise WrongState(f"mirror topic '{record.mirror_topic}' was never promoted")
    ends, copy_ends = at_flip
    return {
        "direction": MirrorDirection.REVERSE,
        "handed_over_at": ends,
        "handed_over_from": copy_ends,
        "stopped_at": ends,
        "stopped_copy_at": copy_ends,
        "producers": record.producers,
        "flips": remembered(record),
        "starts": record.starts,
        "reverse_starts": (),
        "restore_configs": dict(copy.configs.restore),
        "recreate": {},
        "error": MirrorError.NO_ERROR,
        "error_message": "",
    }


async def store_recreated(
    context: ControlContext, current: Callable[[], MirrorRecord], source: OldSource, copy: PreparedCopy
) -> MirrorRecord:
    """Store that the source topic was created anew, and is empty. Returns the new record.

    It has a new mirror id: producer ids and offset map of the old copy mean nothing in the new one.

    Args:
        current: the record as it is now.

    Raises:
        WrongState: it was changed meanwhile.
        StoreError: as the store's `put`.
    """
    async with context.locks.hold("sequence/mirror"):
        old = current()
        mirror_id = context.store.sequences.get("mirror", SequenceRecord("mirror", 0)).last + 1
        new = _recreated(old, source, copy, mirror_id, context.now_ms())

        def unchanged() -> None:
            if current() != old:
                raise WrongState("changed meanwhile")

        await context.store.put(new, SequenceRecord("mirror", mirror_id), guard=unchanged)
    return new


def _recreated(old: MirrorRecord, source: OldSource, copy: PreparedCopy, mirror_id: int, now_ms: int) -> MirrorRecord:
    return apply(
        MirrorOperation.RECREATED,
        old,
        now_ms,
        mirror_id=mirror_id,
        source_topic_id=source.topic_id,
        starts=grown(old, copy.partitions).starts,
        reverse_starts=copy.starts,
        handed_over_at=(0,) * copy.partitions,
        handed_over_from=(0,) * copy.partitions,
        flips=(),
        restore_configs=dict(copy.configs.restore),
        stopped_at=(),
        stopped_copy_at=(),
        not_mirrored=(),
        retries_unknown=(),
        recreate={},
        error=MirrorError.NO_ERROR,
        error_message="",
    )
