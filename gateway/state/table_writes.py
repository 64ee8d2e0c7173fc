"""Which records of producer tables a change of mirrors brings with it, and which go: see `state/producer_tables.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gateway.state.codec import Record
from gateway.state.producer_entries import ROW
from gateway.state.producer_tables import ProducerTables, ProducerTablesRecord, name_of, pieces_of, table_key
from gateway.state.records import MirrorRecord
from gateway.state.slices import Slices

Changes = Sequence[tuple[str, Record | None]]


async def with_tables(changes: Changes, stored: Mapping[str, Record], slices: Slices, *, apart: bool) -> Changes:
    """The changes, behind the tables that their mirrors name and the topic has not, and before the deletion of those
    that no mirror names any more.

    Args:
        stored: what the topic has, by key. No other write is under way.
        apart: False: new tables are not named, but stay in the mirror's record.
    """
    come: dict[str, Record | None] = {}
    gone: dict[str, Record | None] = {}
    for key, record in changes:
        before = stored.get(key)
        if isinstance(before, MirrorRecord):
            gone |= dict.fromkeys(one for one in _keys(before) if one in stored)
        if isinstance(record, MirrorRecord):
            if apart:
                come |= await _new(record, stored, slices)
            kept = _keys(record)
            gone = {one: None for one in gone if one not in kept}
    if not come and not gone:
        return changes
    return [*come.items(), *changes, *gone.items()]


def _keys(mirror: MirrorRecord) -> list[str]:
    return [table_key(mirror.link, mirror.mirror_topic, name) for name in mirror.cutover.tables.names]


async def _new(mirror: MirrorRecord, stored: Mapping[str, Record], slices: Slices) -> dict[str, Record | None]:
    """What of the mirror's tables is not stored. Behind this they have names."""
    tables, keys = mirror.cutover.tables, _keys(mirror)
    if tables.are_missing or tables.are_empty or (keys and all(key in stored for key in keys)):
        return {}
    for table in tables:
        await slices.ready([table])
        if table.text:  # packed here, one after the other
            await slices.done(len(table) * ROW.size)
    if not any(tables):  # which was not known before
        return {}
    found: dict[str, Record | None] = {}
    names: list[str] = []
    for piece in pieces_of(tables):
        name = name_of(piece)
        await slices.done(sum(len(table.text) for table in piece))
        names.append(name)
        key = table_key(mirror.link, mirror.mirror_topic, name)
        if key not in stored:
            found[key] = ProducerTablesRecord(mirror.link, mirror.mirror_topic, name, piece)
    _named(tables, names)
    return found


def _named(tables: ProducerTables, names: Sequence[str]) -> None:
    tables.names = tuple(names)
