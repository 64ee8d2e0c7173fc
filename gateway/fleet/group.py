"""Keeps a gateway in the fleet's group on the target: join, sync, heartbeat. It decides nothing, see `fleet/rules/`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

import structlog

from gateway.fleet.rules.assignment import (
    GROUP_BYTES,
    OWNED_BYTES,
    PROTOCOL_NAME,
    PROTOCOL_TYPE,
    FleetAssignment,
    MalformedAssignment,
    digest_of,
    encode_assignment,
    encode_outline,
    encode_subscription,
    group_bytes,
)
from gateway.fleet.rules.group import FleetGroupState, MembershipPhase
from gateway.fleet.rules.membership import FleetMember, steps_back
from gateway.kafka.acts import own_act
from gateway.kafka.cluster import CONTROL_LANE, Cluster
from gateway.kafka.connection.errors import BrokerError, ClusterUnavailable
from gateway.kafka.connection.pool import Lane
from gateway.kafka.routed import on_coordinator
from gateway.state.topic import TOPIC
from gateway.transport.background import kept_running, together
from gateway.transport.backoff import Backoff
from gateway.transport.host import boot_clock
from protocol.errors import ErrorCode, error_name
from protocol.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    SyncGroupRequest,
)

SESSION_MS = 6000  # the shortest that a stock broker takes (group.min.session.timeout.ms)
REBALANCE_MS = 6000
HEARTBEAT_S = 0.3  # how late a member learns of a rebalance
_ALONE_S = 1.0  # the same for a gateway that has nobody to hand over to, or to take over from
_AGAIN_S = 0.3
_BACKOFF_S = (0.3, 5.0)
_JOIN_S = 3 * (REBALANCE_MS / 1000 + 2)  # a try has a third of it, and may have to wait for everybody else
_LEAVE_LANE = "leave"
_RENEW_LANE = "renew"
_RENEW_S = 2.0
_RENEWALS = 10  # of a short lease, while it runs
_BY_NAME = 9  # OffsetCommit from 10 on names topics by id
_CAP = 4  # JoinGroup and SyncGroup from 5 on ask for what is not used here
_log = structlog.get_logger("lockgate.fleet")


class FleetGroup:
    """One member of the fleet's group.

    Args:
        cluster: one of its own: a JoinGroup holds up everything behind it on its connection. What ends a membership
            has yet another one: a member that is gone, and whose JoinGroup is answered later, would hold up a
            generation, or be counted in it.
        describe: this gateway as it is now.
        assign: called when this member leads; what it returns goes to every member. It writes the registry first.
        assigned: told each assignment, and None when the group has forgotten this gateway.
        place: a topic that is there and may be read. To renew the lease an offset of its first partition is committed,
            which nobody reads.
        members: how many the group has, as far as is known: so much less may each say of itself.

    Attributes:
        whole: the digest and the bytes of the assignment whose outline this member, leading, has told; '' when it has
            told all of it.
        trouble: why the group does not agree with this member now, in one line; '' while it does.
    """

    def __init__(
        self,
        cluster: Cluster,
        group: str,
        state: FleetGroupState,
        describe: Callable[[], FleetMember],
        assign: Callable[[Mapping[str, FleetMember]], Awaitable[FleetAssignment]],
        assigned: Callable[[FleetAssignment | None], None],
        clock: Callable[[], float] = boot_clock,
        place: str = TOPIC,
        members: Callable[[], int] = lambda: 1,
    ) -> None:
        self._cluster = cluster
        self._group = group
        self.state = state
        self._describe = describe
        self._assign = assign
        self._assigned = assigned
        self._clock = clock
        self._again = asyncio.Event()
        self._place = place
        self._members = members
        self.whole: tuple[str, bytes] = "", b""
        self.trouble = ""
        self._member = asyncio.Event()  # of a generation that has just begun
        self._told: FleetAssignment | None = None
        self._backoff = Backoff(*_BACKOFF_S, cluster.rng)

    async def run(self) -> None:
        """Until cancelled; then `leave` says good-bye.

        Raises:
            GroupRefused: the coordinator will not have this group.
        """
        renewing = asyncio.get_running_loop().create_task(kept_running(self._renew, "fleet lease"), name="fleet lease")
        try:
            await self._take_part()
        finally:
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)

    async def _take_part(self) -> None:
        steps = {
            MembershipPhase.JOIN: self._join,
            MembershipPhase.SYNC: self._sync,
            MembershipPhase.HEARTBEAT: self._heartbeat,
        }
        while True:
            refusals, trouble = self.state.refusals, ""
            try:
                await steps[self.state.phase]()
            except BrokerError as exc:  # of a broker that was asked who coordinates the group
                self.state.refused(exc.code, "FindCoordinator")
            except ClusterUnavailable as exc:  # the lease runs on; whether to stop is not decided here
                self.trouble = trouble = str(exc)  # at once, not when it is asked again
                _log.warning("the coordinator of the fleet does not answer", reason=str(exc))
                await asyncio.sleep(_AGAIN_S)
            except MalformedAssignment as exc:
                self.trouble = trouble = f"the fleet's leader sent an assignment that cannot be read: {exc}"
                _log.error("the fleet's leader sent an assignment that cannot be read", reason=str(exc))
                await asyncio.sleep(_AGAIN_S)
            self._note(trouble)
            if self.state.refusals > refusals:
                if self.state.refusals == 1:
                    reason = self.state.refusal
                    _log.warning("the coordinator of the fleet answers what no member can act by", reason=reason)
                await asyncio.sleep(self._backoff.next())
            elif not self.state.refusals:
                self._backoff.reset()
            if self.state.assignment is not self._told:
                self._told = self.state.assignment
                self._assigned(self._told)

    def _note(self, trouble: str) -> None:
        """A step came to an end. On the way to the next generation what was last is told on."""
        trouble = self.state.refusal if self.state.refusals else trouble
        if trouble or self.state.phase is MembershipPhase.HEARTBEAT:
            self.trouble = trouble

    def rebalance(self) -> None:
        """What this gateway says of itself, or the partitions, changed: join again."""
        if self.state.phase is MembershipPhase.HEARTBEAT:
            self.state.phase = MembershipPhase.JOIN
            self._again.set()

    async def leave(self) -> None:
        """Leave in order; the caller has stopped writing before."""
        self.state.leaving()
        await self._say_goodbye(self.state.member_id)

    async def remove(self, member_id: str) -> None:
        """Have the group drop a member that fell silent, long before its session ends. Its lease runs on."""
        await self._say_goodbye(member_id)

    async def _join(self) -> None:
        protocol = JoinGroupRequest.JoinGroupRequestProtocol(
            name=PROTOCOL_NAME, metadata=encode_subscription(self._describe(), OWNED_BYTES // max(1, self._members()))
        )
        request = JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.state.member_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[protocol],
        )
        answer = await self._ask(request, _JOIN_S)
        members = {each.member_id: bytes(each.metadata) for each in answer.members}
        strange = self.state.joined(answer.error_code, answer.member_id, answer.generation_id, answer.leader, members)
        if strange:
            _log.error("members of the fleet's group that are no gateways of this version", members=sorted(strange))
        if self.state.leads and steps_back(self._describe(), list(self.state.members.values())):
            member_id = self.state.member_id
            self.state.step_back()
            await self._say_goodbye(member_id)

    async def _sync(self) -> None:
        part = SyncGroupRequest.SyncGroupRequestAssignment
        assignments = []
        if self.state.leads:
            members = self.state.members
            data = self._fitting(await self._assign(members))
            assignments = [part(member_id=member_id, assignment=data) for member_id in self.state.members]
        request = SyncGroupRequest(
            group_id=self._group,
            generation_id=self.state.generation,
            member_id=self.state.member_id,
            assignments=assignments,
        )
        answer = await self._ask(request, _JOIN_S)
        self.state.synced(answer.error_code, bytes(answer.assignment))
        if self.state.phase is MembershipPhase.HEARTBEAT:
            self._member.set()

    def _fitting(self, assignment: FleetAssignment) -> bytes:
        """What each member is told, so that the coordinator can write it down. Raises ClusterUnavailable."""
        data = encode_assignment(assignment, min(each.reads for each in self.state.members.values()))
        self.whole = "", b""
        if group_bytes(*self.state.sizes, len(data)) <= GROUP_BYTES:
            return data
        self.whole = digest_of(data), data
        outline = encode_outline(assignment, data)
        if (size := group_bytes(*self.state.sizes, len(outline))) > GROUP_BYTES:
            raise ClusterUnavailable(
                f"the fleet is too large: the record of its {self.state.sizes[0]} processes has {size} bytes, and "
                f"{GROUP_BYTES} are sure to be written; start fewer workers or gateways"
            )
        return outline

    async def _heartbeat(self) -> None:
        state = self.state
        request = HeartbeatRequest(group_id=self._group, generation_id=state.generation, member_id=state.member_id)
        answer = await self._ask(request, SESSION_MS / 1000)
        self.state.heartbeat(answer.error_code)
        if self.state.phase is MembershipPhase.HEARTBEAT:
            self._again.clear()
            try:
                async with asyncio.timeout(together(self._pause_s(), asyncio.get_running_loop().time())):
                    await self._again.wait()
            except TimeoutError:
                return

    def _pause_s(self) -> float:
        """Between two heartbeats."""
        assignment = self.state.assignment
        return (
            _ALONE_S if assignment is not None and not assignment.digest and len(assignment.peers) < 2 else HEARTBEAT_S
        )

    async def _renew(self) -> None:
        """Renew the lease again and again, beside the heartbeats: a log that cannot be written holds up a commit, and
        must not hold them up."""
        while True:
            try:
                async with asyncio.timeout(max(_AGAIN_S, min(_RENEW_S, self.state.lease.lease_s / _RENEWALS))):
                    await self._member.wait()
            except TimeoutError:
                pass
            self._member.clear()
            if self.state.phase is not MembershipPhase.HEARTBEAT or self.state.left:
                continue
            try:
                await self._commit()
            except (ClusterUnavailable, BrokerError) as exc:
                _log.info("the write lease was not renewed", reason=str(exc))

    async def _commit(self) -> None:
        sent_at, generation = self._clock(), self.state.generation
        topic = OffsetCommitRequest.OffsetCommitRequestTopic
        part = topic.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=0, committed_leader_epoch=-1, committed_metadata=""
        )
        request = OffsetCommitRequest(
            group_id=self._group,
            generation_id_or_member_epoch=generation,
            member_id=self.state.member_id,
            group_instance_id=None,
            retention_time_ms=-1,
            topics=[topic(name=self._place, partitions=[part])],
        )
        cluster, group = self._cluster, self._group
        with own_act():
            answer = await on_coordinator(
                cluster, group, request, _commit_codes, cap=_BY_NAME, timeout_s=SESSION_MS / 1000, lane=_RENEW_LANE
            )
        code = next(_commit_codes(answer), int(ErrorCode.UNKNOWN_SERVER_ERROR))
        self.state.confirmed(code, generation, sent_at)
        if code:
            _log.info("the write lease was not renewed", reason=error_name(code))

    async def _say_goodbye(self, member_id: str) -> None:
        if member_id:
            members = [LeaveGroupRequest.MemberIdentity(member_id=member_id, group_instance_id=None)]
            request = LeaveGroupRequest(group_id=self._group, member_id=member_id, members=members)
            with own_act():
                await self._ask(request, 5.0, _LEAVE_LANE)

    async def _ask(self, request: Any, timeout_s: float, lane: Lane = CONTROL_LANE) -> Any:
        cluster, group = self._cluster, self._group
        return await on_coordinator(cluster, group, request, _codes, cap=_CAP, timeout_s=timeout_s, lane=lane)


def _commit_codes(answer: Any) -> Iterator[int]:
    return (part.error_code for topic in answer.topics for part in topic.partitions)


def _codes(answer: Any) -> tuple[int]:
    return (answer.error_code,)
