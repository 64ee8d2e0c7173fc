"""`access check`: both clusters are asked for their ACLs, and compared for one principal. Nothing is changed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gateway.access.rules.compare import AccessRow, AccessScene, MirrorTopic, compare
from gateway.access.rules.rights import NO_HOST, Rights
from gateway.access.rules.transform import TooManyAcls, principal_on_target
from gateway.cutover.write_pause.rules.routing_build import written_on_target
from gateway.errors import BadRequest, Conflict, NotFound
from gateway.kafka.connection.errors import BrokerError
from gateway.kafka.rules.acl import Acl, ResourceType
from gateway.operations.cluster_access import ClusterAccess
from gateway.operations.cluster_errors import source_errors, target_errors
from gateway.operations.records import Records
from gateway.operations.sources import SourcesForViews
from gateway.state.acls.acl_options import hosts
from gateway.state.link_config import ACL_PRINCIPALS, parse
from protocol.errors import ErrorCode

SETTINGS: Final = "super.users and allow.everyone.if.no.acl.found are settings of brokers, and not known here"


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What one principal may do. `target_principal`: its name on the target, '' for none. `notes`: what else counts."""

    principal: str
    target_principal: str
    host: str
    rows: Sequence[AccessRow]
    notes: Sequence[str]

    @property
    def differences(self) -> int:
        """Rights that are not the same everywhere."""
        return sum(row.differs for row in self.rows)


class AccessCheck:
    """Asks and compares."""

    def __init__(self, *, records: Records, views: SourcesForViews, target: ClusterAccess) -> None:
        self._records = records
        self._views = views
        self._target = target

    async def check(self, name: str, principal: str, host: str = NO_HOST, topic: str = "") -> Access:
        """Of a link.

        Args:
            principal: as the source knows it, `User:NAME`.
            host: the address of a client that comes to the clusters themselves; '' for one that no ACL names.
            topic: only this mirror topic.

        Raises:
            BadRequest: no such principal or host can be.
            NotFound: no such link, or mirror topic.
            SourceUnreachable, TargetUnreachable, Conflict: a cluster does not answer, refuses, or has too many ACLs.
        """
        link = self._records.link(name)
        config = parse(link.configs)
        host = _checked(principal, host)
        mirrors = {
            mirrored: MirrorTopic(mirror.source_topic, written_on_target(mirror))
            for (owner, mirrored), mirror in self._records.store.mirrors.items()
            if owner == name
        }
        if topic and topic not in mirrors:
            raise NotFound(f"link '{name}' has no mirror topic '{topic}'")
        on_target = principal_on_target(principal, config.acl_principals) or ""
        with source_errors(name):
            source = await _acls(await self._views.reach(link))
        with target_errors():
            target = await _acls(self._target)
        scene = AccessScene(
            config=config,
            source=await asyncio.to_thread(Rights, source, principal),
            target=await asyncio.to_thread(Rights, target, on_target),
            host=host,
            mirrors=mirrors,
            only=topic,
        )
        try:
            rows = await asyncio.to_thread(compare, scene)
        except TooManyAcls as exc:
            raise Conflict(f"link '{name}': {exc}") from exc
        return Access(
            principal=principal,
            target_principal=on_target,
            host=host,
            rows=rows,
            notes=_notes(source, target, on_target),
        )


def _checked(principal: str, host: str) -> str:
    """The host as brokers write it."""
    if not all(principal.partition(":")):
        raise BadRequest(f"principal {principal!r} is not of the form User:NAME")
    try:
        found = hosts(host) or (NO_HOST,)
    except ValueError as exc:
        raise BadRequest(f"host: {exc}") from exc
    if len(found) != 1:
        raise BadRequest(f"host: {host!r} is more than one")
    return found[0]


async def _acls(access: ClusterAccess) -> frozenset[Acl] | None:
    """None: the cluster has no authorizer."""
    try:
        return await access.acls(frozenset(ResourceType))
    except BrokerError as exc:
        if exc.code == ErrorCode.SECURITY_DISABLED:
            return None
        raise


def _notes(source: frozenset[Acl] | None, target: frozenset[Acl] | None, on_target: str) -> list[str]:
    found = [
        f"the {name} has no authorizer: all is allowed there"
        for name, acls in (("source", source), ("target", target))
        if acls is None
    ]
    if not on_target:
        found.append(f"no rule of {ACL_PRINCIPALS} is about the principal: it has no name on the target")
    return [*found, SETTINGS]
