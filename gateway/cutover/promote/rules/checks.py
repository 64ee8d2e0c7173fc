"""The invariants of a topic promote, whatever was interrupted where: a second opinion, independent of the decision.

Checked at every step, in tests and in production; `cutover/promote/rules/promote.py` explains why these conditions make
a cutover safe.
"""

from __future__ import annotations

from collections.abc import Iterable

from gateway.cutover.promote.rules import groups as of_groups
from gateway.cutover.promote.rules.snapshot import (
    CopyReading,
    Drain,
    PromoteLimits,
    PromoteSnapshot,
    PromoteStep,
    StepKind,
    TopicSnapshot,
)
from gateway.cutover.write_pause.interface import PauseAck
from gateway.cutover.write_pause.rules.routing import WritePhase
from gateway.state.records import MirrorState


class InvariantViolated(Exception):
    """A promote is in a state, or about to take a step, that could lose or fork records. Never expected."""


def check_invariants(snapshot: PromoteSnapshot) -> None:
    """Check what holds in every snapshot, whatever was interrupted where.

    Raises:
        InvariantViolated: naming the topic.
    """
    for topic in snapshot.topics:
        phases = set(topic.phases.values())
        if {WritePhase.FORWARD, WritePhase.SWITCHED} <= phases:
            raise InvariantViolated(f"{topic.topic} is written on both clusters: {dict(topic.phases)}")
        if WritePhase.SWITCHED in phases and topic.state is not MirrorState.STOPPED:
            raise InvariantViolated(f"{topic.topic} is written on the target in state {topic.state}")
        if WritePhase.FORWARD in phases and (topic.state is MirrorState.STOPPED or snapshot.committing):
            raise InvariantViolated(f"{topic.topic} is written on the source, but may be STOPPED")


def check_step(snapshot: PromoteSnapshot, step: PromoteStep, limits: PromoteLimits) -> None:
    """Check what must hold before a step that cannot be taken back.

    Raises:
        InvariantViolated: naming the topic and the condition.
    """
    if snapshot.rehearses and (snapshot.committing or step.kind is StepKind.PERSIST_STOPPED):
        raise InvariantViolated("a rehearsal is about to cut over")
    if step.kind is StepKind.PERSIST_STOPPED and not snapshot.committing:
        grace = limits.grace_s
        if any(ack.unknown_outcomes for t in snapshot.topics for ack in t.acks.values()) or snapshot.departed:
            grace = limits.unknown_grace_s
        for topic in snapshot.topics:
            if topic.called_off:
                raise InvariantViolated(f"cutover of {topic.topic}, which was called off")
            if (broken := _not_ready_for_cutover(topic, snapshot.gateways, grace)) is not None:
                raise InvariantViolated(f"cutover of {topic.topic} without: {broken}")
        _check_groups(snapshot)
    if step.kind is StepKind.PUBLISH_SWITCHED:
        _require(snapshot.topics, (MirrorState.STOPPED,), step)
    if step.kind in (StepKind.RESUME_WRITES, StepKind.MARK_ACTIVE, StepKind.MARK_PENDING):
        if snapshot.committing:
            raise InvariantViolated(f"{step.kind} while STOPPED may be persisted")
        _require(snapshot.topics, tuple(s for s in MirrorState if s is not MirrorState.STOPPED), step)


def _check_groups(snapshot: PromoteSnapshot) -> None:
    wanted = {group.group for group in snapshot.groups}
    if any(not wanted <= ack.groups for topic in snapshot.topics for ack in topic.acks.values()):
        raise InvariantViolated(f"cutover of groups {sorted(wanted)} that not every gateway holds")
    acked_at = max(topic.acked_at for topic in snapshot.topics)
    if (missing := of_groups.broken(snapshot.groups, snapshot.now, acked_at)) is not None:
        raise InvariantViolated(f"cutover of {missing}")


def _require(topics: Iterable[TopicSnapshot], states: tuple[MirrorState, ...], step: PromoteStep) -> None:
    for topic in topics:
        if topic.state not in states:
            raise InvariantViolated(f"{step.kind} of {topic.topic} in state {topic.state}")


def _not_ready_for_cutover(topic: TopicSnapshot, gateways: frozenset[str], grace: float) -> str | None:
    """The first condition of the cutover that does not hold. Independent of the decision.

    `grace`: seconds for which the source's ends must stand still.
    """
    drain = topic.drain
    if topic.state is not MirrorState.PENDING_STOPPED or not topic.marked:
        return "a PENDING_STOPPED record of this run"
    if set(topic.phases) != gateways or set(topic.phases.values()) != {WritePhase.PAUSED}:
        return "a pause at every live gateway"
    if any(g not in topic.acks or topic.acks[g].epoch != topic.epoch for g in gateways):
        return "an acknowledgement of the present epoch by every live gateway"
    if drain is None or drain.first.asked < topic.acked_at:
        return "readings of the source that are younger than the acknowledgements"
    if drain.last.asked - drain.since < grace:
        return "source ends that stood still for the grace"
    if lost := _lost(topic.acks.values(), drain.last.ends):
        return lost
    return _not_at_rest(topic, drain)


def _lost(acks: Iterable[PauseAck], ends: tuple[int, ...]) -> str | None:
    for ack in acks:
        if lost := [at for at in ack.acked if at[0] < len(ends) and at[1] > ends[at[0]]]:
            return f"the records that gateway '{ack.gateway}' has acknowledged, (partition, end) {lost}"
    return None


def _not_at_rest(topic: TopicSnapshot, drain: Drain) -> str | None:
    if not topic.stopped:
        return "a stopped mirror"
    if not (topic.positions == drain.last.mirrored == drain.last.ends == drain.last.log_end_offsets):
        return f"a mirror at the source's end ({topic.positions}, {drain.last})"
    if drain.last.last_stable not in (None, drain.last.ends) or drain.last.transactions or not drain.complete:
        return f"an end of every transaction before the last reading ({drain})"
    return _not_recordable(topic, drain.last.ends)


def _not_recordable(topic: TopicSnapshot, ends: tuple[int, ...]) -> str | None:
    """The first input of the cutover's record that is missing or wrong."""
    handed, copy = topic.handed, topic.copy
    if topic.partitions != len(ends):
        return f"as many partitions as the origin has ({topic.partitions}, {len(ends)})"
    if handed is None or not handed.covers(len(ends)):
        return f"the ends and producers of every partition ({handed})"
    if handed.mirrored != ends:
        return f"a mirror that stood at the source's end ({handed.mirrored}, {ends})"
    if copy is None or copy.ends != copy.log_end_offsets or not _is_where_it_stood(copy, handed.copied):
        return f"a copy that ends where its mirror stood ({copy}, {handed.copied})"
    if copy.thin:
        return f"a copy on two replicas ({copy.thin})"
    return None


def _is_where_it_stood(copy: CopyReading, copied: tuple[int, ...]) -> bool:
    """The copy ends where its mirror stood, except for late writes that are known to be kept."""
    pairs = zip(copy.ends, copied, strict=True)
    return all(end == at or (end > at and index in copy.kept) for index, (end, at) in enumerate(pairs))
