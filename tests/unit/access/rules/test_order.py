"""gateway/access/rules/order.py"""

from __future__ import annotations

import pytest

from gateway.access.rules.order import allows_to_delete, allows_to_make, denies_to_delete
from gateway.kafka.rules.acl import Acl, Operation, PatternType, Permission, ResourceType

READ, WRITE, DESCRIBE, ALL = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALL
ALLOW, DENY = Permission.ALLOW, Permission.DENY
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP


def entry(
    permission: Permission,
    operation: Operation = READ,
    name: str = "orders",
    *,
    pattern: PatternType = LITERAL,
    principal: str = "User:alice",
    host: str = "*",
    kind: ResourceType = TOPIC,
) -> Acl:
    return Acl(kind, pattern, name, principal, host, operation, permission)


@pytest.mark.parametrize(
    "deny",
    [
        entry(DENY),
        entry(DENY, host="10.9.9.9"),
        entry(DENY, principal="User:*"),
        entry(DENY, ALL),
        entry(DENY, DESCRIBE),  # READ implies it
        entry(DENY, name="*"),
        entry(DENY, name="ord", pattern=PREFIXED),
        entry(DENY, name="orders", pattern=PREFIXED),
        entry(DENY, name="", pattern=PREFIXED),
    ],
    ids=str,
)
def test_an_allow_waits_for_a_deny_that_takes_some_of_it_away(deny):
    allow = entry(ALLOW)
    assert allows_to_make([allow], [allow, deny]).waiting == [(allow, False, deny)]
    assert allows_to_make([allow], [allow]).go == [allow]


@pytest.mark.parametrize(
    "deny",
    [
        entry(DENY, WRITE),
        entry(DENY, name="payments"),
        entry(DENY, name="orders-", pattern=PREFIXED),
        entry(DENY, principal="User:bob"),
        entry(DENY, kind=GROUP),
    ],
    ids=str,
)
def test_it_does_not_wait_for_another(deny):
    assert allows_to_make([entry(ALLOW)], [deny]).go == [entry(ALLOW)]


@pytest.mark.parametrize(
    ("allow", "deny"),
    [
        (entry(ALLOW, name="ord", pattern=PREFIXED), entry(DENY)),
        (entry(ALLOW, name="ord", pattern=PREFIXED), entry(DENY, name="o", pattern=PREFIXED)),
        (entry(ALLOW, name="ord", pattern=PREFIXED), entry(DENY, name="orders-", pattern=PREFIXED)),
        (entry(ALLOW, name="ord", pattern=PREFIXED), entry(DENY, name="ord", pattern=PREFIXED)),
        (entry(ALLOW, name="*"), entry(DENY)),
        (entry(ALLOW, name="*"), entry(DENY, name="o", pattern=PREFIXED)),
        (entry(ALLOW, principal="User:*"), entry(DENY)),
        (entry(ALLOW, ALL), entry(DENY, DESCRIBE)),
        (entry(ALLOW, host="10.0.0.1"), entry(DENY)),
    ],
    ids=str,
)
def test_patterns_and_everybody_are_about_what_they_cover(allow, deny):
    assert [one.behind for one in allows_to_make([allow], [deny]).waiting] == [deny]


def test_hosts_that_differ_have_nothing_in_common():
    assert not allows_to_make([entry(ALLOW, host="10.0.0.1")], [entry(DENY, host="10.0.0.2")]).waiting


def test_an_allow_stays_until_what_replaces_it_is_made():
    narrow, wide = entry(ALLOW, WRITE, host="10.0.0.1"), entry(ALLOW, WRITE)
    assert allows_to_delete([narrow], [wide]).waiting == [(narrow, True, wide)]
    assert allows_to_delete([wide], [narrow]).waiting == [(wide, True, narrow)]
    assert allows_to_delete([entry(ALLOW, DESCRIBE)], [wide]).waiting  # what WRITE implies
    assert allows_to_delete([narrow], []).go == [narrow]


def test_who_loses_one_right_keeps_it_for_no_other():
    """READ and WRITE imply the same DESCRIBE, and neither replaces the other."""
    assert allows_to_delete([entry(ALLOW)], [entry(ALLOW, WRITE)]).go == [entry(ALLOW)]


def test_a_deny_stays_until_what_replaces_it_is_made_and_what_it_denies_is_gone():
    deny = entry(DENY)
    assert denies_to_delete([deny], [entry(DENY, host="10.9.9.9")], []).waiting
    assert denies_to_delete([deny], [], [entry(ALLOW)]).waiting == [(deny, True, entry(ALLOW))]
    assert denies_to_delete([deny], [entry(ALLOW)], [entry(ALLOW, name="payments")]).go == [deny]


def test_an_entry_is_not_in_its_own_way():
    assert denies_to_delete([entry(DENY)], [], [entry(DENY)]).go == [entry(DENY)]


def test_the_reason_names_the_other_entry():
    (one,) = allows_to_make([entry(ALLOW)], [entry(DENY)]).waiting
    assert one.detail == (
        "it would give what this one denies, which is not made yet: DENY User:alice from *: READ on TOPIC orders"
    )
    (one,) = allows_to_delete([entry(ALLOW)], [entry(ALLOW, ALL)]).waiting
    assert one.detail.startswith("what comes in its place is not made yet: ALLOW")
    (one,) = denies_to_delete([entry(DENY)], [], [entry(ALLOW)]).waiting
    assert one.detail.startswith("without it this one has effect, which is not deleted yet: ALLOW")


def test_the_order_is_kept():
    acls = [entry(ALLOW, name=name) for name in "bac"]
    assert allows_to_make(acls, [entry(DENY, name="a")]).go == [acls[0], acls[2]]
