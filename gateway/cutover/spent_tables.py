"""Deletes producer tables (`state/producer_tables.py`) that no producer needs any more.

They answer retries over a cutover, for 15 minutes from when this gateway first saw it (`cutovers_seen.py`): no client
retries that long. Tables that no mirror names are deleted, too: they remain when the state topic had lost records and
got them again (`state/recovery.py`).
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

import structlog

from gateway.cutover.write_pause.publisher import RoutingPublisher
from gateway.operations.records import Records
from gateway.state.codec import Record, key_of
from gateway.state.mirror_states import is_mirroring
from gateway.state.producer_tables import ProducerTables, ProducerTablesRecord
from gateway.state.records import MirrorRecord, MirrorState
from gateway.state.store import StateStore, StoreError
from gateway.transport.locks import KeyedLocks

LOOK_EVERY_S: Final = 60.0
_LOCK_S: Final = 1.0
_log = structlog.get_logger("lockgate.control")


class ForgetsSpentTables:
    """For one term of leadership. `locks`: the locks that operations on mirror topics take."""

    def __init__(self, *, records: Records, publisher: RoutingPublisher, locks: KeyedLocks) -> None:
        self._store: StateStore = records.store
        self._publisher = publisher
        self._locks = locks

    async def look(self) -> None:
        """Delete spent tables once. A topic under another operation, such as a promote, has its turn later."""
        self._publisher.refresh()  # a cutover not seen yet would seem to be long ago
        try:
            for mirror in [one for one in self._store.mirrors.values() if self._is_spent(one)]:
                await self._forget(mirror)
            if nameless := [one for one in self._store.producer_tables.values() if not self._is_named(one)]:
                changes: list[tuple[str, Record | None]] = [(key_of(one), None) for one in nameless]
                await self._store.write(changes, lambda: self._require_nameless(nameless))
        except StoreError as exc:
            _log.info("producer tables that nobody needs are looked at again", reason=str(exc))

    def _is_spent(self, mirror: MirrorRecord) -> bool:
        at_rest = mirror.state is MirrorState.STOPPED or is_mirroring(mirror.state)
        return (
            at_rest
            and mirror.state is not MirrorState.PENDING_STOPPED
            and not mirror.cutover.tables.are_empty
            and not self._publisher.retried_s(mirror.mirror_topic)
        )

    async def _forget(self, mirror: MirrorRecord) -> None:
        try:
            async with asyncio.timeout(_LOCK_S), self._locks.hold(f"mirror/{mirror.mirror_topic}"):
                old = self._store.mirrors.get((mirror.link, mirror.mirror_topic))
                if old is None or not self._is_spent(old):
                    return
                none = ProducerTables(() for _ in old.starts)
                await self._store.replace(old, replace(old, cutover=replace(old.cutover, producers=none)))
        except TimeoutError:
            return
        _log.debug("producer tables of a cutover that is long ago are kept no more", topic=mirror.mirror_topic)

    def _is_named(self, tables: ProducerTablesRecord) -> bool:
        mirror = self._store.mirrors.get((tables.link, tables.mirror_topic))
        return mirror is not None and tables.name in mirror.cutover.tables.names

    def _require_nameless(self, tables: list[ProducerTablesRecord]) -> None:
        if any(self._is_named(one) for one in tables):
            raise StoreError("a mirror names the tables meanwhile")
