"""Whatever a source's log holds comes out as batches that a broker takes, with the same records."""

from __future__ import annotations

import struct
from itertools import pairwise
from random import Random
from typing import Any, cast

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st
from kafka.record import MemoryRecords
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from protocol.batch.compression import TooLarge, compress
from protocol.batch.header import HEADER_BYTES, crc_is_valid, read_batch_header, rewrite_batch
from protocol.batch.reencode import CorruptRecords, Piece, Skip, convert
from tests.support.mirror.source_log import (
    ABORT,
    COMMIT,
    DELETE_HORIZON,
    TRANSACTIONAL,
    Given,
    empty_batch,
    marker,
    message,
    records_in,
    v2_batch,
    wrapper,
)
from tests.unit.protocol.oracle import mutations

NOW = 1_700_000_000_000
CODECS = pytest.mark.parametrize("codec", range(5))
OLD_CODECS = pytest.mark.parametrize("codec", [1, 2, 3])
MAGICS = pytest.mark.parametrize("magic", [0, 1])


def some(offsets: list[int] | range, size: int = 20) -> list[Given]:
    return [
        Given(
            offset,
            NOW + (offset * 7919) % 1000,
            None if offset % 5 == 0 else b"k%d" % offset,
            None if offset % 7 == 0 else b"v" * (offset % size),
            (("h", b"x"), ("h", None)) if offset % 3 == 0 else (),
        )
        for offset in offsets
    ]


def old(offsets: list[int] | range) -> list[Given]:
    return [record._replace(headers=()) for record in some(offsets)]


def pieces_of(
    records: bytes, position: int = 0, aborted: list[tuple[int, int]] | None = None, **limits: int
) -> list[Any]:
    return list(convert(memoryview(records), position, aborted or [], **cast("Any", limits)))


def seen(items: list[Piece | Skip]) -> list[Given]:
    """The records as a consumer of the target sees them, under their source offsets. Checks each piece on the way."""
    found: list[Given] = []
    for piece in items:
        if isinstance(piece, Skip):
            continue
        batch = rewrite_batch(memoryview(piece.data), producer_id=7, sequence=0)
        header = read_batch_header(batch)
        assert crc_is_valid(memoryview(batch), header)
        assert (header.base_offset, header.last_offset_delta + 1, header.count) == (0, piece.count, piece.count)
        assert header.attributes & ~7 == 0
        offsets = [offset + i for offset, count in piece.runs for i in range(count)]
        assert all(b > a + n for (a, n), (b, _) in pairwise(piece.runs)), "runs that touch are one"
        assert len(offsets) == piece.count
        assert piece.next_source > offsets[-1]
        records = records_in(bytes(batch))
        assert [record.offset for record in records] == list(range(piece.count))
        assert max(record.timestamp_ms for record in records) == piece.max_timestamp == header.max_timestamp
        found += [
            Given(offset, record.timestamp_ms, *record[2:]) for offset, record in zip(offsets, records, strict=True)
        ]
    nexts = [item.next_source for item in items]
    assert nexts == sorted(set(nexts))
    return found


def test_a_batch_that_is_fit_goes_out_as_it_came() -> None:
    records = bytes(v2_batch(some(range(10, 20)), attributes=TRANSACTIONAL, producer_id=3))
    view = memoryview(records)
    (piece,) = convert(view, 10)
    assert isinstance(piece, Piece)
    assert isinstance(piece.data, memoryview)
    assert piece.data.obj is records
    assert (piece.runs, piece.next_source, piece.leader_epoch) == (((10, 10),), 20, 5)
    assert seen([piece]) == some(range(10, 20))


@CODECS
def test_gap_are_closed(codec: int) -> None:
    records = some([100, 101, 105, 106, 107, 140])
    (piece,) = pieces_of(v2_batch(records, base=98, last=150, codec=codec))
    assert piece.runs == ((100, 2), (105, 3), (140, 1))
    assert piece.next_source == 151
    assert read_batch_header(piece.data).codec == codec
    assert seen([piece]) == records


@CODECS
def test_log_append_time_becomes_each_records_own(codec: int) -> None:
    (piece,) = pieces_of(v2_batch(some(range(5)), codec=codec, append_time=NOW + 99))
    assert seen([piece]) == [record._replace(timestamp=NOW + 99) for record in some(range(5))]


def test_a_delete_horizon_in_place_of_the_base_timestamp_leaves_timestamps_alone() -> None:
    horizon = NOW + 86_400_000
    batch = bytearray(v2_batch([Given(0, horizon, None, None), Given(1, NOW, b"k", None)], attributes=DELETE_HORIZON))
    struct.pack_into(">q", batch, 35, horizon)
    struct.pack_into(">I", batch, 17, crc32c(bytes(batch[21:])))
    assert [record.timestamp for record in seen(pieces_of(bytes(batch)))] == [horizon, NOW]
    gaps = v2_batch([Given(0, horizon, None, None), Given(4, NOW, b"k", None)], attributes=DELETE_HORIZON)
    assert [record.timestamp for record in seen(pieces_of(gaps))] == [horizon, NOW]


def test_markers_aborted_data_and_empty_batches_are_skipped() -> None:
    log = b"".join(
        [
            v2_batch(some([0, 1]), attributes=TRANSACTIONAL, producer_id=1),  # aborted
            v2_batch(some([2, 3]), attributes=TRANSACTIONAL, producer_id=2),  # committed
            marker(4, 1, ABORT),
            v2_batch(some([5]), attributes=TRANSACTIONAL, producer_id=1),  # the same producer's next one is committed
            v2_batch(some([6])),
            marker(7, 2, COMMIT),
            marker(8, 1, COMMIT),
            empty_batch(9, 19, producer_id=9),
            v2_batch(some([20]), attributes=TRANSACTIONAL, producer_id=2),  # aborted, from 20 on
            marker(21, 2, ABORT),
        ]
    )
    items = pieces_of(log, aborted=[(2, 20), (1, 0)])
    assert [type(item).__name__ for item in items] == ["Skip", "Piece", "Skip", "Piece", "Piece", "Skip"]
    assert [item.next_source for item in items] == [2, 4, 5, 6, 7, 22]
    assert seen(items) == some([2, 3, 5, 6])


def test_what_is_below_the_position_is_left_out_and_its_transactions_are_remembered() -> None:
    log = b"".join(
        [
            v2_batch(some([0, 1]), attributes=TRANSACTIONAL, producer_id=1),
            v2_batch(some([2, 3, 9]), base=2, last=12),
            v2_batch(some([13]), attributes=TRANSACTIONAL, producer_id=1),
            marker(14, 1, ABORT),
        ]
    )
    items = pieces_of(log, 3, aborted=[(1, 0)])
    assert seen(items) == some([3, 9])
    assert items[-1] == Skip(15, 5)
    assert pieces_of(log, 10, aborted=[(1, 0)]) == [Skip(15, 5)]
    assert pieces_of(log, 15, aborted=[(1, 0)]) == []


def test_a_tail_that_is_cut_off_waits_for_the_next_fetch() -> None:
    whole, more = v2_batch(some(range(3))), v2_batch(some(range(3, 6)))
    for cut in range(len(more)):
        assert seen(pieces_of(whole + more[:cut])) == some(range(3))


@MAGICS
def test_plain_messages_of_old_formats_are_put_together(magic: int) -> None:
    records = old([3, 4, 5, 9])
    expected = [record._replace(timestamp=record.timestamp if magic else -1) for record in records]
    (piece,) = pieces_of(b"".join(message(magic, record) for record in records))
    assert piece.runs == ((3, 3), (9, 1))
    assert seen([piece]) == expected
    assert seen(pieces_of(b"".join(message(magic, record) for record in records), 5)) == expected[2:]


@MAGICS
@OLD_CODECS
def test_compressed_messages_of_old_formats(magic: int, codec: int) -> None:
    records = old([30, 31, 33, 37])
    expected = [record._replace(timestamp=record.timestamp if magic else -1) for record in records]
    log = message(magic, old([20])[0]) + wrapper(magic, records, codec) + message(magic, old([40])[0])
    items = pieces_of(log, 31)
    assert read_batch_header(items[0].data).codec == codec
    assert [piece.runs for piece in items] == [((31, 1), (33, 1), (37, 1)), ((40, 1),)]
    assert seen(items)[:3] == expected[1:]


@OLD_CODECS
def test_a_wrapper_with_log_append_time_gives_its_timestamp_to_all(codec: int) -> None:
    records = old([30, 31])
    expected = [record._replace(timestamp=NOW + 5) for record in records]
    assert seen(pieces_of(wrapper(1, records, codec, append_time=NOW + 5))) == expected


@pytest.mark.parametrize("compression", [0, 1])
@MAGICS
def test_old_formats_as_kafka_python_writes_and_reads_them(magic: int, compression: int) -> None:
    builder = LegacyRecordBatchBuilder(magic, compression, 1 << 20)
    for record in old(range(9)):
        builder.append(record.offset, record.timestamp, record.key, record.value)
    log = bytes(builder.build())
    read = [
        Given(record.offset, -1 if record.timestamp is None else record.timestamp, record.key, record.value)
        for batch in MemoryRecords(log)
        for record in batch
    ]
    assert len(read) == 9
    base = 8 if compression else 0  # the builder leaves the wrapper's offset to the broker
    log = struct.pack(">q", base) + log[8:] if compression else log
    assert seen(pieces_of(log)) == read


def test_formats_may_follow_one_another() -> None:
    log = message(0, old([0])[0]) + message(1, old([1])[0]) + wrapper(1, old([2, 3]), 1) + v2_batch(some(range(4, 9)))
    first = old([0])[0]._replace(timestamp=-1)
    assert seen(pieces_of(log)) == [first, *old([1, 2, 3]), *some(range(4, 9))]


@CODECS
def test_a_batch_that_is_too_large_is_split(codec: int) -> None:
    random = Random(4)
    noise = [Given(offset, NOW, None, random.randbytes(300)) for offset in range(64)]
    batch = v2_batch(noise, last=70, codec=codec)
    items = pieces_of(batch, max_bytes=2_000)
    assert len(items) > 8
    assert all(len(piece.data) <= 2_000 for piece in items)
    assert [piece.next_source for piece in items[:-1]] == [sum(piece.runs[-1]) for piece in items[:-1]]
    assert items[-1].next_source == 71
    assert seen(items) == noise
    assert all(piece.count == 1 for piece in pieces_of(batch, max_bytes=10))
    (whole,) = pieces_of(v2_batch(noise[:1], codec=codec), max_bytes=10)
    assert whole.count == 1


def test_damage_is_reported_with_its_offset_after_what_came_before() -> None:
    good, bad = v2_batch(some(range(3))), bytearray(v2_batch(some(range(3, 6))))
    bad[HEADER_BYTES + 3] ^= 1
    items = convert(memoryview(good + bytes(bad)), 0)
    assert seen([next(items)]) == some(range(3))
    with pytest.raises(CorruptRecords, match="source offset 3: a batch that fails its checksum") as caught:
        next(items)
    assert caught.value.offset == 3


@pytest.mark.parametrize(
    ("log", "offset", "why"),
    [
        (v2_batch(some([5])) + v2_batch(some([4])), 4, "after one that ends at 6"),
        (message(1, old([5])[0])[:-1] + b"!", 5, "checksum"),
        (message(1, Given(9, NOW, None, b"not gzip"), 1), 9, "codec 1"),
        (message(1, Given(9, NOW, None, None), 1), 9, "without a value"),
        (message(1, Given(1, NOW, None, compress(1, message(1, old([2])[0]), memoryview(b""))), 1), 1, "reach 2"),
        (struct.pack(">qi", 3, 0) + bytes(20), 3, "0 bytes"),
        (struct.pack(">qi", 3, -5) + bytes(20), 3, "-5 bytes"),
    ],
)
def test_what_no_broker_wrote_is_refused(log: bytes, offset: int, why: str) -> None:
    with pytest.raises(CorruptRecords, match=why) as caught:
        pieces_of(log)
    assert caught.value.offset == offset


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_little_that_becomes_much_is_refused(codec: int) -> None:
    bomb = v2_batch([Given(0, NOW, None, bytes(4 << 20)), Given(2, NOW, None, b"")], codec=codec)
    with pytest.raises(TooLarge, match="source offset 0: .* more than 1048576 "):
        pieces_of(bomb, max_inflated=1 << 20)
    assert len(seen(pieces_of(bomb, max_inflated=5 << 20))) == 2


OFFSETS = st.lists(st.integers(1, 4), min_size=1, max_size=12)
TEXT = st.one_of(st.none(), st.binary(max_size=30))
TIMES = st.integers(-1, 2**50)
HEADERS = st.lists(st.tuples(st.text(max_size=3), TEXT), max_size=2).map(tuple)


Log = tuple[bytes, list[Given], list[tuple[int, int]]]


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """A log of any batches, the records a consumer with read_committed sees, the aborted list."""
    parts: list[bytes] = []
    visible: list[Given] = []
    aborted: list[tuple[int, int]] = []
    offset = draw(st.integers(0, 50))
    for _ in range(draw(st.integers(1, 8))):
        kind = draw(st.sampled_from(["v2", "v2", "append", "aborted", "committed", "v0", "v1", "z0", "z1", "empty"]))
        headers = HEADERS if kind[0] not in "vz" or kind == "v2" else st.just(())
        records = []
        base = offset
        for step in draw(OFFSETS):
            offset += step - 1
            records.append(Given(offset, draw(TIMES), draw(TEXT), draw(TEXT), draw(headers)))
            offset += 1
        last = offset - 1 + draw(st.integers(0, 3))
        codec = draw(st.integers(0, 4))
        if kind == "empty":
            parts.append(empty_batch(base, last))
        elif kind in ("v2", "append"):
            time = draw(st.integers(0, 2**50)) if kind == "append" else None
            parts.append(v2_batch(records, base=base, last=last, codec=codec, append_time=time))
            visible += records if time is None else [record._replace(timestamp=time) for record in records]
        elif kind in ("aborted", "committed"):
            parts.append(v2_batch(records, base=base, last=last, codec=codec, attributes=TRANSACTIONAL, producer_id=8))
            last += 1
            parts.append(marker(last, 8, ABORT if kind == "aborted" else COMMIT))
            if kind == "aborted":
                aborted.append((8, base))
            else:
                visible += records
        else:
            magic = int(kind[1])
            last = offset - 1
            parts += (
                [wrapper(magic, records, 1 + codec % 3)] if kind[0] == "z" else [message(magic, r) for r in records]
            )
            visible += [record._replace(timestamp=record.timestamp if magic else -1) for record in records]
        offset = last + 1 + draw(st.integers(0, 2))
    return b"".join(parts), visible, draw(st.permutations(aborted))


@given(logs(), st.integers(0, 100), st.sampled_from([1, 200, 1 << 20]))
def test_a_consumer_sees_the_same_records(log: Log, position: int, max_bytes: int) -> None:
    data, visible, aborted = log
    items = pieces_of(data, position, aborted, max_bytes=max_bytes)
    assert seen(items) == [record for record in visible if record.offset >= position]


@given(logs(), st.data())
def test_reading_may_be_cut_anywhere_and_goes_on_at_next_source(log: Log, data: st.DataObject) -> None:
    records, visible, aborted = log
    found: list[Given] = []
    position = 0
    for _ in range(3):
        items = pieces_of(records, position, aborted, max_bytes=300)
        kept = items[: data.draw(st.integers(0, len(items)))]
        found += seen(kept)
        position = kept[-1].next_source if kept else position
    found += seen(pieces_of(records, position, aborted))
    assert found == visible


@given(logs().flatmap(lambda log: mutations(log[0])), st.integers(0, 60))
def test_garbage_is_refused_or_cut_off_but_raises_nothing_else(data: bytes, position: int) -> None:
    try:
        items = pieces_of(data, position, max_inflated=1 << 20)
    except CorruptRecords:
        return
    seen(items)
