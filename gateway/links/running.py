"""While this gateway leads its links run as their records say, also those of which no operation here can know.

A link is created, changed and deleted by an operation, which has it run so behind the change of the state. When that
change is of unknown outcome the operation has ended with an error before it is known that the link is there, or is
gone, and another one of its name may follow. So each change of the links is followed here; a follower does so in
`operations/replica.py`.
"""

from __future__ import annotations

import asyncio

import structlog

from gateway.mirror.interface import MirrorEngine
from gateway.operations.running_mirrors import is_same_link, runs
from gateway.operations.sources import Sources
from gateway.state.records import LinkRecord
from gateway.state.store import StateStore
from gateway.transport.background import Background
from gateway.transport.locks import KeyedLocks

_log = structlog.get_logger("lockgate.control")


class RunningLinks:
    """Of one term. Its work runs in `background`, and ends with it."""

    def __init__(
        self,
        *,
        store: StateStore,
        sources: Sources,
        engine: MirrorEngine,
        locks: KeyedLocks,
        background: Background,
    ) -> None:
        self._store = store
        self._sources = sources
        self._engine = engine
        self._locks = locks
        self._background = background
        self._news = asyncio.Event()
        self._started = False

    def start(self) -> None:
        """From now on."""
        self._started = True
        self._store.subscribe(self._changed)
        self._background.spawn(self._run(), "links by their records")
        self._changed()

    def close(self) -> None:
        """The term ends."""
        if self._started:
            self._started = False
            self._store.unsubscribe(self._changed)

    def _changed(self) -> None:
        if self._stale():
            self._news.set()

    def _stale(self) -> list[str]:
        wanted, started = self._store.links, self._engine.started_links()
        return [name for name in {**started, **wanted} if started.get(name) != wanted.get(name)]

    async def _run(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            for name in self._stale():
                async with self._locks.hold(f"link/{name}"):  # its operation, if there is one, is over by then
                    await self._follow(name)

    async def _follow(self, name: str) -> None:
        engine = self._engine
        link, found = self._store.links.get(name), engine.started_links().get(name)
        if found == link:
            return
        _log.info("link follows its record", link=name, there=link is not None)
        if link is not None and found is not None and is_same_link(found, link):
            self._sources.add(link)
            engine.update_link(link)
            return
        mirrors = [key for key in engine.started() if key[0] == name]
        if found is not None:
            await engine.stop_link(name)
        if link is not None and self._store.links.get(name) == link:
            await self._start(link, mirrors)

    async def _start(self, link: LinkRecord, mirrors: list[tuple[str, str]]) -> None:
        self._sources.add(link)
        await self._engine.start_link(link)
        for key in mirrors:
            record = self._store.mirrors.get(key)
            if record is not None and runs(record):
                self._engine.start_mirror(record)
