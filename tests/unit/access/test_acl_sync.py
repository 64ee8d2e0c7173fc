"""Rounds of ACL sync over clusters in memory: what is copied, what is left alone, and every interrupted state."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from gateway.access import acl_round
from gateway.access.acl_round import AclMemory
from gateway.access.rules.changes import Changes, changes
from gateway.access.rules.transform import AclReason
from gateway.errors import SourceUnreachable
from gateway.kafka.access.acls import IN_A_REQUEST
from gateway.kafka.connection.errors import BrokerError, ClusterUnavailable
from gateway.kafka.rules.acl import Acl, Operation, PatternType, Permission, ResourceType
from gateway.operations.link_tasks import LinkTask, TaskErrorCode, TaskState
from gateway.state.acls.acl_records import AclState
from gateway.state.errors import StoreConflict, StoreError, StoreUncertain
from gateway.state.records import LinkRecord, MirrorState
from tests.support.control.control_plane import Plane
from tests.support.waiting import wait_until_async

FILTERS = '{"aclFilters": [{"resourceFilter": {"resourceType": "any"}}]}'
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE
GROUP = ResourceType.GROUP
WRITES = 6
"""Of the round in `test_a_kill_at_every_write`: held, claimed, made, noted, deleted, noted."""
REFUSED = BrokerError(44, "create ACL: no")


def acl(
    name: str = "orders",
    operation: Operation = READ,
    *,
    kind: ResourceType = ResourceType.TOPIC,
    host: str = "*",
    principal: str = "User:alice",
) -> Acl:
    return Acl(kind, PatternType.LITERAL, name, principal, host, operation, Permission.ALLOW)


async def linked(plane: Plane, **more: str) -> LinkRecord:
    on = {"acl.sync.enable": "true", "acl.filters": FILTERS}
    return await plane.with_link(**on, **{key.replace("_", "."): value for key, value in more.items()})


async def round_of(plane: Plane, after_s: float = 5.0) -> None:
    """One round, if one is due so many seconds later."""
    sync = plane.service.acl_sync
    await wait_until_async(lambda: not any(one.running for one in sync._rounds.known.values()), 5.0)
    plane.clock_s += after_s
    await sync.run_due()
    await wait_until_async(lambda: not any(one.running for one in sync._rounds.known.values()), 5.0)


def remembered(plane: Plane) -> dict[str, AclState]:
    """By resource name and operation."""
    records = plane.store.acls.get("l", {}).values()
    return {f"{record.name} {entry.operation}": entry.state for record in records for entry in record.entries}


def changed(plane: Plane) -> list[str]:
    return [what for what, _ in plane.target.acl_requests]


def state(plane: Plane) -> tuple[TaskState, TaskErrorCode | None]:
    status = plane.parts.tasks.one("l", LinkTask.ACL_SYNC)
    return status.state, None if status.present_error is None else status.present_error.code


async def promoted(plane: Plane, topic: str = "orders") -> None:
    mirror = plane.store.mirrors["l", topic]
    await plane.by_hand(replace(mirror, state=MirrorState.STOPPED))


async def test_acls_come_and_go_with_the_sources(plane):
    plane.source.acls_there = {acl(), acl("app", kind=GROUP)}
    await linked(plane)
    await round_of(plane)
    assert plane.target.acls_there == {acl(), acl("app", kind=GROUP)}
    assert remembered(plane) == {"orders READ": AclState.MADE, "app READ": AclState.MADE}
    assert state(plane) == (TaskState.ACTIVE, None)

    plane.source.acls_there = {acl("payments")}
    await round_of(plane)
    assert plane.target.acls_there == {acl("payments")}
    assert remembered(plane) == {"payments READ": AclState.MADE}
    counts = plane.service.acl_sync.counted("l")
    assert (counts.made, counts.created, counts.deleted) == (1, 3, 2)

    requests = len(plane.target.acl_requests)
    await round_of(plane)
    assert len(plane.target.acl_requests) == requests  # nothing to do, nothing done


async def test_what_lies_still_is_not_thought_about(plane, monkeypatch):
    plane.source.acls_there = {acl()}
    await linked(plane)
    await plane.with_mirror()
    await round_of(plane)
    await round_of(plane)
    thoughts: list[int] = []

    def counted(*given: Any) -> Changes:
        thoughts.append(1)
        return changes(*given)

    monkeypatch.setattr(acl_round, "changes", counted)
    await round_of(plane)
    assert not thoughts
    for change in (
        lambda: plane.source.acls_there.add(acl("new", kind=GROUP)),
        lambda: plane.target.acls_there.discard(acl()),
    ):
        change()
        await round_of(plane)
        assert thoughts
        thoughts.clear()
        await round_of(plane)
        thoughts.clear()
    await promoted(plane)
    await round_of(plane)
    assert thoughts
    assert plane.target.acls_there == {acl(), acl("new", kind=GROUP)}


async def test_what_is_to_be_done_is_decided_beside_the_event_loop(plane, monkeypatch):
    """Tens of thousands of ACLs and topics take a tenth of a second."""
    plane.source.acls_there = {acl()}
    await linked(plane)
    await plane.with_mirror()
    loop, decided_in = threading.get_ident(), []

    def decided(*given: Any) -> Changes:
        decided_in.append(threading.get_ident())
        return changes(*given)

    monkeypatch.setattr(acl_round, "changes", decided)
    await round_of(plane)
    assert decided_in
    assert loop not in decided_in
    assert plane.target.acls_there == {acl()}


async def test_what_the_target_has_of_its_own_is_never_touched(plane):
    own = {acl(), acl("other", WRITE), acl(principal="User:bob")}
    plane.target.acls_there = set(own)
    plane.source.acls_there = {acl(), acl("payments")}
    await linked(plane)
    await round_of(plane)
    assert plane.target.acls_there == own | {acl("payments")}

    plane.source.acls_there = set()
    await round_of(plane)
    assert plane.target.acls_there == own
    assert remembered(plane) == {}


async def test_a_round_comes_when_it_is_due(plane):
    await linked(plane, acl_sync_ms="60000")
    await round_of(plane)
    plane.source.acls_there = {acl("app", kind=GROUP)}
    await round_of(plane, 59.0)
    assert not plane.target.acls_there
    await round_of(plane, 1.0)
    assert plane.target.acls_there


async def test_writes_come_with_the_promote(plane):
    plane.source.acls_there = {acl(operation=WRITE)}
    await linked(plane, acl_sync_write_hosts="10.0.0.1")
    await plane.with_mirror()
    await round_of(plane)
    assert plane.target.acls_there == {acl(operation=DESCRIBE), acl(operation=WRITE, host="10.0.0.1")}
    assert remembered(plane)["orders WRITE"] in (AclState.MADE, AclState.HELD)

    await promoted(plane)
    await round_of(plane, 0.0)  # at once
    assert plane.target.acls_there == {acl(operation=WRITE)}

    mirror = plane.store.mirrors["l", "orders"]
    await plane.by_hand(replace(mirror, state=MirrorState.ACTIVE))
    await round_of(plane, 0.0)
    assert plane.target.acls_there == {acl(operation=DESCRIBE), acl(operation=WRITE, host="10.0.0.1")}


async def test_behind_the_promote_the_target_decides(plane):
    """An operator who forbids writes to the source's topic does not mean the target's."""
    deny = acl(operation=WRITE, principal="User:*")._replace(permission=Permission.DENY)
    plane.source.acls_there = {acl(operation=WRITE), acl("app", kind=GROUP)}
    await linked(plane)
    await plane.with_mirror()
    await round_of(plane)
    await promoted(plane)
    await round_of(plane)
    plane.source.acls_there = {deny}
    await round_of(plane)
    assert plane.target.acls_there == {acl(operation=WRITE)}  # of the group nothing is settled

    mirror = plane.store.mirrors["l", "orders"]
    await plane.store.delete(mirror)  # a regular topic it stays
    await round_of(plane)
    assert plane.target.acls_there == {acl(operation=WRITE)}

    await plane.by_hand(replace(mirror, state=MirrorState.ACTIVE))  # it is mirrored again
    await round_of(plane)
    assert plane.target.acls_there == {deny}


async def test_what_is_not_whole_yet_is_not_settled(plane):
    plane.source.acls_there = {acl(operation=WRITE), acl()}
    await linked(plane)
    await plane.with_mirror()
    await round_of(plane)
    await promoted(plane)
    plane.target.refused_acls[acl(operation=WRITE)] = REFUSED
    await round_of(plane)
    assert not any(record.settled for record in plane.store.acls["l"].values())
    plane.target.refused_acls.clear()
    await round_of(plane, 60.0)
    assert plane.target.acls_there == {acl(operation=WRITE), acl()}
    assert all(record.settled for record in plane.store.acls["l"].values())


async def test_what_stands_in_for_a_pattern_goes_when_it_comes(plane):
    pattern = acl("or", WRITE)._replace(pattern_type=PatternType.PREFIXED)
    plane.source.acls_there = {pattern}
    await linked(plane)
    await plane.with_mirror("orders")
    await plane.with_mirror("orphans")
    await promoted(plane)
    await round_of(plane)
    assert plane.target.acls_there == {pattern._replace(operation=DESCRIBE), acl("orders", WRITE)}
    await promoted(plane, "orphans")
    await round_of(plane)
    await round_of(plane)
    assert plane.target.acls_there == {pattern}


async def test_a_failover_gives_what_was_held_back_without_the_source(plane):
    plane.source.acls_there = {acl(operation=WRITE)}
    await linked(plane, acl_sync_write_hosts="10.0.0.1")
    await plane.with_mirror()
    await round_of(plane)
    held_back = {acl(operation=DESCRIBE), acl(operation=WRITE, host="10.0.0.1")}
    assert plane.target.acls_there == held_back

    plane.source.down = True
    await round_of(plane)
    assert plane.target.acls_there == held_back
    await promoted(plane)
    await round_of(plane)
    assert plane.target.acls_there == {acl(operation=WRITE)}
    assert state(plane) == (TaskState.IN_ERROR, TaskErrorCode.BOOTSTRAP_TCP_CONNECTION_FAILED_ERROR)


async def test_a_source_that_cannot_be_asked_takes_nothing_away(plane):
    plane.source.acls_there = {acl()}
    await linked(plane)
    await round_of(plane)
    for trouble in (True, False):
        plane.source.down = trouble
        plane.source.authorizes = trouble
        await round_of(plane)
        assert plane.target.acls_there == {acl()}
        assert state(plane)[0] is TaskState.IN_ERROR
    error = plane.parts.tasks.one("l", LinkTask.ACL_SYNC).last_error
    assert "the source of link 'l' has no authorizer" in error.message


class Killed:
    """A process that is killed at its `at`-th write to a cluster; `lands`: which is carried out nevertheless."""

    def __init__(self, plane: Plane, at: int, *, lands: bool) -> None:
        self.left, self.lands = at, lands
        for owner, name in (
            (plane.log, "commit"),
            (plane.target, "create_acls"),
            (plane.target, "delete_acls"),
        ):
            setattr(owner, name, self._wrapped(getattr(owner, name)))

    @property
    def is_dead(self) -> bool:
        return self.left < 0

    def _wrapped(self, call: Any) -> Any:
        async def wrapped(*args: Any) -> Any:
            self.left -= 1
            if self.left >= 0:
                return await call(*args)
            if self.left == -1 and self.lands:
                await call(*args)
            raise StoreUncertain("killed") if call.__name__ == "commit" else ClusterUnavailable("killed")

        return wrapped


@pytest.mark.parametrize("lands", [True, False])
@pytest.mark.parametrize("at", range(9))
async def test_a_kill_at_every_write(plane, at, lands):
    """Whoever leads next goes on, loses nothing of ours and takes nothing of others."""
    own, kept, gone = acl("own"), acl("kept"), acl("gone")
    await linked(plane)
    await plane.with_mirror()
    plane.target.acls_there = {own}
    plane.source.acls_there = {own, kept, gone}
    await round_of(plane)
    new = {acl("new"), acl("new", kind=GROUP)}
    plane.source.acls_there = {own, kept, acl(operation=WRITE), *new}

    killed = Killed(plane, at, lands=lands)
    await round_of(plane)
    successor = Plane(plane.log.kept, plane)
    for name in ("create_acls", "delete_acls"):
        delattr(successor.target, name)
    await successor.start()
    try:
        await round_of(successor)
        await round_of(successor)
        assert successor.target.acls_there == {own, kept, acl(operation=DESCRIBE), *new}
        assert remembered(successor) == {
            "kept READ": AclState.MADE,
            "orders DESCRIBE": AclState.MADE,
            "orders WRITE": AclState.HELD,
            "new READ": AclState.MADE,
        }
        successor.source.acls_there = set()
        await round_of(successor)
        assert successor.target.acls_there == {own}
        assert remembered(successor) == {}
    finally:
        await successor.close()
    assert killed.is_dead is (at < WRITES), "each write of the round was struck once, and none is left out"


async def test_what_may_come_late_is_not_forgotten(plane):
    """A create whose answer was lost, of an ACL that the source has taken back meanwhile."""
    plane.source.acls_there = {acl()}
    await linked(plane)
    plane.target.refuse["create_acls"] = ClusterUnavailable("no answer")
    await round_of(plane)
    plane.target.refuse.clear()
    plane.source.acls_there = set()
    await round_of(plane)
    assert remembered(plane) == {"orders READ": AclState.MAKING}

    plane.target.acls_there = {acl()}  # it lands now
    await round_of(plane)
    assert plane.target.acls_there == set()
    assert remembered(plane) == {}


async def test_what_does_not_come_is_forgotten(plane):
    plane.source.acls_there = {acl()}
    await linked(plane)
    plane.target.refuse["create_acls"] = ClusterUnavailable("no answer")
    await round_of(plane)
    plane.target.refuse.clear()
    plane.source.acls_there = set()
    await round_of(plane)
    await round_of(plane, 119.0)
    assert remembered(plane) == {"orders READ": AclState.MAKING}
    await round_of(plane, 10.0)
    assert remembered(plane) == {}


async def test_nothing_is_made_that_could_not_be_stored(plane):
    plane.source.acls_there = {acl()}
    await linked(plane)
    plane.log.failures = [StoreError("no quorum")]
    await round_of(plane)
    assert plane.target.acl_requests == []
    assert state(plane)[0] is TaskState.IN_ERROR
    await round_of(plane)
    assert plane.target.acls_there == {acl()}


async def test_acls_that_are_refused_hold_no_others_up(plane):
    bad = acl("bad")
    plane.source.acls_there = {bad, acl("good")}
    plane.target.refused_acls[bad] = REFUSED
    await linked(plane)
    await round_of(plane)
    assert plane.target.acls_there == {acl("good")}
    assert remembered(plane) == {"good READ": AclState.MADE}
    assert state(plane) == (TaskState.IN_ERROR, TaskErrorCode.POLICY_VIOLATION_ERROR)
    (error,) = (await plane.service.acl_sync.plan("l")).errors
    assert (error.acl, error.code) == (bad, TaskErrorCode.POLICY_VIOLATION_ERROR)

    requests = len(plane.target.acl_requests)
    await round_of(plane)  # asked for once more
    await round_of(plane)  # and then later and later
    assert len(plane.target.acl_requests) == requests + 1
    plane.target.refused_acls.clear()
    await round_of(plane, 60.0)
    assert plane.target.acls_there == {bad, acl("good")}
    assert state(plane) == (TaskState.ACTIVE, None)


async def test_thousands_come_in_requests_of_a_bounded_size(plane):
    many = {acl(f"t{index}") for index in range(1_000)}
    plane.source.acls_there = set(many)
    await linked(plane)
    await round_of(plane)
    assert plane.target.acls_there == many
    assert max(len(acls) for _, acls in plane.target.acl_requests) == IN_A_REQUEST
    assert len(plane.target.acl_requests) == 1_000 / IN_A_REQUEST

    plane.source.acls_there = set()
    await round_of(plane)
    assert plane.target.acls_there == set()
    assert remembered(plane) == {}


async def test_a_promote_meanwhile_ends_the_round(plane):
    """What was decided for a topic that is mirrored is not carried out for one that is not."""
    plane.source.acls_there = {acl(operation=WRITE)}
    await linked(plane, acl_sync_write_hosts="10.0.0.1")
    await plane.with_mirror()

    async def meanwhile() -> None:
        plane.target.before.clear()
        plane.target.before["acls"] = nothing
        await promoted(plane)

    async def nothing() -> None:
        return

    plane.target.before["acls"] = meanwhile
    await plane.service.acl_sync.follow("l")
    assert plane.target.acls_there == {acl(operation=WRITE)}


async def test_what_was_claimed_before_is_not_made_on_old_grounds(plane):
    plane.source.acls_there = {acl(operation=WRITE)}
    await linked(plane, acl_sync_write_hosts="10.0.0.1")
    await plane.with_mirror()
    plane.target.refuse["create_acls"] = ClusterUnavailable("no answer")
    await round_of(plane)
    plane.target.refuse.clear()
    requests = len(plane.target.acl_requests)
    this = plane.service.acl_sync._a_round(plane.store.links["l"], AclMemory())
    scene = await this.look(plane.sources)
    await promoted(plane)
    with pytest.raises(StoreConflict, match="was promoted meanwhile"):
        await this.carry_out(scene)
    assert len(plane.target.acl_requests) == requests


async def test_switched_off_it_leaves_all_as_it_is(plane):
    plane.source.acls_there = {acl()}
    await linked(plane)
    await round_of(plane)
    link = plane.store.links["l"]
    await plane.by_hand(replace(link, configs={"acl.sync.enable": "false"}))
    plane.source.acls_there = set()
    await round_of(plane)
    assert plane.target.acls_there == {acl()}
    assert state(plane) == (TaskState.NOT_CONFIGURED, None)
    assert plane.service.acl_sync.counted("l") is None
    await plane.service.acl_sync.follow("l")
    assert plane.target.acls_there == {acl()}


async def test_a_link_that_goes_forgets_its_acls(plane):
    plane.source.acls_there = {acl()}
    await linked(plane)
    await round_of(plane)
    await plane.service.links.delete("l", force=True)
    assert plane.store.acls.get("l", {}) == {}
    assert plane.target.acls_there == {acl()}

    plane.source.acls_there = set()  # another link of its name takes nothing of it for its own
    await linked(plane)
    await round_of(plane)
    assert plane.target.acls_there == {acl()}


async def test_a_plan_changes_nothing(plane):
    plane.source.acls_there = {acl(), acl(operation=WRITE), acl("__lockgate_state")}
    plane.target.acls_there = {acl()}
    await linked(plane)
    plan = await plane.service.acl_sync.plan("l")
    assert plan.enabled
    assert (plan.create, plan.delete, plan.own) == ((acl(operation=DESCRIBE),), (), [acl()])
    assert [(one.acl, one.reason) for one in plan.left_out] == [
        (acl(operation=WRITE), AclReason.UNTIL_PROMOTED),
        (acl("__lockgate_state"), AclReason.OWN_NAME),
    ]
    assert plane.target.acl_requests == []
    assert remembered(plane) == {}
    plane.source.down = True
    with pytest.raises(SourceUnreachable):
        await plane.service.acl_sync.plan("l")


async def test_a_plan_before_it_is_switched_on(plane):
    plane.source.acls_there = {acl()}
    await plane.with_link()
    plan = await plane.service.acl_sync.plan("l")
    assert (plan.enabled, plan.create) == (False, (acl(),))


def waiting(plane: Plane) -> list[tuple[Acl, bool, Acl]]:
    return list(plane.service.acl_sync._rounds.known["l"].memory.behind)


async def test_no_right_is_lost_when_its_wider_form_is_refused(plane):
    wide = acl(operation=WRITE)
    narrow = acl(operation=WRITE, host="10.0.0.1")
    plane.source.acls_there = {wide}
    await linked(plane, **{"acl.sync.write.hosts": "10.0.0.1"})
    await plane.with_mirror()
    await round_of(plane)
    assert narrow in plane.target.acls_there
    await promoted(plane)
    plane.target.refused_acls = {wide: BrokerError(7, "REQUEST_TIMED_OUT")}
    await round_of(plane)
    assert narrow in plane.target.acls_there
    assert (narrow, True, wide) in waiting(plane)
    assert [(one.acl, one.is_delete, one.behind) for one in (await plane.service.acl_sync.plan("l")).waiting] == (
        waiting(plane)
    )
    status = plane.parts.tasks.one("l", LinkTask.ACL_SYNC).present_error
    assert status is not None
    assert "1 ACLs are refused, 2 wait for them" in status.message

    plane.target.refused_acls = {}
    await round_of(plane, 60.0)
    assert plane.target.acls_there == {wide}
    assert not waiting(plane)


async def test_no_right_is_given_when_the_deny_beside_it_is_refused(plane):
    allow, other = acl("payments"), acl("billing")
    deny = allow._replace(host="10.9.9.9", permission=Permission.DENY)
    plane.source.acls_there = {allow, deny, other}
    plane.target.refused_acls = {deny: REFUSED}
    await linked(plane)
    await round_of(plane)
    assert plane.target.acls_there == {other}  # which has nothing to do with it
    assert waiting(plane) == [(allow, False, deny)]
    await round_of(plane, 0.0)  # the DENY is not asked for again yet, and the ALLOW waits
    assert plane.target.acls_there == {other}

    plane.target.refused_acls = {}
    await round_of(plane, 60.0)
    assert plane.target.acls_there == {allow, deny, other}


async def test_a_deny_stays_while_the_allow_that_it_denies_cannot_be_deleted(plane):
    allow = acl("payments")
    deny = allow._replace(permission=Permission.DENY)
    plane.source.acls_there = {allow, deny}
    await linked(plane)
    await round_of(plane)
    plane.source.acls_there = set()
    plane.target.refused_acls = {allow: REFUSED}
    await round_of(plane)
    assert plane.target.acls_there == {allow, deny}
    assert waiting(plane) == [(deny, True, allow)]
    plane.target.refused_acls = {}
    await round_of(plane, 60.0)
    assert plane.target.acls_there == set()


async def test_a_promoted_resource_is_not_left_alone_while_one_of_its_acls_waits(plane):
    allow = acl()
    deny = allow._replace(name="*", permission=Permission.DENY)
    plane.source.acls_there = {allow, deny}
    plane.target.refused_acls = {deny: REFUSED}
    await linked(plane)
    await plane.with_mirror()
    await promoted(plane)
    await round_of(plane)
    assert waiting(plane) == [(allow, False, deny)]
    plane.target.refused_acls = {}
    await round_of(plane, 60.0)
    assert plane.target.acls_there == {allow, deny}
