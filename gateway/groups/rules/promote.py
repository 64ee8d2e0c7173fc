"""Group promote: from what is known now to the next step. Pure; `groups/promote.py` gathers and acts.

Theory of operation
-------------------
A mirror group is read on the source until its last member has left; then its committed offsets are carried over
and its gate on the target opens::

    ACTIVE --MARK_PENDING--> PENDING_PROMOTED                 persisted; the source group has no members
        --READ_OFFSETS--> what it committed on the source
        --CHECK_MEMBERS--> still no members after the reading
        the mirror has every record below those offsets
        --COMMIT--> on the target, whose group is empty since its members wait at the gate
        --READ_BACK--> the target holds exactly what was meant, and the source's offsets are still the same
        --MARK_PROMOTED--> PROMOTED                           persisted: from here on the group is the target's
        DONE: the gate opens by the record, at every gateway

    before MARK_PROMOTED, when a member is seen on the source: --MARK_ACTIVE--> DONE (tried again later)
    behind COMMIT, when the mirror has FAILED or begins anew: --READ_OFFSETS--> and all is translated anew

Safety: the gate opens only for a PROMOTED record; a group is PROMOTED only after the target gave the offsets back,
and by a last look behind that: the source has no members, and the same offsets. Whenever its offsets are seen to be
others, what was read is forgotten. The mark is written right after that look or not at all; one that fails has all be
read again. A PROMOTED group is never written again, so it cannot be rewound.

Offsets are carried as they are. One below the log start, or beyond the source's end, is reset by Kafka itself when
it is read, on either cluster: `notes` says so, and nothing is waited for that cannot come. That an offset is beyond the
end is believed of two readings, `BEYOND_S` apart and with the leaders asked for anew in between: one answer may be of a
leader that has lost its cluster, and its log is shorter than what the group has read of its successor.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from gateway.groups.rules.silences import NO_SILENCES, Silences
from gateway.kafka.topic_partition import TopicPartition
from gateway.state.records import CarriedOffset, GroupState, SourceOffset

_NAMED: Final = 5
BEYOND_S: Final = 10.0
"""Longer than a broker leads without its cluster (`broker.session.timeout.ms` is 9 s)."""
_LOOK_AGAIN_S: Final = 2.0


class GroupStepKind(StrEnum):
    """What to do next. WAIT does nothing."""

    WAIT = "wait"
    MARK_PENDING = "mark_pending"
    READ_OFFSETS = "read_offsets"
    CHECK_MEMBERS = "check_members"
    COMMIT = "commit"
    READ_BACK = "read_back"
    MARK_PROMOTED = "mark_promoted"
    MARK_ACTIVE = "mark_active"
    DONE = "done"


class GroupStep(NamedTuple):
    """The next step and why; `reason` is for people."""

    kind: GroupStepKind
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSnapshot:
    """What is known of one group's promote. Times are one monotonic clock in seconds.

    `waiting`: members at its gate; `looking`: who waits there too, and asks for offsets as tools do (`members_of`).
    `members`: on the source when last asked (None: no answer, `source_error` says why), at `members_at`;
    `empty_since`: since when every asking found none. `offsets` were read at `offsets_at`. `mirrored`: positions of
    the mirror in source offsets; `ends`: where the source's logs ended, as far as it told. `carried`: what was
    made of the offsets, and committed on the target. `read_back`: what it holds now. `requested`: an operator asked;
    `force`: even while the source group has members. `static`: instance ids of the members, when all of them are static
    ones. `memberless_at`: when the offsets on the source were last seen to change while the group had no members.
    `silences`: how long it was silent before such a change. `by_commits_alone`: the source knows the group by its
    commits, nobody has ever joined it; `watched_since`: when one was first looked at, else None.
    `failed`: topics with such offsets whose mirrors have FAILED.
    `demoted`: it was sent back, and nobody has come to the source since. `unmirrored`: topics that a streams group
    (KIP-1071) makes for itself, and that are not mirrored: its coordinator on the target would make them anew.
    """

    state: GroupState
    now: float
    gate_open: bool
    waiting: int
    looking: int = 0
    members: int | None
    members_at: float
    empty_since: float | None
    source_error: str = ""
    auto: bool = True
    requested: bool = False
    force: bool = False
    offsets: tuple[SourceOffset, ...] | None = None
    offsets_at: float = 0.0
    mirrored: Mapping[TopicPartition, int | None]
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    beyond: Mapping[TopicPartition, float] = field(default_factory=dict)
    carried: tuple[CarriedOffset, ...] | None = None
    read_back: Mapping[TopicPartition, tuple[int, str]] | None = None
    failure: str = ""
    static: tuple[str, ...] = ()
    unmirrored: tuple[str, ...] = ()
    failed: frozenset[str] = frozenset()
    demoted: bool = False
    memberless_at: float | None = None
    silences: Silences = NO_SILENCES
    by_commits_alone: bool = False
    watched_since: float | None = None


class GroupLimits(NamedTuple):
    """`quiet_s`: how long a source group must be without members before it is promoted by itself.

    `memberless_quiet_s`: how long at least nobody may have committed for it without being a member. A consumer that
    assigns its partitions itself is no member, and commits every 5 s by default (auto.commit.interval.ms); of one that
    was seen to commit less often it is longer (`Silences`).
    """

    quiet_s: float
    memberless_quiet_s: float = 15.0


def next_step(snapshot: GroupSnapshot, limits: GroupLimits) -> GroupStep:
    """The one thing to do now."""
    if snapshot.state is GroupState.PROMOTED:
        return GroupStep(GroupStepKind.DONE)
    if snapshot.failure:
        return _give_up(snapshot, snapshot.failure)
    if snapshot.members is None:
        return GroupStep(GroupStepKind.WAIT, _unanswered(snapshot))
    if snapshot.members and not snapshot.force:
        return _give_up(snapshot, _who_is_left(snapshot))
    if snapshot.unmirrored and not snapshot.force:
        return _give_up(snapshot, _without_state(snapshot.unmirrored))
    if (waits := _memberless(snapshot, limits)) and not snapshot.force:
        return GroupStep(GroupStepKind.WAIT, waits)
    if snapshot.state is GroupState.ACTIVE:
        return _may_begin(snapshot, limits)
    return _carry_over(snapshot)


def keeps_on_source(snapshot: GroupSnapshot, limits: GroupLimits) -> str:
    """Who may still commit for the group on the source, or is not known not to; '' when nobody does."""
    if snapshot.members is None:
        return _unanswered(snapshot)
    if snapshot.members:
        return _who_is_left(snapshot)
    if snapshot.unmirrored:
        return _without_state(snapshot.unmirrored)
    return _memberless(snapshot, limits)


def _unanswered(snapshot: GroupSnapshot) -> str:
    told = snapshot.source_error
    return told if told.startswith("the source of link") else f"the source does not answer: {told}"


def _who_is_left(snapshot: GroupSnapshot) -> str:
    reason = f"the group still has {snapshot.members} member(s) on the source"
    if snapshot.static:  # they do not leave when they are closed (KIP-345)
        names = ", ".join(snapshot.static)
        reason += f"; static members ({names}) stay until their session times out or they are removed"
    return reason


def _without_state(topics: tuple[str, ...]) -> str:
    named = ", ".join(topics[:_NAMED]) + (f" and {len(topics) - _NAMED} more" if len(topics) > _NAMED else "")
    return f"topics of its topology are not mirrored ({named}): the target would make them anew, empty; mirror them"


def _memberless(snapshot: GroupSnapshot, limits: GroupLimits) -> str:
    """A consumer that assigns its partitions itself is seen by its commits alone, and not before the next one: so a
    group without a sign of members is watched for as long before it is promoted by itself."""
    least_s = limits.memberless_quiet_s
    quiet_s, why = snapshot.silences.quiet_s(least_s), snapshot.silences.why(least_s)
    ago_s = _ago(snapshot.now, snapshot.memberless_at)
    if ago_s < quiet_s:
        return (
            f"offsets were committed on the source {ago_s:.0f} s ago without a member: a consumer that assigns its "
            f"partitions itself still runs there; {quiet_s:g} s must pass without such a commit{why}"
        )
    ago_s = _ago(snapshot.now, snapshot.watched_since)
    if ago_s < quiet_s and not snapshot.requested:
        return (
            f"the source knows the group by its commits alone: a consumer that assigns its partitions itself may run "
            f"there; watched for {ago_s:.0f} of {quiet_s:g} s that must pass without a commit{why}"
        )
    return ""


def _ago(now: float, at: float | None) -> float:
    return math.inf if at is None else now - at


def _give_up(snapshot: GroupSnapshot, reason: str) -> GroupStep:
    kind = GroupStepKind.MARK_ACTIVE if snapshot.state is GroupState.PENDING_PROMOTED else GroupStepKind.WAIT
    return GroupStep(kind, reason)


def _may_begin(snapshot: GroupSnapshot, limits: GroupLimits) -> GroupStep:
    if snapshot.requested:
        return GroupStep(GroupStepKind.MARK_PENDING)
    if not snapshot.auto:
        return GroupStep(GroupStepKind.WAIT, "groups.auto.promote is off: promote it by hand")
    if snapshot.demoted:
        return GroupStep(
            GroupStepKind.WAIT, "it was demoted, and has had no member on the source since: promote it by hand"
        )
    if not snapshot.waiting:
        return GroupStep(GroupStepKind.WAIT, _nobody_waits(snapshot))
    if snapshot.empty_since is None or snapshot.members_at - snapshot.empty_since < limits.quiet_s:
        return GroupStep(GroupStepKind.WAIT, f"the source group must be without members for {limits.quiet_s:g} s")
    return GroupStep(GroupStepKind.MARK_PENDING)


def _nobody_waits(snapshot: GroupSnapshot) -> str:
    reason = "no member waits at the gate: an empty group is not a migrated one"
    if snapshot.looking:
        since = "the group has had members"
        if snapshot.by_commits_alone:
            since = "tools that look at groups ask for them too: their client has neither committed nor fetched there"
        reason += (
            f"; {snapshot.looking} request(s) for its offsets wait there, and do not count since {since}: if it is a "
            "consumer that assigns its partitions itself, promote the group by hand"
        )
    return reason


def _carry_over(snapshot: GroupSnapshot) -> GroupStep:
    if snapshot.offsets is None:
        return GroupStep(GroupStepKind.READ_OFFSETS)
    if snapshot.members_at < snapshot.offsets_at:  # asked for before the offsets were known
        return GroupStep(GroupStepKind.CHECK_MEMBERS)
    if waits := _end_unproven(snapshot, snapshot.offsets):
        is_old = snapshot.now - snapshot.offsets_at >= _LOOK_AGAIN_S
        return GroupStep(GroupStepKind.READ_OFFSETS) if is_old else GroupStep(GroupStepKind.WAIT, waits)
    if waits := _mirror_waits(snapshot, snapshot.offsets):
        # behind a commit it was repaired meanwhile, or is to be: records may get other offsets
        is_late = snapshot.carried is not None
        return GroupStep(GroupStepKind.READ_OFFSETS) if is_late else GroupStep(GroupStepKind.WAIT, waits)
    return _commit(snapshot)


def _commit(snapshot: GroupSnapshot) -> GroupStep:
    """The mirror has all that the offsets point at."""
    if snapshot.carried is None:
        return GroupStep(GroupStepKind.COMMIT)
    if snapshot.read_back is None:
        return GroupStep(GroupStepKind.READ_BACK)
    for one in snapshot.carried:
        held = snapshot.read_back.get((one.topic, one.partition))
        if held != (one.target_offset, one.metadata):
            where = f"{one.topic}-{one.partition}"
            return _give_up(snapshot, f"the target holds {held} for {where}, committed was {one.target_offset}")
    return GroupStep(GroupStepKind.MARK_PROMOTED)


def _end_unproven(snapshot: GroupSnapshot, offsets: Iterable[SourceOffset]) -> str:
    """Of which offset it is not known for long enough that it is beyond its log's end; '' of none."""
    for offset in offsets:
        key = (offset.topic, offset.partition)
        end = snapshot.ends.get(key, offset.offset)
        if offset.offset > end and snapshot.offsets_at - snapshot.beyond.get(key, snapshot.offsets_at) < BEYOND_S:
            return (
                f"the group is at {offset.offset} of {offset.topic}-{offset.partition}, where a leader of the source "
                f"says that the log ends at {end}: looked at again for {BEYOND_S:g} s"
            )
    return ""


def _mirror_waits(snapshot: GroupSnapshot, offsets: Iterable[SourceOffset]) -> str:
    """What the mirror lacks of the records below these offsets; '' when it has them."""
    for offset in offsets:
        if offset.topic in snapshot.failed:
            return _failed(offset.topic)
        key = (offset.topic, offset.partition)
        mirrored = snapshot.mirrored.get(key)
        needed = min(offset.offset, snapshot.ends.get(key, offset.offset))
        if mirrored is None or mirrored < needed:
            at = "is not known yet" if mirrored is None else f"has come to {mirrored}"
            return f"the mirror of {offset.topic}-{offset.partition} {at}, the group is at {offset.offset}"
    return ""


def _failed(topic: str) -> str:
    return (
        f"mirror topic '{topic}' has FAILED, so its copy may not go with the source: repair it, or fail it over; "
        "`mirror describe` says why"
    )


def same_on_source(one: Sequence[SourceOffset], other: Sequence[SourceOffset]) -> bool:
    """Whether two readings found the same offsets committed on the source."""
    return len(one) == len(other) and set(one) == set(other)


def somebody_came(sent_back: Iterable[SourceOffset], now: Iterable[SourceOffset]) -> bool:
    """Whether somebody has committed on the source since a group was sent back there with these offsets.

    Offsets that are missing may have expired, and those of other partitions may be older than their topic's mirror.
    """
    found = {(one.topic, one.partition): one for one in now}
    return any(found.get((one.topic, one.partition), one) != one for one in sent_back)


def notes(
    offsets: Iterable[SourceOffset], ranges: Mapping[TopicPartition, tuple[int, int]], left: Iterable[str]
) -> str:
    """What the operator should know of the offsets carried; '' when there is nothing.

    Args:
        offsets: as carried.
        ranges: (log start, log end) on the source, as far as it told.
        left: topics with a committed offset that are not mirrored.
    """
    said = [f"offsets of {topic} were left on the source: it is not mirrored" for topic in left]
    for offset in offsets:
        where, at = f"{offset.topic}-{offset.partition}", offset.offset
        start, end = ranges.get((offset.topic, offset.partition), (at, at))
        if at < start:
            said.append(
                f"{where}: offset {at} is below the log start {start}; auto.offset.reset decides, as on the source"
            )
        if at > end:
            said.append(
                f"{where}: offset {at} is beyond the log end {end}; auto.offset.reset decides, as on the source"
            )
    return "; ".join(said)


def said_of_cuts(offsets: Iterable[CarriedOffset]) -> list[str]:
    """What to say of offsets that were cut to the end of what was mirrored, as only a failover does."""
    return [
        f"{o.topic}-{o.partition}: offset {o.source_offset} was not mirrored when the topic failed over; cut to "
        f"{o.target_offset}, where the mirrored records end"
        for o in offsets
        if o.rule == "beyond_end"
    ]


class GroupInvariantViolated(Exception):
    """A step that could let a group read on both sides, or from a wrong offset. Never expected."""


def check_invariants(snapshot: GroupSnapshot, step: GroupStep) -> None:
    """Raise GroupInvariantViolated when `step` must not be taken in this situation, whoever decided on it."""
    kind = step.kind
    if kind is GroupStepKind.MARK_PROMOTED:
        unseen = snapshot.offsets is None or snapshot.members_at < snapshot.offsets_at
        if unseen or (snapshot.members and not snapshot.force):
            raise GroupInvariantViolated("a member of the source could still commit")
        if snapshot.carried is None or snapshot.read_back is None:
            raise GroupInvariantViolated("the offsets are not known to be on the target")
        carried = [SourceOffset(o.topic, o.partition, o.source_offset, o.metadata) for o in snapshot.carried]
        if not same_on_source(snapshot.offsets or (), carried):
            raise GroupInvariantViolated("the offsets that were carried over are not those of the source")
    if kind is GroupStepKind.COMMIT and snapshot.state is not GroupState.PENDING_PROMOTED:
        raise GroupInvariantViolated("offsets would be committed for a group that is not being promoted")
    if snapshot.gate_open and snapshot.state is not GroupState.PROMOTED:
        raise GroupInvariantViolated("the gate of a group that is not promoted is open")
