"""Groups that change sides together with topics: what they add to a promote's steps. Pure.

`cutover/promote/rules/promote.py` has the topics' steps; with groups in the set these come between them, the same on
the way there and home::

    PENDING_STOPPED                                     the records name the topics and the groups: from here on no
                                                        group of them is promoted or demoted by itself
        lag small, configs read, ACLs synced
        --LOOK_AT_GROUPS--> nobody is left on the source, beside the gateways         bounded: GROUPS_S
        --HOLD_GROUPS--> nobody else here commits for them; every gateway has read the records
        --PAUSE_WRITES--> every gateway holds the groups with the topics: no transaction takes one in, none that has
                          one is open, and the markers of those before are written
        --READ_ENDS ... READ_COPY--> all that was written is on the other cluster
        [home] --SHUT_GATES--> no member commits by a gateway; what had passed a gate is answered
        --READ_GROUPS--> what the groups have committed at their origin; stable: no transaction's offsets are pending
        --COMMIT_GROUPS--> on the other cluster, in its numbers
        --CHECK_GROUPS--> it holds exactly that; at the origin still nobody, and the same offsets
        --PERSIST_STOPPED--> topics and groups, by one write                          the point of no return
        the pause, the gates: by the records, everywhere

    before PERSIST_STOPPED, on any trouble: --RESUME_WRITES--> the groups are let go with the topics --MARK_ACTIVE-->

Invariants (`broken`, asked apart from the decision before PERSIST_STOPPED):

1. No group of the set is on one side while a topic of it is on the other: their records change by one write, or not.
2. Nothing is committed at the origin after `offsets` were read: each gateway's acknowledgement, which says that it
   holds the groups, is older than the reading; at home the gates were shut and their commits answered before. Who
   commits beside the gateways shows in the last look, which is younger than `SEEN_S`.
3. The other cluster gave back exactly what was read, translated, offsets and metadata.
4. What is written to the other cluster before counts for nothing: the group's gate is shut there (at home, the group
   is the target's), and the next promote writes it anew.

Interruption. The records alone outlive the process. The next leader marks the set again, and reads, commits and looks
anew. A gateway that does not acknowledge the groups (an older version) or is lost under the pause ends the promote.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.cutover.promote.rules.snapshot import PromoteSnapshot, PromoteStep, StepKind
from gateway.groups.rules.moves import GroupMove

GROUPS_S: Final = 600.0
"""For so long members on the source are waited for before the write pause: a rolling restart of their application."""
FRESH_S: Final = 2.0
"""So old may a look be by which the write pause begins."""
SEEN_S: Final = 1.0
"""So old may the last look be by which topics and groups change sides."""
_AGAIN_S: Final = 0.2
_LOOK_AGAIN_S: Final = 0.003


def trouble(snapshot: PromoteSnapshot) -> str:
    """Why the promote must be given up for a group's sake, or ''."""
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
    """A gateway that has paused writes, and said nothing of the groups."""
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
    """The groups' part behind the topics'; None when all of them may change sides."""
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
    """The first condition for groups to change sides that does not hold. Written apart from the decision.

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
