"""Who has not migrated yet: writers that bypass the gateway, groups that still read a mirrored topic on the source."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gateway.errors import ControlError
from gateway.kafka.groups import GroupView
from gateway.mirror.interface import PartitionStatus
from gateway.operations.cluster_access import ClusterAccess
from gateway.operations.cluster_errors import source_errors
from gateway.operations.records import Records
from gateway.operations.sources import VIEW_S, SourcesForViews
from gateway.state.records import LinkRecord, MirrorRecord

_CACHE_S = 5.0
_PARALLEL = 8


@dataclass(frozen=True, slots=True)
class Reader:
    """A member of a source group that reads the topic."""

    group: str
    client_id: str
    host: str


@dataclass(frozen=True, slots=True)
class ClientsNotMigrated:
    """`bypassed_last_minute`: records of the last 60 s that did not come through the gateway.

    `readers` is None when the source did not tell, `unknown` then says why.
    """

    bypassed_last_minute: int
    readers: tuple[Reader, ...] | None
    unknown: str = ""


class SourceReaders:
    """The groups of each link's source, asked at most every 5 seconds: describing all of them is a lot to ask."""

    def __init__(self, records: Records, views: SourcesForViews, clock: Callable[[], float]) -> None:
        self._records = records
        self._views = views
        self._clock = clock
        self._seen: dict[str, tuple[float, list[GroupView]]] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def clients_not_migrated(
        self, mirror: MirrorRecord, partitions: Sequence[PartitionStatus]
    ) -> ClientsNotMigrated:
        """For one mirror topic."""
        bypassed = sum(partition.bypassed_last_minute for partition in partitions)
        try:
            groups = await self._groups(self._records.link(mirror.link))
        except ControlError as exc:
            return ClientsNotMigrated(bypassed, None, str(exc))
        return ClientsNotMigrated(bypassed, readers_of(mirror.source_topic, groups))

    async def _groups(self, link: LinkRecord) -> list[GroupView]:
        async with self._locks.setdefault(link.name, asyncio.Lock()):
            asked, groups = self._seen.get(link.name, (0.0, []))
            if link.name in self._seen and self._clock() - asked < _CACHE_S:
                return groups
            access = await self._views.reach(link)
            with source_errors(link.name):
                async with asyncio.timeout(VIEW_S):
                    groups = await _describe_all(access)
            self._seen[link.name] = (self._clock(), groups)
            return groups


def readers_of(topic: str, groups: Sequence[GroupView]) -> tuple[Reader, ...]:
    """The members that read the topic, by group and client id."""
    readers = {
        Reader(group.group, member.client_id, member.host)
        for group in groups
        for member in group.members
        if topic in member.topics
    }
    return tuple(sorted(readers, key=lambda reader: (reader.group, reader.client_id, reader.host)))


async def _describe_all(access: ClusterAccess) -> list[GroupView]:
    gate = asyncio.Semaphore(_PARALLEL)

    async def describe(group: str) -> GroupView:
        async with gate:
            return await access.describe_group(group)

    return list(await asyncio.gather(*(describe(group) for group in await access.group_ids())))
