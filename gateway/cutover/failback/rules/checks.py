"""The conditions of a failback's irreversible steps: a second opinion, independent of the decision."""

from __future__ import annotations

from gateway.cutover.failback.rules.snapshot import (
    FailbackDestination,
    FailbackSnapshot,
    FailbackStep,
    FailbackStepKind,
    FailbackViolated,
)
from gateway.cutover.write_pause.rules.write_pause import phase_of
from gateway.state.per_partition import of_each
from gateway.state.records import MirrorRecord, MirrorState

_K = FailbackStepKind
_S = MirrorState


def check_step(snapshot: FailbackSnapshot, step: FailbackStep) -> None:
    """Check what must hold before a step that cannot be taken back.

    Raises:
        FailbackViolated: naming the topic.
    """
    record, source, kind = snapshot.record, snapshot.source, step.kind
    if snapshot.phase is not phase_of(record, is_paused=False):
        raise FailbackViolated(f"{record.mirror_topic} is {snapshot.phase} in state {record.state}")
    if kind in (_K.DELETE, _K.CREATE):
        if record.state is not _S.PENDING_SETUP_FOR_RESTORE or source is None:
            raise FailbackViolated(f"{kind} of {record.source_topic} in state {record.state}")
        known = bool(record.source_topic_id and source.topic_id)
        if kind is _K.DELETE and (
            not record.failback.recreate or (known and source.topic_id != record.source_topic_id)
        ):
            raise FailbackViolated(f"deletion of {record.source_topic}, which is not the topic that was mirrored")
        if kind is _K.CREATE and (source.present or not record.failback.recreate):
            raise FailbackViolated(f"creation of {record.source_topic}, which is there")
    if kind is _K.RECREATED and (source is None or not source.present or any(source.log_end_offsets)):
        raise FailbackViolated(f"{record.source_topic} is to be filled, but is not empty")
    if kind is _K.SYNCHRONIZED and (source is None or not _alike(record, source)):
        raise FailbackViolated(f"the mirror back of {record.mirror_topic} would begin where the logs differ")
    if kind is _K.START and record.state not in (_S.PENDING_MIRROR, _S.PENDING_RESTORE_MIRROR):
        raise FailbackViolated(f"the mirror of {record.mirror_topic} would begin in state {record.state}")


def _alike(record: MirrorRecord, source: FailbackDestination) -> bool:
    """True when the source's logs end where the mirror back may begin."""
    known = of_each(record, record.cutover.stopped_at, "stopped_at")
    known += (0,) * (len(source.log_end_offsets) - len(known))
    for partition, (top, end, stopped) in enumerate(zip(source.log_end_offsets, source.ends, known, strict=True)):
        if top != end or end < stopped or (end > stopped and not source.ours[partition]):
            return False
    return source.unlike == ()
