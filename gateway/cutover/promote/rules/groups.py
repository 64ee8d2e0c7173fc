"""Groups that change sides together with topics: what they add to a promote's steps. Pure.

`cutover/promote/rules/promote.py` has the topics' steps; groups in the set add these steps, for a promote and for a
failback ("home")::

    PENDING_STOPPED                                     the records name the topics and the groups: from here on none
                                                        of these groups is promoted or demoted on its own
        lag small, configs read, ACLs synced
        --LOOK_AT_GROUPS--> no member is left on the source outside the gateways      bounded: GROUPS_S
        --HOLD_GROUPS--> no other operation here commits for them; every gateway has read the records
        --PAUSE_WRITES--> every gateway holds the groups with the topics: no transaction adds one, none that has one is
                          open, and the markers of earlier ones are written
        --READ_ENDS ... READ_COPY--> all records are on the other cluster
        [home] --SHUT_GATES--> no member commits through a gateway; commits that had passed a gate are answered
        --READ_GROUPS--> the groups' committed offsets at their origin; stable: no transaction's offsets are pending
        --COMMIT_GROUPS--> committed on the other cluster, translated
        --CHECK_GROUPS--> it holds exactly these; at the origin still no member, and the same offsets
        --PERSIST_STOPPED--> topics and groups, by one write                          the point of no return
        the records end the pause and set the gates everywhere

    before PERSIST_STOPPED, on any trouble: --RESUME_WRITES--> the groups are let go with the topics --MARK_ACTIVE-->

Invariants (`broken`, checked before PERSIST_STOPPED, independent of the decision):

1. No group of the set is on one side while a topic of it is on the other: one write changes their records, or none.
2. Nothing is committed at the origin after `offsets` were read: each gateway's acknowledgement, which says that it
   holds the groups, is older than the reading; for a failback the gates were shut and their commits answered before.
   Commits outside the gateways show in the last look, which is newer than `SEEN_S`.
3. The other cluster gave back exactly what was read, translated, offsets and metadata.
4. Earlier commits to the other cluster have no effect: the group's gate is closed there (for a failback, the group is
   the target's), and the next promote commits again.

Interruption. Only the records outlive the process. The next leader marks the set again, and reads, commits and checks
again. A gateway that does not acknowledge the groups (an older version) or is lost under the pause ends the promote.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.cutover.promote.rules.snapshot import PromoteSnapshot, PromoteStep, StepKind
from gateway.groups.rules.moves import GroupMove

GROUPS_S: Final = 600.0
"""How long to wait for members to leave the source before the write pause: a rolling restart of their application."""
FRESH_S: Final = 2.0
"""The greatest age of a look at which the write pause begins."""
SEEN_S: Final = 1.0
"""The greatest age of the last look at which topics and groups change sides."""
_AGAIN_S: Final = 0.2
_LOOK_AGAIN_S: Final = 0.003


def trouble(snapshot: PromoteSnapshot) -> str:
    """Why the promote must be given up because of a group, or ''."""
    for group in snapshot.groups:
        if group.trouble:
            return group.trouble
    if not snapshot.groups:
        return ""
    if snapshot.paused_at is None:
        return _too_long(snapshot)
    if snapshot.departed:
        return "a gateway was lost under the write pause: what it had under way for the groups is not known"
    for group in snapshot.groups:
        if group.waits:
            return f"under the write pause: {group.waits}"
        if group.differs:
            return f"group '{group.group}': {group.differs}"
    return _not_held(snapshot)


def _too_long(snapshot: PromoteSnapshot) -> str:
    waits = next((group.waits for group in snapshot.groups if group.waits), "") or snapshot.group_error
    since = snapshot.groups_since
    if not waits or since is None or snapshot.now - since < GROUPS_S:
        return ""
    return f"after {GROUPS_S:g} s {waits}"


def _not_held(snapshot: PromoteSnapshot) -> str:
    """A gateway has paused writes and does not hold the groups."""
    wanted = {group.group for group in snapshot.groups}
    for topic in snapshot.topics:
        for name, ack in sorted(topic.acks.items()):
            if ack.epoch == topic.epoch and not wanted <= ack.groups:
                return (
                    f"gateway '{name}' does not hold group '{min(wanted - ack.groups)}' with {topic.topic}: it is of "
                    "an older version; upgrade every gateway first, or promote without groups"
                )
    return ""


def before_pause(snapshot: PromoteSnapshot) -> PromoteStep | None:
    """The groups' part before writes pause; None when there is nothing to do for them."""
    groups, error = snapshot.groups, snapshot.group_error
    if waits := next((group.waits for group in groups if group.waits), ""):
        return PromoteStep(StepKind.LOOK_AT_GROUPS, waits, _AGAIN_S)
    if any(group.looked_at is None for group in groups):
        return PromoteStep(StepKind.LOOK_AT_GROUPS, "the members of its groups")
    if not all(group.locked for group in groups):
        waits = error or "other operations on its groups, and what every gateway has read"
        return PromoteStep(StepKind.HOLD_GROUPS, waits, _AGAIN_S if error else 0.0)
    if any(snapshot.now - (group.looked_at or 0.0) > FRESH_S for group in groups):
        return PromoteStep(StepKind.LOOK_AT_GROUPS, "the members of its groups")
    return None


def under_pause(snapshot: PromoteSnapshot) -> PromoteStep | None:
    """The groups' part after the topics'; None when all groups may change sides."""
    groups, error = snapshot.groups, snapshot.group_error
    delay_s = _LOOK_AGAIN_S if error else 0.0
    if any(group.home and not group.shut for group in groups):
        return PromoteStep(StepKind.SHUT_GATES, error or "the gates of its groups to be shut", delay_s)
    if any(group.offsets is None for group in groups):
        return PromoteStep(StepKind.READ_GROUPS, error or "the offsets of its groups", delay_s)
    if any(group.meant is None for group in groups):
        return PromoteStep(StepKind.COMMIT_GROUPS, error or "the offsets of its groups on the other cluster", delay_s)
    if any(group.held is None or not _is_seen(group, snapshot.now) for group in groups):
        return PromoteStep(StepKind.CHECK_GROUPS, error or "the offsets of its groups to be read back", delay_s)
    return None


def _is_seen(group: GroupMove, now: float) -> bool:
    return group.seen_at is not None and now - group.seen_at <= SEEN_S / 2


def broken(groups: Sequence[GroupMove], now: float, acked_at: float) -> str | None:
    """The first condition for groups to change sides that does not hold. Independent of the decision.

    Args:
        acked_at: when the last gateway acknowledged the pause.
    """
    for group in groups:
        if missing := _missing(group, now, acked_at):
            return f"group '{group.group}' without {missing}"
    return None


def _missing(group: GroupMove, now: float, acked_at: float) -> str:
    if group.trouble or group.waits:
        return f"a way: {group.trouble or group.waits}"
    if not group.locked or (group.home and not group.shut):
        return "a hold by all who may commit for it"
    if group.offsets is None or group.asked_at < acked_at:
        return "offsets that are younger than the acknowledgements"
    if group.meant is None or group.held is None or group.meant.keys() != group.offsets.keys():
        return "its offsets on the other cluster"
    if any(group.held.get(key) != value for key, value in group.meant.items()):
        return "the very offsets on the other cluster"
    if group.seen_at is None or now - group.seen_at > SEEN_S:
        return "a last look at its origin"
    return ""
