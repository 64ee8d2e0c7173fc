"""The store's promises: views change only with a commit, compare and set, uncertain commits, successors."""

from __future__ import annotations

import asyncio
import gc
from dataclasses import replace

import pytest

from gateway.state.codec import StateFormatError, encode
from gateway.state.errors import ProducerFenced, StoreError, StoreUncertain
from gateway.state.gateway_records import PortRecord
from gateway.state.mirror_transitions import NoSuchTransition
from gateway.state.records import LinkRecord, MirrorRecord, MirrorState, SequenceRecord
from gateway.state.store import StateStore, StoreConflict
from tests.support.fakes.memory_log import MemoryLog
from tests.support.waiting import wait_until_async

PORT = PortRecord(1, 9293)
MIRROR = MirrorRecord(link="l", source_topic="t", mirror_topic="t", mirror_id=1)
LINK = LinkRecord(name="l", link_id=1, source_cluster_id="S", client={"bootstrap.servers": "s:1"})


def store_on(log: MemoryLog) -> StateStore:
    return StateStore({"bootstrap.servers": "target:9092"}, log=log)


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog()


@pytest.fixture
async def store(log):
    made = store_on(log)
    await made.open()
    await made.lead()
    yield made
    await made.close()


async def test_what_was_put_is_there_after_a_restart(store, log):
    await store.put(PORT, LINK)
    await store.put(PortRecord(2, 9294))
    await store.delete(PORT)

    again = store_on(MemoryLog(log.kept))
    await again.open()

    assert dict(again.links) == {"l": LINK}
    assert dict(again.ports) == {2: PortRecord(2, 9294)}
    await again.close()


async def test_several_records_are_one_commit(store, log):
    await store.put(PORT, LINK)

    assert [[key for key, _ in commit] for commit in log.commits] == [["port/1", "link/l"]]


async def test_a_failed_commit_changes_no_view_and_tells_nobody(store, log):
    told = []
    store.subscribe(lambda: told.append(1))
    log.failures = [StoreError("no")]

    with pytest.raises(StoreError, match="no"):
        await store.put(PORT, LINK)

    assert (dict(store.ports), dict(store.links), told) == ({}, {}, [])


async def test_views_change_only_after_the_commit(store, log):
    seen = []
    commit = log.commit

    async def look_and_commit(changes, still):
        seen.append(dict(store.ports))
        return await commit(changes, still)

    log.commit = look_and_commit

    await store.put(PORT)

    assert seen == [{}]
    assert store.ports[1] == PORT


async def test_views_cannot_be_written(store):
    with pytest.raises(TypeError):
        store.ports[1] = PORT


async def test_replace_is_compare_and_set(store):
    await store.put(PORT)
    other = PortRecord(1, 9999)
    await store.replace(PORT, other)

    with pytest.raises(StoreConflict, match="port/1"):
        await store.replace(PORT, PortRecord(1, 7))

    assert store.ports[1] == other


async def test_of_two_replaces_at_once_one_wins(store):
    await store.put(PORT)

    results = await asyncio.gather(
        *(store.replace(PORT, PortRecord(1, 10_000 + i)) for i in range(5)), return_exceptions=True
    )

    assert sum(result is None for result in results) == 1
    assert sum(isinstance(result, StoreConflict) for result in results) == 4


async def test_a_guard_that_raises_writes_nothing(store, log):
    def guard() -> None:
        raise KeyError("not now")

    with pytest.raises(KeyError):
        await store.put(PORT, guard=guard)

    assert (log.commits, dict(store.ports)) == ([], {})


async def test_an_uncertain_commit_that_was_made_is_seen_before_the_next_write(store, log):
    log.failures = [StoreUncertain("no answer")]
    with pytest.raises(StoreUncertain):
        await store.put(PORT)
    assert not store.ports

    seen = []
    await store.put(LINK, guard=lambda: seen.append(dict(store.ports)))

    assert seen == [{1: PORT}] * 2, "before the write, and right before it is committed"
    assert dict(store.ports) == {1: PORT}


async def test_an_uncertain_commit_that_was_not_made_leaves_nothing(store, log):
    log.failures = [StoreUncertain("no answer")]
    log.outcome = StoreError("aborted")
    with pytest.raises(StoreUncertain):
        await store.put(PORT)

    await store.put(LINK)

    assert (dict(store.ports), list(store.links)) == ({}, ["l"])


async def test_while_a_commit_stays_uncertain_nothing_else_is_written(store, log):
    log.failures = [StoreUncertain("no answer")]
    log.outcome = StoreUncertain("still no answer")
    with pytest.raises(StoreUncertain):
        await store.put(PORT)

    with pytest.raises(StoreUncertain, match="still"):
        await store.put(LINK)
    assert not store.links

    log.outcome = True
    await store.put(LINK)
    assert (dict(store.ports), list(store.links)) == ({1: PORT}, ["l"])


async def test_a_fenced_process_is_told_once_and_writes_no_more(store, log):
    paused = []
    store.on_fenced = lambda: paused.append(1)
    log.failures = [ProducerFenced("another")]

    with pytest.raises(ProducerFenced):
        await store.put(PORT)
    with pytest.raises(ProducerFenced, match="taken over"):
        await store.put(PORT)

    assert paused == [1]
    assert log.commits == []


async def test_a_successor_is_noticed_without_writing(store, log):
    noticed = asyncio.Event()
    store.on_fenced = noticed.set
    log.take_over("other")

    await asyncio.wait_for(noticed.wait(), 5)

    with pytest.raises(ProducerFenced):
        await store.put(PORT)


async def cancelled_in_its_commit(store, log, commit):
    """Put PORT; its caller goes away while `commit` is under way."""
    entered, go_on = asyncio.Event(), asyncio.Event()

    async def slow(changes, still):
        entered.set()
        await asyncio.wait_for(go_on.wait(), 5)
        return await commit(changes, still)

    kept, log.commit = log.commit, slow
    task = asyncio.create_task(store.put(PORT))
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go_on.set()
    log.commit = kept


async def test_a_cancelled_caller_does_not_lose_the_commit(store, log):
    await cancelled_in_its_commit(store, log, log.commit)
    await store.put(LINK)  # waits for the write before

    assert store.ports == {1: PORT}


async def test_a_failure_whose_caller_has_gone_is_one_line_in_the_log(store, log, caplog):
    async def paused(_changes, still):
        raise ProducerFenced("another lockgate process has taken over")

    await cancelled_in_its_commit(store, log, paused)
    with pytest.raises(ProducerFenced):
        await store.put(LINK)
    gc.collect()  # which is when an exception that nobody took is told, with its traceback

    assert [record.message for record in caplog.records if record.levelname != "INFO"] == [
        "a write whose caller has gone: another lockgate process has taken over"
    ]


async def test_an_unreadable_record_stops_the_start(log):
    log.kept["link/l"] = b"{"

    with pytest.raises(StateFormatError, match="link/l"):
        await store_on(log).open()


async def test_a_kind_of_record_from_the_future_is_left_alone(log):
    log.kept["lease/x"] = b"?"
    store = store_on(log)
    await store.open()

    assert not store.links
    await store.close()


async def test_insert_writes_only_where_there_is_nothing(store, log):
    await store.insert(PORT)
    with pytest.raises(StoreConflict, match="port/1 was made by another operation"):
        await store.insert(PortRecord(2, 9294), PortRecord(1, 9999))
    assert dict(store.ports) == {1: PORT}


async def test_an_insert_whose_first_outcome_was_unknown_does_not_write_over_what_came_of_it(store, log):
    log.failures = [StoreUncertain("no answer")]
    with pytest.raises(StoreUncertain):
        await store.insert(PORT)
    with pytest.raises(StoreConflict):
        await store.insert(PortRecord(1, 9999))
    assert dict(store.ports) == {1: PORT}


async def test_delete_deletes_only_what_was_read(store):
    await store.put(PORT)
    await store.put(PortRecord(1, 9999))
    with pytest.raises(StoreConflict, match="port/1 was changed"):
        await store.delete(PORT)
    assert dict(store.ports) == {1: PortRecord(1, 9999)}


async def test_replace_asks_the_guard_too(store):
    await store.put(PORT)

    def refuse() -> None:
        raise StoreConflict("too late")

    with pytest.raises(StoreConflict, match="too late"):
        await store.replace(PORT, PortRecord(1, 9999), refuse)
    assert dict(store.ports) == {1: PORT}


async def test_settled_asks_only_when_something_is_unknown(store, log):
    calls = []
    resolve_outcome = log.resolve_outcome

    async def counted() -> int:
        calls.append(1)
        offset: int = await resolve_outcome()
        return offset

    log.resolve_outcome = counted
    await store.outcome_known()
    log.failures = [StoreUncertain("no answer")]
    with pytest.raises(StoreUncertain):
        await store.put(PORT)
    assert not calls
    await store.outcome_known()
    await store.outcome_known()
    assert calls == [1]
    assert dict(store.ports) == {1: PORT}


async def test_records_that_are_read_in_one_go_were_changed_each_at_its_own_offset(log):
    for key, record in (("port/1", PORT), ("mirror/l/t", MIRROR), ("port/2", PortRecord(2, 9294))):
        log.kept[key] = encode(record)
    made = store_on(log)
    await made.open()
    assert [made.changed_at(key) for key in ("port/1", "mirror/l/t", "port/2")] == [1, 2, 3]
    assert (made.mirrors_grown_at, made.applied) == (2, 3)
    assert made.changed_at("port/3") == -1
    await made.close()


async def test_a_mirror_more_is_one_that_was_not_there_or_is_another_topics(store):
    await store.put(MIRROR)
    grown = store.mirrors_grown_at
    assert grown == store.applied
    await store.put(replace(MIRROR, state=MirrorState.PAUSED), PORT)
    assert store.mirrors_grown_at == grown
    await store.put(replace(MIRROR, source_topic="u"))
    assert store.mirrors_grown_at == store.applied
    await store.delete(store.mirrors["l", "t"])
    await store.put(MIRROR)
    assert store.mirrors_grown_at == store.applied


async def test_a_mirror_more_is_one_of_its_link_alone(store):
    await store.put(MIRROR)
    grown = store.applied
    await store.put(replace(MIRROR, link="other", mirror_topic="u"))
    assert (store.grown_at_of("l"), store.grown_at_of("other")) == (grown, store.applied)
    assert store.mirrors_grown_at == store.applied
    assert store.grown_at_of("elsewhere") == -1


async def test_an_id_is_given_out_once_even_when_nobody_answered(store, log):
    await store.put(SequenceRecord("mirror", 4))
    log.failures = [StoreUncertain("no answer")]
    with pytest.raises(StoreUncertain):
        await store.put(replace(MIRROR, mirror_id=5), SequenceRecord("mirror", 5))
    with pytest.raises(StoreConflict, match="mirror id 5 was given out meanwhile"):
        await store.put(replace(MIRROR, mirror_topic="u", mirror_id=5), SequenceRecord("mirror", 5))
    assert [mirror.mirror_topic for mirror in store.mirrors.values()] == ["t"]
    await store.put(replace(MIRROR, mirror_topic="u", mirror_id=6), SequenceRecord("mirror", 6))


async def test_no_state_of_a_mirror_is_written_that_its_table_does_not_lead_to(store, log):
    stopped = replace(MIRROR, state=MirrorState.STOPPED)
    with pytest.raises(NoSuchTransition, match="would be created STOPPED"):
        await store.put(stopped)
    await store.put(MIRROR)
    await store.replace(MIRROR, stopped)
    commits = len(log.commits)
    for write in (store.put(MIRROR, PORT), store.replace(stopped, replace(MIRROR, state=MirrorState.PAUSED))):
        with pytest.raises(NoSuchTransition, match="is STOPPED FORWARD, and nothing leads from there to"):
            await write
    assert len(log.commits) == commits
    assert store.mirrors["l", "t"] == stopped


def made(number: int) -> tuple[MirrorRecord, SequenceRecord]:
    """What a create stores of its mirror."""
    return replace(MIRROR, source_topic=f"t{number}", mirror_topic=f"t{number}"), SequenceRecord("mirror", number)


async def at_once(store, log, *writes):
    """What became of each of these writes, which all waited for the same turn."""
    with log.held():
        before = asyncio.create_task(store.put(PORT))
        results = asyncio.gather(*writes, return_exceptions=True)
        await wait_until_async(lambda: len(store._waiting) == len(writes))
    await before
    log.commits.pop(0)
    return await results


async def put_together(store, log, *numbers, guards=None):
    """Creates at the same time; what became of each."""
    guards = guards or {}
    writes = [store.put(*made(n), guard=guards.get(n, lambda: None), with_others=True) for n in numbers]
    return await at_once(store, log, *writes)


async def test_writes_that_wait_for_their_turn_are_one_transaction(store, log):
    assert await put_together(store, log, 1, 2, 3) == [None, None, None]
    assert [len(commit) for commit in log.commits] == [6]
    assert [mirror.mirror_topic for mirror in store.mirrors.values()] == ["t1", "t2", "t3"]
    assert store.sequences["mirror"].last == 3


async def test_of_writes_in_one_transaction_one_that_is_refused_keeps_none_of_the_others(store, log):
    def refuse() -> None:
        raise StoreConflict("not this one")

    found = await put_together(store, log, 1, 2, 3, guards={2: refuse})
    assert [type(each) for each in found] == [type(None), StoreConflict, type(None)]
    assert set(store.mirrors) == {("l", "t1"), ("l", "t3")}
    assert [len(commit) for commit in log.commits] == [4]


async def test_a_guard_that_would_not_have_it_at_the_end_stops_its_own_write_alone(store, log):
    asked = 0

    def refuse_at_last() -> None:
        nonlocal asked
        asked += 1
        if asked > 1:
            raise StoreConflict("changed meanwhile")

    found = await put_together(store, log, 1, 2, 3, guards={2: refuse_at_last})
    assert [type(each) for each in found] == [type(None), StoreConflict, type(None)]
    assert set(store.mirrors) == {("l", "t1"), ("l", "t3")}
    assert [len(commit) for commit in log.commits] == [2, 2]


async def test_writes_of_the_same_key_are_not_in_one_transaction(store, log):
    other = replace(MIRROR, source_topic="other")

    def unmirrored() -> None:
        if store.mirror_of("t") is not None:
            raise StoreConflict("mirrored already")

    writes = [store.put(record, guard=unmirrored, with_others=True) for record in (MIRROR, other)]
    found = await at_once(store, log, *writes)
    assert [type(each) for each in found] == [type(None), StoreConflict]
    assert store.mirror_of("t") == MIRROR


async def test_an_id_is_given_out_once_in_one_transaction(store, log):
    record, _ = made(7)
    writes = store.put(*made(5), with_others=True), store.put(record, SequenceRecord("mirror", 5), with_others=True)
    found = await at_once(store, log, *writes)
    assert [type(each) for each in found] == [type(None), StoreConflict]


@pytest.mark.parametrize("failure", [StoreError("no"), StoreUncertain("who knows"), ProducerFenced("another")])
async def test_what_becomes_of_the_transaction_becomes_of_all_in_it(store, log, failure):
    log.failures = [None, failure]
    assert await put_together(store, log, 1, 2) == [failure, failure]
    assert not store.mirrors
    if isinstance(failure, StoreUncertain):
        await store.resolve_outcome()
        assert set(store.mirrors) == {("l", "t1"), ("l", "t2")}


async def test_a_transaction_of_many_writes_is_bounded(store, log):
    assert set(await put_together(store, log, *range(1, 151))) == {None}
    assert [len(commit) for commit in log.commits] == [128, 128, 44]
    assert len(store.mirrors) == 150
