"""What there is on a cluster and in a registry, read without lockgate's help, to be compared by the judge."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, ThrottleEvent, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from demo.access import Access
from demo.carry.avro import Schema
from demo.carry.brokers import administer, asked
from demo.carry.registry import Subjects
from demo.carry.rights import GATEWAY
from demo.carry.settings import AUDIT_GROUP
from demo.checker import TopicLog
from demo.errors import DemoError
from gateway.kafka.access.quotas import describe_quotas

_WAIT_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What one side has at the end.

    Attributes:
        log: the topic.
        ids: those that its records name, with what the side's registry says that they mean.
        acls: a line each, without those of the gateway's own principal.
        users: who has a SCRAM credential.
        quotas: a line each, with its number.
        subjects: all of the registry. level: the compatibility of the records' subject.
    """

    log: TopicLog
    ids: Mapping[int, Schema]
    acls: frozenset[str]
    users: frozenset[str]
    quotas: Mapping[str, float]
    subjects: Subjects
    level: str


def acls_of(bootstrap: str, access: Access) -> frozenset[str]:
    """Every ACL but the gateway's own, by librdkafka. Raises DemoError when the cluster does not tell."""
    anybody: Any = None  # the library's types forget that a filter may leave names out
    every = AclBindingFilter(
        ResourceType.ANY, anybody, ResourcePatternType.ANY, anybody, anybody, AclOperation.ANY, AclPermissionType.ANY
    )
    (found,) = administer(bootstrap, access, "ACLs", lambda admin: [admin.describe_acls(every)])
    return frozenset(
        f"{one.permission_type.name} {one.principal} from {one.host}: {one.operation.name} on"
        f" {one.resource_pattern_type.name} {one.restype.name} {one.name}"
        for one in found
        if one.principal != f"User:{GATEWAY}"
    )


def users_of(bootstrap: str, access: Access) -> frozenset[str]:
    """Who has a SCRAM credential, by librdkafka. Raises DemoError when the cluster does not tell."""
    (found,) = administer(bootstrap, access, "users", lambda admin: [admin.describe_user_scram_credentials()])
    return frozenset(found)


def quotas_of(bootstrap: str, access: Access) -> dict[str, float]:
    """Every client quota. librdkafka has no request for them."""
    return {key.words: value for key, value in asked(bootstrap, access, describe_quotas).items()}


def is_throttled(bootstrap: str, login: Mapping[str, str], topic: str) -> bool:
    """Whether a reader is slowed down, which is what a quota is for. It joins no group and commits nothing.

    Only with a record does it count: a reader that is held back at its group's gate gets empty answers, and these take
    something of its quota, too.

    Raises:
        DemoError: it may not read, or no record came.
    """
    events: list[ThrottleEvent] = []
    properties = {
        "bootstrap.servers": bootstrap,
        **login,
        "client.id": login["sasl.username"],
        "group.id": AUDIT_GROUP,
        "enable.auto.commit": False,
        "log_level": 0,  # it is closed in the middle of a login, which is no news
        "throttle_cb": events.append,
    }
    consumer = Consumer(properties)
    consumer.assign([TopicPartition(topic, 0, 0)])
    deadline = time.monotonic() + _WAIT_S
    has_read = False
    try:
        while not (events and has_read) and time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is not None and message.error() is not None:
                raise DemoError(f"{login['sasl.username']} cannot read {topic} on {bootstrap}: {message.error()}")
            has_read = has_read or message is not None
        if not has_read:
            raise DemoError(f"{login['sasl.username']} got no record of {topic} on {bootstrap} in {_WAIT_S:g} s")
        return bool(events)
    finally:
        consumer.close()
