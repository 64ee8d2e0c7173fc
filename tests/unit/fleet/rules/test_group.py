"""A member of the fleet's group: what each answer of the coordinator makes of it, and of its write lease."""

import pytest

from gateway.fleet.rules.assignment import FleetAssignment, MalformedAssignment, encode_assignment, encode_subscription
from gateway.fleet.rules.group import FleetGroupState, GroupRefused, MembershipPhase
from gateway.fleet.rules.leases import WriteLease
from gateway.fleet.rules.membership import Gateway, Role
from protocol.errors import ErrorCode

ASSIGNMENT = encode_assignment(FleetAssignment(leader="a"))
A = Gateway(name="a", incarnation="1", role=Role.NODE, peer="a:1", lease_s=10.0)


def stable() -> FleetGroupState:
    state = FleetGroupState(WriteLease(10.0))
    state.joined(0, "m1", 7, "m1", {"m1": encode_subscription(A), "m2": b"?"})
    state.synced(0, ASSIGNMENT, 100.0)
    return state


def test_the_way_into_the_group() -> None:
    state = FleetGroupState(WriteLease(10.0))
    state.joined(ErrorCode.MEMBER_ID_REQUIRED, "m1", -1, "", {})
    assert (state.phase, state.member_id) == (MembershipPhase.JOIN, "m1")
    strange = state.joined(0, "m1", 7, "m1", {"m1": encode_subscription(A), "m2": b"?"})
    assert strange == {"m2"}
    assert (state.phase, state.leads, dict(state.members)) == (MembershipPhase.SYNC, True, {"m1": A})
    assert not state.lease.valid(0.0), "a place in the group is not admission"
    state.synced(0, ASSIGNMENT, 100.0)
    assert state.assignment == FleetAssignment(leader="a")
    assert state.lease.valid(109.9)


def test_only_heartbeats_of_the_present_generation_renew_the_lease() -> None:
    state = stable()
    state.heartbeat(0, 7, 105.0)
    assert state.lease.valid(114.9)
    state.heartbeat(0, 6, 108.0)
    assert not state.lease.valid(115.0)
    state.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS, 7, 109.0)
    assert state.phase is MembershipPhase.JOIN
    assert state.lease.valid(114.9), "it is a member still"
    assert not state.lease.valid(115.0), "but the group may go on without it"


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_a_member_that_the_group_has_forgotten_joins_as_a_new_one_and_its_lease_runs_on(code: ErrorCode) -> None:
    state = stable()
    state.heartbeat(code, 7, 101.0)
    assert (state.phase, state.member_id, state.assignment) == (MembershipPhase.JOIN, "", None)
    assert state.lease.valid(101.0), "whoever pauses writes waits for its end"


def test_who_leaves_writes_nothing_more() -> None:
    state = stable()
    state.leaving()
    assert not state.lease.valid(100.0)


def test_an_assignment_that_cannot_be_read_admits_nobody() -> None:
    state = FleetGroupState(WriteLease(10.0))
    state.joined(0, "m1", 7, "m2", {})
    with pytest.raises(MalformedAssignment):
        state.synced(0, b"", 100.0)
    assert state.phase is MembershipPhase.JOIN
    assert not state.lease.valid(100.0)


def test_a_refusal_for_good_is_not_tried_again() -> None:
    with pytest.raises(GroupRefused, match="GROUP_AUTHORIZATION_FAILED"):
        FleetGroupState(WriteLease(10.0)).joined(ErrorCode.GROUP_AUTHORIZATION_FAILED, "", -1, "", {})
