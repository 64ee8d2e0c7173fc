"""The thread for batches that are too much for the event loop: it rests, and tells how it went."""

from __future__ import annotations

import threading
from mmap import mmap
from typing import Any, cast

import pytest

from bench.clients.raw import batch_around
from gateway.mirror.partition.beside import RESTS, SLICE_S, Paced, work_beside
from gateway.mirror.partition.rules.commands import WorkBeside
from gateway.mirror.partition.rules.opened import MOST_INFLATED, Opened, OpeningTerms
from protocol.batch.compression import compress, decompress
from protocol.batch.header import HEADER_BYTES
from protocol.batch.schema_ids import translated
from protocol.batch.varints import varint


class Runner:
    def __init__(self) -> None:
        self.told: list[tuple[WorkBeside, Opened | Exception]] = []

    def worked(self, command: WorkBeside, opened: Opened | Exception) -> None:
        self.told.append((command, opened))


def command_of(work: Any) -> WorkBeside:
    return WorkBeside(work, (0, 0), lambda _now: ())


def _batch(codec: int, value: bytes) -> bytes:
    """A batch of one record."""
    body = b"".join((bytes(3), b"\x01", varint(len(value)), value, b"\0"))
    record = varint(len(body)) + body
    return batch_around(compress(codec, record, memoryview(b"")), 1, codec=codec)


class Cpu:
    def __init__(self) -> None:
        self.had = 7.0

    def __call__(self) -> float:
        return self.had


def test_it_works_for_a_fifth_of_the_time() -> None:
    rests: list[float] = []
    cpu = Cpu()
    paced = Paced(rests.append, cpu)
    for _ in range(100):
        cpu.had += SLICE_S / 2
        paced.spend(512)
    assert len(rests) == 50
    assert sum(rests) == pytest.approx(RESTS * (cpu.had - 7.0))


def test_it_does_not_rest_for_long_whatever_took_long() -> None:
    rests: list[float] = []
    cpu = Cpu()
    paced = Paced(rests.append, cpu)
    cpu.had += 10
    paced.spend(512)
    paced.spend(512)
    assert rests == [1.0]


def test_a_large_batch_is_copied_with_rests() -> None:
    """While a large buffer is filled the event loop would have to ask for each of its turns."""
    many = bytes(8 << 20)
    spent: list[int] = []
    translated(memoryview(_batch(0, many)), {}, spend=spent.append)
    assert len(spent) > len(many) >> 18


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_what_a_batch_inflates_to_is_written_to_fresh_pages(codec: int) -> None:
    """Nobody waits while they are made or given back, as for a bytearray, which is filled first."""
    many = bytes(range(256)) * (8 << 12)
    batch = memoryview(_batch(codec, many))
    inflated = decompress(codec, batch[HEADER_BYTES:])
    assert isinstance(inflated, memoryview)
    assert isinstance(inflated.obj, mmap)
    assert many in bytes(inflated)
    assert translated(batch, {}).batch is batch


async def test_it_is_done_in_a_thread_and_told_on_the_loop() -> None:
    where: list[int] = []

    def work(terms: OpeningTerms) -> Opened:
        assert terms.inflated == MOST_INFLATED
        where.append(threading.get_ident())
        return made

    runner, made = Runner(), Opened({})
    command = command_of(work)
    await work_beside(cast("Any", runner), command)
    assert runner.told == [(command, made)]
    assert where != [threading.get_ident()]


async def test_what_goes_wrong_is_the_partitions() -> None:
    def work(_terms: OpeningTerms) -> Opened:
        raise ZeroDivisionError

    runner = Runner()
    await work_beside(cast("Any", runner), command_of(work))
    ((_, found),) = runner.told
    assert isinstance(found, ZeroDivisionError)
