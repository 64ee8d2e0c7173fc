"""The invariants of a failover, whatever was interrupted where: a second opinion, independent of the decision.

Checked at every step, in tests and in production; `cutover/failover/rules/failover.py` explains why these conditions
make it safe.
"""

from __future__ import annotations

from gateway.cutover.failover.rules.snapshot import FailoverSnapshot, FailoverStep, FailoverStepKind
from gateway.cutover.write_pause.rules.routing import WritePhase
from gateway.cutover.write_pause.rules.routing_build import written_on_target
from gateway.state.records import MirrorState

_K = FailoverStepKind


class FailoverViolated(Exception):
    """A failover is in a state, or about to take a step, that could lose or fork records. Never expected."""


def check_invariants(snapshot: FailoverSnapshot) -> None:
    """Check what holds in every snapshot.

    Raises:
        FailoverViolated: naming the topic.
    """
    record, phase = snapshot.record, snapshot.phase
    if phase is WritePhase.SWITCHED and not written_on_target(record):
        raise FailoverViolated(f"{record.mirror_topic} is written on the target in state {record.state}")
    if phase is WritePhase.FORWARD and written_on_target(record):
        raise FailoverViolated(f"{record.mirror_topic} is written on the source in state {record.state}")
    if phase is WritePhase.FORWARD and (snapshot.committing or snapshot.stopped) and not snapshot.taken_back:
        raise FailoverViolated(f"{record.mirror_topic} is written on the source, and not mirrored or already STOPPED")


def check_step(snapshot: FailoverSnapshot, step: FailoverStep) -> None:
    """Check what must hold before a step that cannot be taken back.

    Raises:
        FailoverViolated: naming the topic and the condition.
    """
    record, kind = snapshot.record, step.kind
    stopped = record.state is MirrorState.STOPPED
    if kind is _K.STOP_MIRROR and not snapshot.on_target and snapshot.now < snapshot.earliest_stop:
        raise FailoverViolated(f"{kind} of {record.mirror_topic} while appends of a gateway that has gone may land")
    if kind is _K.PERSIST and (missing := _not_storable(snapshot)):
        raise FailoverViolated(f"failover of {record.mirror_topic} without: {missing}")
    if kind in (_K.RELEASE, _K.RESTORE_CONFIGS, _K.TELL_GROUPS) and (not stopped or snapshot.committing):
        raise FailoverViolated(f"{kind} of {record.mirror_topic} in state {record.state}")
    if kind is _K.TAKE_BACK and (stopped or snapshot.committing):
        raise FailoverViolated(f"{kind} of {record.mirror_topic}, which may be STOPPED")


def _not_storable(snapshot: FailoverSnapshot) -> str:
    """The first condition of the cutover that does not hold; '' when all do."""
    record, partitions = snapshot.record, len(snapshot.record.starts)
    if record.state is MirrorState.STOPPED or snapshot.committing or snapshot.gave_up:
        return "a cutover that is still to be made"
    if not snapshot.stopped:
        return "a stopped mirror"
    if written_on_target(record):
        return "" if snapshot.on_target else "a mirror to the target, as it was when this began"
    if snapshot.on_target:
        return "a mirror back, as it was when this began"
    if not (record.readable and record.created):
        return "a copy that holds a record"
    return _not_paused(snapshot) or _not_recordable(snapshot, partitions)


def _not_paused(snapshot: FailoverSnapshot) -> str:
    if snapshot.phase is not WritePhase.PAUSED or snapshot.paused_since is None:
        return "writes that are paused here"
    if missing := snapshot.gateways - snapshot.paused:
        return f"the answer of every gateway that its writes are paused ({', '.join(sorted(missing))})"
    if missing := snapshot.gateways - snapshot.drained:
        return f"the answer of every gateway that it passes no answer of the source on ({', '.join(sorted(missing))})"
    return ""


def _not_recordable(snapshot: FailoverSnapshot, partitions: int) -> str:
    """The first input of the cutover's record that is missing."""
    source, producers, copy = snapshot.source, snapshot.producers, snapshot.copy
    if source is None or len(source.ends) != partitions:
        return "the source's log ends, known or not"
    if source.answered and snapshot.last is None:
        return "the log ends of a source that answers, read under the pause"
    if producers is None or len(producers.tables) != partitions:
        return "what is known of the producers of every partition"
    if copy is None or len(copy) != partitions or None in copy:
        return f"the end of every partition of the copy ({copy})"
    return ""
