"""The state of one group of the classic protocol, as a coordinator keeps it.

A group is Empty, PreparingRebalance (waits for its members' JoinGroups), CompletingRebalance (waits for the leader's
SyncGroup) or Stable. Nothing here knows of time or connections: who waits for an answer is a callable to be called
with it, and `group_rules.py` decides when. What a coordinator writes into `__consumer_offsets`, and so what a new one
still knows after a move, is a `GroupRecord`: it is written by the leader's SyncGroup and when a group becomes empty, so
that a rebalance under way is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from zlib import crc32

from protocol.consumer_protocol import PROTOCOL_TYPE, decode_subscription
from protocol.errors import ErrorCode, MalformedFrame


class GroupState(StrEnum):
    """Kafka's names of the states, as ListGroups and DescribeGroups show them."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """The answer to a JoinGroup. `members` is (member id, instance id, metadata), for the leader only."""

    error: int = 0
    member_id: str = ""
    generation: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[tuple[str, str | None, bytes], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    """The answer to a SyncGroup."""

    error: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


OnJoined = Callable[[Joined], None]
OnSynced = Callable[[Synced], None]


@dataclass(slots=True, kw_only=True)
class Member:
    """One member. Times are milliseconds; `protocols` is name -> metadata in the member's order of liking."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_ms: int
    session_ms: int
    protocol_type: str
    protocols: Mapping[str, bytes]
    assignment: bytes = b""
    is_new: bool = False
    on_joined: OnJoined | None = None
    on_synced: OnSynced | None = None

    def vote(self, candidates: frozenset[str]) -> str:
        """The first protocol of this member's that all members have."""
        return next(name for name in self.protocols if name in candidates)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecord:
    """A group as its coordinator writes it into `__consumer_offsets`."""

    generation: int
    protocol_type: str | None
    protocol_name: str | None
    leader: str | None
    members: tuple[Member, ...]


@dataclass(slots=True)
class ClassicGroup:
    """One group. `previous` is the state before this one: the first rebalance of an empty group waits longer."""

    group_id: str
    state: GroupState = GroupState.EMPTY
    previous: GroupState = GroupState.DEAD
    generation: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    statics: dict[str, str] = field(default_factory=dict)
    pending_joins: dict[str, None] = field(default_factory=dict)
    pending_syncs: dict[str, None] = field(default_factory=dict)
    new_member_added: bool = False

    @classmethod
    def load(cls, group_id: str, record: GroupRecord) -> ClassicGroup:
        """What a coordinator makes of the record when it takes the group over."""
        members = {member.member_id: _copy(member) for member in record.members}
        return cls(
            group_id,
            state=GroupState.STABLE if members else GroupState.EMPTY,
            generation=record.generation,
            protocol_type=record.protocol_type,
            protocol_name=record.protocol_name,
            leader=record.leader,
            members=members,
            statics={m.instance_id: m.member_id for m in members.values() if m.instance_id is not None},
        )

    def record(self, assignments: Mapping[str, bytes] | None = None) -> GroupRecord:
        """What the coordinator writes now; `assignments` where they are not the members' yet."""
        members = tuple(_copy(member) for member in self.members.values())
        for member in members:
            if assignments is not None:
                member.assignment = assignments.get(member.member_id, b"")
        return GroupRecord(
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=self.leader,
            members=members,
        )

    def to(self, state: GroupState) -> None:
        """Change the state."""
        self.previous, self.state = self.state, state

    @property
    def rebalance_ms(self) -> int:
        """The longest rebalance timeout of the members."""
        return max((member.rebalance_ms for member in self.members.values()), default=0)

    @property
    def all_joined(self) -> bool:
        """Every member has sent its JoinGroup, and nobody who was given an id is still to come back with it."""
        return not self.pending_joins and all(m.on_joined is not None for m in self.members.values())

    @property
    def waiting(self) -> int:
        """Members that wait for the answer to their JoinGroup."""
        return sum(member.on_joined is not None for member in self.members.values())

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """A member with these protocols may join."""
        names = list(names)
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(names)
        if self.protocol_type != protocol_type:
            return False
        return bool(self._common() & set(names) if self.members else names)  # all have left, and one is on its way

    def _common(self) -> frozenset[str]:
        each = [frozenset(member.protocols) for member in self.members.values()]
        return each[0].intersection(*each) if each else frozenset()

    def select_protocol(self) -> str:
        """The protocol that most members like best, of those that all have."""
        common = self._common()
        votes: dict[str, int] = {}
        for member in self.members.values():
            name = member.vote(common)
            votes[name] = votes.get(name, 0) + 1
        return max(sorted(votes), key=votes.__getitem__)

    def add(self, member: Member) -> None:
        """A new member; the first one leads."""
        if member.instance_id is not None:
            self.statics[member.instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self.pending_joins.pop(member.member_id, None)

    def remove(self, member_id: str) -> None:
        """A member, or one that was given an id, goes."""
        member = self.members.pop(member_id, None)
        if member is not None and member.instance_id is not None:
            self.statics.pop(member.instance_id, None)
        if self.leader == member_id:
            self.leader = _any_of(self.members)
        self.pending_joins.pop(member_id, None)
        self.pending_syncs.pop(member_id, None)

    def elect_joined_leader(self) -> bool:
        """Have a member lead that has joined this rebalance. False when there is none."""
        if self.leader is None:
            return False
        if self.members[self.leader].on_joined is not None:
            return True
        joined = _any_of(m.member_id for m in self.members.values() if m.on_joined is not None)
        if joined is not None:
            self.leader = joined
        return joined is not None

    def replace_static(self, instance_id: str, old_id: str, new_id: str) -> Member:
        """A static member came back without its id: it gets a new one, and whoever waits with the old one is fenced."""
        old = self.members.pop(old_id)
        answer_join(old, Joined(error=ErrorCode.FENCED_INSTANCE_ID, member_id=old_id))
        answer_sync(old, Synced(error=ErrorCode.FENCED_INSTANCE_ID))
        new = _copy(old)
        new.member_id = new_id
        self.members[new_id] = new
        if self.leader == old_id:
            self.leader = new_id
        self.statics[instance_id] = new_id
        return new

    def next_generation(self) -> None:
        """Everybody who is still there has joined."""
        self.generation += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.to(GroupState.COMPLETING if self.members else GroupState.EMPTY)
        self.pending_syncs.clear()

    def member_error(self, member_id: str, instance_id: str | None) -> int:
        """Why a request of this member is refused: FENCED_INSTANCE_ID, UNKNOWN_MEMBER_ID, or 0."""
        if instance_id is not None:
            known = self.statics.get(instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return 0 if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def commit_error(self, generation: int, member_id: str, instance_id: str | None, transactional: bool) -> int:
        """Why an OffsetCommit or TxnOffsetCommit is refused, or 0."""
        if self.state is GroupState.EMPTY and generation < 0:
            return 0
        if generation >= 0 or member_id or instance_id is not None:
            error = self.member_error(member_id, instance_id)
            if error:
                return error
            if generation != self.generation:
                return ErrorCode.ILLEGAL_GENERATION
        elif not transactional and self.state is not GroupState.EMPTY:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not transactional and self.state is GroupState.COMPLETING:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return 0

    def is_subscribed(self, topic: str) -> bool:
        """A member reads the topic, or may: offsets of such topics are not deleted."""
        if self.protocol_type != PROTOCOL_TYPE or self.state is GroupState.EMPTY:
            return False
        if self.protocol_name is None:
            return True
        try:
            return any(topic in _topics(m.protocols.get(self.protocol_name, b"")) for m in self.members.values())
        except MalformedFrame:
            return True

    def members_for_leader(self, member_id: str) -> tuple[tuple[str, str | None, bytes], ...]:
        """What the leader is told of the members; nothing for anybody else."""
        if self.leader != member_id or self.protocol_name is None:
            return ()
        return tuple((m.member_id, m.instance_id, m.protocols[self.protocol_name]) for m in self.members.values())


def answer_join(member: Member, answer: Joined) -> None:
    """Answer the member's JoinGroup if it waits."""
    waiting, member.on_joined = member.on_joined, None
    if waiting is not None:
        waiting(answer)


def answer_sync(member: Member, answer: Synced) -> bool:
    """Answer the member's SyncGroup if it waits; False when it does not."""
    waiting, member.on_synced = member.on_synced, None
    if waiting is None:
        return False
    waiting(answer)
    return True


def _any_of(member_ids: Iterable[str]) -> str | None:
    """As a coordinator takes one: by the order of a hash table, which knows nothing of who was there first."""
    return min(member_ids, key=lambda member_id: crc32(member_id.encode()), default=None)


def _copy(member: Member) -> Member:
    """The member without its waiting requests."""
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_ms=member.rebalance_ms,
        session_ms=member.session_ms,
        protocol_type=member.protocol_type,
        protocols=dict(member.protocols),
        assignment=member.assignment,
    )


def _topics(metadata: bytes) -> frozenset[str]:
    return frozenset(decode_subscription(metadata).topics)
