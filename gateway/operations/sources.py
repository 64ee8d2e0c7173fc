"""The source cluster of each link: opened once, shared by all planes, watched for being there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import structlog

from gateway.errors import BadRequest, NotFound, SourceUnreachable
from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.config import ClusterConfig
from gateway.kafka.connection.errors import NetError
from gateway.operations.cluster_access import ClusterAccess
from gateway.operations.link_tasks import TaskErrorCode
from gateway.operations.secrets.link_secrets import LinkSecrets
from gateway.state.link_config import LinkIdentity, parse
from gateway.state.records import LinkRecord

VIEW_S = 5.0  # how long a view waits for a source
_CONNECT_S = 10.0
_log = structlog.get_logger("lockgate.control")

OpenCluster = Callable[[ClusterConfig], ClusterAccess]


@dataclass(frozen=True, slots=True)
class LinkHealth:
    """Is the link's source there? `since_ms` wall clock; `message` why not.

    `refused`: it answers, and does not take the link's credentials. `failed`: for so long that the link counts as
    failed, until they are taken. `silent_since`: monotonic seconds since when it has not answered at all; None while it
    does, or refuses.
    """

    available: bool
    since_ms: int
    message: str = ""
    refused: bool = False
    failed: bool = False
    silent_since: float | None = None

    @property
    def state(self) -> str:
        """Of the link, under Confluent's names."""
        return "ACTIVE" if self.available else "FAILED" if self.failed else "UNAVAILABLE"

    @property
    def code(self) -> TaskErrorCode:
        """Of a source that is not there."""
        return (
            TaskErrorCode.AUTHENTICATION_ERROR if self.refused else TaskErrorCode.BOOTSTRAP_TCP_CONNECTION_FAILED_ERROR
        )


class Sources:
    """Source clusters by link name. `clusters` is a live view of the underlying net clusters, for the proxy.

    `secrets`: of links, and what the properties of a new one may make us do. `act_for_clients`: has what is done for
    clients be done as them at a cluster, by the link's name.
    """

    def __init__(
        self,
        open_cluster: OpenCluster,
        secrets: LinkSecrets | None = None,
        act_for_clients: Callable[[Cluster, str], None] = lambda _cluster, _link: None,
    ) -> None:
        self._open_cluster = open_cluster
        self._act_for_clients = act_for_clients
        self.secrets = secrets or LinkSecrets()
        self._accesses: dict[str, ClusterAccess] = {}
        self._clusters: dict[str, Any] = {}
        self._links: dict[str, LinkRecord] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._started: set[str] = set()
        self._starting: dict[str, asyncio.Lock] = {}
        self.clusters: Mapping[str, Any] = MappingProxyType(self._clusters)

    async def try_out(self, link: str, client: Mapping[str, str]) -> ClusterAccess:
        """Connect to a source for a link that is not stored so; the caller closes it or hands it to `adopt`.

        Raises:
            BadRequest: a client property is unknown, bad, or not allowed here.
            SourceUnreachable: with the reason.
        """
        try:
            access = self._open_cluster(self.secrets.config(link, self.secrets.accepted(link, client)))
        except ValueError as exc:
            raise BadRequest(str(exc)) from exc
        try:
            await _start(access, client["bootstrap.servers"])
        except SourceUnreachable:
            await access.close()
            raise
        return access

    def adopt(self, link: LinkRecord, access: ClusterAccess) -> None:
        """Keep a started access as the link's."""
        self._keep(link, access)
        self._started.add(link.name)

    def add(self, link: LinkRecord) -> None:
        """Keep an access for a stored link, unless there is one; it connects when first asked, so a lost source stops
        nothing."""
        kept = self._links.get(link.name)
        if kept is not None and kept.link_id == link.link_id:
            self._update(kept, link)
        elif kept != link:
            self._keep(link, self._open_cluster(self.secrets.config_of(link)))

    def _update(self, kept: LinkRecord, link: LinkRecord) -> None:
        """The same source, perhaps reached in another way: what is in flight there is not lost by it."""
        if kept == link:
            return
        self._links[link.name] = link
        if kept.client == link.client:
            return
        try:
            self._accesses[link.name].reconfigure(self.secrets.config_of(link))
        except ValueError as exc:  # of a gateway that is newer: here it goes on as it was
            _log.error("the source of this link is reached as before", link=link.name, reason=str(exc))

    def _keep(self, link: LinkRecord, access: ClusterAccess) -> None:
        self._forget(link.name)
        if parse(link.configs).identity is LinkIdentity.CLIENT:
            self._act_for_clients(access.cluster, link.name)
        self._links[link.name] = link
        self._accesses[link.name] = access
        self._clusters[link.name] = access.cluster

    def only(self, links: Mapping[str, LinkRecord]) -> None:
        """Forget whatever is not the source of one of these, by name; reach the others as their records say now.

        At once: a link that is deleted and created anew has another source, and nothing more is to be sent to the old
        one in its name. The connections are closed behind it.
        """
        for name, link in list(self._links.items()):
            now = links.get(name)
            if now is not None and now.link_id == link.link_id:
                self._update(link, now)
            else:
                self._forget(name)

    async def reach(self, link: LinkRecord) -> ClusterAccess:
        """The link's access, connected.

        Raises:
            NotFound: the link is gone; another one may have its name.
            SourceUnreachable: with the reason.
        """
        access = self._access(link)
        if link.name not in self._started:
            async with self._starting.setdefault(link.name, asyncio.Lock()):
                if link.name not in self._started:
                    await _start(access, link.client["bootstrap.servers"])
                    self._access(link)  # it may have gone meanwhile
                    self._started.add(link.name)
        return access

    def _access(self, link: LinkRecord) -> ClusterAccess:
        access, kept = self._accesses.get(link.name), self._links.get(link.name)
        if access is None or kept is None or kept.link_id != link.link_id:
            raise NotFound(f"link '{link.name}' does not exist")
        return access

    def _forget(self, link: str) -> None:
        self._clusters.pop(link, None)
        self._links.pop(link, None)
        self._started.discard(link)
        self._starting.pop(link, None)
        access = self._accesses.pop(link, None)
        if access is not None:
            closing = asyncio.create_task(_close(link, access), name=f"close the source of link {link}")
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def remove(self, link: str) -> None:
        """Close the link's connections and forget it."""
        self._forget(link)
        await asyncio.gather(*self._closing)

    async def close(self) -> None:
        """Close all."""
        self.only({})
        await asyncio.gather(*self._closing)


async def _close(link: str, access: ClusterAccess) -> None:
    try:
        await access.close()
    except (NetError, OSError) as exc:
        _log.info("the connections of a link that is gone were not closed in order", link=link, reason=str(exc))


class SourcesForViews:
    """The sources for what is shown only: one that is known to be lost is not waited for.

    `health`: by link name, as it is now; of a link that is not there nothing is known.
    """

    def __init__(self, sources: Sources, health: Mapping[str, LinkHealth]) -> None:
        self._sources = sources
        self._health = health

    async def reach(self, link: LinkRecord) -> ClusterAccess:
        """As `Sources.reach`; SourceUnreachable at once, with the reason, when the source is lost."""
        health = self._health.get(link.name)
        if health is not None and not health.available:
            raise SourceUnreachable(f"the source of link '{link.name}' is unavailable: {health.message}")
        return await self._sources.reach(link)


async def _start(access: ClusterAccess, bootstrap: str) -> None:
    try:
        await access.start(_CONNECT_S)
    except (NetError, OSError) as exc:
        raise SourceUnreachable(f"source cluster {bootstrap} is not reachable: {exc}") from exc
