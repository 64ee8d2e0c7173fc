"""The producer tables that are handed over with a topic's cutover, and how the state topic keeps them. Pure.

They may be a hundred times as long as all else that is known of the topic, and they change at a cutover alone. So they
are in records of their own, each of some partitions, and the mirror's record *names* them. A name is made of what it
stands for: the mirror's record says exactly which tables go with it, and tables that are stored are never written
again, however often the mirror's record is. The store writes them in the transaction of the record that names them
first, and deletes them in that of the first one that does not (`state/table_writes.py`).

Gateways of older versions know tables as a field of the mirror's record alone. So a record that names tables has a
version which these refuse to read (`state/codec.py`): none of them ever serves a cutover without its tables. While one
of them is in the fleet, nothing is named, and the tables are in the mirror's record as before
(`StateViews.tables_apart`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from gateway.state.producer_entries import PackedProducers, ProducerEntry

RECORD_BYTES: Final = 256 * 1024
"""Of packed tables that one record has at least, where there are more: so it has at most that and one partition's."""

MOST_BATCHES: Final = 400_000
"""Of producers, that one cutover hands over: 80 partitions of 1,000 producers each. They are stored under the write
pause, some 4 MB of text: a few tenths of a second."""

MOST_IN_MIRROR: Final = 10_000
"""While they are in the mirror's own record, which is encoded and decoded in one go."""

_NAME_BYTES: Final = 16


class ProducerTables(tuple[PackedProducers, ...]):
    """One table for each partition; none when nothing was handed over. Equal to any tuple of the same tables.

    Attributes:
        names: of the records that have them, in order; () while they are in none.
    """

    names: tuple[str, ...]

    def __new__(cls, tables: Iterable[Iterable[ProducerEntry]] = (), names: Sequence[str] = ()) -> ProducerTables:
        """`names` without `tables`: what they name was not read."""
        if type(tables) is cls and not names:
            return tables
        made = super().__new__(cls, map(PackedProducers.of, tables))
        made.names = tuple(names)
        return made

    @property
    def are_missing(self) -> bool:
        """They are known by name alone."""
        return bool(self.names) and not self

    @property
    def are_empty(self) -> bool:
        """No producer is known of any partition: there is nothing to be kept apart."""
        return not self.are_missing and not any(self)


@dataclass(frozen=True, slots=True)
class ProducerTablesRecord:
    """Tables of partitions that follow one another, of a mirror topic. `name`: see `named`."""

    link: str
    mirror_topic: str
    name: str
    tables: tuple[Sequence[ProducerEntry], ...]  # always packed

    def __post_init__(self) -> None:
        if type(self.tables) is not ProducerTables:
            object.__setattr__(self, "tables", ProducerTables(self.tables))


def pieces_of(tables: ProducerTables) -> Iterator[ProducerTables]:
    """Cut into what one record has each. Packs a table, some milliseconds at most, before each step."""
    piece: list[PackedProducers] = []
    size = 0
    for table in tables:
        piece.append(table)
        size += len(table.text)
        if size >= RECORD_BYTES:
            yield ProducerTables(piece)
            piece, size = [], 0
    if piece:
        yield ProducerTables(piece)


def name_of(piece: ProducerTables) -> str:
    """What a piece is called: by what is in it."""
    found = hashlib.blake2b(digest_size=_NAME_BYTES)
    for table in piece:
        found.update(table.text.encode())
        found.update(b"\n")
    return found.hexdigest()


def table_key(link: str, mirror_topic: str, name: str) -> str:
    """The key of a record of tables."""
    return f"producers/{link}/{mirror_topic}/{name}"
