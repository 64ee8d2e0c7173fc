"""What the state topic acknowledged and lost is in force at whoever has read it, and comes into the topic again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace

import pytest

from gateway.state.codec import encode
from gateway.state.errors import ProducerFenced, StateReadTooLate, StateWentBack, StoreUncertain
from gateway.state.gateway_records import PortRecord
from gateway.state.log import WRITER_KEY, Change, Entry
from gateway.state.producer_entries import PackedProducers, ProducerEntry
from gateway.state.records import MirrorCutover, MirrorRecord, PartitionStart
from gateway.state.store import StateStore
from tests.support.waiting import wait_until_async


class Topic:
    """A log that several processes read and write, and that can lose its end."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.cleaned: set[int] = set()  # offsets of what the log cleaner has removed
        self.writer = ""
        self.logs: list[Log] = []
        self.changed = asyncio.Condition()

    async def append(self, changes: Sequence[Change], was: Sequence[int] = ()) -> int:
        async with self.changed:
            for (key, value), before in zip(changes, was or [-1] * len(changes), strict=True):
                self.entries.append(Entry(len(self.entries), key, value, before))
            self.changed.notify_all()
        return len(self.entries) - 1

    async def lose(self, end: int) -> None:
        """As by the loss of the only broker in sync: what was there from this offset on is gone."""
        del self.entries[end:]
        async with self.changed:
            for log in self.logs:
                if log.position > end:
                    log.lost = end
            self.changed.notify_all()

    async def stop_for_long(self, log: Log) -> None:
        """The process resumes behind the time for which deletions are kept."""
        async with self.changed:
            log.is_late = True
            self.changed.notify_all()

    def clean(self) -> None:
        """Only the last record of each key is left, and no deletion."""
        last = {entry.key: entry.offset for entry in self.entries}
        self.cleaned = {each.offset for each in self.entries if each.value is None or last[each.key] != each.offset}

    def values(self) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for entry in self.entries:
            if entry.value is None:
                found.pop(entry.key, None)
            elif entry.key != WRITER_KEY:
                found[entry.key] = entry.value
        return found


class Log:
    """One process's."""

    def __init__(self, topic: Topic, name: str) -> None:
        self.topic, self.name = topic, name
        self.position = 0
        self.lost: int | None = None
        self.is_late = False
        self.is_held = asyncio.Event()
        self.is_held.set()
        topic.logs.append(self)

    async def open(self) -> list[Entry]:
        self.position, self.lost, self.is_late = len(self.topic.entries), None, False
        return [entry for entry in self.topic.entries if entry.offset not in self.topic.cleaned]

    async def read_anew(self) -> list[Entry]:
        return await self.open()

    async def read(self, timeout_s: float) -> list[Entry]:
        async with self.topic.changed:
            await self.topic.changed.wait_for(
                lambda: self.lost is not None or self.is_late or self.position < len(self.topic.entries)
            )
        await self.is_held.wait()
        if self.lost is not None:
            raise StateWentBack("the log was truncated", self.lost)
        if self.is_late:
            raise StateReadTooLate("nothing was read for a day")
        found, self.position = self.topic.entries[self.position :], len(self.topic.entries)
        return found

    async def lead(self) -> int:
        self.topic.writer = self.name
        return await self.topic.append([(WRITER_KEY, json.dumps({"v": 1, "instance": self.name}).encode())])

    def resign(self) -> None:
        if self.topic.writer == self.name:
            self.topic.writer = ""

    async def commit(self, changes: Sequence[Change], still: Callable[[], None]) -> int:
        if self.topic.writer != self.name:
            raise ProducerFenced("another one writes")
        return await self.topic.append(changes)

    async def write_again(self, changes: Sequence[Change], was: Sequence[int]) -> int:
        if self.topic.writer != self.name:
            raise ProducerFenced("another one writes")
        return await self.topic.append(changes, was)

    async def resolve_outcome(self) -> int:
        return -1

    async def close(self) -> None:
        """Nothing."""


class Fleet:
    """Three processes; the first one leads."""

    def __init__(self) -> None:
        self.topic = Topic()
        self.told: list[str] = []
        self.stores: list[StateStore] = []

    async def opened(self, name: str) -> StateStore:
        store = StateStore({"bootstrap.servers": "target:9092"}, log=Log(self.topic, name))
        store.on_went_back = lambda: self.told.append(f"{name} stops")
        store.on_recovered = lambda: self.told.append(f"{name} recovered")
        store.on_fenced = lambda: self.told.append(f"{name} fenced")
        await store.open()
        self.stores.append(store)
        return store

    async def read(self) -> None:
        for store in self.stores:
            await wait_until_async(lambda store=store: store.applied == len(self.topic.entries) - 1, 5.0)  # type: ignore[misc]


@pytest.fixture
async def fleet() -> AsyncIterator[Fleet]:
    made = Fleet()
    for name in "abc":
        await made.opened(name)
    await made.stores[0].lead()
    yield made
    for store in made.stores:
        await store.close()


async def test_what_was_read_stays_in_force_and_is_written_again(fleet: Fleet) -> None:
    leader, *_ = fleet.stores
    await leader.put(PortRecord(1, 1))
    await leader.put(PortRecord(2, 2))
    await fleet.read()
    kept = len(fleet.topic.entries)
    await leader.put(PortRecord(1, 11))
    await leader.put(PortRecord(3, 3))
    await leader.delete(PortRecord(2, 2))
    await fleet.read()
    await fleet.topic.lose(kept)

    await wait_until_async(lambda: {"a recovered", "b recovered", "c recovered"} <= set(fleet.told), 5.0)
    wanted = {1: PortRecord(1, 11), 3: PortRecord(3, 3)}
    assert fleet.topic.values() == {f"port/{node}": encode(record) for node, record in wanted.items()}
    await fleet.read()
    for store in [*fleet.stores, await fleet.opened("d")]:
        assert dict(store.ports) == wanted
    assert fleet.told[:3] != ["a recovered"]
    assert {"a stops", "b stops", "c stops", "a fenced"} <= set(fleet.told)
    assert not leader.leading  # until the group has named a leader anew


async def test_a_commit_that_is_read_before_it_is_answered_is_no_loss(fleet: Fleet) -> None:
    """EndTxn is answered by one broker, and the records are fetched from another one."""
    leader, *_ = fleet.stores
    log = fleet.topic.logs[0]
    commit = log.commit

    async def answered_late(changes: Sequence[Change], still: Callable[[], None]) -> int:
        offset = await commit(changes, still)
        await wait_until_async(lambda: leader.applied >= offset, 5.0)
        return offset

    log.commit = answered_late  # type: ignore[method-assign]
    await leader.put(PortRecord(1, 1))
    assert leader.leading
    assert dict(leader.ports) == {1: PortRecord(1, 1)}
    assert fleet.told == []


async def test_the_later_one_of_two_records_that_were_lost_is_in_force(fleet: Fleet) -> None:
    """One process had read less of what was lost than another one, and is the first to write again."""
    leader, behind, _ = fleet.stores
    await fleet.read()
    kept = len(fleet.topic.entries)
    await leader.put(PortRecord(1, 1))
    await wait_until_async(lambda: behind.ports, 5.0)
    logs = fleet.topic.logs
    logs[1].is_held.clear()
    await leader.put(PortRecord(1, 2))
    await wait_until_async(lambda: fleet.stores[2].ports == {1: PortRecord(1, 2)}, 5.0)
    for log in (logs[0], logs[2]):
        log.is_held.clear()
    await fleet.topic.lose(kept)
    logs[1].is_held.set()
    await wait_until_async(lambda: "b recovered" in fleet.told, 5.0)
    assert fleet.topic.values() == {"port/1": encode(PortRecord(1, 1))}
    for log in logs:
        log.is_held.set()
    await wait_until_async(lambda: {"a recovered", "c recovered"} <= set(fleet.told), 5.0)
    assert fleet.topic.values() == {"port/1": encode(PortRecord(1, 2))}
    await fleet.read()
    assert all(store.ports == {1: PortRecord(1, 2)} for store in fleet.stores)


async def test_whoever_waits_for_an_offset_of_the_lost_log_is_told(fleet: Fleet) -> None:
    leader = fleet.stores[0]
    await fleet.read()
    kept = len(fleet.topic.entries)
    await leader.put(PortRecord(1, 1))
    await fleet.read()
    waiting = asyncio.create_task(fleet.stores[1].read_up_to(1_000))
    await fleet.topic.lose(kept)
    with pytest.raises(StateWentBack):
        await waiting


async def test_a_leader_that_writes_before_it_is_told_has_written_nothing_for_certain(fleet: Fleet) -> None:
    leader = fleet.stores[0]
    for node in range(5):
        await leader.put(PortRecord(node, 1))
    await fleet.read()
    fleet.topic.logs[0].is_held.clear()
    await fleet.topic.lose(2)
    with pytest.raises(StoreUncertain, match="has lost records"):
        await leader.put(PortRecord(7, 7))
    assert not leader.leading
    fleet.topic.logs[0].is_held.set()
    await wait_until_async(lambda: "a recovered" in fleet.told, 5.0)
    assert set(fleet.stores[0].ports) >= set(range(5))


@pytest.mark.parametrize("kept", [0, 1], ids=["nothing came behind the deletion", "something came"])
async def test_what_was_deleted_while_a_process_was_stopped_for_long_goes_from_its_views(
    fleet: Fleet, kept: int
) -> None:
    leader, late, _ = fleet.stores
    await leader.put(PortRecord(1, 1), PortRecord(2, 2))
    await fleet.read()
    log = fleet.topic.logs[1]
    log.is_held.clear()
    await leader.write([("port/1", None)])
    if kept:
        await leader.put(PortRecord(3, 3))
    fleet.topic.clean()
    await fleet.topic.stop_for_long(log)
    log.is_held.set()
    await wait_until_async(lambda: "b recovered" in fleet.told, 5.0)
    assert late.ports == fleet.stores[0].ports == {node: PortRecord(node, node) for node in (2, 3)[: 1 + kept]}
    assert "b stops" in fleet.told  # by what it knew it may not have written
    assert leader.leading  # nobody else lost anything
    await leader.put(PortRecord(4, 4))
    await wait_until_async(lambda: 4 in late.ports, 5.0)


async def test_a_leader_that_was_stopped_for_long_leads_no_more(fleet: Fleet) -> None:
    leader = fleet.stores[0]
    await leader.put(PortRecord(1, 1))
    await fleet.read()
    await fleet.topic.stop_for_long(fleet.topic.logs[0])
    await wait_until_async(lambda: "a recovered" in fleet.told, 5.0)
    assert not leader.leading
    assert leader.ports == {1: PortRecord(1, 1)}


async def test_a_log_that_went_back_while_a_process_was_stopped_for_long_gives_no_deleted_record_back(
    fleet: Fleet,
) -> None:
    leader, late, other = fleet.stores
    await leader.put(PortRecord(1, 1), PortRecord(2, 2))
    await fleet.read()
    log = fleet.topic.logs[1]
    await leader.put(PortRecord(3, 3))
    await fleet.read()
    log.is_held.clear()
    await fleet.topic.lose(len(fleet.topic.entries) - 1)
    await wait_until_async(lambda: "a recovered" in fleet.told and "c recovered" in fleet.told, 5.0)
    await other.lead()
    await other.write([("port/1", None)])
    fleet.topic.clean()
    log.is_held.set()
    await wait_until_async(lambda: "b recovered" in fleet.told, 5.0)
    expected = {node: PortRecord(node, node) for node in (2, 3)}
    await wait_until_async(lambda: late.ports == other.ports == expected, 5.0)


async def test_producer_tables_come_back_with_the_cutover_that_names_them(fleet: Fleet) -> None:
    leader, *_ = fleet.stores
    tables = [PackedProducers.of([ProducerEntry(7 + at, 0, 0, 4, at)]) for at in range(3)]
    record = MirrorRecord(link="l", source_topic="t", mirror_topic="t", mirror_id=1, starts=(PartitionStart(0, 0),) * 3)
    await leader.put(record)
    await fleet.read()
    kept = len(fleet.topic.entries)
    cut_over = replace(record, cutover=MirrorCutover(pause_epoch=1, producers=tuple(tables)))
    await leader.replace(record, cut_over)
    await leader.put(replace(cut_over, readable=True))  # it names them alone
    await fleet.read()
    await fleet.topic.lose(kept)

    await wait_until_async(lambda: {"a recovered", "b recovered", "c recovered"} <= set(fleet.told), 5.0)
    await fleet.read()
    for store in [*fleet.stores, await fleet.opened("d")]:
        assert store.mirrors["l", "t"] == replace(cut_over, readable=True)
        assert store.mirrors["l", "t"].cutover.producers == tuple(tables)
