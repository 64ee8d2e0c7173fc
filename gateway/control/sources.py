"""The source cluster of each link: opened once, shared by all planes, watched for being there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from gateway.control.access import ClusterAccess
from gateway.control.errors import BadRequest, NotFound, SourceUnreachable
from gateway.domain.records import LinkRecord
from gateway.net.config import ClusterConfig
from gateway.net.errors import NetError

_CONNECT_S = 10.0

OpenCluster = Callable[[ClusterConfig], ClusterAccess]


@dataclass(frozen=True, slots=True)
class LinkHealth:
    """Is the link's source there? `since_ms` wall clock; `message` why not."""

    available: bool
    since_ms: int
    message: str = ""


class Sources:
    """Source clusters by link name. `clusters` is a live view of the underlying net clusters, for the proxy."""

    def __init__(self, open_cluster: OpenCluster) -> None:
        self._open_cluster = open_cluster
        self._accesses: dict[str, ClusterAccess] = {}
        self._clusters: dict[str, Any] = {}
        self._started: set[str] = set()
        self._starting: dict[str, asyncio.Lock] = {}
        self.clusters: Mapping[str, Any] = MappingProxyType(self._clusters)

    async def try_out(self, client: Mapping[str, str]) -> ClusterAccess:
        """Connect to a source that no link names yet; the caller closes it or hands it to `adopt`.

        Raises:
            BadRequest: a client property is unknown or bad.
            SourceUnreachable: with the reason.
        """
        try:
            access = self._open_cluster(ClusterConfig.from_client_properties(client))
        except ValueError as exc:
            raise BadRequest(str(exc)) from exc
        try:
            await _start(access, client["bootstrap.servers"])
        except SourceUnreachable:
            await access.close()
            raise
        return access

    def adopt(self, link: str, access: ClusterAccess) -> None:
        """Keep a started access as the link's."""
        self._accesses[link] = access
        self._clusters[link] = access.cluster
        self._started.add(link)

    def add(self, link: LinkRecord) -> None:
        """Keep an access for a stored link; it connects when first asked, so a lost source stops nothing."""
        access = self._open_cluster(ClusterConfig.from_client_properties(link.client))
        self._accesses[link.name] = access
        self._clusters[link.name] = access.cluster

    async def reach(self, link: LinkRecord) -> ClusterAccess:
        """The link's access, connected.

        Raises:
            NotFound: the link is gone.
            SourceUnreachable: with the reason.
        """
        access = self._accesses.get(link.name)
        if access is None:
            raise NotFound(f"link '{link.name}' does not exist")
        if link.name not in self._started:
            async with self._starting.setdefault(link.name, asyncio.Lock()):
                if link.name not in self._started:
                    await _start(access, link.client["bootstrap.servers"])
                    self._started.add(link.name)
        return access

    async def remove(self, link: str) -> None:
        """Close the link's connections and forget it."""
        self._clusters.pop(link, None)
        self._started.discard(link)
        self._starting.pop(link, None)
        access = self._accesses.pop(link, None)
        if access is not None:
            await access.close()

    async def close(self) -> None:
        """Close all."""
        for link in list(self._accesses):
            await self.remove(link)


async def _start(access: ClusterAccess, bootstrap: str) -> None:
    try:
        await access.start(_CONNECT_S)
    except (NetError, OSError) as exc:
        raise SourceUnreachable(f"source cluster {bootstrap} is not reachable: {exc}") from exc
