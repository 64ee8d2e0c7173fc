"""Members that did not leave on close: who is known to wait at the gateway, and who may be removed."""

from __future__ import annotations

import pytest

from gateway.errors import Conflict, NotFound
from gateway.groups.gate.rules.gates import Identity, Waiter
from gateway.groups.rules.left_behind import left_behind, to_remove
from gateway.kafka.groups import MemberView


def member(name: str, client_id: str = "app", instance_id: str | None = None) -> MemberView:
    return MemberView(member_id=name, client_id=client_id, host="10.0.0.1", instance_id=instance_id)


def waiter(client_id: str = "app", instance_id: str = "", timeout_s: float = 45.0) -> Waiter:
    return Waiter("g", Identity("10.0.0.9", client_id), 0.0, True, instance_id, timeout_s)


def waits(members: list[MemberView], waiters: list[Waiter]) -> dict[str, bool]:
    return {one.member.member_id: one.waits for one in left_behind(members, waiters)}


def test_a_static_member_is_known_by_its_instance_alone() -> None:
    members = [member("a", instance_id="pod-0"), member("b", instance_id="pod-1")]
    assert waits(members, [waiter(instance_id="pod-0"), waiter()]) == {"a": True, "b": False}


def test_processes_that_share_a_client_id_must_all_be_waiting() -> None:
    members = [member("a"), member("b")]
    assert waits(members, [waiter()]) == {"a": False, "b": False}
    assert waits(members, [waiter(), waiter()]) == {"a": True, "b": True}
    assert waits(members, [waiter("other"), waiter("other")]) == {"a": False, "b": False}


def test_the_session_timeout_is_what_it_says_where_it_waits() -> None:
    (one,) = left_behind([member("a")], [waiter(timeout_s=6.0)])
    assert one.session_timeout_s == 6.0


def test_who_may_live_is_not_removed_without_force() -> None:
    found = left_behind([member("a"), member("b", "away")], [waiter()])
    assert [one.member.member_id for one in to_remove(found, [], force=False)] == ["a"]
    assert [one.member.member_id for one in to_remove(found, [], force=True)] == ["a", "b"]
    with pytest.raises(Conflict, match=r"member 'b' \(away at 10.0.0.1\) may be alive"):
        to_remove(found, ["a", "b"], force=False)
    assert [one.member.member_id for one in to_remove(found, ["b"], force=True)] == ["b"]
    with pytest.raises(NotFound, match="no member 'z'"):
        to_remove(found, ["z"], force=True)
