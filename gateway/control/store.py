"""What the control plane knows, kept in a compacted topic on the target: there is no database to run.

`StateStore` holds all records in memory and writes every change through to the topic in one transaction. The
views change only after the commit, so what they show survives a crash.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol
from uuid import uuid4

from gateway.control.state_topic import Change, StateTopic
from gateway.control.store_errors import ProducerFenced, StoreConflict, StoreError, StoreUncertain
from gateway.domain.records import GroupRecord, LinkRecord, MirrorRecord, PortRecord, SequenceRecord
from gateway.domain.state_codec import Record, decode, encode, key_of
from gateway.net.config import ClusterConfig

__all__ = ["Log", "ProducerFenced", "StateStore", "StoreConflict", "StoreError", "StoreUncertain"]

_WATCH_S = 1.0
_log = logging.getLogger("lockgate.state")


class Log(Protocol):
    """What the store needs of a state topic: blocking calls, made from one thread at a time."""

    def open(self) -> list[Change]:
        """See `StateTopic.open`; so for the others."""

    def commit(self, changes: Sequence[Change]) -> None:
        """Write all changes, or none."""

    def settle(self) -> bool:
        """End a commit of unknown outcome; True when it was made."""

    def replaced_by(self) -> str:
        """The instance that took over, or ''."""

    def close(self) -> None:
        """Close the clients."""


class StateStore:
    """The records, by kind. Use on one event loop.

    Views (read only, always the latest committed): `links` by name, `mirrors` by (link, mirror topic),
    `groups` by (link, group), `ports` by node id, `sequences` by name. `subscribe` is told after each change.

    Every writing method raises ProducerFenced once another process has taken over; `on_fenced` is then called
    once, for the process to stop.
    """

    def __init__(self, target: Mapping[str, str] | ClusterConfig, *, log: Log | None = None) -> None:
        config = target if isinstance(target, ClusterConfig) else ClusterConfig.from_client_properties(target)
        self.instance = uuid4().hex
        self.on_fenced: Callable[[], None] = lambda: None
        self._log: Log = log or StateTopic(config, self.instance)
        self._records: dict[str, Record] = {}
        self._links: dict[str, LinkRecord] = {}
        self._mirrors: dict[tuple[str, str], MirrorRecord] = {}
        self._groups: dict[tuple[str, str], GroupRecord] = {}
        self._ports: dict[int, PortRecord] = {}
        self._sequences: dict[str, SequenceRecord] = {}
        self.links: Mapping[str, LinkRecord] = MappingProxyType(self._links)
        self.mirrors: Mapping[tuple[str, str], MirrorRecord] = MappingProxyType(self._mirrors)
        self.groups: Mapping[tuple[str, str], GroupRecord] = MappingProxyType(self._groups)
        self.ports: Mapping[int, PortRecord] = MappingProxyType(self._ports)
        self.sequences: Mapping[str, SequenceRecord] = MappingProxyType(self._sequences)
        self._subscribers: list[Callable[[], None]] = []
        self._lock = asyncio.Lock()
        self._unsettled: list[tuple[str, Record | None]] = []
        self._fenced = False
        self._watcher: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Take over the state topic (created if absent) and read all of it.

        Raises:
            StoreError: the target is not reachable, or the topic is not ours.
            StateFormatError: a record that this version cannot read; nothing is guessed.
        """
        latest = dict(await asyncio.to_thread(self._log.open))
        self._apply((key, decode(key, value)) for key, value in latest.items() if value is not None)
        self._watcher = asyncio.create_task(self._watch(), name="state-watch")

    async def close(self) -> None:
        """Stop watching and close the clients."""
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.gather(self._watcher, return_exceptions=True)
        async with self._lock:
            await asyncio.to_thread(self._log.close)

    def subscribe(self, subscriber: Callable[[], None]) -> None:
        """Call `subscriber` after every committed change."""
        self._subscribers.append(subscriber)

    def unsubscribe(self, subscriber: Callable[[], None]) -> None:
        """End a `subscribe`."""
        self._subscribers.remove(subscriber)

    async def put(self, *records: Record, guard: Callable[[], None] = lambda: None) -> None:
        """Write the records in one transaction: all or none.

        Args:
            guard: called right before the write, when no other write is under way: the place to compare before
                one sets. What it raises is raised here, and nothing is written.

        Raises:
            StoreError: nothing was written (StoreUncertain: unknown, settled at the next write).
            ProducerFenced: another process has taken over.
        """
        await self.write([(key_of(record), record) for record in records], guard)

    async def delete(self, *records: Record, guard: Callable[[], None] = lambda: None) -> None:
        """Delete the records in one transaction. Errors as `put`."""
        await self.write([(key_of(record), None) for record in records], guard)

    async def replace(self, old: Record, new: Record) -> None:
        """Compare and set: write `new` if `old` is still what is stored under its key.

        Raises:
            StoreConflict: it is not.
        """

        def unchanged() -> None:
            if self._records.get(key_of(old)) != old:
                raise StoreConflict(f"{key_of(old)} was changed by another operation meanwhile; try again")

        await self.put(new, guard=unchanged)

    async def write(
        self, changes: Sequence[tuple[str, Record | None]], guard: Callable[[], None] = lambda: None
    ) -> None:
        """Write records and deletions (None) by key in one transaction. Errors as `put`."""
        # Shielded: a caller that goes away must not leave a commit whose result nobody takes into the views.
        await asyncio.shield(asyncio.create_task(self._write(changes, guard), name="state-write"))

    async def _write(self, changes: Sequence[tuple[str, Record | None]], guard: Callable[[], None]) -> None:
        encoded = [(key, None if record is None else encode(record)) for key, record in changes]
        async with self._lock:
            try:
                await self._settle()
                guard()
                await asyncio.to_thread(self._log.commit, encoded)
            except StoreUncertain:
                self._unsettled = self._unsettled or list(changes)
                raise
            except ProducerFenced:
                self._stop_for_good()
                raise
            self._apply(changes)

    async def _settle(self) -> None:
        if self._fenced:
            raise ProducerFenced("another lockgate process has taken over the state topic; this one must stop")
        if not self._unsettled:
            return
        changes = self._unsettled
        try:
            committed = await asyncio.to_thread(self._log.settle)
        except (StoreUncertain, ProducerFenced):
            raise
        except StoreError:
            self._unsettled = []
            return  # it was not made, and its caller was told that it may not have been
        self._unsettled = []
        if committed:
            self._apply(changes)

    def _apply(self, changes: Iterable[tuple[str, Record | None]]) -> None:
        for key, record in changes:
            previous = self._records.pop(key, None)
            if previous is not None:
                self._forget(previous)
            if record is not None:
                self._records[key] = record
                self._remember(record)
        for subscriber in tuple(self._subscribers):
            subscriber()

    def _remember(self, record: Record) -> None:
        match record:
            case LinkRecord():
                self._links[record.name] = record
            case MirrorRecord():
                self._mirrors[record.link, record.mirror_topic] = record
            case GroupRecord():
                self._groups[record.link, record.group] = record
            case PortRecord():
                self._ports[record.node_id] = record
            case SequenceRecord():
                self._sequences[record.name] = record

    def _forget(self, record: Record) -> None:
        match record:
            case LinkRecord():
                del self._links[record.name]
            case MirrorRecord():
                del self._mirrors[record.link, record.mirror_topic]
            case GroupRecord():
                del self._groups[record.link, record.group]
            case PortRecord():
                del self._ports[record.node_id]
            case SequenceRecord():
                del self._sequences[record.name]

    async def _watch(self) -> None:
        """Look for a successor: a process that writes nothing would not notice it by being refused."""
        while not self._fenced:
            await asyncio.sleep(_WATCH_S)
            successor = await asyncio.to_thread(self._log.replaced_by)
            if successor:
                self._stop_for_good()

    def _stop_for_good(self) -> None:
        if not self._fenced:
            self._fenced = True
            _log.error("another lockgate process has taken over the state topic; this one stops")
            self.on_fenced()
