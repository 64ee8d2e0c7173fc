"""The records of a create: the intent that is stored first, and the mirror's own once its topic is there. Pure.

An intent is the same record with `created=False`, no id of its own yet and no topic id: it routes the topic's writes
before there is a topic. A mirror that has FAILED becomes the intent to create its topic anew.
"""

from __future__ import annotations

from dataclasses import replace

from gateway.state.mirror_states import MirrorOperation, apply
from gateway.state.records import MirrorCutover, MirrorError, MirrorFailback, MirrorMode, MirrorRecord
from gateway.topics.plan import MirrorPlan

_KEPT = "offsets are kept; they are translated from the first offset gap on, if there is one"


def record_of(plan: MirrorPlan, now_ms: int, mirror_id: int = 0, target_id: str = "") -> MirrorRecord:
    """The mirror of a plan: the intent to create it, or, with the id of its topic, the one that is created.

    Args:
        now_ms: wall clock, for the record's time.
        mirror_id: above every one that was given out; 0 for an intent.
        target_id: the topic's id on the target; '' for an intent.
    """
    return MirrorRecord(
        link=plan.link.name,
        source_topic=plan.source.name,
        mirror_topic=plan.mirror_topic,
        mirror_id=mirror_id,
        source_topic_id=plan.source.topic_id,
        mirror_topic_id=target_id,
        state_since_ms=now_ms,
        mode=MirrorMode.TRANSLATE if plan.translated else MirrorMode.PRESERVE,
        mode_reason=f"offsets are translated: {plan.translated}" if plan.translated else _KEPT,
        starts=plan.starts,
        compacted=bool(plan.translated),
        restore_configs=dict(plan.configs.restore),
        created=bool(mirror_id),
        configs=dict(plan.wanted.configs),
        replication_factor=plan.wanted.replication_factor,
        start=plan.wanted.start,
        upstream=plan.upstream,
        translates_ids=plan.translates_ids,
    )


def anew(failed: MirrorRecord, base: MirrorRecord, now_ms: int) -> MirrorRecord:
    """The intent to create a failed mirror's topic anew: the record of a new one, which goes on with what outlives a
    copy: write pauses are numbered on, and so are failbacks, since the source's brokers remember producers by them.

    Raises:
        WrongState: it has not FAILED.
    """
    new = apply(
        MirrorOperation.REPAIR,
        failed,
        now_ms,
        mirror_id=base.mirror_id,
        source_topic_id=base.source_topic_id,
        mirror_topic_id="",
        mode=base.mode,
        mode_reason=base.mode_reason,
        starts=base.starts,
        error=MirrorError.NO_ERROR,
        error_message="",
        restore_configs=dict(base.restore_configs),
        readable=False,
        created=False,
        compacted=base.compacted,
        lost=(),
        repairs=failed.repairs + 1,
    )
    cutover = MirrorCutover(
        pause_epoch=failed.cutover.pause_epoch, at_ms=failed.cutover.at_ms, producers=failed.cutover.producers
    )
    return replace(new, cutover=cutover, failback=MirrorFailback(epoch=failed.failback.epoch))


def going_on(record: MirrorRecord, begun: MirrorRecord | None) -> MirrorRecord:
    """With what the intent of an attempt before has that this one does not find out."""
    if begun is None:
        return record
    return replace(
        record,
        cutover=begun.cutover,
        failback=begun.failback,
        replaces=begun.replaces,
        repairs=begun.repairs,
        transition_errors=begun.transition_errors,
        translates_ids=begun.translates_ids,
    )
