"""The rules of the classic group protocol: what a coordinator does with JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

As in Kafka's GroupCoordinator and GroupMetadataManager. A JoinGroup is answered when every known member has sent one
(or the rebalance timeout has passed, and who has not is dropped), a SyncGroup when the leader has sent the assignments.
An empty group waits `group.initial.rebalance.delay.ms` for further members. Time comes in by `Timers`: one timer per
key, a new one replaces the old one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from protocol.errors import ErrorCode
from tests.simulation.kafka.groups.classic_group import (
    ClassicGroup,
    GroupRecord,
    GroupState,
    Joined,
    Member,
    OnJoined,
    OnSynced,
    Synced,
    answer_join,
    answer_sync,
)

NEW_MEMBER_MS = 300_000
"""How long a member may wait for its first rebalance: it has no id yet to send heartbeats with."""


class Timers(Protocol):
    """Runs something later. `key` names the timer; scheduling it again replaces it."""

    def schedule(self, key: tuple[str, ...], delay_ms: int, action: Callable[[], None]) -> None:
        """Run `action` in `delay_ms`."""

    def cancel(self, key: tuple[str, ...]) -> None:
        """Forget it, if there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """What a JoinGroup says. `needs_known_id`: from version 4 on a member first asks for its id (KIP-394)."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_ms: int
    rebalance_ms: int
    protocol_type: str
    protocols: Mapping[str, bytes]
    needs_known_id: bool
    can_skip_assignment: bool


class GroupRules:
    """Runs one group.

    Args:
        write: writes a record of the group into the log: the error code, for those who wait for it.
        new_id: a fresh random part of a member id.
        initial_delay_ms: group.initial.rebalance.delay.ms.
        max_size: group.max.size.
        is_java: as the coordinator of 4.x does it (KIP-848's rewrite in Java).
    """

    def __init__(
        self,
        group: ClassicGroup,
        timers: Timers,
        write: Callable[[GroupRecord], int],
        new_id: Callable[[], str],
        initial_delay_ms: int,
        max_size: int = 2**31 - 1,
        is_java: bool = True,
    ) -> None:
        self.group = group
        self._timers = timers
        self._write = write
        self._new_id = new_id
        self._initial_delay_ms = initial_delay_ms
        self._max_size = max_size
        self._is_java = is_java

    def loaded(self) -> None:
        """The group was just taken over: its members have one session to be heard of."""
        for member in self.group.members.values():
            self._expect_heartbeat(member)

    def unloaded(self) -> None:
        """The group belongs to another coordinator now: whoever waits is told so."""
        for member in self.group.members.values():
            answer_join(member, Joined(error=ErrorCode.NOT_COORDINATOR, member_id=member.member_id))
            answer_sync(member, Synced(error=ErrorCode.NOT_COORDINATOR))
        self.group.to(GroupState.DEAD)

    def join(self, request: JoinRequest, answer: OnJoined) -> None:
        """JoinGroup; `answer` is called now or when the rebalance is through."""
        group = self.group
        if not self._accepts(request.member_id):
            group.remove(request.member_id)
            answer(Joined(error=ErrorCode.GROUP_MAX_SIZE_REACHED))
        elif not group.supports(request.protocol_type, request.protocols):
            answer(Joined(error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id=request.member_id))
        elif not request.member_id:
            self._join_new(request, answer)
        elif request.member_id in group.pending_joins:
            self._add(request, request.member_id, answer)
        else:
            self._join_known(request, answer)

    def _accepts(self, member_id: str) -> bool:
        group, known = self.group, self.group.members.get(member_id)
        if group.state is GroupState.EMPTY:
            return True
        if group.state is GroupState.PREPARING:
            return (known is not None and known.on_joined is not None) or group.waiting < self._max_size
        return known is not None or len(group.members) < self._max_size

    def _join_new(self, request: JoinRequest, answer: OnJoined) -> None:
        group = self.group
        new_id = f"{request.instance_id or request.client_id}-{self._new_id()}"
        if request.instance_id is not None:
            old_id = group.statics.get(request.instance_id)
            if old_id is not None:
                self._replace_static(request, old_id, new_id, answer)
            else:
                self._add(request, new_id, answer)
        elif request.needs_known_id:
            group.pending_joins[new_id] = None
            self._timers.schedule(("session", group.group_id, new_id), request.session_ms, lambda: self._silent(new_id))
            answer(Joined(error=ErrorCode.MEMBER_ID_REQUIRED, member_id=new_id))
        else:
            self._add(request, new_id, answer)

    def _join_known(self, request: JoinRequest, answer: OnJoined) -> None:
        group = self.group
        error = group.member_error(request.member_id, request.instance_id)
        if error:
            answer(Joined(error=error, member_id=request.member_id))
            return
        member = group.members[request.member_id]
        same = list(member.protocols.items()) == list(request.protocols.items())
        if group.state is GroupState.EMPTY:
            answer(Joined(error=ErrorCode.UNKNOWN_MEMBER_ID, member_id=request.member_id))
        elif same and self._has_nothing_to_do(member):
            answer(self._joined(member.member_id))
        else:
            self._update(member, request, answer)
            self._rebalance_or_complete()

    def _has_nothing_to_do(self, member: Member) -> bool:
        """A JoinGroup that changes nothing: the last answer was lost, or a follower asks again."""
        state = self.group.state
        follows = self.group.leader != member.member_id
        return state is GroupState.COMPLETING or (state is GroupState.STABLE and follows)

    def _joined(self, member_id: str) -> Joined:
        group = self.group
        return Joined(
            member_id=member_id,
            generation=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            leader=group.leader or "",
            members=group.members_for_leader(member_id),
        )

    def _add(self, request: JoinRequest, member_id: str, answer: OnJoined) -> None:
        group = self.group
        member = Member(
            member_id=member_id,
            instance_id=request.instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            rebalance_ms=request.rebalance_ms,
            session_ms=request.session_ms,
            protocol_type=request.protocol_type,
            protocols=dict(request.protocols),
            is_new=True,
            on_joined=answer,
        )
        if group.state is GroupState.PREPARING and group.previous is GroupState.EMPTY:
            group.new_member_added = True
        group.add(member)
        self._expect_heartbeat(member, NEW_MEMBER_MS)
        self._rebalance_or_complete()

    def _update(self, member: Member, request: JoinRequest, answer: OnJoined) -> None:
        member.protocols = dict(request.protocols)
        member.rebalance_ms = request.rebalance_ms
        member.session_ms = request.session_ms
        member.on_joined = answer

    def _replace_static(self, request: JoinRequest, old_id: str, new_id: str, answer: OnJoined) -> None:
        group = self.group
        old_leader = group.leader or ""
        assert request.instance_id is not None
        member = group.replace_static(request.instance_id, old_id, new_id)
        self._expect_heartbeat(member)
        self._update(member, request, answer)
        if group.state is GroupState.STABLE and group.protocol_name == group.select_protocol():
            error = self._write(group.record())
            leads = group.leader == new_id
            found = self._joined(new_id)
            if error:
                replaced = Joined(error=error)
            elif request.can_skip_assignment:
                replaced = Joined(
                    member_id=new_id,
                    generation=found.generation,
                    protocol_type=found.protocol_type,
                    protocol_name=found.protocol_name,
                    leader=found.leader,
                    skip_assignment=leads,
                    members=found.members,
                )
            else:  # the old leader's id: nobody else may think it leads
                replaced = Joined(
                    member_id=new_id,
                    generation=found.generation,
                    protocol_type=found.protocol_type,
                    protocol_name=found.protocol_name,
                    leader=old_leader,
                )
            answer_join(member, replaced)
        elif group.state is GroupState.COMPLETING:
            self._prepare()
        else:
            self._rebalance_or_complete()

    def sync(
        self,
        generation: int,
        member_id: str,
        instance_id: str | None,
        protocol: tuple[str | None, str | None],
        assignments: Mapping[str, bytes],
        answer: OnSynced,
    ) -> None:
        """SyncGroup; `protocol` is (type, name), None where the version has none."""
        group = self.group
        error = self._sync_error(generation, member_id, instance_id, protocol)
        if error:
            answer(Synced(error=error))
            return
        member = group.members[member_id]
        group.pending_syncs.pop(member_id, None)
        if group.state is GroupState.STABLE:
            self._expect_heartbeat(member)
            answer(self._synced(member))
            return
        member.on_synced = answer
        if member_id == group.leader:
            self._assign(assignments)
        if not group.pending_syncs:
            self._timers.cancel(("sync", group.group_id))

    def _assign(self, assignments: Mapping[str, bytes]) -> None:
        """The leader's assignments; who cannot write them begins another rebalance."""
        group = self.group
        error = self._write(group.record(assignments))
        if error:
            self._answer_syncs(Synced(error=error))
            self._prepare()
            return
        group.to(GroupState.STABLE)
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
            if answer_sync(member, self._synced(member)):
                self._expect_heartbeat(member)

    def _answer_syncs(self, answer: Synced) -> None:
        for member in self.group.members.values():
            member.assignment = b""
            if answer_sync(member, answer):
                self._expect_heartbeat(member)

    def _synced(self, member: Member) -> Synced:
        group = self.group
        return Synced(
            protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
        )

    def _sync_error(
        self, generation: int, member_id: str, instance_id: str | None, protocol: tuple[str | None, str | None]
    ) -> int:
        group = self.group
        if group.state is GroupState.EMPTY:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = group.member_error(member_id, instance_id)
        if error:
            return error
        if generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        mine = (group.protocol_type, group.protocol_name)
        if any(theirs is not None and theirs != ours for theirs, ours in zip(protocol, mine, strict=True)):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return ErrorCode.REBALANCE_IN_PROGRESS if group.state is GroupState.PREPARING else 0

    def heartbeat(self, generation: int, member_id: str, instance_id: str | None) -> int:
        """Heartbeat: the error code."""
        group = self.group
        error = group.member_error(member_id, instance_id)
        if error:
            return error
        if generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if group.state is GroupState.EMPTY:
            return ErrorCode.UNKNOWN_MEMBER_ID
        self._expect_heartbeat(group.members[member_id])
        return ErrorCode.REBALANCE_IN_PROGRESS if group.state is GroupState.PREPARING else 0

    def committed(self, member_id: str) -> None:
        """The member committed offsets: it is alive."""
        member = self.group.members.get(member_id)
        if member is not None and self.group.state in (GroupState.STABLE, GroupState.PREPARING):
            self._expect_heartbeat(member)

    def leave(self, member_id: str, instance_id: str | None) -> int:
        """One member of a LeaveGroup goes: the error code. Without an id it is named by its instance id."""
        group = self.group
        if not member_id:
            known = group.statics.get(instance_id) if instance_id is not None else None
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            self._remove(group.members[known])
            return 0
        if member_id in group.pending_joins:
            self._remove_pending(member_id)
            if self._is_java and group.state in (GroupState.STABLE, GroupState.COMPLETING):
                self._prepare()  # though nothing changed for the others
            return 0
        error = group.member_error(member_id, instance_id)
        if not error:
            self._remove(group.members[member_id])
        return error

    def _expect_heartbeat(self, member: Member, within_ms: int | None = None) -> None:
        member_id = member.member_id
        key = ("session", self.group.group_id, member_id)
        delay_ms = member.session_ms if within_ms is None else within_ms
        self._timers.schedule(key, delay_ms, lambda: self._silent(member_id))

    def _silent(self, member_id: str) -> None:
        """A session ended. Who waits for an answer is alive: its connection is held by the coordinator itself."""
        group = self.group
        if member_id in group.pending_joins:
            self._remove_pending(member_id)
            return
        member = group.members.get(member_id)
        if member is None:
            return
        if member.is_new or (member.on_joined is None and member.on_synced is None):
            self._remove(member)

    def _remove_pending(self, member_id: str) -> None:
        self.group.remove(member_id)
        self._timers.cancel(("session", self.group.group_id, member_id))
        self._complete_if_joined()

    def _remove(self, member: Member) -> None:
        answer_join(member, Joined(error=ErrorCode.UNKNOWN_MEMBER_ID))
        answer_sync(member, Synced(error=ErrorCode.UNKNOWN_MEMBER_ID))
        self.group.remove(member.member_id)
        self._timers.cancel(("session", self.group.group_id, member.member_id))
        if self.group.state in (GroupState.STABLE, GroupState.COMPLETING):
            self._prepare()
        else:
            self._complete_if_joined()

    def _rebalance_or_complete(self) -> None:
        if self.group.state is GroupState.PREPARING:
            self._complete_if_joined()
        else:
            self._prepare()

    def _complete_if_joined(self) -> None:
        initial = self.group.previous is GroupState.EMPTY
        if self.group.state is GroupState.PREPARING and not initial and self.group.all_joined:
            self._complete()

    def _prepare(self) -> None:
        group = self.group
        if group.state is GroupState.COMPLETING:
            self._answer_syncs(Synced(error=ErrorCode.REBALANCE_IN_PROGRESS))
        group.pending_syncs.clear()
        self._timers.cancel(("sync", group.group_id))
        initial = group.state is GroupState.EMPTY
        group.to(GroupState.PREPARING)
        if initial:
            remaining_ms = max(group.rebalance_ms - self._initial_delay_ms, 0)
            self._wait_for_more(self._initial_delay_ms, remaining_ms)
        elif group.all_joined:
            self._complete()
        else:
            self._timers.schedule(("join", group.group_id), group.rebalance_ms, self._complete)

    def _wait_for_more(self, delay_ms: int, remaining_ms: int) -> None:
        def over() -> None:
            if self.group.new_member_added and remaining_ms:
                self.group.new_member_added = False
                self._wait_for_more(min(self._initial_delay_ms, remaining_ms), max(remaining_ms - delay_ms, 0))
            else:
                self._complete()

        self._timers.schedule(("join", self.group.group_id), delay_ms, over)

    def _complete(self) -> None:
        """The joining is over: drop who has not come, and begin the next generation."""
        group = self.group
        self._timers.cancel(("join", group.group_id))
        for member in list(group.members.values()):
            if member.on_joined is None and member.instance_id is None:
                group.remove(member.member_id)
                self._timers.cancel(("session", group.group_id, member.member_id))
        if not group.elect_joined_leader() and group.members:
            self._timers.schedule(("join", group.group_id), group.rebalance_ms, self._complete)
            return
        group.next_generation()
        if group.state is GroupState.EMPTY:
            self._write(group.record())
            return
        for member in list(group.members.values()):
            answer_join(member, self._joined(member.member_id))
            self._expect_heartbeat(member)
            member.is_new = False
            group.pending_syncs[member.member_id] = None
        generation = group.generation
        self._timers.schedule(("sync", group.group_id), group.rebalance_ms, lambda: self._unsynced(generation))

    def _unsynced(self, generation: int) -> None:
        """Who has not sent its SyncGroup within the rebalance timeout is dropped (KIP-559's sequel, KAFKA-12890)."""
        group = self.group
        if generation != group.generation or group.state not in (GroupState.COMPLETING, GroupState.STABLE):
            return
        if not group.pending_syncs:
            return
        for member_id in list(group.pending_syncs):
            group.remove(member_id)
            self._timers.cancel(("session", group.group_id, member_id))
        self._prepare()
