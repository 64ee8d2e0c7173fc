"""`gateway.mirror.offset_map.rules.ledger`: whose breakpoints are in force, when several appenders have written
some."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from gateway.mirror.offset_map.rules.codec import Chunk, Cut, Mark, PartitionKey, decode_key
from gateway.mirror.offset_map.rules.ledger import AHEAD, OffsetLedger
from gateway.mirror.offset_map.rules.offset_map import Breakpoint

OF = PartitionKey(mirror_id=1, period=0, partition=0)


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
    mine.read(2, -1, 0, Mark(decided_to=15, seen=2))
    mine.absorb(3)
    mine.begin_run()
    mine.absorb(3)
    assert mine.decide_below(20, mine.undecided(20)) == []
    assert [mine.map.to_source(at).offset for at in (10, 11, 14)] == [17, 18, 21]


def test_ones_own_behind_anothers_mark_is_void() -> None:
    """It was written when its place was taken already."""
    mine = ledger()
    mine.begin_run()
    key, _ = mine.plan(11, chunk(4, 30, 11))
    mine.read(5, 11, decode_key(key).writer, chunk(4, 30, 11))
    mine.read(6, -1, 0, Mark(decided_to=15, seen=5))
    mine.absorb(7)
    assert (key, None) in mine.decide_below(15, ())


def topic_of(*records: tuple[int, int, Chunk | Mark | Cut]) -> OffsetLedger:
    """Whoever has read the topic and knows nothing besides; records are (base, writer, value), from offset 0 on."""
    made = ledger()
    for offset, (base, writer, value) in enumerate(records):
        made.read(offset, base, writer, value)
    made.absorb(len(records))
    return made


def test_what_the_copy_lost_is_void_and_what_came_anew_counts() -> None:
    """The mark was left before the loss; the source was compacted meanwhile."""
    found = topic_of(
        (0, 7, chunk(10, 5, 0)),
        (10, 7, chunk(10, 20, 10)),
        (-1, 0, Mark(decided_to=20, seen=2)),
        (-3, 8, Cut(copy_end=10, seen=3)),
        (10, 8, chunk(10, 24, 10)),
    )
    assert found.reached == 10
    assert found.decide_below(20, ()) != []
    assert [found.map.to_source(at).offset for at in (9, 10, 19)] == [14, 24, 33]


def test_a_mark_of_one_that_knew_of_no_loss_does_not_void_what_came_anew() -> None:
    found = topic_of(
        (-3, 8, Cut(copy_end=10, seen=0)), (10, 8, chunk(10, 24, 10)), (-1, 0, Mark(decided_to=20, seen=0))
    )
    found.decide_below(20, ())
    assert found.map.to_source(15).offset == 29


def test_a_cut_that_lands_late_leaves_what_was_written_behind_it() -> None:
    """Its request sat in a broker's socket; meanwhile the partition went to another gateway."""
    found = topic_of((0, 7, chunk(10, 5, 0)), (10, 9, chunk(10, 24, 10)), (-3, 8, Cut(copy_end=10, seen=1)))
    found.decide_below(20, ())
    assert found.map.to_source(15).offset == 29
    found.read(3, -3, 8, Cut(copy_end=10, seen=1))
    found.absorb(4)
    assert found.map.to_source(15).offset == 29


def test_a_log_is_known_to_have_been_longer_by_chunks_that_were_followed_by_many() -> None:
    """A writer plans no more than AHEAD before it hears that the first is in the log."""
    many = [(10 * at, 7, chunk(10, 20 * at + 1, 10 * at)) for at in range(AHEAD + 2)]
    assert topic_of(*many[:AHEAD]).reached == 0
    assert topic_of(*many).reached == 20
