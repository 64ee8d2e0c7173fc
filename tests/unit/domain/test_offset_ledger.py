"""`gateway.domain.offset_ledger`: whose breakpoints are in force, when several appenders have written some."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from gateway.domain.map_codec import Chunk, Mark, PartitionKey, decode_key
from gateway.domain.offset_ledger import OffsetLedger
from gateway.domain.offset_map import Breakpoint

OF = PartitionKey(mirror_id=1, way=0, partition=0)


def chunk(records: int, source: int, target: int) -> Chunk:
    return Chunk(records, 77, array("q", [source]), array("q", [target]))


def ledger() -> OffsetLedger:
    writers: Iterator[int] = iter(range(1, 100))
    return OffsetLedger(OF, Breakpoint(0, 0), lambda: next(writers))


def test_what_another_has_decided_of_ones_own_is_in_force() -> None:
    """The partition was given away before the last answer came; whoever has it now has left its mark behind all of it.

    Then the topic is read for another partition, before this one comes back.
    """
    mine = ledger()
    mine.begin_run()
    writer = decode_key(mine.plan(0, chunk(11, 7, 0))[0]).writer
    mine.plan(11, chunk(4, 18, 11))
    mine.acknowledged(11)
    mine.read(0, 0, writer, chunk(11, 7, 0))
    mine.read(1, 11, writer, chunk(4, 18, 11))
    mine.read(2, -1, 0, Mark(settled_to=15, seen=2))
    mine.absorb(3)
    mine.begin_run()
    mine.absorb(3)
    assert mine.settle(20, mine.undecided(20)) == []
    assert [mine.map.to_source(at).offset for at in (10, 11, 14)] == [17, 18, 21]


def test_ones_own_behind_anothers_mark_is_void() -> None:
    """It was written when its place was taken already."""
    mine = ledger()
    mine.begin_run()
    key, _ = mine.plan(11, chunk(4, 30, 11))
    mine.read(5, 11, decode_key(key).writer, chunk(4, 30, 11))
    mine.read(6, -1, 0, Mark(settled_to=15, seen=5))
    mine.absorb(7)
    assert (key, None) in mine.settle(15, ())
