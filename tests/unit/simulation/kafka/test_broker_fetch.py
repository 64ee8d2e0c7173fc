"""Fetch on the broker model: limits, isolation, the long poll, and incremental sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest

from protocol.batch.header import iter_batches
from protocol.errors import ErrorCode
from tests.support.fakes.model_cluster import ModelLab, batch_of, fetch_request, values_in


def lab_with(*topics: str, configs: Mapping[str, str] | None = None) -> ModelLab:
    lab = ModelLab(configs=configs)
    for name in topics:
        lab.cluster.create_topic(name)
    return lab


def part_of(answer: Any, index: int = 0) -> Any:
    return answer.responses[index].partitions[0]


def later(lab: ModelLab, request: Any, version: int = 12) -> asyncio.Task[Any]:
    return lab.loop.create_task(lab.asked(request, version), name="reader")


@pytest.mark.parametrize("version", [4, 5, 7, 9, 11, 12, 13, 15, 17, 18])
def test_every_version_has_the_records(version: int):
    with lab_with("t") as lab:
        lab.produce("t", 0, batch_of(b"a", b"b"))
        ids = {"t": lab.cluster.topics["t"].id}
        part = part_of(lab.ask(fetch_request({("t", 0): 1}, ids=ids), version))
        assert (part.error_code, part.high_watermark, part.last_stable_offset) == (0, 2, 2)
        assert values_in(part.records) == [b"a", b"b"], "the batch that has the offset comes whole"
        assert part.aborted_transactions is None


def test_offsets_out_of_range_and_unknown_partitions():
    with lab_with("t") as lab:
        lab.produce("t", 0, batch_of(b"a"))
        assert part_of(lab.ask(fetch_request({("t", 0): 1}), 12)).records == b""
        part = part_of(lab.ask(fetch_request({("t", 0): 2}), 12))
        assert (part.error_code, part.high_watermark, part.log_start_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1, -1)
        assert lab.cluster.partition("t", 0).delete_records(1) == (ErrorCode.NONE, 1)
        assert part_of(lab.ask(fetch_request({("t", 0): 0}), 12)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        unknown = part_of(lab.ask(fetch_request({("u", 0): 0}), 12))
        assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        by_id = part_of(lab.ask(fetch_request({("u", 0): 0}, ids={"u": UUID(int=1)}), 13))
        assert by_id.error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_limits_cut_the_answer_but_the_first_batch_comes_whole():
    with lab_with("a", "b") as lab:
        for topic in ("a", "b"):
            for _ in range(3):
                lab.produce(topic, 0, batch_of(b"x" * 100))
        size = lab.cluster.partition("a", 0).best.log.batches[0].size
        answer = lab.ask(fetch_request({("a", 0): 0, ("b", 0): 0}, max_bytes=1), 12)
        assert [len(part_of(answer, at).records) for at in (0, 1)] == [size, 0]
        answer = lab.ask(fetch_request({("a", 0): 0, ("b", 0): 0}, partition_max_bytes=size + 20), 12)
        assert [len(part_of(answer, at).records) for at in (0, 1)] == [size + 20, size + 20]
        assert len(list(iter_batches(memoryview(part_of(answer).records)))) == 1, "the second one is cut off"


def test_the_long_poll_ends_with_an_append_or_in_time():
    with lab_with("t") as lab:
        start = lab.loop.time()
        waiting = later(lab, fetch_request({("t", 0): 0}, max_wait_ms=500))
        lab.sleep(0.2)
        lab.produce("t", 0, batch_of(b"a"))
        assert values_in(part_of(lab.run(waiting)).records) == [b"a"]
        assert lab.loop.time() - start == pytest.approx(0.2)
        assert part_of(lab.run(later(lab, fetch_request({("t", 0): 1}, max_wait_ms=500)))).records == b""
        assert lab.loop.time() - start == pytest.approx(0.7)
        waiting = later(lab, fetch_request({("t", 0): 1}, max_wait_ms=500, min_bytes=150))
        lab.produce("t", 0, batch_of(b"b"))
        lab.sleep(0.1)
        assert not waiting.done()
        lab.produce("t", 0, batch_of(b"c" * 100))
        assert values_in(part_of(lab.run(waiting)).records) == [b"b", b"c" * 100]
        assert not lab.cluster.partition("t", 0).best.readers


def test_a_topic_that_is_deleted_ends_the_long_poll():
    with lab_with("t") as lab:
        waiting = later(lab, fetch_request({("t", 0): 0}, max_wait_ms=60_000))
        lab.sleep(0.1)
        lab.cluster.delete_topic("t")
        assert part_of(lab.run(waiting)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def transactional(lab: ModelLab, value: bytes, producer_id: int, sequence: int = 0) -> int:
    batch = batch_of(value, producer_id=producer_id, epoch=0, sequence=sequence, transactional=True)
    error, offset = 0, -1
    if lab.cluster.partition("t", 0).leader is not None:
        partition = lab.cluster.partition("t", 0)
        offset = partition.append(partition.best, batch).header.base_offset
    assert error == 0
    return offset


def test_readers_of_committed_records_stop_at_the_first_open_transaction():
    with lab_with("t") as lab:
        partition = lab.cluster.partition("t", 0)
        transactional(lab, b"a", 1)
        transactional(lab, b"b", 2)
        lab.produce("t", 0, batch_of(b"c"))
        assert lab.cluster.log_range("t", 0) == (0, 3, 3, 0)
        assert partition.ongoing(1) == 0
        assert partition.append_marker(2, 0, commit=False, coordinator_epoch=0) == ErrorCode.NONE
        assert lab.cluster.log_range("t", 0) == (0, 4, 4, 0)
        waiting = later(lab, fetch_request({("t", 0): 0}, committed=True, max_wait_ms=500))
        lab.sleep(0.1)
        assert partition.append_marker(1, 0, commit=True, coordinator_epoch=0) == ErrorCode.NONE
        part = part_of(lab.run(waiting))
        assert (part.last_stable_offset, values_in(part.records)) == (5, [b"a", b"b", b"c"])
        aborted = [(entry.producer_id, entry.first_offset) for entry in part.aborted_transactions]
        assert aborted == [(2, 1)]
        assert [record.value for record in lab.cluster.records("t", 0, committed_only=True)] == [b"a", b"c"]
        assert partition.ongoing(1) is None
        assert partition.append_marker(1, -1, True, 0) == ErrorCode.INVALID_PRODUCER_EPOCH
        assert partition.append_marker(1, 0, True, -1) == ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_a_marker_stays_unseen_until_it_is_in_all_of_the_isr():
    with ModelLab(brokers=2) as lab:
        lab.cluster.create_topic("t", 1, 2, assignments=[[1, 2]])
        lab.sleep(1)
        transactional(lab, b"a", 1)
        lab.sleep(1)
        lab.cluster.lag_followers("t", 0, 5)
        lab.cluster.partition("t", 0).append_marker(1, 0, True, 0)
        assert lab.cluster.log_range("t", 0) == (0, 2, 1, 0)
        lab.sleep(6)
        assert lab.cluster.log_range("t", 0) == (0, 2, 2, 2)


# -- sessions (KIP-227) -------------------------------------------------------------------------------------------


def test_a_session_answers_only_what_is_new():
    with lab_with("a", "b") as lab:
        opened = lab.ask(fetch_request({("a", 0): 0, ("b", 0): 0}, session=(0, 0)), 12)
        assert opened.session_id > 0
        assert len(opened.responses) == 2
        nothing = lab.ask(fetch_request({}, session=(opened.session_id, 1)), 12)
        assert (nothing.error_code, nothing.responses) == (0, [])
        lab.produce("b", 0, batch_of(b"x"))
        one = lab.ask(fetch_request({}, session=(opened.session_id, 2)), 12)
        assert [topic.topic for topic in one.responses] == ["b"]
        again = lab.ask(fetch_request({}, session=(opened.session_id, 3)), 12)
        assert values_in(part_of(again).records) == [b"x"], "the offset has not moved"
        moved = lab.ask(fetch_request({("b", 0): 1}, session=(opened.session_id, 4)), 12)
        assert moved.responses == []
        forgets = fetch_request({}, session=(opened.session_id, 5), forget={"b": [0]})
        lab.produce("b", 0, batch_of(b"y"))
        assert lab.ask(forgets, 12).responses == []


def test_sessions_are_checked_and_closed():
    with lab_with("t") as lab:
        opened = lab.ask(fetch_request({("t", 0): 0}, session=(0, 0)), 12).session_id
        wrong = lab.ask(fetch_request({}, session=(opened, 2)), 12)
        assert (wrong.error_code, wrong.session_id) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0)
        assert (
            lab.ask(fetch_request({}, session=(opened + 1, 1)), 12).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        )
        by_id = fetch_request({}, session=(opened, 1))
        assert lab.ask(by_id, 13).error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        assert lab.ask(fetch_request({("t", 0): 0}, session=(opened, -1)), 12).session_id == 0
        assert lab.ask(fetch_request({}, session=(opened, 1)), 12).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        empty = lab.ask(fetch_request({("t", 0): 0}, session=(0, 0)), 12).session_id
        assert lab.ask(fetch_request({}, session=(empty, 1), forget={"t": [0]}), 12).session_id == 0


def test_a_full_cache_evicts_what_is_old():
    with lab_with("t", configs={"max.incremental.fetch.session.cache.slots": "1"}) as lab:
        first = lab.ask(fetch_request({("t", 0): 0}, session=(0, 0)), 12).session_id
        assert lab.ask(fetch_request({("t", 0): 0}, session=(0, 0)), 12).session_id == 0
        lab.sleep(121)
        second = lab.ask(fetch_request({("t", 0): 0}, session=(0, 0)), 12).session_id
        assert second > 0
        assert lab.ask(fetch_request({}, session=(first, 1)), 12).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_ends_with_its_broker():
    with lab_with("t") as lab:
        opened = lab.ask(fetch_request({("t", 0): 0}, session=(0, 0)), 12).session_id
        lab.cluster.kill_broker(1)
        lab.sleep(12)
        lab.run(lab.cluster.start_broker(1))
        lab.sleep(1)
        assert lab.ask(fetch_request({}, session=(opened, 1)), 12).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_topic_made_anew_is_another_for_a_session_by_id():
    with lab_with("t") as lab:
        ids = {"t": lab.cluster.topics["t"].id}
        opened = lab.ask(fetch_request({("t", 0): 0}, ids=ids, session=(0, 0)), 13).session_id
        lab.cluster.delete_topic("t")
        gone = lab.ask(fetch_request({}, session=(opened, 1)), 13)
        assert part_of(gone).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        lab.cluster.create_topic("t")
        other = lab.ask(fetch_request({}, session=(opened, 2)), 13)
        assert part_of(other).error_code == ErrorCode.INCONSISTENT_TOPIC_ID


def test_diverging_epochs_are_told():
    with ModelLab(brokers=2) as lab:
        lab.cluster.create_topic("t", 1, 2, assignments=[[1, 2]])
        lab.sleep(1)
        lab.produce("t", 0, batch_of(b"a"))
        lab.cluster.move_leader("t", 0, to=2)
        lab.sleep(1)
        lab.produce("t", 0, batch_of(b"b"), broker=2)
        part = part_of(lab.ask(fetch_request({("t", 0): 2}, last_epoch=0), 12, broker=2))
        assert (part.diverging_epoch.epoch, part.diverging_epoch.end_offset, part.records) == (0, 1, b"")
