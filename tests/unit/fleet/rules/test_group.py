"""A member of the fleet's group: what each answer of the coordinator makes of it, and of its write lease."""

import pytest

from gateway.fleet.rules.assignment import FleetAssignment, MalformedAssignment, encode_assignment, encode_subscription
from gateway.fleet.rules.group import FINAL, NEW_AFTER, REJOIN_AFTER, FleetGroupState, GroupRefused, MembershipPhase
from gateway.fleet.rules.leases import WriteLease
from gateway.fleet.rules.membership import FleetMember, FleetRole
from protocol.errors import ErrorCode

ASSIGNMENT = encode_assignment(FleetAssignment(leader="a"))
A = FleetMember(name="a", incarnation="1", role=FleetRole.NODE, peer="a:1", lease_s=10.0)


def stable() -> FleetGroupState:
    state = FleetGroupState(WriteLease(10.0))
    state.joined(0, "m1", 7, "m1", {"m1": encode_subscription(A), "m2": b"?"})
    state.synced(0, ASSIGNMENT)
    state.confirmed(0, 7, 100.0)
    return state


def test_the_way_into_the_group() -> None:
    state = FleetGroupState(WriteLease(10.0))
    state.joined(ErrorCode.MEMBER_ID_REQUIRED, "m1", -1, "", {})
    assert (state.phase, state.member_id) == (MembershipPhase.JOIN, "m1")
    strange = state.joined(0, "m1", 7, "m1", {"m1": encode_subscription(A), "m2": b"?"})
    assert strange == {"m2"}
    assert (state.phase, state.leads, dict(state.members)) == (MembershipPhase.SYNC, True, {"m1": A})
    assert not state.lease.valid(0.0), "a place in the group is not admission"
    state.synced(0, ASSIGNMENT)
    assert state.assignment == FleetAssignment(leader="a")
    assert not state.lease.valid(0.0), "a SyncGroup that is repeated is answered from memory"
    state.confirmed(0, 7, 100.0)
    assert state.lease.valid(109.9)


def test_only_what_is_written_for_the_present_generation_renews_the_lease() -> None:
    state = stable()
    state.confirmed(0, 7, 105.0)
    assert state.lease.valid(114.9)
    state.confirmed(0, 6, 108.0)
    state.confirmed(ErrorCode.UNKNOWN_MEMBER_ID, 7, 108.0)
    assert not state.lease.valid(115.0)
    state.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert state.phase is MembershipPhase.JOIN
    assert state.lease.valid(114.9), "it is a member still"


def test_a_coordinator_that_is_cut_off_from_its_cluster_renews_no_lease() -> None:
    """It answers heartbeats from memory, without end; what it cannot write it does not answer."""
    state = stable()
    for _ in range(100):
        state.heartbeat(0)
        state.synced(0, ASSIGNMENT)
        state.confirmed(ErrorCode.COORDINATOR_NOT_AVAILABLE, 7, 109.0)
    assert not state.lease.valid(110.0)


def test_a_renewal_that_is_answered_behind_the_end_renews_nothing() -> None:
    state = stable()
    state.leaving()
    state.confirmed(0, 7, 105.0)
    assert not state.lease.valid(105.0)


def test_a_member_of_a_generation_that_is_in_no_log_joins_as_the_member_that_it_is() -> None:
    """The next coordinator knows it by the generation before, and waits for it: as a new one it would be waited for in
    vain until its session ends, and all others with it."""
    state = stable()
    state.synced(ErrorCode.ILLEGAL_GENERATION, b"")
    assert (state.phase, state.member_id, state.generation) == (MembershipPhase.JOIN, "m1", -1)
    assert (state.assignment, state.leads) == (None, False)
    state.joined(ErrorCode.UNKNOWN_MEMBER_ID, "", -1, "", {})
    assert (state.phase, state.member_id) == (MembershipPhase.JOIN, "")
    assert state.lease.valid(101.0)


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID])
def test_a_member_that_the_group_has_forgotten_joins_as_a_new_one_and_its_lease_runs_on(code: ErrorCode) -> None:
    state = stable()
    state.heartbeat(code)
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
        state.synced(0, b"")
    assert state.phase is MembershipPhase.JOIN
    assert not state.lease.valid(100.0)


@pytest.mark.parametrize("code", sorted(FINAL))
def test_a_refusal_for_good_is_not_tried_again(code: ErrorCode) -> None:
    with pytest.raises(GroupRefused, match=f"JoinGroup: {code.name}"):
        FleetGroupState(WriteLease(10.0)).joined(code, "", -1, "", {})


UNDOCUMENTED = [-1, 9, 19, 56, 79, 999]
"""Whatever a coordinator answers when something is wrong with *it*; 999 is of a Kafka that is yet to come."""


@pytest.mark.parametrize("code", UNDOCUMENTED)
def test_an_answer_that_is_not_final_stops_nobody_and_is_tried_again_step_by_step(code: int) -> None:
    """First the same request, then as the member it is from the start, at last as a new one; the lease runs on."""
    state = stable()
    steps = []
    for _ in range(NEW_AFTER):
        state.heartbeat(code)
        steps.append((state.phase, state.member_id))
    again = (MembershipPhase.HEARTBEAT, "m1")
    assert steps[: REJOIN_AFTER - 1] == [again] * (REJOIN_AFTER - 1)
    assert steps[REJOIN_AFTER - 1] == (MembershipPhase.JOIN, "m1")
    assert steps[-1] == (MembershipPhase.JOIN, "")
    assert state.lease.valid(109.9)
    assert state.refusal.startswith("Heartbeat: ")


def test_what_was_answered_at_last_ends_the_count() -> None:
    state = stable()
    for _ in range(REJOIN_AFTER - 1):
        state.heartbeat(-1)
    state.heartbeat(0)
    assert (state.refusal, state.refusals) == ("", 0)
    state.heartbeat(-1)
    assert state.phase is MembershipPhase.HEARTBEAT


def test_a_sync_that_the_coordinator_could_not_write_is_begun_from_its_join() -> None:
    """It has forgotten the generation by then: there is nothing to be asked for again."""
    state = FleetGroupState(WriteLease(10.0))
    state.joined(0, "m1", 7, "m1", {"m1": encode_subscription(A)})
    state.synced(ErrorCode.UNKNOWN_SERVER_ERROR, b"")
    assert (state.phase, state.member_id, state.refusals) == (MembershipPhase.JOIN, "m1", 1)
