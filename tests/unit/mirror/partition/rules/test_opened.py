"""What a batch of the source costs the event loop is bounded, whatever its producer has put into it."""

from __future__ import annotations

from collections.abc import Sequence
from struct import pack
from typing import Any, cast

import cramjam
import pytest

from gateway.mirror.partition.rules.append_window import Pending
from gateway.mirror.partition.rules.commands import Commands, Fail, WorkBeside
from gateway.mirror.partition.rules.fetch_cursor import FetchCursor
from gateway.mirror.partition.rules.opened import LOOP_UNITS, Allowance, Beside, TooMuch, beside
from gateway.mirror.partition.rules.partition import PartitionMirror
from gateway.mirror.partition.rules.producer_table import ProducerTable
from gateway.mirror.partition.rules.schema_ids import IdRewriter
from gateway.state.records import MirrorError, PartitionStart
from gateway.state.schemas.schema_options import ID_PLACES
from protocol.batch.header import header_of, iter_batches
from protocol.batch.record_reader import read_records
from protocol.batch.reencode import Piece, Skip, convert
from protocol.batch.varints import varint
from protocol.batch.work import unlimited
from tests.support.mirror.partition_talk import PID
from tests.support.mirror.source_log import Given, v2_batch


def framed(schema_id: int) -> bytes:
    return b"\0" + pack(">i", schema_id) + b"x"


def batch(base: int, count: int, schema_id: int = 7, codec: int = 0) -> bytes:
    given = [Given(base + at, 1_000, None, framed(schema_id)) for at in range(count)]
    return v2_batch(given, codec=codec)


def sealed(base: int, body: bytes, count: int, codec: int) -> bytes:
    """A batch whose records were compressed already."""
    made = bytearray(
        bytes(header_of(body, codec=codec, count=count, base_ms=1, latest_ms=1, producer_id=-1, sequence=-1)) + body
    )
    made[:8] = pack(">q", base)
    return bytes(made)


def empty_records(count: int) -> bytes:
    out = bytearray()
    for at in range(count):
        record = b"\0" + varint(0) + varint(at) + varint(-1) + varint(-1) + varint(0)
        out += varint(len(record)) + record
    return bytes(out)


def record_with(value: bytes, headers: int = 0) -> bytes:
    body = b"\0" + varint(0) + varint(0) + varint(-1) + varint(len(value)) + value + varint(headers)
    body += (varint(0) + varint(-1)) * headers
    return varint(len(body)) + body


def copying(ids: dict[int, int], allowance: Allowance | None = None) -> PartitionMirror:
    rewriter = IdRewriter(lambda: ids, ID_PLACES, 60.0)
    mirror = PartitionMirror(PartitionStart(0, 0), PID, wall_ms=lambda: 0, rewriter=rewriter)
    mirror.source.cursor.allowance = allowance or Allowance()
    mirror.begin()
    mirror.target_log(0, 0, None, now=0.0)
    mirror.source_log(0, 10_000_000, 0.0)
    return mirror


def feed(mirror: PartitionMirror, *batches: bytes, now: float = 0.0) -> Commands:
    asked = mirror.source.cursor.fetch_offset
    return mirror.fetched(memoryview(b"".join(batches)), 10_000_000, now, asked)


def work(commands: Sequence[object]) -> WorkBeside:
    (command,) = commands
    assert isinstance(command, WorkBeside)
    return command


def ids_in(queued: Sequence[Pending]) -> set[bytes | None]:
    return {
        record.value for each in queued for found in iter_batches(memoryview(each.data or b""))
        for record in read_records(*found)
    }  # fmt: skip


def queued(mirror: PartitionMirror) -> list[Pending]:
    return list(mirror.window._queue)


def test_ordinary_batches_are_opened_at_once() -> None:
    mirror = copying({7: 70})
    assert feed(mirror, *(batch(base, 10) for base in range(0, 1_000, 10))) == ()
    assert (mirror.source.cursor.position, mirror.source.working) == (1_000, False)


@pytest.mark.parametrize("codec", range(5))
def test_the_rest_of_an_answer_is_opened_in_a_thread(codec: int) -> None:
    mirror = copying({7: 70})
    data = [batch(base, 1_000, codec=codec) for base in range(0, 10_000, 1_000)]
    command = work(feed(mirror, *data))
    before = mirror.source.cursor.position
    assert before < 5_000
    assert not mirror.wants_fetch(0.0)
    assert mirror.worked(command, command.work(beside(unlimited)), 0.0) == ()
    assert mirror.source.cursor.position == 10_000
    assert mirror.wants_fetch(0.0)
    assert ids_in(queued(mirror)) == {framed(70)}
    assert mirror.rewriter is not None
    assert mirror.rewriter.written == 10_000


@pytest.mark.parametrize(
    ("body", "count"),
    [(empty_records(100_000), 100_000), (record_with(b"", headers=200_000), 1), (record_with(bytes(8 << 20)), 1)],
    ids=["records", "headers", "bytes"],
)
def test_little_that_is_much_work_is_not_done_on_the_loop(body: bytes, count: int) -> None:
    allowance = Allowance()
    mirror = copying({7: 70}, allowance)
    command = work(feed(mirror, sealed(0, bytes(cramjam.zstd.compress(body)), count, 4)))
    assert mirror.source.cursor.position == 0
    assert allowance.left > -LOOP_UNITS  # what was done before it was seen
    assert mirror.worked(command, command.work(beside(unlimited)), 0.0) == ()
    assert mirror.source.cursor.position == count


def test_a_bomb_fails_the_mirror_and_says_where_it_is() -> None:
    mirror = copying({7: 70})
    bomb = sealed(10, bytes(cramjam.zstd.compress(record_with(bytes(70 << 20)))), 1, 4)
    command = work(feed(mirror, batch(0, 10), bomb, batch(11, 1)))
    (failed,) = mirror.worked(command, command.work(beside(unlimited)), 0.0)
    assert isinstance(failed, Fail)
    assert failed.error is MirrorError.UNSUPPORTED_MESSAGE_FORMAT
    assert "source offset 10: " in failed.message
    assert f"{len(bomb) - 61} bytes of records that have more than {64 << 20}" in failed.message


def test_partitions_of_one_answer_share_what_the_loop_does() -> None:
    allowance = Allowance()
    mirrors = [copying({7: 70}, allowance) for _ in range(5)]
    found = [feed(mirror, batch(0, 1_500)) for mirror in mirrors]
    assert [len(commands) for commands in found] == [0, 0, 1, 1, 1]
    allowance.refill()
    assert feed(copying({7: 70}, allowance), batch(0, 1_500)) == ()


def test_an_unknown_id_is_waited_for_as_on_the_loop() -> None:
    ids = {7: 70}
    mirror = copying(ids)
    command = work(feed(mirror, batch(0, 3_000), batch(3_000, 3_000, schema_id=9), batch(6_000, 1)))
    assert mirror.worked(command, command.work(beside(unlimited)), 0.0) == ()
    assert mirror.source.cursor.position == 3_000
    assert mirror.rewriter is not None
    assert list(mirror.rewriter.missing) == [9]


def test_what_was_opened_for_another_position_is_left() -> None:
    mirror = copying({7: 70})
    command = work(feed(mirror, batch(0, 5_000)))
    opened = command.work(beside(unlimited))
    mirror.source.cursor.go_on(9_000)
    assert mirror.worked(command, opened, 0.0) == ()
    assert (mirror.source.cursor.position, mirror.source.working, len(mirror.window)) == (9_000, False, 0)


class Taken:
    """As much of a `Translator` as a cursor sees."""

    def __init__(self) -> None:
        self.items: list[Piece | Skip] = []
        self.put = self.items.append


def test_batches_that_are_encoded_anew_likewise() -> None:
    """Compacted: every other record is gone."""
    taken, cursor = Taken(), FetchCursor(lambda _: None, ProducerTable())
    cursor.slow_path, cursor.allowance = cast("Any", taken), Allowance()
    cursor.start(0, 0)
    data = memoryview(b"".join(v2_batch([Given(base + 2 * at, 1_000, None, b"v") for at in range(1_000)])
                               for base in range(0, 20_000, 2_000)))  # fmt: skip
    with pytest.raises(Beside) as found:
        cursor.read(data)
    before = cursor.position
    assert 0 < before < 10_000
    cursor.opened = found.value.work(beside(unlimited))
    cursor.read(data)
    assert taken.items == list(convert(data, 0))
    assert (cursor.position, cursor.fetch_offset) == (19_999, 19_999)


def test_an_allowance_is_spent_once() -> None:
    allowance = Allowance()
    allowance.spend(LOOP_UNITS)
    with pytest.raises(TooMuch):
        allowance.spend(1)
