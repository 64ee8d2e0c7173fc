"""Bodies of /v3/links/{link}/groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, Field

from gateway.api.models import Body
from gateway.api.paging import ListMetadata
from gateway.groups.operations import MirrorGroupView, Removed
from gateway.groups.rules.left_behind import LeftBehind, left_behind
from gateway.groups.rules.offset_sync_status import OffsetSyncStatus
from gateway.state.records import GroupKind


class CreateGroup(Body):
    """A group of the source, under its name on the target."""

    group: str


class MemberData(BaseModel):
    """A member on the source."""

    client_id: str
    host: str
    topics: list[str]
    member_id: str = ""
    instance_id: str | None = Field(None, description="Of a static member.")
    waits: bool = Field(
        default=False, description="Its process waits at the gateway under the same name, so it did not leave."
    )
    session_timeout_ms: int | None = Field(
        None, description="After which the source removes it, as it says where it waits; null: not known."
    )

    @classmethod
    def of(cls, one: LeftBehind) -> MemberData:
        """With what is known of its process."""
        return cls(
            client_id=one.member.client_id,
            host=one.member.host,
            topics=sorted(one.member.topics),
            member_id=one.member.member_id,
            instance_id=one.member.instance_id,
            waits=one.waits,
            session_timeout_ms=round(one.session_timeout_s * 1000) or None,
        )


class RemoveMembers(Body):
    """`member_ids`: none: all whose processes wait at the gateway. `force`: also those that nobody waits for."""

    member_ids: list[str] = Field(default_factory=list)
    force: bool = False


class RemovedMember(BaseModel):
    """`error`: why the source did not remove it, '' when it did; null: it was not asked."""

    member: MemberData
    error: str | None


class RemovedMembers(BaseModel):
    """Members of a group that were removed on the source, or would be."""

    kind: Literal["LockgateRemovedMembers"] = "LockgateRemovedMembers"
    link_name: str
    group: str
    data: list[RemovedMember]

    @classmethod
    def of(cls, link: str, group: str, removed: Sequence[Removed]) -> RemovedMembers:
        """From the operation's answer."""
        found = [RemovedMember(member=MemberData.of(one.left_behind), error=one.error) for one in removed]
        return cls(link_name=link, group=group, data=found)


class WaiterData(BaseModel):
    """A member that waits at the gateway."""

    client_id: str
    host: str
    principal: str
    waiting_s: float


class OffsetData(BaseModel):
    """A committed offset of the source; `target_offset` is what was carried over, null before the promote."""

    topic: str
    partition: int
    source_offset: int
    target_offset: int | None
    rule: str = Field("", description="How it was translated: exact, next_record, log_start.")


class OffsetSyncData(BaseModel):
    """How offset sync stands. `lag`: records read on the source that the mirror does not have yet.

    `held_back`: partitions (topic-number) whose offset on the source is below the one on the target.
    """

    last_sync_ms: int
    error: str
    lag: int
    held_back: list[str]

    @classmethod
    def of(cls, status: OffsetSyncStatus) -> OffsetSyncData:
        """From the sync's own numbers."""
        held_back = [f"{topic}-{partition}" for topic, partition in status.held_back]
        return cls(last_sync_ms=status.synced_ms, error=status.error, lag=status.behind, held_back=held_back)


class TargetMember(BaseModel):
    """A member on the target, which reads there by a gateway or beside it."""

    client_id: str
    host: str
    topics: list[str]


class GroupData(BaseModel):
    """A mirror group. `source_state` and `members` are null when the source did not tell; `unknown`: why."""

    kind: Literal["KafkaMirrorGroupData"] = "KafkaMirrorGroupData"
    link_name: str
    group: str
    source_group: str
    group_type: GroupKind = Field(description="How it consumes, as the cluster told that it was carried from last.")
    topology_epoch: int | None = Field(description="Of a streams group on the source: which topology it runs.")
    state: str
    state_time_ms: int
    error_message: str
    source_state: str | None
    members: list[MemberData] | None
    target_members: list[TargetMember] | None = Field(
        None, description="Members on the target, in describe; null: the target did not tell."
    )
    note: str = Field(description="What to know of the offsets that were carried.")
    waits_for: str = Field(description="Why it is not promoted yet.")
    members_after_promote: bool = Field(description="A promoted group has members on the source again.")
    commits_after_promote: int = Field(description="Partitions committed on the source since the promote.")
    waiting: list[WaiterData]
    offsets: list[OffsetData]
    offset_sync: OffsetSyncData | None = Field(description="Null while it is not synced.")
    unknown: str

    @classmethod
    def of(cls, view: MirrorGroupView, now_s: float) -> GroupData:
        """From the view; `now_s` is the monotonic clock."""
        source = view.source
        return cls(
            link_name=view.record.link,
            group=view.record.group,
            source_group=view.record.source_name,
            group_type=view.record.kind,
            topology_epoch=source.topology_epoch if source is not None and source.topology_epoch >= 0 else None,
            state=view.record.state.value,
            state_time_ms=view.record.state_since_ms,
            error_message=view.record.error_message,
            source_state=None if source is None else source.state,
            members=None
            if source is None
            else [MemberData.of(one) for one in left_behind(source.members, view.waiting)],
            target_members=None
            if view.target is None
            else [
                TargetMember(client_id=one.client_id, host=one.host, topics=sorted(one.topics))
                for one in view.target.members
            ],
            note=view.record.note,
            waits_for=view.waits_for,
            members_after_promote=view.members_after_promote,
            commits_after_promote=view.commits_after_promote,
            waiting=[
                WaiterData(
                    client_id=waiter.identity.client_id,
                    host=waiter.identity.host,
                    principal=waiter.identity.principal,
                    waiting_s=round(max(0.0, now_s - waiter.since), 3),
                )
                for waiter in view.waiting
            ],
            offsets=_offsets(view),
            offset_sync=None if view.sync is None else OffsetSyncData.of(view.sync),
            unknown=view.unknown,
        )


class GroupList(BaseModel):
    """The mirror groups of a link."""

    kind: Literal["KafkaMirrorGroupDataList"] = "KafkaMirrorGroupDataList"
    metadata: ListMetadata
    data: list[GroupData]


def _offsets(view: MirrorGroupView) -> list[OffsetData]:
    """Carried offsets once there are some, else what the source has now."""
    if view.record.offsets:
        return [
            OffsetData(
                topic=o.topic,
                partition=o.partition,
                source_offset=o.source_offset,
                target_offset=o.target_offset,
                rule=o.rule,
            )
            for o in view.record.offsets
        ]
    return [
        OffsetData(topic=topic, partition=partition, source_offset=committed.offset, target_offset=None, rule="")
        for (topic, partition), committed in sorted((view.offsets or {}).items())
    ]
