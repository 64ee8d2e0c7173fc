"""What is made, deleted and remembered: from every state of what is wanted, there and remembered."""

from __future__ import annotations

from itertools import product

import pytest

from gateway.access.rules import changes as rules
from gateway.access.rules.changes import (
    TooManyOfOne,
    after_delete,
    changes,
    records_after,
    remembered_of,
    resource_of,
)
from gateway.access.rules.transform import DesiredAcls
from gateway.kafka.rules.acl import Acl, Operation, PatternType, Permission, ResourceType
from gateway.state.acls.acl_records import AclEntry, AclRecord, AclState
from gateway.state.codec import decode, encode, key_of

MAKING, MADE, HELD = AclState.MAKING, AclState.MADE, AclState.HELD
NOBODY = DesiredAcls(frozenset())
GOALS = ("wanted", "held", "neither")
STATES = (None, MAKING, MADE, HELD)


def acl(name: str = "orders", *, deny: bool = False, operation: Operation = Operation.READ) -> Acl:
    permission = Permission.DENY if deny else Permission.ALLOW
    return Acl(ResourceType.TOPIC, PatternType.LITERAL, name, "User:alice", "*", operation, permission)


A = acl()


@pytest.mark.parametrize(
    ("goal", "there", "state", "over"),
    list(product(GOALS, (True, False), STATES, (True, False))),
)
def test_every_state(goal, there, state, over):
    """The invariants, whatever was interrupted where."""
    want = {"wanted": DesiredAcls(frozenset({A})), "held": DesiredAcls(frozenset(), frozenset({A})), "neither": NOBODY}[
        goal
    ]
    remembered = {} if state is None else {A: state}
    found = changes(want, {A} if there else set(), remembered, {A} if over else set())
    ours = state in (MAKING, MADE)

    assert bool(found.delete) is (there and ours and goal != "wanted"), "only what is ours and not wanted is deleted"
    assert bool(found.create) is (goal == "wanted" and not there), "all that is wanted and missing is made"
    assert bool(found.own) is (goal == "wanted" and there and not ours), "what was there before is the target's own"
    if found.own:
        assert found.remember in ({}, {A: None}), "nothing is remembered of what is the target's own"
    if ours and not there and found.remember:
        assert state is MADE or over, "what may come yet is not forgotten"
    assert found.remember.get(A, state) != state or A not in found.remember, "nothing is stored that is stored"


@pytest.mark.parametrize(("goal", "there", "state"), list(product(GOALS, (True, False), STATES)))
def test_it_comes_to_rest(goal, there, state):
    """Carried out as they say, the changes lead to the goal, and then to nothing more."""
    want = {"wanted": DesiredAcls(frozenset({A})), "held": DesiredAcls(frozenset(), frozenset({A})), "neither": NOBODY}[
        goal
    ]
    present, remembered = ({A} if there else set()), ({} if state is None else {A: state})
    was_own = there and state not in (MAKING, MADE)
    for _ in range(3):
        found = changes(want, present, remembered, {A})
        for each, kept in found.remember.items():
            remembered.pop(each, None)
            if kept is not None:
                remembered[each] = kept
        for each in found.create:
            present.add(each)
            remembered[each] = MADE
        for each in found.delete:
            present.discard(each)
            del remembered[each]
            if after_delete(each, want) is not None:
                remembered[each] = HELD
    assert changes(want, present, remembered).is_nothing
    assert present == ({A} if goal == "wanted" or was_own else set())
    assert remembered.get(A) == (MADE if goal == "wanted" and not was_own else HELD if goal == "held" else None)


def test_deny_is_made_first_and_deleted_last():
    few = frozenset({acl("a"), acl("b", deny=True), acl("c")})

    assert changes(DesiredAcls(few), set(), {}).create[0] == acl("b", deny=True)
    assert changes(NOBODY, few, dict.fromkeys(few, MADE)).delete[-1] == acl("b", deny=True)


def test_records_by_resource():
    write = acl(operation=Operation.WRITE)
    first = records_after("l", 7, {}, {A: MAKING, write: HELD, acl("other"): MADE})
    records = {key: record for key, record in first.items() if record is not None}

    assert set(records) == {resource_of(A), resource_of(acl("other"))}
    assert remembered_of(records, 7) == {A: MAKING, write: HELD, acl("other"): MADE}
    assert remembered_of(records, 8) == {}  # a link that has its name now
    (record,) = [one for one in records.values() if one.name == "other"]
    assert decode(key_of(record), encode(record)) == record

    later = records_after("l", 7, records, {A: MADE, write: None, acl("other"): None})
    assert later[resource_of(acl("other"))] is None
    changed = later[resource_of(A)]
    assert changed is not None
    assert changed.entries == (AclEntry("User:alice", "*", "READ", "ALLOW", MADE),)


def test_what_a_newer_version_has_stored_is_left_alone():
    newer = AclEntry("User:alice", "*", "DANCE", "ALLOW", MADE)
    record = AclRecord(
        link="l", link_id=1, resource_type="TOPIC", pattern_type="LITERAL", name="orders", entries=(newer,)
    )

    assert remembered_of({("TOPIC", "LITERAL", "orders"): record}, 1) == {}
    after = records_after("l", 1, {("TOPIC", "LITERAL", "orders"): record}, {A: MADE})[resource_of(A)]
    assert after is not None
    assert newer in after.entries


def test_a_record_has_a_most(monkeypatch):
    monkeypatch.setattr(rules, "OF_A_RESOURCE", 1)

    with pytest.raises(TooManyOfOne, match="TOPIC LITERAL orders has 2 ACLs, 1 are possible"):
        records_after("l", 1, {}, {A: MADE, acl(operation=Operation.WRITE): MADE})
