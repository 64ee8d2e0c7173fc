"""The failbacks, without I/O: from a snapshot of one topic to the next step. `cutover/failback/run.py` acts.

Theory of operation
-------------------
After a promote clients write to the target. Three ways lead back to two clusters with the same records::

    reverse   STOPPED --(operator)--> PENDING_SYNCHRONIZE
                  --READ_SOURCE--> both logs are the same up to the cutover, nobody wrote to the source since
                  --KEEP--> what the failback destination has of configs of its own                        persisted
                  --PREPARE--> the failback destination has the configs (and partitions) of a copy
                  --SYNCHRONIZED--> PENDING_MIRROR, direction reverse                                  persisted
                  --PREPARE, START--> the engine appends to the failback destination from its log end on
                  --BEGIN--> ACTIVE, or PAUSED

    restore   STOPPED | FAILED --(operator, who was told what is lost)--> PENDING_SETUP_FOR_RESTORE, direction reverse
                  --READ_SOURCE, KEEP--> configs, partitions and replicas of the old topic             persisted
                  --DELETE, CREATE--> an empty topic with another id
                  --PREPARE, RECREATED--> PENDING_RESTORE_MIRROR, with the new id and a new mirror id   persisted
                  --START--> padded to the target's log starts, then filled from there
                  --BEGIN--> ACTIVE

    home      PENDING_STOPPED --(a promote of the reverse mirror)--> PENDING_MIRROR, direction forward
                  --RESTORE_CONFIGS, KEEP--> the source topic is nobody's copy any more               persisted
                  --PREPARE, START, BEGIN--> ACTIVE: as before the first promote

Safety. Writes go where the record says and no step here moves them, so an interruption anywhere loses nothing:

* the mirror back begins only where both logs were seen to end alike, with the same last batch (SYNCHRONIZED), or in an
  empty topic (RECREATED); if another writer appends later, the sequence rule fails the mirror;
* a topic is deleted only while it is the very one that the record names, after its configs were persisted;
* only the record outlives the process: each step may be carried out twice.
"""

from __future__ import annotations

from collections.abc import Mapping

from gateway.cutover.failback.rules.checks import check_step
from gateway.cutover.failback.rules.snapshot import (
    FailbackDestination,
    FailbackSnapshot,
    FailbackStep,
    FailbackStepKind,
)
from gateway.state.per_partition import of_each
from gateway.state.records import MirrorRecord, MirrorState

LOOK_AGAIN_S = 0.2
_S = MirrorState
_K = FailbackStepKind


def next_step(snapshot: FailbackSnapshot, *, patience_s: float) -> FailbackStep:
    """The next step. `patience_s`: how long the source may be unreachable before a reverse is given up.

    Raises:
        FailbackViolated: the decision would break a rule above.
    """
    decide = _DECIDE.get(snapshot.record.state)
    if decide is None:
        return FailbackStep(_K.DONE)
    step = decide(snapshot, patience_s)
    check_step(snapshot, step)
    return step


def _synchronize(snapshot: FailbackSnapshot, patience_s: float) -> FailbackStep:
    if snapshot.gave_up:
        return FailbackStep(_K.ABORT, snapshot.gave_up)
    if snapshot.unreachable_s:
        if snapshot.unreachable_s >= patience_s:
            lost = f"the source was not reachable for {patience_s:g} s: {snapshot.source_error}"
            return FailbackStep(_K.ABORT, lost)
        return FailbackStep(_K.WAIT, f"the source is not reachable: {snapshot.source_error}")
    if snapshot.source is None:
        return FailbackStep(_K.READ_SOURCE, "the log ends of the source")
    reason = why_not_reversed(snapshot.record, snapshot.source)
    if reason:
        return FailbackStep(_K.ABORT, reason)
    if snapshot.source.ends != snapshot.source.log_end_offsets:
        return FailbackStep(_K.WAIT, "the source's followers to have its last records")
    if not record_keeps(snapshot.record):
        return FailbackStep(_K.KEEP)
    if not snapshot.prepared:
        return FailbackStep(_K.PREPARE, "the configs of the failback destination")
    return FailbackStep(_K.SYNCHRONIZED)


def _begin(snapshot: FailbackSnapshot, _: float) -> FailbackStep:
    record = snapshot.record
    if snapshot.gave_up:
        return FailbackStep(_K.FAIL, snapshot.gave_up)
    if snapshot.unreachable_s:
        return FailbackStep(_K.WAIT, f"the source is not reachable: {snapshot.source_error}")
    if not record.is_reverse and record.restore_configs:
        return FailbackStep(_K.RESTORE_CONFIGS, "the configs of the source topic")
    if not record.is_reverse and not record_keeps(record):
        return FailbackStep(_K.KEEP)
    if not snapshot.prepared:
        return FailbackStep(_K.PREPARE, "the configs of the copy")
    if not snapshot.running and not record.failback.then_pause:
        return FailbackStep(_K.START)
    return FailbackStep(_K.BEGIN)


def _set_up(snapshot: FailbackSnapshot, _: float) -> FailbackStep:
    record, source = snapshot.record, snapshot.source
    if snapshot.gave_up:
        return FailbackStep(_K.FAIL, snapshot.gave_up)
    if snapshot.unreachable_s:
        return FailbackStep(_K.WAIT, f"the source is not reachable: {snapshot.source_error}")
    if source is None:
        return FailbackStep(_K.READ_SOURCE, "the failback destination")
    if not source.present:
        return FailbackStep(_K.CREATE if record_keeps(record) else _K.KEEP)
    if is_old(record, source):
        return FailbackStep(_K.DELETE if record_keeps(record) else _K.KEEP)
    if any(source.log_end_offsets):
        found = sum(source.log_end_offsets)
        return FailbackStep(
            _K.FAIL, f"somebody created topic {record.source_topic} on the source anew and wrote {found} records to it"
        )
    if not snapshot.prepared:
        return FailbackStep(_K.PREPARE, "the configs of the new topic")
    return FailbackStep(_K.RECREATED)


def _restore(snapshot: FailbackSnapshot, _: float) -> FailbackStep:
    if snapshot.gave_up:
        return FailbackStep(_K.FAIL, snapshot.gave_up)
    if not snapshot.running:
        return FailbackStep(_K.START)
    if not snapshot.copying:
        return FailbackStep(_K.WAIT, "the new topic to be padded to the target's offsets")
    return FailbackStep(_K.BEGIN)


_DECIDE = {
    _S.PENDING_SYNCHRONIZE: _synchronize,
    _S.PENDING_MIRROR: _begin,
    _S.PENDING_SETUP_FOR_RESTORE: _set_up,
    _S.PENDING_RESTORE_MIRROR: _restore,
}


def record_keeps(record: MirrorRecord) -> bool:
    """True when the copy's own configs, from before a mirror changed them, were persisted."""
    return bool(record.failback.recreate)


# -- the failback destination ----------------------------------------------------------------------------------


def is_old(record: MirrorRecord, source: FailbackDestination) -> bool:
    """True when this is the topic that was mirrored, not one created since.

    A source without topic ids (before 2.8) cannot tell. There, one without records counts as new once the old one's
    configs were kept, and one with records as old.
    """
    if record.source_topic_id and source.topic_id:
        return source.topic_id == record.source_topic_id
    return not record.failback.recreate or any(source.log_end_offsets)


def stopped_at(record: MirrorRecord, source: FailbackDestination) -> tuple[int, ...]:
    """Where the source's logs ended at the cutover; 0 for a partition added later.

    Raises:
        WrongLength: the record does not have an entry for every partition.
    """
    known = of_each(record, record.cutover.stopped_at, "stopped_at")
    return known + (0,) * (len(source.ends) - len(known))


def records_after_cutover(record: MirrorRecord, source: FailbackDestination) -> Mapping[int, int]:
    """Partition -> records that other writers put on the source since the cutover, or that a failover left there.

    A stopped mirror back's records do not count: if the last batch is its own, the sequence rule proves that all since
    the cutover are.
    """
    return {
        partition: top - stopped
        for partition, (top, stopped) in enumerate(
            zip(source.log_end_offsets, stopped_at(record, source), strict=False)
        )
        if top > stopped and not (partition < len(source.ours) and source.ours[partition])
    }


def why_not_reversed(record: MirrorRecord, source: FailbackDestination) -> str:
    """Why the failback destination cannot follow the target as it is; '' when both logs are the same up to the
    cutover."""
    name, remedy = record.source_topic, "`mirror truncate-and-restore` makes it a copy of the target again"
    if not source.present or (record.source_topic_id and source.topic_id and source.topic_id != record.source_topic_id):
        return f"topic {name} was deleted on the source, or created anew; {remedy}"
    partitions = len(record.starts)
    if len(source.ends) < partitions:
        return (
            f"topic {name} has {len(source.ends)} partitions on the source, at the cutover it had "
            f"{partitions}; {remedy}"
        )
    if behind := records_after_cutover(record, source):
        where = ", ".join(f"{count} in partition {partition}" for partition, count in behind.items())
        found = f"{sum(behind.values())} records are on the source and not on the target ({where})"
        return f"{found}; {remedy}, and throws them away"
    pairs = zip(source.log_end_offsets, stopped_at(record, source), strict=True)
    short = [(partition, top, stopped) for partition, (top, stopped) in enumerate(pairs) if top < stopped]
    if short:
        partition, top, stopped = short[0]
        return (
            f"the source lost records: partition {partition} of {name} ends at {top}, at the cutover it ended at "
            f"{stopped}; {remedy}"
        )
    if source.unlike:
        partition = source.unlike[0]
        return (
            f"the last batch before the cutover in partition {partition} of {name} is not the one that the target has: "
            f"the source was truncated and written again; {remedy}"
        )
    return ""
