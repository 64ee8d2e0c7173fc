"""Who takes part under which name, with which ACLs and quotas. What is not here is denied."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from demo.carry.settings import AUDIT_GROUP, GROUP, SHARE_GROUP, TOPIC
from gateway.kafka.rules.quota import EntityType, QuotaEntityPart, QuotaKey

ADMIN: Final = "admin"
"""A super user: gives rights, and reads back."""

GATEWAY: Final = "lockgate"
"""The gateway on the target, and its link on the source. Logs in by PLAIN; no super user."""

WEB, APP = "shop-web", "shop-app"
BILLING: Final = "billing-1"
PACKING = ("packing-1", "packing-2")
AUDITOR: Final = "auditor"
"""Has rights by prefix and a small quota; no client of its own runs all the time."""

CLIENTS: Final = (WEB, APP, BILLING, *PACKING)
USERS: Final = (*CLIENTS, AUDITOR)
"""Each has a SCRAM credential of its own on the source."""

_TOPIC, _GROUP, _CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.BROKER
_TRANSACTIONAL_ID: Final = ResourceType.TRANSACTIONAL_ID
_CLUSTER_NAME: Final = "kafka-cluster"
_ALL, _READ, _WRITE = AclOperation.ALL, AclOperation.READ, AclOperation.WRITE
_DESCRIBE, _DESCRIBE_CONFIGS = AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS


class Right(NamedTuple):
    """An ACL, from every host."""

    who: str
    kind: ResourceType
    name: str
    operation: AclOperation
    prefixed: bool = False
    denied: bool = False

    @property
    def binding(self) -> AclBinding:
        """As an admin client takes it."""
        return AclBinding(*self._fields_of_it)

    @property
    def filter(self) -> AclBindingFilter:
        """For this ACL and no other."""
        return AclBindingFilter(*self._fields_of_it)

    @property
    def _fields_of_it(self) -> tuple[Any, ...]:
        pattern = ResourcePatternType.PREFIXED if self.prefixed else ResourcePatternType.LITERAL
        permission = AclPermissionType.DENY if self.denied else AclPermissionType.ALLOW
        return self.kind, self.name, pattern, f"User:{self.who}", "*", self.operation, permission


OF_CLIENTS: Final = (
    Right(WEB, _TOPIC, TOPIC, _WRITE),
    Right(APP, _TOPIC, TOPIC, _WRITE),
    Right(APP, _TRANSACTIONAL_ID, APP, _WRITE, prefixed=True),
    Right(APP, _CLUSTER, _CLUSTER_NAME, AclOperation.IDEMPOTENT_WRITE),
    Right(BILLING, _TOPIC, TOPIC, _READ),
    Right(BILLING, _GROUP, GROUP, _READ),
    *(Right(who, kind, name, _READ) for who in PACKING for kind, name in ((_TOPIC, TOPIC), (_GROUP, SHARE_GROUP))),
    Right(AUDITOR, _TOPIC, TOPIC[:2], _READ, prefixed=True),
    Right(AUDITOR, _TOPIC, TOPIC, _WRITE, denied=True),
    Right(AUDITOR, _GROUP, AUDIT_GROUP, _READ, prefixed=True),
    Right("trainee", _TOPIC, TOPIC, AclOperation.DELETE, denied=True),
)
"""On the source, before the migration."""

TAKEN_AWAY: Final = Right(APP, _CLUSTER, _CLUSTER_NAME, AclOperation.IDEMPOTENT_WRITE)
GIVEN: Final = Right(AUDITOR, _TOPIC, TOPIC, _DESCRIBE_CONFIGS)
"""On the source, while the topic is mirrored: rights change, and the target follows."""

OF_THE_LINK: Final = (
    *(Right(GATEWAY, _TOPIC, TOPIC, operation) for operation in (_READ, _WRITE, _DESCRIBE_CONFIGS)),
    *(Right(GATEWAY, _GROUP, group, _DESCRIBE) for group in (GROUP, SHARE_GROUP, AUDIT_GROUP)),
    *(Right(GATEWAY, _CLUSTER, _CLUSTER_NAME, operation) for operation in (_DESCRIBE, _DESCRIBE_CONFIGS)),
)
"""On the source. It writes there for clients, until the promote."""

OF_THE_GATEWAY: Final = (
    *(Right(GATEWAY, kind, "*", _ALL) for kind in (_TOPIC, _GROUP, _TRANSACTIONAL_ID)),
    Right(GATEWAY, _CLUSTER, _CLUSTER_NAME, _ALL),
)
"""On the target: it makes topics, ACLs, users and quotas there."""

_SMALL: Final = 1_000.0  # bytes/s: a few seconds of the topic are more than it allows
QUOTAS: Final = {
    QuotaKey((QuotaEntityPart(EntityType.USER, AUDITOR),), "consumer_byte_rate"): _SMALL,
    QuotaKey((QuotaEntityPart(EntityType.USER, WEB),), "producer_byte_rate"): 10_000_000.0,
    QuotaKey(
        (QuotaEntityPart(EntityType.USER, BILLING), QuotaEntityPart(EntityType.CLIENT_ID, BILLING)),
        "consumer_byte_rate",
    ): 20_000_000.0,
    QuotaKey((QuotaEntityPart(EntityType.CLIENT_ID, APP),), "request_percentage"): 400.0,
}
"""On the source."""
