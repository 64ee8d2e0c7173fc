"""Turns of the event loop between parts of what takes long: encoding and decoding the records of a large change.

A change of a set of topics has thousands of records, and megabytes of producer tables, and is made under a write pause,
at the leader and at every follower. What is promised in time stands on short turns, so no part is longer than what is
said here, and one record: some milliseconds. A thread would not do: JSON holds the interpreter while it works.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from gateway.state.codec import Record, decode, encode
from gateway.state.log import Change, Entry
from gateway.state.producer_entries import PackedProducers
from gateway.state.producer_tables import ProducerTablesRecord, table_key
from gateway.state.records import MirrorRecord

RECORDS: Final = 256
"""In one turn, of some 60 µs each."""

_WORKED_OUT: Final = 4
"""To work tables out takes some times as long as to code as many bytes."""

_STEP: Final = 16 * 1024
"""What a step of that counts for at least."""

BYTES: Final = 512 * 1024
"""In one turn: of text to be encoded or decoded, or of tables to be packed."""


class Slices:
    """Counts what one turn has done, and lets the loop turn when that is enough.

    Attributes:
        largest: bytes that were done in one turn, at most.
    """

    def __init__(self) -> None:
        self._records = self._bytes = 0
        self.largest = 0

    async def done(self, size: int) -> None:
        """A part of so many bytes."""
        self._records += 1
        self._bytes += size
        self.largest = max(self.largest, self._bytes)
        if self._records >= RECORDS or self._bytes >= BYTES:
            self._records = self._bytes = 0
            await asyncio.sleep(0)

    async def ready(self, tables: Iterable[PackedProducers]) -> None:
        """Make tables ready for what producers send behind the cutover: not one of those that waited for it is to do
        so, in one turn for all partitions that it writes."""
        for table in tables:
            for size in table.make_ready():
                await self.done(max(_STEP, size * _WORKED_OUT))


async def encoded(
    changes: Sequence[tuple[str, Record | None]], stored: Mapping[str, Record], slices: Slices
) -> list[Change]:
    """The values of changes. `stored`: what the topic has; tables of a mirror that neither it nor the changes have are
    in the mirror's record."""
    written = {key for key, record in changes if isinstance(record, ProducerTablesRecord)}

    def is_apart(mirror: MirrorRecord) -> bool:
        keys = (table_key(mirror.link, mirror.mirror_topic, name) for name in mirror.cutover.tables.names)
        return mirror.cutover.tables.are_missing or all(key in written or key in stored for key in keys)

    found: list[Change] = []
    for key, record in changes:
        apart = not isinstance(record, MirrorRecord) or is_apart(record)
        value = None if record is None else encode(record, apart=apart)
        found.append((key, value))
        await slices.done(0 if value is None else len(value))
    return found


async def decoded(entries: Iterable[Entry]) -> list[Record | None]:
    """The records of entries, in order; None for what is deleted, and for kinds that this version does not know.

    Raises:
        StateFormatError: one of them cannot be read.
    """
    slices = Slices()
    found: list[Record | None] = []
    for entry in entries:
        record = None if entry.value is None else decode(entry.key, entry.value)
        found.append(record)
        await slices.done(0 if entry.value is None else len(entry.value))
        if isinstance(record, ProducerTablesRecord):
            await slices.ready(PackedProducers.of(table) for table in record.tables)
    return found
