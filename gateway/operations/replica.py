"""Keeps what a gateway has at hand true to the records it reads: sources and mirrors.

While this gateway leads, its own operations do that (`control_plane.py`), and this waits. Which partitions of the
mirrors run here is decided elsewhere (`fleet/mirrors.py`). Gates follow the records whoever leads
(`groups/gate/by_record.py`).
"""

from __future__ import annotations

import asyncio

import structlog

from gateway.errors import ControlError
from gateway.mirror.interface import MirrorEngine
from gateway.operations.running_mirrors import run_by_records, run_links_by_records, run_topics_by_records
from gateway.operations.sources import Sources
from gateway.state.records import LinkRecord, MirrorRecord
from gateway.state.views import StateViews
from gateway.transport.background import Background, kept_running

_AGAIN_S = 1.0
_log = structlog.get_logger("lockgate.fleet")


class Replica:
    """One per gateway."""

    def __init__(self, store: StateViews, sources: Sources, engine: MirrorEngine) -> None:
        self._store = store
        self._sources = sources
        self._engine = engine
        self._changes = store.mirror_changes()
        self._looks_at_all = True  # what runs was not, or may not be, brought in line before
        self._active = True
        self._busy = asyncio.Lock()
        self._news = asyncio.Event()
        self._background = Background()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """What must be so before a client is let in; and go on from there."""
        await self._sync()
        self._store.subscribe(self._changed)
        self._task = asyncio.create_task(kept_running(self._run, "replica"), name="replica")

    async def pause(self) -> None:
        """This gateway leads from now on. Nothing of this is under way when it returns."""
        self._active = False
        async with self._busy:
            return

    def go_on(self) -> None:
        """This gateway follows again: whatever its operations have left is brought in line."""
        self._active = True
        self._looks_at_all = True
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
            topics, links_changed = self._changes.take()
            is_whole, self._looks_at_all = self._looks_at_all or links_changed, True  # until it has come to its end
            links = self._store.links
            self._sources.only(links)
            for link in list(links.values()):
                self._sources.add(link)
            before = self._engine.started_links()
            await run_links_by_records(self._engine, lambda: links)
            for name, link in self._engine.started_links().items():
                if before.get(name) != link:
                    self._background.spawn(self._reach(link), f"first contact {name}")
            if is_whole:
                await run_by_records(self._engine, self._of_started_links)
            else:
                await run_topics_by_records(self._engine, topics, self._store.mirror_of)
            self._looks_at_all = False

    def _of_started_links(self) -> list[MirrorRecord]:
        started = self._engine.started_links()
        return [record for record in self._store.mirrors.values() if record.link in started]

    async def _reach(self, link: LinkRecord) -> None:
        """Begin to connect: clients' writes go there. One that does not answer yet is tried on in the background."""
        try:
            await self._sources.reach(link)
        except ControlError as exc:
            _log.warning("source not reached yet", link=link.name, reason=str(exc))
