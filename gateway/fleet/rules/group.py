"""A gateway's membership in the fleet's group, as a state machine: what to ask the coordinator next, what answers mean.

Kafka's classic group protocol (KIP-62, KIP-394): join, sync, then heartbeats; an answer that says so begins it anew.
The write lease is renewed by what the coordinator *writes down* for a member of the present generation, and counted
from when that was sent; see `fleet/rules/leases.py`. No I/O, no clock.

An answer is final only if Kafka says so (`FINAL`). Every other one is waited out, step by step: the same is asked
again, then the member joins anew, then as a new member. All gateways meet such an answer at once, since all ask one
broker; were it final, one broker's fault would be the end of the fleet. The lease says for how long writes may go on.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from gateway.fleet.rules.assignment import FleetAssignment, MalformedAssignment, decode_assignment, decode_subscription
from gateway.fleet.rules.leases import WriteLease
from gateway.fleet.rules.membership import FleetMember
from protocol.errors import ErrorCode, error_name

_FORGOTTEN = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID})
_AGAIN = frozenset({ErrorCode.REBALANCE_IN_PROGRESS})
FINAL: Final = frozenset(
    {
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
    }
)
"""What Kafka's own clients take for final: it is said of this member, and another try would be answered alike."""

REJOIN_AFTER: Final = 4
"""So many answers in a row that mean nothing to a member have it join again, as the member that it is."""

NEW_AFTER: Final = 8
"""After so many it joins as a new one, and again each time that so many more came."""


class GroupRefused(Exception):
    """The coordinator refuses the group for good, such as GROUP_AUTHORIZATION_FAILED. The message names the reason."""


class MembershipPhase(StrEnum):
    """What to ask for next."""

    JOIN = "join"
    SYNC = "sync"
    HEARTBEAT = "heartbeat"


class FleetGroupState:
    """One member. `member_id` and `generation` go into each request; 0 or '' before the first answer.

    Attributes:
        leads: the coordinator named this member to make the assignment.
        members: member id -> gateway, known to the leader alone.
        sizes: likewise: how many members there are, and the bytes of all their ids and metadata; for `group_bytes`.
        assignment: the present one, None while there is none.
        refusal: what the coordinator answered last, if it was no answer that a member can act by; '' else.
        refusals: how many such answers came in a row.
        left: `leaving` was called; nothing renews the lease again.
    """

    def __init__(self, lease: WriteLease) -> None:
        self.lease = lease
        self.phase = MembershipPhase.JOIN
        self.member_id = ""
        self.generation = -1
        self.leads = False
        self.members: Mapping[str, FleetMember] = {}
        self.sizes: tuple[int, int, int] = 0, 0, 0
        self.assignment: FleetAssignment | None = None
        self.refusal = ""
        self.refusals = 0
        self.left = False

    def joined(
        self, code: int, member_id: str, generation: int, leader: str, members: Mapping[str, bytes]
    ) -> frozenset[str]:
        """JoinGroup was answered. Returns the member ids whose metadata nobody can read; they get no assignment.

        Raises:
            GroupRefused: for good.
        """
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            if not member_id or member_id == self.member_id:  # it gave none, or has forgotten it again
                self._not_understood(f"JoinGroup: {error_name(code)}")
            self.member_id = member_id
            return frozenset()
        if code:
            self._failed(code, "JoinGroup")
            return frozenset()
        self.phase, self.member_id, self.generation = MembershipPhase.SYNC, member_id, generation
        self.leads = leader == member_id
        self.sizes = len(members), sum(map(len, members)), sum(map(len, members.values()))
        known: dict[str, FleetMember] = {}
        strange = set()
        for each, metadata in members.items():
            try:
                known[each] = decode_subscription(metadata)
            except MalformedAssignment:
                strange.add(each)
        self.members = known
        return frozenset(strange)

    def synced(self, code: int, assignment: bytes) -> None:
        """SyncGroup was answered. It renews nothing: one that is repeated is answered from memory.

        Raises:
            GroupRefused: for good.
            MalformedAssignment: the leader sent what this version cannot read; the member joins again.
        """
        if code:
            self._failed(code, "SyncGroup")
            return
        try:
            self.assignment = decode_assignment(assignment)
        except MalformedAssignment:
            self.phase, self.assignment = MembershipPhase.JOIN, None
            raise
        self.phase = MembershipPhase.HEARTBEAT
        self._understood()

    def heartbeat(self, code: int) -> None:
        """A heartbeat was answered. It renews nothing: a coordinator answers it from memory.

        Raises:
            GroupRefused: for good.
        """
        if code:
            self._failed(code, "Heartbeat")
        else:
            self._understood()

    def confirmed(self, code: int, generation: int, sent_at: float) -> None:
        """A commit of that generation was answered; with 0 the coordinator has written it to the group's log.

        What else it says is left to the heartbeats.
        """
        if not code and generation == self.generation and not self.left:
            self.lease.renewed(sent_at)

    def leaving(self) -> None:
        """The gateway writes nothing more, and says so to the group."""
        self.left = True
        self.lease.revoked()

    def step_back(self) -> None:
        """This member should not lead: it leaves, and joins as a new one."""
        self._forgotten()

    def refused(self, code: int, what: str) -> None:
        """The coordinator answered `what` in a way of its own, such as who it is.

        Raises:
            GroupRefused: for good.
        """
        self._failed(code, what)

    def _failed(self, code: int, what: str) -> None:
        if code in _FORGOTTEN:
            self._forgotten()
        elif code == ErrorCode.ILLEGAL_GENERATION:
            # Of a generation that is over, or in no log: its coordinator may be gone with it. The member is known, and
            # waited for: as a new one it would hold all others up until the session of its old name ends.
            self._forgotten(self.member_id)
        elif code in _AGAIN:
            self.phase = MembershipPhase.JOIN
        elif code in FINAL:
            raise GroupRefused(f"{what}: {error_name(code)}")
        else:
            self._not_understood(f"{what}: {error_name(code)}")

    def _understood(self) -> None:
        self.refusal, self.refusals = "", 0

    def _not_understood(self, refusal: str) -> None:
        self.refusal = refusal
        self.refusals += 1
        if self.refusals % NEW_AFTER == 0:
            self._forgotten()
        elif self.refusals % NEW_AFTER >= REJOIN_AFTER or self.phase is MembershipPhase.SYNC:
            # A generation whose record could not be written is none any more: the coordinator begins another one.
            self.phase = MembershipPhase.JOIN

    def _forgotten(self, member_id: str = "") -> None:
        """The group does not count this member among its own: what it mirrored is another's by now. `member_id`: by
        which it is known all the same.

        The lease runs on: whoever pauses writes waits for its end, so nobody's writes need to stop for a new
        coordinator.
        """
        self.phase, self.member_id, self.generation = MembershipPhase.JOIN, member_id, -1
        self.leads, self.members, self.assignment = False, {}, None
