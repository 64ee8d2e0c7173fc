"""Who may do what, as Kafka's authorizer decides it."""

from __future__ import annotations

from gateway.access.rules.rights import Rights
from gateway.kafka.rules.acl import Acl, Operation, PatternType, Permission, ResourceType

TOPIC = ResourceType.TOPIC
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE


def acl(operation, name="orders", *, prefixed=False, principal="User:alice", host="*", deny=False):
    pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    return Acl(TOPIC, pattern, name, principal, host, operation, Permission.DENY if deny else Permission.ALLOW)


def may(operation, *acls, name="orders", host=""):
    return Rights(acls, "User:alice").may(TOPIC, name, operation, host)


def test_allow_and_deny():
    assert may(READ, acl(READ))
    assert not may(WRITE, acl(READ))
    assert may(WRITE, acl(Operation.ALL))
    assert not may(READ, acl(READ), acl(READ, deny=True))
    assert not may(READ, acl(READ), acl(Operation.ALL, "*", principal="User:*", deny=True))
    assert may(READ, acl(READ), acl(WRITE, deny=True))


def test_what_is_implied():
    assert may(DESCRIBE, acl(WRITE))
    assert may(Operation.DESCRIBE_CONFIGS, acl(Operation.ALTER_CONFIGS))
    assert not may(DESCRIBE, acl(WRITE), acl(DESCRIBE, deny=True))
    assert not may(DESCRIBE, acl(Operation.CREATE))


def test_patterns_principals_and_hosts():
    assert may(READ, acl(READ, "ord", prefixed=True))
    assert not may(READ, acl(READ, "x", prefixed=True))
    assert may(READ, acl(READ, "*", principal="User:*"))
    assert not may(READ, acl(READ, principal="User:bob"))
    assert may(READ, acl(READ, host="10.0.0.1"), host="10.0.0.1")
    assert not may(READ, acl(READ, host="10.0.0.1"))
    assert may(READ, acl(READ), acl(READ, host="10.0.0.1", deny=True))
