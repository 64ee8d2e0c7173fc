"""Producer tables beside the mirror's record: written once, named exactly, read by every version that may read them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from gateway.cutover.write_pause.rules.cutovers_seen import CutoversSeen
from gateway.cutover.write_pause.rules.write_pause import recorded
from gateway.state.codec import StateFormatError, decode, encode, key_of
from gateway.state.errors import StoreUncertain
from gateway.state.gateway_records import READS_TABLES, GatewayRecord
from gateway.state.log import Entry
from gateway.state.per_partition import WrongLength, tables_of
from gateway.state.producer_entries import ROW, PackedProducers, ProducerEntry
from gateway.state.producer_tables import RECORD_BYTES, ProducerTables
from gateway.state.records import MirrorCutover, MirrorRecord, PartitionStart
from gateway.state.slices import BYTES, Slices, decoded, encoded
from gateway.state.store import StateStore
from gateway.state.table_writes import with_tables
from tests.support.fakes.memory_log import MemoryLog

KEY = "mirror/l/t"
TABLE = (ProducerEntry(7, 0, 0, 4, 100), ProducerEntry(7, 0, 5, 9, 105))
OTHER = (ProducerEntry(8, 1, 0, 0, 3),)


def mirror(*producers: tuple[ProducerEntry, ...] | PackedProducers, **values: Any) -> MirrorRecord:
    cutover = MirrorCutover(pause_epoch=1, producers=producers)
    starts = (PartitionStart(0, 0),) * max(1, len(producers))
    return MirrorRecord(
        link="l", source_topic="t", mirror_topic="t", mirror_id=1, starts=starts, cutover=cutover, **values
    )


def random_table(batches: int, seed: int) -> PackedProducers:
    """That hardly packs."""
    numbers = ((seed * 7919 + at * 104729) % 2**31 for at in range(batches))
    return PackedProducers(
        b"".join(ROW.pack(2**49 + number, 0, number, number, number << 20 | seed) for number in numbers)
    )


def store_on(log: MemoryLog) -> StateStore:
    return StateStore({"bootstrap.servers": "target:9092"}, log=log)


def tables_in(log: MemoryLog) -> list[str]:
    return [key for key in log.kept if key.startswith("producers/")]


async def read_back(kept: dict[str, bytes]) -> MirrorRecord:
    """As a gateway that starts now has it."""
    store = store_on(MemoryLog(kept))
    await store.open()
    try:
        return store.mirrors["l", "t"]
    finally:
        await store.close()


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog()


@pytest.fixture
async def store(log: MemoryLog) -> AsyncIterator[StateStore]:
    made = store_on(log)
    await made.open()
    await made.lead()
    yield made
    await made.close()


async def test_they_are_written_with_the_record_that_names_them_and_never_again(
    store: StateStore, log: MemoryLog
) -> None:
    record = mirror(TABLE, ())
    await store.put(record)
    (commit,) = log.commits
    assert [key for key, _ in commit] == [*tables_in(log), KEY]
    assert len(tables_in(log)) == 1
    assert "producers" not in json.loads(log.kept[KEY])
    assert store.mirrors["l", "t"] == record

    await store.replace(record, replace(record, readable=True))
    assert [key for key, _ in log.commits[-1]] == [KEY]
    again = await read_back(log.kept)
    assert again == replace(record, readable=True)
    assert again.cutover.producers == (TABLE, ())


async def test_those_of_the_next_cutover_take_their_place(store: StateStore, log: MemoryLog) -> None:
    await store.put(mirror(TABLE, ()))
    (before,) = tables_in(log)
    await store.put(mirror(TABLE, OTHER))
    assert [key for key, _ in log.commits[-1]] == [*tables_in(log), KEY, before]
    assert (await read_back(log.kept)).cutover.producers == (TABLE, OTHER)
    await store.put(mirror())
    assert tables_in(log) == []
    assert not (await read_back(log.kept)).cutover.producers


async def test_they_go_with_the_mirror(store: StateStore, log: MemoryLog) -> None:
    record = mirror(TABLE)
    await store.put(record)
    await store.delete(record)
    assert log.kept == {}


async def test_one_of_unknown_outcome_is_in_the_views_with_its_tables(store: StateStore, log: MemoryLog) -> None:
    log.failures = [StoreUncertain("no answer")]
    with pytest.raises(StoreUncertain):
        await store.put(mirror(TABLE))
    await store.resolve_outcome()
    assert store.mirrors["l", "t"].cutover.producers == (TABLE,)
    assert len(tables_in(log)) == 1
    await store.put(mirror(TABLE, readable=True))
    assert [key for key, _ in log.commits[-1]] == [KEY]


async def test_the_order_of_the_topic_does_not_matter(store: StateStore, log: MemoryLog) -> None:
    """A compacted topic has the mirror's record where it was made first, before the tables of its last cutover."""
    await store.put(mirror(TABLE))
    kept = {key: log.kept[key] for key in reversed(log.kept)}
    assert next(iter(kept)) == KEY
    assert (await read_back(kept)).cutover.producers == (TABLE,)


async def test_nothing_is_named_where_no_producer_is_known(store: StateStore, log: MemoryLog) -> None:
    await store.put(mirror((), ()))
    assert list(log.kept) == [KEY]
    assert json.loads(log.kept[KEY])["v"] == 1


async def test_large_ones_are_several_records(store: StateStore, log: MemoryLog) -> None:
    tables = [random_table(10_000, seed) for seed in range(6)]
    await store.put(mirror(*tables))
    sizes = [len(log.kept[key]) for key in tables_in(log)]
    assert len(sizes) > 1
    assert max(sizes) < RECORD_BYTES + max(len(table.text) for table in tables) + 1000
    assert len(log.kept[KEY]) < 1000
    assert (await read_back(log.kept)).cutover.producers == tuple(tables)

    await store.put(mirror(*tables[:-1], PackedProducers.of(TABLE)))
    written = [key for key, value in log.commits[-1] if value is not None]
    assert len(written) < len(sizes)  # what has not changed is there already


# -- versions ----------------------------------------------------------------------------------------------------------


def test_older_records_have_them_as_arrays() -> None:
    body = json.loads(encode(mirror()))
    body |= {"starts": [[0, 0], [0, 0]], "producers": [[[7, 0, 0, 4, 100], [7, 0, 5, 9, 105]], []]}
    record = decode(KEY, json.dumps(body).encode())
    assert isinstance(record, MirrorRecord)
    assert record.cutover.producers == (TABLE, ())
    assert isinstance(record.cutover.producers, ProducerTables)


@pytest.mark.parametrize("rows", [[[7, 0, 0, 4]], [[7, 2**20, 0, 4, 100]], ["7"], 7])
def test_broken_arrays_are_refused(rows: object) -> None:
    body = json.loads(encode(mirror())) | {"producers": [rows]}
    with pytest.raises(StateFormatError, match="mirror/l/t"):
        decode(KEY, json.dumps(body).encode())


async def test_while_a_gateway_is_older_they_stay_in_the_mirrors_record(store: StateStore, log: MemoryLog) -> None:
    new = GatewayRecord(name="b", incarnation="1", role="node", peer="b:1", lease_ms=1, reads=READS_TABLES)
    await store.put(new, replace(new, name="a", reads=READS_TABLES - 1))
    record = mirror(TABLE, ())
    await store.put(record)
    body = json.loads(log.kept[KEY])
    assert (body["v"], body["producers"]) == (1, [[[7, 0, 0, 4, 100], [7, 0, 5, 9, 105]], []])
    assert tables_in(log) == []
    assert await read_back(log.kept) == record

    await store.put(replace(new, name="a"))  # it was updated
    await store.put(replace(store.mirrors["l", "t"], readable=True))
    assert len(tables_in(log)) == 1
    assert (await read_back(log.kept)).cutover.producers == (TABLE, ())


async def test_no_older_gateway_reads_a_record_that_names_tables(store: StateStore, log: MemoryLog) -> None:
    """It would serve a cutover without them, and append what is sent again once more."""
    await store.put(mirror(TABLE))
    assert json.loads(log.kept[KEY])["v"] == 2


async def test_tables_that_are_not_there_are_told_and_hold_the_writes(store: StateStore, log: MemoryLog) -> None:
    await store.put(mirror(TABLE))
    record = await read_back({KEY: log.kept[KEY]})
    with pytest.raises(WrongLength, match="'t'"):
        tables_of(record)
    seen = CutoversSeen()
    seen.saw("t", record, 0.0)
    assert seen.left_s("t", 0.0) > 0
    assert recorded(record, retried=True).garbled
    assert json.loads(encode(record)) == json.loads(log.kept[KEY])  # a change of it loses nothing


# -- the event loop --------------------------------------------------------------------------------------------------

_PARTITIONS, _PRODUCERS = 200, 2_000


async def test_no_turn_is_long_whatever_the_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Encoded at the leader, decoded at a follower: 200 partitions of 2,000 producers, five batches each."""
    rows = b"".join(
        ROW.pack(2**49 + 17 * pid, 0, seq, seq, 5 * pid + seq) for pid in range(_PRODUCERS) for seq in range(5)
    )
    tables = [PackedProducers(rows[:-26] + ROW.pack(2**50 + index, 0, 0, 0, index)) for index in range(_PARTITIONS)]
    record, turns = mirror(*tables), list[float]()
    loop: Any = asyncio.get_running_loop()
    once = loop._run_once

    def turn() -> None:
        began = time.thread_time()
        once()
        turns.append(time.thread_time() - began)

    monkeypatch.setattr(loop, "_run_once", turn)
    slices, log = Slices(), MemoryLog()
    changes = await with_tables([(KEY, record)], {}, slices, apart=True)
    values = await encoded(changes, {}, slices)
    store = store_on(log)
    log.kept = {key: value for key, value in values if value is not None}
    await store.open()
    taken = store.mirrors["l", "t"]
    await store.close()
    monkeypatch.undo()

    assert [len(table) for table in taken.cutover.producers] == [5 * _PRODUCERS] * _PARTITIONS
    assert len(values) > 10
    assert slices.largest <= BYTES + max(len(value) for value in log.kept.values())
    assert max(turns) < 0.05  # of CPU: what else the machine does is not counted
    assert len(turns) > sum(map(len, log.kept.values())) / BYTES


async def test_a_follower_decodes_in_slices() -> None:
    entries = [entry async for entry in _large_entries()]
    turns, ended, loop = 0, False, asyncio.get_running_loop()

    def count() -> None:
        nonlocal turns
        turns += 1
        if not ended:
            loop.call_soon(count)

    loop.call_soon(count)
    await decoded(entries)
    ended = True
    assert turns >= sum(len(entry.value or b"") for entry in entries) // (2 * BYTES)


async def _large_entries() -> AsyncIterator[Any]:
    record = mirror(*(random_table(10_000, seed) for seed in range(8)))
    slices = Slices()
    changes = await with_tables([(key_of(record), record)], {}, slices, apart=True)
    for at, (key, value) in enumerate(await encoded(changes, {}, slices)):
        yield Entry(at, key, value)
