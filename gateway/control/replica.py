"""Keeps what a gateway has at hand true to the records it reads: sources and mirrors.

While this gateway leads, its own operations do that (`service.py`), and this waits. Which partitions of the mirrors
run here is decided elsewhere (`fleet_mirrors.py`). Gates follow the records whoever leads (`gates_by_record.py`).
"""

from __future__ import annotations

import asyncio

import structlog

from gateway.control.background import Background
from gateway.control.errors import ControlError
from gateway.control.sources import Sources
from gateway.control.state_views import StateViews
from gateway.domain.mirror_states import is_mirroring
from gateway.domain.ports import MirrorEngine
from gateway.domain.records import LinkRecord, MirrorRecord

_AGAIN_S = 1.0
_log = structlog.get_logger("lockgate.fleet")

Key = tuple[str, str]


class Replica:
    """One per gateway."""

    def __init__(self, store: StateViews, sources: Sources, engine: MirrorEngine) -> None:
        self._store = store
        self._sources = sources
        self._engine = engine
        self._links: dict[str, LinkRecord] = {}
        self._mirrors: dict[Key, MirrorRecord] = {}
        self._active = True
        self._busy = asyncio.Lock()
        self._news = asyncio.Event()
        self._background = Background()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """What must be so before a client is let in; and go on from there."""
        await self._sync()
        self._store.subscribe(self._changed)
        self._task = asyncio.create_task(self._run(), name="replica")

    async def pause(self) -> None:
        """This gateway leads from now on. Nothing of this is under way when it returns."""
        self._active = False
        async with self._busy:
            return

    def go_on(self) -> None:
        """This gateway follows again: whatever its operations have left is brought in line."""
        self._active = True
        self._mirrors.clear()
        self._changed()

    async def close(self) -> None:
        """Stop. Links, mirrors and sources are left to their owners."""
        if self._task is not None:
            self._store.unsubscribe(self._changed)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._background.close()

    def _changed(self) -> None:
        if self._active:
            self._news.set()

    async def _run(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                await self._sync()
            except Exception:  # noqa: BLE001 - the next records must not wait for it
                _log.exception("what this gateway has at hand is not as the records say yet")
                await asyncio.sleep(_AGAIN_S)
                self._news.set()

    async def _sync(self) -> None:
        async with self._busy:
            if not self._active:
                return
            for name in [name for name in self._links if self._store.links.get(name) != self._links[name]]:
                await self._drop_link(name)
            for link in list(self._store.links.values()):
                if link.name not in self._links:
                    await self._add_link(link)
            changed = {key for key, old in self._mirrors.items() if not self._is_same(old, key)}
            resting = {key for key, record in self._store.mirrors.items() if not _runs(record)}
            # Together: each waits for what it has in flight, and a target that is silent answers none of them.
            await asyncio.gather(*(self._engine.stop_mirror(*key) for key in changed | resting))
            self._mirrors = {key: record for key, record in self._mirrors.items() if key not in changed}
            for key, record in list(self._store.mirrors.items()):
                if _runs(record) and key not in self._mirrors and key[0] in self._links:
                    self._engine.start_mirror(record)
                    self._mirrors[key] = record

    async def _add_link(self, link: LinkRecord) -> None:
        if link.name not in self._sources.clusters:
            self._sources.add(link)
        await self._engine.start_link(link)
        self._links[link.name] = link
        self._background.spawn(self._reach(link), f"first contact {link.name}")

    async def _reach(self, link: LinkRecord) -> None:
        """Begin to connect: clients' writes go there. One that does not answer yet is tried on in the background."""
        try:
            await self._sources.reach(link)
        except ControlError as exc:
            _log.warning("source not reached yet", link=link.name, reason=str(exc))

    async def _drop_link(self, name: str) -> None:
        await self._engine.stop_link(name)
        await self._sources.remove(name)
        del self._links[name]
        self._mirrors = {key: record for key, record in self._mirrors.items() if key[0] != name}

    def _is_same(self, old: MirrorRecord, key: Key) -> bool:
        """The running mirror is the one of the record as it is now."""
        new = self._store.mirrors.get(key)
        return new is not None and _runs(new) and _what(new) == _what(old)


def _runs(record: MirrorRecord) -> bool:
    return record.created and is_mirroring(record.state)


def _what(record: MirrorRecord) -> tuple[object, ...]:
    return record.mirror_id, record.generation, record.direction, record.starts, record.source_topic_id
