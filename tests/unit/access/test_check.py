"""`access check`: whom it asks, and what it refuses."""

from __future__ import annotations

import pytest

from gateway.access.check import SETTINGS
from gateway.errors import BadRequest, NotFound, SourceUnreachable
from gateway.kafka.rules.acl import Acl, Operation, PatternType, Permission, ResourceType

ALICE = "User:alice"


def acl(operation: Operation, principal: str = ALICE, *, host: str = "*") -> Acl:
    return Acl(ResourceType.TOPIC, PatternType.LITERAL, "orders", principal, host, operation, Permission.ALLOW)


async def test_both_clusters_are_compared(plane):
    await plane.with_mirror()
    plane.source.acls_there = {acl(Operation.READ), acl(Operation.WRITE, "User:bob")}
    plane.target.acls_there = {acl(Operation.READ)}
    found = await plane.service.access_check.check("l", ALICE)
    assert [(row.operation, row.differs) for row in found.rows] == [
        (Operation.READ, False),
        (Operation.DESCRIBE, False),
    ]
    assert (found.differences, found.notes) == (0, [SETTINGS])

    plane.target.acls_there = set()
    assert (await plane.service.access_check.check("l", ALICE)).differences == 2


async def test_principals_are_mapped(plane):
    await plane.with_link(**{"acl.sync.principal.mapping.rules": "RULE:User:(.*)e/User:$1/"})
    plane.source.acls_there = {acl(Operation.READ)}
    plane.target.acls_there = {acl(Operation.READ, "User:alic")}
    found = await plane.service.access_check.check("l", ALICE)
    assert (found.target_principal, found.differences) == ("User:alic", 0)
    unknown = await plane.service.access_check.check("l", "User:bob")
    assert unknown.target_principal == ""
    assert "it has no name on the target" in unknown.notes[0]


async def test_a_cluster_without_an_authorizer_is_said(plane):
    await plane.with_mirror()
    plane.source.authorizes = False
    found = await plane.service.access_check.check("l", ALICE, topic="orders")
    assert found.notes[0] == "the source has no authorizer: all is allowed there"
    assert found.differences == len(found.rows) > 5


async def test_what_is_refused(plane):
    await plane.with_link()
    check = plane.service.access_check.check
    for principal, host, words in (
        ("alice", "", "principal 'alice' is not of the form User:NAME"),
        (ALICE, "gw", "host: 'gw' is not an IP address"),
        (ALICE, "10.0.0.1,10.0.0.2", "is more than one"),
    ):
        with pytest.raises(BadRequest, match=words):
            await check("l", principal, host)
    with pytest.raises(NotFound, match="has no mirror topic 'x'"):
        await check("l", ALICE, topic="x")
    with pytest.raises(NotFound, match="link 'x' does not exist"):
        await check("x", ALICE)
    plane.source.down = True
    with pytest.raises(SourceUnreachable):
        await check("l", ALICE)
