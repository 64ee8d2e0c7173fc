"""A mirror group in memory that is to be promoted: its members and offsets on both clusters, and its gate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from gateway.control_parts import group_tools
from gateway.errors import Conflict, SourceUnreachable
from gateway.groups.gate.rules.gates import GateStatus, Identity, Waiter
from gateway.groups.offsets import GroupOffsets, Offsets
from gateway.groups.promote import GroupPromotions
from gateway.groups.rules.share_delivery import Delivery
from gateway.groups.rules.source_gone import GONE_S
from gateway.kafka.commits import Committed
from gateway.kafka.groups import DEAD, EMPTY, SHARE, GroupView, MemberView
from gateway.kafka.topic_partition import TopicPartition
from gateway.operations.sources import LinkHealth
from gateway.state.promote_sets import moved_with
from gateway.state.records import GroupKind, GroupRecord, GroupState, SourceOffset
from protocol.apis import ApiKey
from tests.support.control.control_plane import Plane

KEY = ("orders", 0)


class FakeOffsets(GroupOffsets):
    """Both clusters' group in memory. `on_ask` is called at each look at the source's members."""

    async def ask_for_leaders(self, record: GroupRecord, topics: Iterable[str]) -> None:
        self.leaders_asked += 1

    def __init__(self, plane: Plane) -> None:
        self.leaders_asked = 0
        super().__init__(plane.parts.records, plane.parts.sources, plane.parts.target, plane.parts.door)
        self.plane = plane
        self.members = 0
        self.members_on_target = ""
        self.down = False
        self.source_holds: dict[TopicPartition, tuple[int, str]] = {KEY: (40, "m")}
        self.target_holds: dict[TopicPartition, tuple[int, str]] = {}
        self.ranges: dict[TopicPartition, tuple[int, int]] = {}
        self.left: list[str] = []
        self.commits = 0
        self.removed = 0
        self.refuse = False
        self.instance_id: str | None = None
        self.type = "classic"
        self.type_on_target = ""  # '': the target has no such group
        self.kinds_read: list[GroupKind] = []
        self.kinds_written: list[GroupKind] = []
        self.protocol_type = "consumer"  # '': nobody has ever joined
        self.on_ask: Callable[[], None] = lambda: None

    async def on_source(self, record: GroupRecord) -> tuple[tuple[SourceOffset, ...], list[str]]:
        if self.down:
            raise SourceUnreachable("connection refused")
        self.kinds_read.append(record.kind)
        if self.type and (self.type == SHARE) is not (record.kind is GroupKind.SHARE):
            return (), self.left  # as a broker answers who asks by the wrong kind
        found = ((t, p, offset, metadata) for (t, p), (offset, metadata) in self.source_holds.items())
        return tuple(SourceOffset(*each) for each in found), self.left

    async def source_ranges(
        self, record: GroupRecord, offsets: Iterable[SourceOffset]
    ) -> Mapping[TopicPartition, tuple[int, int]]:
        return self.ranges

    async def delivery(self, record: GroupRecord) -> Mapping[TopicPartition, Delivery]:
        return {key: Delivery(offset, 10, offset + 12, offset + 12) for key, (offset, _) in self.source_holds.items()}

    async def commit_on_source(self, record: GroupRecord, offsets: Offsets) -> Mapping[TopicPartition, Committed]:
        if self.refuse:
            raise Conflict("the source refuses")
        self.kinds_written.append(record.kind)
        self.source_holds.update(offsets)
        return {key: Committed(offset, -1, metadata) for key, (offset, metadata) in self.source_holds.items()}

    async def commit_on_target(self, record: GroupRecord, offsets: Offsets) -> None:
        if self.refuse:
            raise Conflict("the target cluster refuses: OffsetCommit g failed for orders-0: error 25")
        mirrors = self.plane.store.mirrors.values()
        failing_over = any(mirror.cutover.not_mirrored for mirror in mirrors)
        along = moved_with(mirrors, "l", "g")
        assert failing_over or along or self.plane.store.groups["l", "g"].state is GroupState.PENDING_PROMOTED
        self.commits += 1
        self.kinds_written.append(record.kind)
        self.target_holds.update(offsets)

    async def on_target(self, record: GroupRecord) -> Mapping[TopicPartition, Committed]:
        if self.type_on_target and (self.type_on_target == SHARE) is not (record.kind is GroupKind.SHARE):
            return {}
        return {key: Committed(offset, -1, metadata) for key, (offset, metadata) in self.target_holds.items()}

    async def target_view(self, record: GroupRecord) -> GroupView:
        kind = self.type_on_target
        return GroupView(group="g", state=EMPTY if kind else DEAD, type=kind, protocol_type=kind)

    async def target_members(self, record: GroupRecord) -> str:
        return self.members_on_target

    async def remove_from_target(self, group: str) -> str:
        self.removed += 1
        return self.members_on_target

    async def source_view(self, record: GroupRecord, timeout_s: float) -> GroupView:
        self.on_ask()
        if self.down:
            raise SourceUnreachable("connection refused")
        members = tuple(
            MemberView(member_id=f"m{index}", client_id="old", host="10.0.0.1", instance_id=self.instance_id)
            for index in range(self.members)
        )
        state = "Stable" if self.type else DEAD
        return GroupView(group="g", state=state, type=self.type, protocol_type=self.protocol_type, members=members)

    async def source_members(self, record: GroupRecord) -> str:
        self.on_ask()
        return "old (10.0.0.1)" if self.members else ""


class GroupScene:
    """A plane with one mirrored topic and one gated group whose gate somebody waits at."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.offsets = FakeOffsets(plane)
        self.now = 1000.0
        self.promoter = self.leader()
        self.offsets.on_ask = lambda: self.later(0.1)

    def leader(self) -> GroupPromotions:
        """One that knows what the records say, and has seen nothing yet."""
        return GroupPromotions(group_tools(self.plane.parts, self.offsets, clock=lambda: self.now), quiet_s=1.0)

    def later(self, seconds: float) -> None:
        self.now += seconds

    def wait_at_the_gate(self, api: int = ApiKey.JOIN_GROUP) -> None:
        self.plane.gates.wait(Waiter("g", Identity("h", "c"), 0.0, api=api), lambda: None)

    def lose_source(self, silent_s: float = GONE_S) -> None:
        """It has not answered for so long, and the link's health says so."""
        self.offsets.down = True
        self.plane.parts.health["l"] = LinkHealth(False, 0, "connection refused", silent_since=self.now - silent_s)

    @property
    def record(self) -> GroupRecord:
        return self.plane.store.groups["l", "g"]

    @property
    def open(self) -> bool:
        """Asked anew each time."""
        return self.plane.gates.status("g") is GateStatus.OPEN

    async def promoted(self) -> None:
        await self.promoter.promote("l", "g")
        assert self.open

    async def attempts(self, count: int) -> None:
        for _ in range(count):
            await self.promoter.attempt("l", "g")


async def gated_group(plane: Plane) -> GroupScene:
    """A topic mirrored up to 100, and a group whose gate is closed."""
    await plane.with_mirror()
    plane.gates.enabled = True
    await plane.store.put(GroupRecord(link="l", group="g"))
    for partition in range(3):
        plane.progress.advance("orders", partition, 100)
    return GroupScene(plane)
