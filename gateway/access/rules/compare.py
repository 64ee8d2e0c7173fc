"""What a principal may do on the source, on the target, and through the gateway, side by side. Pure.

Through the gateway a client is who it is on the target, and comes from a gateway's address. So most of what it may do
there is what the target's ACLs say for that host. A mirror topic that is not promoted is different: its writes go to
the source, as the link or as the client (`link.identity`), and nobody deletes or alters it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from gateway.access.rules.rights import NO_HOST, OPERATIONS, Rights
from gateway.access.rules.transform import OWN, TooManyAcls
from gateway.kafka.rules.acl import ANY_NAME, Acl, Operation, PatternType, ResourceType
from gateway.state.acls.acl_options import ANY_HOST
from gateway.state.link_config import LinkConfig, LinkIdentity

ROWS: Final = 20_000

_CHANGES: Final = (Operation.DELETE, Operation.ALTER, Operation.ALTER_CONFIGS)
_OWN_KINDS: Final = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)


class MirrorTopic(NamedTuple):
    """A mirror topic of the link. `promoted`: its writes go to the target."""

    source_topic: str
    promoted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessScene:
    """All that is compared. `host`: from where a client comes to the clusters themselves, '' for any that no ACL names.

    `source`, `target`: of the principal, under its name there. `mirrors`: of the link, by mirror topic. `only`: the
    mirror topic that is asked for; '' for everything.
    """

    config: LinkConfig
    source: Rights
    target: Rights
    host: str = NO_HOST
    mirrors: Mapping[str, MirrorTopic] = field(default_factory=dict)
    only: str = ""


class AccessRow(NamedTuple):
    """One operation on one resource. `source_name`, `target_name`: '' where it has none there. `reason`: why it is
    otherwise through the gateway than the target's ACLs say, or why not at all."""

    resource_type: ResourceType
    pattern_type: PatternType
    source_name: str
    target_name: str
    operation: Operation
    source: bool
    target: bool
    gateway: bool
    reason: str

    @property
    def differs(self) -> bool:
        """It is not the same everywhere."""
        return not self.source == self.target == self.gateway


class _Resource(NamedTuple):
    kind: ResourceType
    pattern: PatternType
    source: str
    target: str


def compare(scene: AccessScene) -> Sequence[AccessRow]:
    """A row for each operation that is allowed somewhere, in order.

    Raises:
        TooManyAcls: more than `ROWS`; one line.
    """
    rows: list[AccessRow] = []
    for resource in sorted(_resources(scene)):
        rows += _rows(resource, scene)
        if len(rows) > ROWS:
            raise TooManyAcls(f"there are more than {ROWS} rights to compare; name one topic")
    return rows


def _resources(scene: AccessScene) -> set[_Resource]:
    """What the principal's ACLs name, and the mirror topics that they are about."""
    config, topic = scene.config, ResourceType.TOPIC
    if scene.only:
        mirror = scene.mirrors.get(scene.only)
        source = mirror.source_topic if mirror else config.source_topic(scene.only) or ""
        return {_Resource(topic, PatternType.LITERAL, source, scene.only)}
    source_acls, target_acls = scene.source.all(), scene.target.all()
    found = {_Resource(acl.resource_type, acl.pattern_type, acl.name, _on_target(acl, config)) for acl in source_acls}
    found |= {_Resource(acl.resource_type, acl.pattern_type, _on_source(acl, config), acl.name) for acl in target_acls}
    found |= {
        _Resource(topic, PatternType.LITERAL, mirror.source_topic, name)
        for name, mirror in scene.mirrors.items()
        if scene.source.about(topic, mirror.source_topic) or scene.target.about(topic, name)
    }
    return {resource for resource in found if resource.kind in OPERATIONS}


def _on_target(acl: Acl, config: LinkConfig) -> str:
    if acl.name == ANY_NAME:
        return acl.name
    if acl.resource_type is ResourceType.TOPIC:
        return config.mirror_topic(acl.name)
    return config.target_group(acl.name) if acl.resource_type is ResourceType.GROUP else acl.name


def _on_source(acl: Acl, config: LinkConfig) -> str:
    if acl.name == ANY_NAME:
        return acl.name
    if acl.resource_type is ResourceType.TOPIC:
        return config.source_topic(acl.name) or ""
    return config.source_group(acl.name) or "" if acl.resource_type is ResourceType.GROUP else acl.name


def _rows(resource: _Resource, scene: AccessScene) -> Iterator[AccessRow]:
    for operation in OPERATIONS[resource.kind]:
        source = bool(resource.source) and scene.source.may(resource.kind, resource.source, operation, scene.host)
        target = bool(resource.target) and scene.target.may(resource.kind, resource.target, operation, scene.host)
        gateway, reason = _through(resource, operation, scene)
        if source or target or gateway:
            yield AccessRow(
                resource.kind,
                resource.pattern,
                resource.source,
                resource.target,
                operation,
                source,
                target,
                gateway,
                reason,
            )


def _through(resource: _Resource, operation: Operation, scene: AccessScene) -> tuple[bool, str]:
    """Whether it is allowed through the gateway, and what is to be known of it."""
    if not resource.target:
        return False, "it has no name on the target"
    if resource.kind in _OWN_KINDS and resource.target.startswith(OWN):
        return False, "it is the gateways' own, and not there for clients"
    mirror = scene.mirrors.get(resource.target) if resource.kind is ResourceType.TOPIC else None
    is_mirrored = mirror is not None and not mirror.promoted and resource.pattern is PatternType.LITERAL
    if is_mirrored and operation in _CHANGES:
        return False, "a mirror topic is not changed before it is promoted"
    hosts = [host for host in scene.config.acl_write_hosts if host != ANY_HOST] or [NO_HOST]
    refusing = [host for host in hosts if not scene.target.may(resource.kind, resource.target, operation, host)]
    if refusing:
        return False, f"the target does not allow it{f' from {refusing[0]}' if refusing[0] else ''}"
    if mirror is not None and is_mirrored and operation is Operation.WRITE:
        return _written(mirror.source_topic, scene)
    return True, ""


def _written(source_topic: str, scene: AccessScene) -> tuple[bool, str]:
    """Writes of a mirror topic: they go to the source."""
    if not scene.config.client_topics.passes(source_topic):
        return False, "link.client.topic.filters leave it out"
    if scene.config.identity is not LinkIdentity.CLIENT:
        return True, "it is sent to the source as the link"
    if not scene.source.may(ResourceType.TOPIC, source_topic, Operation.WRITE):
        return False, "it is sent to the source as the client, which may not"
    return True, "it is sent to the source as the client"
