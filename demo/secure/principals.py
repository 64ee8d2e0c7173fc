"""Who takes part under which name, and the ACLs of each. What is not here is denied."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from demo.errors import DemoError
from demo.roster import GROUPS, backlog_parts, cast
from demo.settings import CLUSTER_UP_S, Settings
from gateway.kafka.access.acls import every_acl
from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.config import ClusterConfig
from gateway.kafka.connection.errors import NetError
from protocol.messages import CreateAclsRequest

BROKER: Final = "broker"
ADMIN: Final = "admin"
"""Super users, with certificates: the brokers among themselves, and whoever gives rights and reads the logs back."""

GATEWAY: Final = "lockgate"
"""Logs in by SASL; no super user."""

INTRUDER: Final = "mallory"
"""A client with a certificate and without a right."""


class Right(NamedTuple):
    """One ACL: `resource` and `operation` as the protocol numbers them (KIP-140, KIP-290, KIP-373)."""

    who: str
    resource: int
    name: str
    operation: int
    prefixed: bool = False


_TOPIC, _GROUP, _CLUSTER, _TRANSACTIONAL_ID, _USER = 2, 3, 4, 5, 7
_READ, _WRITE, _CREATE, _DESCRIBE = 3, 4, 5, 8
_DESCRIBE_CONFIGS, _ALTER_CONFIGS, _CREATE_TOKENS = 10, 11, 13
_THE_CLUSTER: Final = "kafka-cluster"
_OWN: Final = "__lockgate"


def clients(settings: Settings) -> dict[str, tuple[int, str]]:
    """Each client of the run: what it does to the topic, and its group ('' for a producer)."""
    names: dict[str, tuple[int, str]] = {part.name: (_WRITE, "") for part in backlog_parts(settings)}
    for part in cast(settings, settings.folder):
        names[part.name] = (_READ, part.group) if part.group in GROUPS else (_WRITE, "")
    return names


def rights_of_clients(settings: Settings) -> list[Right]:
    """The same on both clusters."""
    rights = []
    for name, (operation, group) in clients(settings).items():
        rights.append(Right(name, _TOPIC, settings.topic, operation))
        if group:
            rights.append(Right(name, _GROUP, group, _READ))
    return rights


def rights_on_the_target(settings: Settings) -> list[Right]:
    """Of the gateway."""
    own = [Right(GATEWAY, _TOPIC, _OWN, op, prefixed=True) for op in (_READ, _WRITE, _CREATE, _DESCRIBE_CONFIGS)]
    own.append(Right(GATEWAY, _GROUP, _OWN, _READ, prefixed=True))
    own.append(Right(GATEWAY, _TRANSACTIONAL_ID, _OWN, _WRITE, prefixed=True))
    topic = (_READ, _WRITE, _CREATE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS)
    mirrored = [Right(GATEWAY, _TOPIC, settings.topic, operation) for operation in topic]
    mirrored += [Right(GATEWAY, _GROUP, group, _READ) for group in GROUPS]
    return [*own, *mirrored, *_tokens(settings)]


def rights_on_the_source(settings: Settings) -> list[Right]:
    """Of the link. It may not write."""
    rights = [Right(GATEWAY, _TOPIC, settings.topic, operation) for operation in (_READ, _DESCRIBE_CONFIGS)]
    rights += [Right(GATEWAY, _GROUP, group, _DESCRIBE) for group in GROUPS]
    return [*rights, Right(GATEWAY, _CLUSTER, _THE_CLUSTER, _DESCRIBE), *_tokens(settings)]


def _tokens(settings: Settings) -> list[Right]:
    names = (*clients(settings), INTRUDER)
    return [Right(GATEWAY, _USER, f"User:{name}", _CREATE_TOKENS) for name in names]


def give(bootstrap: str, properties: Mapping[str, str], rights: Sequence[Right]) -> None:
    """Create the ACLs. Raises DemoError when the cluster refuses one."""
    kind = CreateAclsRequest.AclCreation
    literal, prefixed, allow = 3, 4, 3
    made = [
        kind(
            resource_type=right.resource,
            resource_name=right.name,
            resource_pattern_type=prefixed if right.prefixed else literal,
            principal=f"User:{right.who}",
            host="*",
            operation=right.operation,
            permission_type=allow,
        )
        for right in rights
    ]
    config = ClusterConfig.from_client_properties({"bootstrap.servers": bootstrap, **properties})

    async def ask() -> None:
        cluster = Cluster(config)
        try:
            await cluster.start(CLUSTER_UP_S, topics=[])
            answer = await cluster.request(CreateAclsRequest(creations=made))
            for result in answer.results:
                if result.error_code:
                    raise DemoError(f"an ACL was refused on {bootstrap}: {result.error_code} {result.error_message}")
            await known_everywhere(cluster, len(set(rights)))
        finally:
            await cluster.close()

    asyncio.run(ask())


async def known_everywhere(cluster: Cluster, count: int, timeout_s: float = CLUSTER_UP_S) -> None:
    """The controller answers before all brokers have heard of an ACL, and a client may come to any of them.

    Raises DemoError when one does not tell, or does not know `count` ACLs in time.
    """
    deadline = time.monotonic() + timeout_s
    for broker in cluster.view.brokers:
        who = f"broker {broker} of {':'.join(map(str, cluster.config.bootstrap[0]))}"
        while (known := await _known(cluster, broker, who)) < count:
            if time.monotonic() >= deadline:
                raise DemoError(f"{who} knows {known} ACLs of {count} after {timeout_s:g} s")
            await asyncio.sleep(0.1)


async def _known(cluster: Cluster, broker: int, who: str) -> int:
    try:
        return sum(len(resource.acls) for resource in await every_acl(cluster, node_id=broker))
    except NetError as exc:
        raise DemoError(f"{who} does not tell its ACLs: {exc}") from exc
