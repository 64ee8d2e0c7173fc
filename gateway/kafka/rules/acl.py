"""An ACL as a value, with the numbers that it has on the wire (KIP-140, KIP-290, KIP-373, KIP-939). Pure.

A cluster keeps a set of ACLs: making one that is there, or deleting one that is not, changes nothing, and no ACL has an
owner or an id. So what is the same in all seven fields is the same ACL.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from gateway.kafka.rules.names import Beginnings

ANY_NAME: Final = "*"
"""The LITERAL name that stands for every name, and the host that stands for every host."""


class ResourceType(StrEnum):
    """What an ACL is about."""

    TOPIC = "TOPIC"
    GROUP = "GROUP"
    CLUSTER = "CLUSTER"
    TRANSACTIONAL_ID = "TRANSACTIONAL_ID"
    DELEGATION_TOKEN = "DELEGATION_TOKEN"  # noqa: S105 - the word of the protocol
    USER = "USER"


class PatternType(StrEnum):
    """How the resource's name is meant (KIP-290)."""

    LITERAL = "LITERAL"
    PREFIXED = "PREFIXED"


class Operation(StrEnum):
    """What is allowed or denied."""

    ALL = "ALL"
    READ = "READ"
    WRITE = "WRITE"
    CREATE = "CREATE"
    DELETE = "DELETE"
    ALTER = "ALTER"
    DESCRIBE = "DESCRIBE"
    CLUSTER_ACTION = "CLUSTER_ACTION"
    DESCRIBE_CONFIGS = "DESCRIBE_CONFIGS"
    ALTER_CONFIGS = "ALTER_CONFIGS"
    IDEMPOTENT_WRITE = "IDEMPOTENT_WRITE"
    CREATE_TOKENS = "CREATE_TOKENS"
    DESCRIBE_TOKENS = "DESCRIBE_TOKENS"
    TWO_PHASE_COMMIT = "TWO_PHASE_COMMIT"


class Permission(StrEnum):
    """A DENY counts more than any ALLOW."""

    DENY = "DENY"
    ALLOW = "ALLOW"


class Acl(NamedTuple):
    """`principal` as `User:alice`. `host`: an address, or `*`."""

    resource_type: ResourceType
    pattern_type: PatternType
    name: str
    principal: str
    host: str
    operation: Operation
    permission: Permission

    @property
    def is_pattern(self) -> bool:
        """It is about more than one name."""
        return self.pattern_type is PatternType.PREFIXED or self.name == ANY_NAME

    def covers(self, name: str) -> bool:
        """Whether it is about the resource of this name."""
        if self.pattern_type is PatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in (ANY_NAME, name)

    def __str__(self) -> str:
        """For people: `ALLOW User:alice from *: WRITE on TOPIC orders`."""
        pattern = "PREFIXED " if self.pattern_type is PatternType.PREFIXED else ""
        what = f"{pattern}{self.resource_type} {self.name}"
        return f"{self.permission} {self.principal} from {self.host}: {self.operation} on {what}"


class AclsByName:
    """ACLs on resources of one kind, found by a name: a cluster has thousands of both."""

    def __init__(self, acls: Iterable[Acl]) -> None:
        self._literal: dict[str, list[Acl]] = {}
        prefixed: dict[str, list[Acl]] = {}
        for acl in acls:
            by_name = prefixed if acl.pattern_type is PatternType.PREFIXED else self._literal
            by_name.setdefault(acl.name, []).append(acl)
        self._prefixed = Beginnings(prefixed.items())

    def about(self, name: str) -> Iterator[Acl]:
        """Those that cover the name."""
        for exact in {name, ANY_NAME}:
            yield from self._literal.get(exact, ())
        for _, acls in self._prefixed.all_of(name):
            yield from acls


RESOURCE_CODES: Final[Mapping[ResourceType, int]] = {
    ResourceType.TOPIC: 2,
    ResourceType.GROUP: 3,
    ResourceType.CLUSTER: 4,
    ResourceType.TRANSACTIONAL_ID: 5,
    ResourceType.DELEGATION_TOKEN: 6,
    ResourceType.USER: 7,
}
PATTERN_CODES: Final[Mapping[PatternType, int]] = {PatternType.LITERAL: 3, PatternType.PREFIXED: 4}
OPERATION_CODES: Final[Mapping[Operation, int]] = {operation: code for code, operation in enumerate(Operation, start=2)}
PERMISSION_CODES: Final[Mapping[Permission, int]] = {Permission.DENY: 2, Permission.ALLOW: 3}

_RESOURCES: Final = {code: kind for kind, code in RESOURCE_CODES.items()}
_PATTERNS: Final = {code: kind for kind, code in PATTERN_CODES.items()}
_OPERATIONS: Final = {code: kind for kind, code in OPERATION_CODES.items()}
_PERMISSIONS: Final = {code: kind for kind, code in PERMISSION_CODES.items()}


def from_wire(
    resource_type: int, pattern_type: int, name: str, principal: str, host: str, operation: int, permission: int
) -> Acl | None:
    """The ACL of these numbers; None for one of a kind that this version does not know."""
    kind, pattern = _RESOURCES.get(resource_type), _PATTERNS.get(pattern_type)
    what, how = _OPERATIONS.get(operation), _PERMISSIONS.get(permission)
    if kind is None or pattern is None or what is None or how is None:
        return None
    return Acl(kind, pattern, name, principal, host, what, how)
