"""The state as it is read, and what is done about records that the topic has lost, or may have.

The topic is read all the time, in its order. It may lose records that it had acknowledged, and the state survives that
as long as a gateway has read them. A log that has gone back (KIP-595) is told by the brokers to whoever follows it, and
what was decided from the lost records has been acted on: writes may go to the target by a cutover that the topic knows
nothing of. So the views never go back. Each gateway that has read lost records stops writing at once (`on_went_back`),
takes the topic over, and writes them again, each with the offset that it had: of two that do so the record that was the
later one is in force. Behind that the group names a leader anew.

What was deleted while a process was stopped for long (or cut off) may not be told any more: the log cleaner keeps
deletions for `delete.retention.ms`. The log says so in time (`READ_WITHIN_S`); then all of it is read anew, and what is
not in it goes from the views. Until the group has agreed anew such a process writes nothing either.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from gateway.state.codec import Record, StateFormatError
from gateway.state.errors import StateReadTooLate, StateWentBack, StoreError
from gateway.state.log import WRITER_KEY, Entry, StateLog, writer_of
from gateway.state.producer_tables import ProducerTablesRecord
from gateway.state.slices import Slices, decoded, encoded
from gateway.state.views import StateViews

_READ_S = 5.0  # how long a broker keeps a Fetch that finds nothing; what comes meanwhile ends it
_AGAIN_S = 1.0
_TOGETHER: Final = 64  # records that are written again in one transaction
_OF_TABLES: Final = 16  # a record of producer tables counts as so many
_log = logging.getLogger("lockgate.state")


class _Lost(NamedTuple):
    """What the topic has lost of a key: the record (None: that it was deleted), and at which offset it was."""

    record: Record | None
    at: int


def _lost(
    records: Mapping[str, Record], changed_at: Mapping[str, int], there: Mapping[str, Entry], end: int
) -> dict[str, _Lost]:
    """Of a log that has lost what it had from `end` on, and was read to its old end before.

    Args:
        records: as they were read, by key; `changed_at`: at which offsets.
        there: what is in the log now.
    """
    found = {key: _Lost(record, changed_at[key]) for key, record in records.items() if changed_at.get(key, -1) >= end}
    gone = {key: _Lost(None, end) for key, entry in there.items() if key not in records and entry.value is not None}
    return found | {key: one for key, one in gone.items() if there[key].offset < end}


def _together(lost: Mapping[str, _Lost]) -> dict[str, _Lost]:
    """What is written again in one transaction: the first, in their order; tables come before what names them."""
    found: dict[str, _Lost] = {}
    weight = 0
    for key, one in lost.items():
        found[key] = one
        weight += _OF_TABLES if isinstance(one.record, ProducerTablesRecord) else 1
        if weight >= _TOGETHER:
            break
    return found


class FollowedState(StateViews):
    """The views, kept as the topic is read. `StateStore` writes it.

    `on_fenced` is called when another process takes over, `on_broken` (with one line) when the topic cannot be followed
    any more, `on_went_back` when it has lost records, and `on_recovered` when these are in it again.

    Attributes:
        term: of the last leader that was seen to begin; -1 before any.
        leading: this process has that term.
        read_error: why the topic cannot be read now; '' when it can.
    """

    def __init__(self, log: StateLog) -> None:
        super().__init__()
        self.on_fenced: Callable[[], None] = lambda: None
        self.on_broken: Callable[[str], None] = lambda reason: None
        self.on_went_back: Callable[[], None] = lambda: None
        self.on_recovered: Callable[[], None] = lambda: None
        self.term = -1
        self.leading = False
        self.read_error = ""
        self._log = log
        self._lock = asyncio.Lock()
        self._unresolved: list[tuple[str, Record | None]] = []  # changes of a write of unknown outcome
        self._follower: asyncio.Task[None] | None = None
        self._lost: dict[str, _Lost] = {}
        self._recovery: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Read all of the topic (created if absent), and go on reading.

        Raises:
            StoreError: the target is not reachable, or the topic is not ours.
            StateFormatError: a record that this version cannot read; nothing is guessed.
        """
        entries = await self._log.open()
        await self._take({entry.key: entry for entry in entries}.values())
        self._follower = asyncio.create_task(self._follow(), name="state-follow")

    async def close(self) -> None:
        """Stop reading and close the clients."""
        tasks = [task for task in (self._follower, self._recovery) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        async with self._lock:
            await self._log.close()

    async def _follow(self) -> None:
        while True:
            try:
                await self._take(await self._log.read(_READ_S))
                self.read_error = ""
            except StateFormatError as exc:
                self.on_broken(str(exc))
                return
            except StateWentBack as exc:
                await self._went_back(exc)
            except StateReadTooLate as exc:
                await self._read_too_late(exc)
            except StoreError as exc:
                self.read_error = str(exc)
                _log.error("the state topic cannot be read: %s", exc)
                await asyncio.sleep(_AGAIN_S)
            except Exception as exc:  # noqa: BLE001 - what was read is in part in the views: nothing here is to be trusted
                _log.exception("the state topic cannot be followed")
                self.on_broken(f"the state topic cannot be followed: {type(exc).__name__}: {exc}")
                return

    async def _went_back(self, found: StateWentBack) -> None:
        """Nothing is written by this gateway from here on, until what was lost is in the topic again."""
        _log.error("the state topic has lost records that were acknowledged: %s", found)
        self.read_error = str(found)
        self.on_went_back()
        self._fenced()
        await self._take_anew(found.end)
        _log.warning(
            "the state topic goes on at offset %d: %d records are written again", self.applied, len(self._lost)
        )
        self._write_lost_soon()

    async def _read_too_late(self, found: StateReadTooLate) -> None:
        """What it decides by what it knows may be wrong, until all is read anew."""
        _log.warning("the state topic is read anew: %s", found)
        self.read_error = str(found)
        self.on_went_back()
        self._fenced()
        if await self._take_anew(None):
            self._write_lost_soon()  # it has lost records, too
        else:
            self.on_recovered()

    async def _take_anew(self, lost_from: int | None) -> bool:
        """Read all of the topic, which has lost what was read from an offset on; None: nothing, as far as is known.
        True: it has lost records. A write that was under way may end meanwhile, behind what was read."""
        known = self.applied + 1
        entries, end = await self._read_anew(known if lost_from is None else lost_from)
        went_back = lost_from is not None or end < known
        there = {entry.key: entry for entry in entries if entry.key != WRITER_KEY}
        known_below = (key for key in self._records if self._changed_at[key] < end)
        gone = [key for key in known_below if key not in there and key not in self._lost]
        if went_back:
            lost = _lost(self._records, self._changed_at, there, end)
            self._lost = {**{key: one for key, one in self._lost.items() if key not in lost}, **lost}
            self.went_back(end)
        # Deletions that the cleaner has removed by now: they were somewhere behind what was read.
        deletions = [Entry(self.applied + 1, key, None) for key in gone]
        await self._take([*deletions, *(entry for entry in entries if entry.offset >= end)])
        self.read_error = ""
        return went_back

    def _write_lost_soon(self) -> None:
        if self._recovery is None or self._recovery.done():
            self._recovery = asyncio.create_task(self._recover(), name="state-recover")

    async def _read_anew(self, end: int) -> tuple[Sequence[Entry], int]:
        """All that is in the topic now, and from where on it is another one than was read."""
        while True:
            try:
                return await self._log.read_anew(), end
            except StateWentBack as exc:
                end = min(end, exc.end)
            except StoreError as exc:
                self.read_error = str(exc)
                await asyncio.sleep(_AGAIN_S)

    async def _recover(self) -> None:
        """Write what was lost, unless somebody else has by then."""
        while True:
            try:
                async with self._lock:
                    await self._write_lost()
            except StoreError as exc:
                _log.warning("what the state topic has lost is not written again yet: %s", exc)
                await asyncio.sleep(_AGAIN_S)
                continue
            self.on_recovered()
            return

    async def _write_lost(self) -> None:
        """In the topic's own order of writers: whoever wrote before is fenced. The caller holds the lock."""
        if not self.leading:
            self._unresolved = []
            await self.read_up_to(await self._log.lead())
        while self._lost:
            some = _together(self._lost)
            changes = [(key, one.record) for key, one in some.items()]
            values = await encoded(changes, self.records, Slices())
            offset = await self._log.write_again(values, [one.at for one in some.values()])
            self._lost = {key: one for key, one in self._lost.items() if key not in some}
            self.apply(changes, offset)
        if not self.leading:
            self._log.resign()

    def _is_newer(self, entry: Entry) -> bool:
        """Than what the topic has lost of the key: somebody has written that very record again, or a later one."""
        lost = self._lost.get(entry.key)
        if lost is None:
            return True
        if entry.was < lost.at:
            return False
        del self._lost[entry.key]
        return True

    async def _take(self, entries: Iterable[Entry]) -> None:
        """Read on: own changes are in the views already, unless their outcome was unknown."""
        found = [entry for entry in entries if entry.offset > self.applied]
        read = zip(found, await decoded(found), strict=True)
        news = [one for one in read if one[0].offset > self.applied]  # own changes may have been taken in meanwhile
        if not news:
            return
        writers = [entry for entry, _ in news if entry.key == WRITER_KEY]
        kept = [one for one in news if one[0].key != WRITER_KEY and self._is_newer(one[0])]
        changes = [(entry.key, record) for entry, record in kept]
        self.apply(changes, max(entry.offset for entry, _ in news), [entry.offset for entry, _ in kept])
        for writer in writers:
            self.term = writer.offset
            if self.leading:
                _log.warning("instance %s has taken over the state topic", writer_of(writer.value))
                self._fenced()

    def _fenced(self) -> None:
        if self.leading:
            self.leading = False
            self.on_fenced()
