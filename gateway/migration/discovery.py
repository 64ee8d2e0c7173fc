"""Discovery as an operation: reads the source of a link, and finds out what must move together. Nothing is changed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Any

from gateway.migration.rules.sets import Discovered, discover
from gateway.migration.rules.snapshot import SourceSnapshot
from gateway.migration.source_reader import read_source
from gateway.operations.cluster_errors import source_errors
from gateway.operations.records import Records
from gateway.operations.sources import SourcesForViews
from gateway.transport.locks import KeyedLocks

ReadsSource = Callable[[Any, Collection[str], Callable[[], int]], Awaitable[SourceSnapshot]]
"""As `read_source`."""


class Discovery:
    """Of the sources of links. One look at a source at a time: describing all of its groups is a lot to ask."""

    def __init__(self, *, records: Records, views: SourcesForViews, read: ReadsSource = read_source) -> None:
        self._records = records
        self._views = views
        self._read = read
        self._looks = KeyedLocks()

    async def discover(self, name: str) -> Discovered:
        """What must move together on the source of a link.

        Raises:
            NotFound: no such link.
            SourceUnreachable, Conflict: the source does not answer, or refuses to name its groups.
        """
        link = self._records.link(name)
        mirrored = {one.source_topic for (owner, _), one in self._records.store.mirrors.items() if owner == name}
        async with self._looks.hold(name):
            access = await self._views.reach(link)
            with source_errors(name):
                return discover(await self._read(access.cluster, mirrored, self._records.now_ms))
