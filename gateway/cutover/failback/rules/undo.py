"""Undo: a mirror back that begins automatically after a promote, is kept for some time, and then ends. Pure.

Theory of operation
-------------------
While the source follows the target, an operator can take a promote back by a failback promote. So after a promote the
mirror back begins automatically, if `failback.keep.ms` or a migration file asked for it at the cutover. The cutover
stores how long to keep it, so later changes of the option only apply to later promotes::

    STOPPED                 --START--> PENDING_SYNCHRONIZE, undo open, until when                          persisted
                                       the reverse of `failback.py`, which ends in ACTIVE, REVERSE
    until then              no step; an operator may undo
    its time is over        --MARK--> undo over: no undo any more                                          persisted
    ACTIVE, REVERSE         --PAUSE--> PAUSED: nothing appends to the source                               persisted
    PAUSED                  --RESTORE_CONFIGS--> the source topic has its own configs again                persisted
    PAUSED, nothing lifted  --STOP--> STOPPED: a failover of a mirror back, which loses nothing            persisted

The decision uses only the record and the clock, so the next leader continues at any step. Each step may be done twice.

Operators take precedence. If an operator ends a mirror back, it does not begin again for the same promote; if an
operator began it, it has no end; if it is PAUSED or FAILED, it stays so, and its timer keeps running. Topics that were
failed over are left alone: their records differ between the clusters.

Waits. A source that does not answer is asked again until the time is over; then there was no undo. After that, the
source has `PATIENCE_S` to take its configs back; then the mirror back ends without that, and the record says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from gateway.state.mirror_states import is_mirroring
from gateway.state.records import Deletion, MirrorRecord, MirrorState, ThenReverse, Undo
from gateway.state.step import Step

PATIENCE_S: Final = 300.0
"""As long as a link is retried before it counts as failed (`cluster.link.retry.timeout.ms`)."""
_S = MirrorState
_BEGINS: Final = (_S.PENDING_SYNCHRONIZE, _S.PENDING_MIRROR)
_RESTORES: Final = (_S.PENDING_SETUP_FOR_RESTORE, _S.PENDING_RESTORE_MIRROR)


class UndoStepKind(StrEnum):
    """The next step. WAIT and DONE do nothing."""

    WAIT = "wait"
    START = "start"
    MARK = "mark"
    PAUSE = "pause"
    RESTORE_CONFIGS = "restore_configs"
    STOP = "stop"
    DONE = "done"


UndoStep: TypeAlias = Step[UndoStepKind]
_K = UndoStepKind


class UndoViolated(Exception):
    """A mirror back is about to begin or end, and must not. Never expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoSnapshot:
    """One mirror topic now. `now_ms`: wall clock. `held`: why no mirror back may begin now. `troubled_s`: how long the
    due step has been failing."""

    record: MirrorRecord
    now_ms: int
    held: str = ""
    troubled_s: float = 0.0


def next_step(snapshot: UndoSnapshot) -> UndoStep:
    """The next step.

    Raises:
        UndoViolated: the decision would break a rule above.
    """
    step = _decided(snapshot)
    check_step(snapshot, step)
    return step


def _decided(snapshot: UndoSnapshot) -> UndoStep:
    record = snapshot.record
    if not record.created or record.deletion is not Deletion.NONE:
        return UndoStep(_K.DONE)
    if record.state is _S.STOPPED:
        return _stopped(snapshot)
    if not (record.is_reverse or record.state is _S.PENDING_SYNCHRONIZE):
        return UndoStep(_K.DONE)
    match record.cutover.undo:
        case Undo.OPEN if snapshot.now_ms < record.cutover.undo_until_ms:
            return UndoStep(_K.DONE)
        case Undo.OPEN if record.state is _S.PENDING_STOPPED:
            return UndoStep(_K.WAIT, "the topic goes home")
        case Undo.OPEN:
            return UndoStep(_K.MARK)
        case Undo.OVER:
            return _over(snapshot)
    return UndoStep(_K.DONE)


def _stopped(snapshot: UndoSnapshot) -> UndoStep:
    record = snapshot.record
    cutover = record.cutover
    promoted = bool(cutover.stopped_at) and not cutover.not_mirrored
    if cutover.undo is not Undo.NONE or not promoted or cutover.then_reverse is not ThenReverse.NO:
        return UndoStep(_K.DONE)
    if snapshot.now_ms >= cutover.undo_until_ms:  # 0: no undo was requested at the promote
        return UndoStep(_K.DONE)
    return UndoStep(_K.WAIT, snapshot.held) if snapshot.held else UndoStep(_K.START)


def _over(snapshot: UndoSnapshot) -> UndoStep:
    record = snapshot.record
    if record.state in _RESTORES:
        return UndoStep(_K.DONE)  # an operator is refilling the failback destination
    if record.state is _S.PENDING_STOPPED:
        return UndoStep(_K.WAIT, "a promote is under way")
    if record.state in _BEGINS:
        late_s = (snapshot.now_ms - record.cutover.undo_until_ms) / 1000
        return UndoStep(_K.STOP) if late_s >= PATIENCE_S else UndoStep(_K.WAIT, "the mirror back has not begun yet")
    if is_mirroring(record.state):
        return UndoStep(_K.PAUSE)
    if record.restore_configs and snapshot.troubled_s < PATIENCE_S:
        return UndoStep(_K.RESTORE_CONFIGS, "the configs of the source topic")
    return UndoStep(_K.STOP)


def check_step(snapshot: UndoSnapshot, step: UndoStep) -> None:
    """Check what must hold before a step; independent of the decision.

    Raises:
        UndoViolated: naming the topic.
    """
    record, cutover, kind = snapshot.record, snapshot.record.cutover, step.kind
    name = record.mirror_topic
    if kind in (_K.WAIT, _K.DONE):
        return
    if record.deletion is not Deletion.NONE:
        raise UndoViolated(f"{kind} of {name}, which is being deleted")
    if kind is _K.START:
        if record.state is not _S.STOPPED or cutover.undo is not Undo.NONE or cutover.not_mirrored:
            raise UndoViolated(
                f"an undo of {name} would begin in state {record.state}, {cutover.undo or 'never begun'}"
            )
        return
    if not 0 < cutover.undo_until_ms <= snapshot.now_ms:
        raise UndoViolated(f"the undo of {name} would end before its time")
    if kind is not _K.MARK and cutover.undo is not Undo.OVER:
        raise UndoViolated(f"the mirror back of {name} would end while its undo is {cutover.undo or 'none'}")
    if kind is _K.RESTORE_CONFIGS and (is_mirroring(record.state) or not record.is_reverse):
        raise UndoViolated(f"the source topic of {name} would get its configs while it is a copy ({record.state})")
    if record.state in (_S.STOPPED, _S.PENDING_STOPPED):
        raise UndoViolated(f"{kind} of {name} in state {record.state}")
