"""Ids written anew between fetch and append: what is queued, what waits, and how long."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from struct import pack

import pytest

from gateway.mirror.partition.rules.commands import Fail
from gateway.mirror.partition.rules.fetch_cursor import FetchCursor
from gateway.mirror.partition.rules.log_tail import CannotMirror
from gateway.mirror.partition.rules.opened import Allowance, Beside, Opened, OpeningTerms, beside
from gateway.mirror.partition.rules.partition import PartitionMirror
from gateway.mirror.partition.rules.producer_table import ProducerTable
from gateway.mirror.partition.rules.schema_ids import IdRewriter, SchemaIdsMissing
from gateway.mirror.partition.rules.state import PartitionPhase
from gateway.state.records import MirrorError, PartitionStart
from gateway.state.schemas.schema_options import ID_PLACES
from protocol.batch.header import crc_is_valid, iter_batches, read_batch_header
from protocol.batch.record_reader import Record, read_records
from protocol.batch.work import unlimited
from tests.support.mirror.partition_talk import PID, taken
from tests.support.mirror.source_log import Given, v2_batch

PATIENCE_S = 60.0


def framed(schema_id: int) -> bytes:
    return b"\0" + pack(">i", schema_id) + b"x"


def batch(base: int, *ids: int, codec: int = 0) -> bytes:
    return v2_batch([Given(base + at, 1_000 + at, b"k", framed(one)) for at, one in enumerate(ids)], codec=codec)


def copying(ids: dict[int, int], places: tuple[str, ...] = ID_PLACES) -> PartitionMirror:
    rewriter = IdRewriter(lambda: ids, places, PATIENCE_S)
    mirror = PartitionMirror(PartitionStart(0, 0), PID, wall_ms=lambda: 0, rewriter=rewriter)
    mirror.begin()
    mirror.target_log(0, 0, None, now=0.0)
    mirror.source_log(0, 1_000, 0.0)
    return mirror


def feed(mirror: PartitionMirror, *batches: bytes, now: float = 0.0) -> None:
    mirror.fetched(memoryview(b"".join(batches)), 1_000, now=now)


def records(data: bytes) -> list[Record]:
    (found,) = iter_batches(memoryview(data))
    return list(read_records(*found))


@pytest.mark.parametrize("codec", range(5))
def test_what_is_appended_has_the_ids_of_the_target(codec: int) -> None:
    mirror = copying({7: 70, 8: 80})
    feed(mirror, batch(0, 7, 8, codec=codec))
    made = taken(mirror).batch
    header = read_batch_header(made)
    assert [record.value for record in records(made)] == [framed(70), framed(80)]
    assert [record.timestamp_ms for record in records(made)] == [1_000, 1_001]
    assert (header.codec, header.count, header.producer_id, header.base_sequence) == (codec, 2, PID, 0)
    assert crc_is_valid(memoryview(made), header)
    assert mirror.rewriter is not None
    assert mirror.rewriter.written == 2


def test_small_batches_are_merged_as_others_are() -> None:
    mirror = copying({7: 70})
    feed(mirror, *(batch(base, 7) for base in range(20)))
    made = taken(mirror).batch
    assert [record.value for record in records(made)] == [framed(70)] * read_batch_header(made).count
    assert read_batch_header(made).count > 1


def test_nothing_behind_an_unknown_id_is_queued_until_the_map_has_it() -> None:
    ids = {7: 70}
    mirror = copying(ids)
    rewriter = mirror.rewriter
    assert rewriter is not None
    feed(mirror, batch(0, 7), batch(1, 7, 9, 12), batch(4, 7))
    assert len(mirror.window) == 1
    assert (mirror.source.cursor.position, mirror.source.cursor.fetch_offset) == (1, 1)
    assert list(rewriter.missing) == [9, 12]
    assert not mirror.wants_fetch(0.0)
    ids[9] = 90
    assert mirror.look_at_ids(1.0) == ()
    assert not mirror.wants_fetch(1.0)
    assert list(rewriter.missing) == [12]
    ids[12] = 91
    assert mirror.look_at_ids(2.0) == ()
    assert mirror.wants_fetch(2.0)
    assert not rewriter.missing
    feed(mirror, batch(1, 7, 9, 12), batch(4, 7), now=2.0)
    assert mirror.source.cursor.position == 5
    assert len(mirror.window) == 3


def test_it_says_what_it_waits_for() -> None:
    mirror = copying({})
    feed(mirror, batch(0, 9))
    assert mirror.rewriter is not None
    assert str(mirror.rewriter.waiting) == (
        "waiting for schema id 9 in the id map, which the record at source offset 0 or one behind it has: the schema "
        "sync is asked for it"
    )


def test_it_fails_once_it_has_waited_for_too_long() -> None:
    mirror = copying({})
    feed(mirror, batch(0, 9))
    now = 0.0
    while not (commands := mirror.look_at_ids(now)):
        now += 1.0
    (failure,) = commands
    assert isinstance(failure, Fail)
    assert failure.error is MirrorError.SCHEMA_ID_UNKNOWN
    assert failure.message.startswith("source offset 0: schema id 9 is not in the link's id map, for 60 s: register")
    assert now == PATIENCE_S
    assert mirror.phase is PartitionPhase.FAILED
    assert mirror.look_at_ids(now + 1.0) == ()


def test_while_nobody_looks_no_time_passes() -> None:
    """The link was paused: then nobody could have brought the id."""
    rewriter = IdRewriter(dict, ID_PLACES, PATIENCE_S)
    rewriter.begin_waiting(SchemaIdsMissing(frozenset({9}), 0), 0.0)
    for _ in range(11):
        assert not rewriter.look(rewriter.waiting.looked + 10_000.0 if rewriter.waiting else 0.0)
    with pytest.raises(CannotMirror):
        rewriter.look(1_000_000.0)


def test_a_new_beginning_waits_for_nothing() -> None:
    mirror = copying({})
    feed(mirror, batch(0, 9))
    mirror.begin()
    mirror.target_log(0, 0, None, now=0.0)
    mirror.source_log(0, 1_000, 0.0)
    assert mirror.wants_fetch(0.0)


def test_places_that_are_not_named_are_copied_as_bytes() -> None:
    mirror = copying({7: 70}, ("key", "headers"))
    old = batch(0, 7, 9)
    feed(mirror, old)
    assert taken(mirror).batch[61:] == old[61:]


def test_without_ids_the_bytes_are_the_same_object() -> None:
    rewriter = IdRewriter(dict, ID_PLACES, PATIENCE_S)
    plain = memoryview(v2_batch([Given(0, 1, b"k", b"value")]))
    made = rewriter.translated(plain, {}, 0, beside(unlimited))
    assert rewriter.taken(made, 0).obj is plain.obj


def test_a_thread_asks_for_no_map() -> None:
    """The map is made of views that change on the event loop: what a thread needs of it is given to it there."""
    is_beside = False

    def ids() -> dict[int, int]:
        assert not is_beside
        return {7: 70}

    rewriter = IdRewriter(ids, ID_PLACES, PATIENCE_S)
    cursor = FetchCursor(lambda pending: None, ProducerTable())
    cursor.rewriter, cursor.allowance = rewriter, Allowance()
    cursor.allowance.left = 0
    cursor.start(0, 0)
    log = memoryview(batch(0, 7, 7))
    with pytest.raises(Beside) as found:
        cursor.read(log)
    works: list[Callable[[OpeningTerms], Opened]] = [found.value.work, partial(cursor._open_items, log, 0, (), ids())]
    is_beside = True
    opened, of_items = (work(beside(unlimited)) for work in works)
    is_beside = False
    assert of_items.error is None
    cursor.opened = opened
    cursor.read(log)
    assert rewriter.written == 2
