"""What a principal may do, by a cluster's ACLs: the rules of Kafka's own authorizer (KIP-11, KIP-290). Pure.

* A DENY of the operation, or of ALL, counts more than any ALLOW.
* READ, WRITE, DELETE and ALTER allow DESCRIBE as well, ALTER_CONFIGS allows DESCRIBE_CONFIGS.
* `User:*` is everybody, the host `*` every host.

What a broker's settings add (`super.users`, `allow.everyone.if.no.acl.found`) is in no ACL, and not in here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from gateway.kafka.rules.acl import ANY_NAME, Acl, AclsByName, Operation, Permission, ResourceType

EVERYBODY: Final = "User:*"
NO_HOST: Final = ""
"""A host that no ACL names."""

OPERATIONS: Final[Mapping[ResourceType, tuple[Operation, ...]]] = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (Operation.READ, Operation.DELETE, Operation.DESCRIBE),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE, Operation.TWO_PHASE_COMMIT),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
"""What there is to do with each kind of resource."""

_IMPLIED_BY: Final[Mapping[Operation, tuple[Operation, ...]]] = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}


def implied_by(operation: Operation) -> tuple[Operation, ...]:
    """What who is allowed the operation may do beside it."""
    return tuple(other for other, enough in _IMPLIED_BY.items() if operation in enough)


class Rights:
    """Of one principal on one cluster. `acls`: None where the cluster has no authorizer: all is allowed there."""

    def __init__(self, acls: Iterable[Acl] | None, principal: str) -> None:
        self._is_open = acls is None
        by_kind: dict[ResourceType, list[Acl]] = {}
        for acl in acls or ():
            if acl.principal in (principal, EVERYBODY):
                by_kind.setdefault(acl.resource_type, []).append(acl)
        self._all = sorted(acl for some in by_kind.values() for acl in some)
        self._by_kind = {kind: AclsByName(some) for kind, some in by_kind.items()}

    def about(self, kind: ResourceType, name: str) -> list[Acl]:
        """The ACLs of the principal that cover a resource."""
        found = self._by_kind.get(kind)
        return [] if found is None else list(found.about(name))

    def may(self, kind: ResourceType, name: str, operation: Operation, host: str = NO_HOST) -> bool:
        """Whether the principal may do it from this host."""
        if self._is_open:
            return True
        about = [acl for acl in self.about(kind, name) if acl.host in (host, ANY_NAME)]
        denied = any(acl.permission is Permission.DENY and acl.operation in (operation, Operation.ALL) for acl in about)
        enough = (operation, Operation.ALL, *_IMPLIED_BY.get(operation, ()))
        return not denied and any(acl.permission is Permission.ALLOW and acl.operation in enough for acl in about)

    def all(self) -> list[Acl]:
        """The ACLs that are about the principal, in order."""
        return self._all
