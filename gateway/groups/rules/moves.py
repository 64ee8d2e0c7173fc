"""A group that changes sides together with topics: what is known of it, and what keeps it. Pure.

`cutover/promote/rules/groups.py` decides the steps; `groups/moves.py` gathers what stands here. There and home are one:
the group's *origin* is the cluster on which it commits until the cutover (the source, or at home the target), the other
one gets its offsets.

What keeps a group before the write pause is waited for (`waits`); what can never come right ends the promote
(`trouble`). Under the write pause nobody is waited for who is not held by a gateway: a member on the source then has
come beside the gateways, and ends it.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass

from gateway.cutover.write_pause.rules.routing_build import written_on_target
from gateway.kafka.topic_partition import TopicPartition
from gateway.state.records import CarriedOffset, GroupRecord, GroupState, MirrorRecord, SourceOffset

Value = tuple[int, str]
"""A committed offset, and its metadata."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMove:
    """One group as it is now. Times are monotonic seconds; what was not asked yet is None.

    `trouble`: why it cannot change sides; `waits`: what keeps it, and may come right; both '' for nothing. `looked_at`:
    when its members were last asked for. `locked`: no other operation commits for it, and every gateway has read that
    it changes sides. `shut`: its gate is closed at every gateway, and every commit that had passed it is answered.
    `offsets`: what it has committed at its origin, asked for at `asked_at`. `meant`: what the other cluster is to hold,
    and was told to; `held`: what it gave back. `seen_at`: when the origin was last seen, behind that, without a member
    beside the gateways and with the very same offsets.
    """

    group: str
    home: bool = False
    trouble: str = ""
    waits: str = ""
    looked_at: float | None = None
    locked: bool = False
    shut: bool = False
    offsets: Mapping[TopicPartition, Value] | None = None
    asked_at: float = 0.0
    meant: Mapping[TopicPartition, Value] | None = None
    held: Mapping[TopicPartition, Value] | None = None
    seen_at: float | None = None

    @property
    def differs(self) -> str:
        """An offset that the other cluster does not hold as it was told; '' while none is known."""
        if self.meant is None or self.held is None:
            return ""
        for (topic, partition), value in sorted(self.meant.items()):
            found = self.held.get((topic, partition))
            if found != value:
                where = "source" if self.home else "target"
                held = "nothing" if found is None else f"{found[0]} with metadata {found[1]!r}"
                return f"the {where} holds {held} for {topic}-{partition}, committed was {value[0]} with {value[1]!r}"
        return ""


def begins_as(home: bool) -> GroupState:
    """The state in which a group can change sides."""
    return GroupState.PROMOTED if home else GroupState.ACTIVE


def cannot_begin(record: GroupRecord | None, group: str, link: str, *, home: bool) -> str:
    """Why a group can never be of a set as its record is; '' when it may be, by now or soon."""
    if record is None:
        return (
            f"link '{link}' has no mirror group '{group}'; declare it first: lockgate group create {group} --link "
            f"{link}"
        )
    if home and record.state is not GroupState.PROMOTED:
        return f"group '{group}' is {record.state}, not PROMOTED: it is the source's already; leave it out"
    if not home and record.state is GroupState.PROMOTED:
        return (
            f"group '{group}' is promoted already; leave it out, or demote it first: lockgate group demote {group} "
            f"--link {link}"
        )
    if not home and record.state is GroupState.FAILED:
        return f"group '{group}' has FAILED: {record.error_message}"
    return ""


def left_out(
    group: str, topics: Collection[str], moving: Collection[str], mirrors: Mapping[str, MirrorRecord], *, home: bool
) -> str:
    """A topic of the group that would be written on the other side than the group is; '' for none.

    Args:
        topics: mirror topics that the group has offsets of.
        moving: the mirror topics of the set.
        mirrors: of the link, by mirror topic.
    """
    for topic in sorted(set(topics) - set(moving)):
        mirror = mirrors.get(topic)
        if mirror is None or written_on_target(mirror) is not home:
            continue
        where = "written on the target" if home else "not promoted"
        then = "fails back with them" if home else "is promoted with them, or before"
        return (
            f"group '{group}' reads mirror topic '{topic}' too, which is {where} and not among these topics: a group "
            f"is on one side only; name '{topic}' as well, so that it {then}"
        )
    return ""


def lost_on_target(record: GroupRecord, held: Collection[TopicPartition], mirrored: Container[str]) -> str:
    """A partition that was carried to the target and of which the target holds nothing now; '' for none.

    Of a topic that is not `mirrored` any more nothing can be carried back, and nothing is on the source for it: its
    mirror was deleted, which was refused, or forced, while the group read it.
    """
    for one in record.offsets:
        if one.topic in mirrored and (one.topic, one.partition) not in held:
            return (
                f"the target holds no offset of {one.topic}-{one.partition} for group '{record.group}' any more, which "
                "was carried over when it was promoted: the source would have it read again what it has read"
            )
    return ""


def as_values(offsets: Collection[SourceOffset]) -> dict[TopicPartition, Value]:
    """The same by partition."""
    return {(one.topic, one.partition): (one.offset, one.metadata) for one in offsets}


def meant_on_target(carried: Collection[CarriedOffset]) -> dict[TopicPartition, Value]:
    """What the target is to hold."""
    return {(one.topic, one.partition): (one.target_offset, one.metadata) for one in carried}
