"""Produce on the broker model: what is appended, what is refused, and with which answer."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.batch.header import crc_is_valid, read_batch_header
from protocol.errors import ErrorCode
from tests.simulation.kafka.broker import CloseConnection
from tests.simulation.kafka.topics import Topic
from tests.support.fakes.model_cluster import NOW_MS, ModelLab, batch_of
from tests.support.mirror.batches import make_batch

LAST_SEQUENCE = 2**31 - 1


def lab_with(brokers: int = 1, replicas: int = 1, **configs: str) -> tuple[ModelLab, Topic]:
    lab = ModelLab(brokers=brokers)
    named = {name.replace("_", "."): value for name, value in configs.items()}
    topic = lab.cluster.create_topic("t", 1, replicas, named, assignments=[list(range(1, replicas + 1))])
    lab.sleep(1)
    return lab, topic


def test_base_offset_and_leader_epoch_are_stamped_and_the_checksum_stays():
    lab, topic = lab_with()
    with lab:
        sent = batch_of(b"a", b"b")
        assert lab.produce("t", 0, sent).base_offset == 0
        answer = lab.produce("t", 0, sent)
        assert (answer.error_code, answer.base_offset, answer.log_append_time_ms, answer.log_start_offset) == (
            0,
            2,
            -1,
            0,
        )
        batch = topic.partitions[0].best.log.batches[1]
        header = read_batch_header(batch.data)
        assert (header.base_offset, header.partition_leader_epoch) == (2, 0)
        assert header.crc == read_batch_header(sent).crc
        assert batch.data[21:] == sent[21:]


def test_log_append_time_is_written_with_a_new_checksum():
    lab, topic = lab_with(message_timestamp_type="LogAppendTime")
    with lab:
        answer = lab.produce("t", 0, batch_of(b"a", timestamp_ms=5))
        batch = topic.partitions[0].best.log.batches[0]
        assert answer.log_append_time_ms == batch.header.max_timestamp == lab.cluster.wall_ms()
        assert batch.header.is_log_append_time
        assert crc_is_valid(memoryview(batch.data), batch.header)
        assert lab.cluster.records("t", 0)[0].timestamp == batch.header.max_timestamp


def test_a_broker_stamps_records_when_it_has_heard_of_it_which_is_after_the_controllers_answer():
    lab, topic = lab_with()
    with lab:
        lab.cluster.alter_topic("t", {"message.timestamp.type": "LogAppendTime"})
        lab.produce("t", 0, batch_of(b"a", timestamp_ms=5))
        lab.sleep(1)
        lab.produce("t", 0, batch_of(b"b", timestamp_ms=5))
        assert [batch.header.is_log_append_time for batch in topic.partitions[0].best.log.batches] == [False, True]


@pytest.mark.parametrize(
    ("batch", "error", "log_start"),
    [
        (batch_of(b"x" * 2000), ErrorCode.MESSAGE_TOO_LARGE, -1),
        (batch_of(b"a")[:-1] + b"!", ErrorCode.CORRUPT_MESSAGE, -1),
        (batch_of(b"a") + batch_of(b"b"), ErrorCode.INVALID_RECORD, -1),
        (b"", ErrorCode.INVALID_RECORD, -1),
        (make_batch(3, 1), ErrorCode.INVALID_RECORD, 0),
        (make_batch(0, 2, last_offset_delta=0), ErrorCode.INVALID_RECORD, 0),
        (make_batch(0, 1, attributes=0x20), ErrorCode.INVALID_RECORD, 0),
        (make_batch(0, 1, producer_id=1, epoch=0, sequence=-1), ErrorCode.INVALID_RECORD, 0),
    ],
)
def test_what_is_no_good_batch_is_refused(batch: bytes, error: ErrorCode, log_start: int):
    lab, _ = lab_with(max_message_bytes="1000")
    with lab:
        answer = lab.produce("t", 0, batch)
        assert (ErrorCode(answer.error_code), answer.base_offset) == (error, -1)
        assert answer.log_start_offset == log_start
        assert lab.cluster.log_range("t", 0) == (0, 0, 0, 0)


@pytest.mark.parametrize("before", ["3000", None])
@pytest.mark.parametrize(("off_ms", "ok"), [(-4000, False), (-2900, True), (900, True), (2000, False)])
def test_timestamps_must_lie_within_the_limits(off_ms: int, ok: bool, before: str | None):
    limits: dict[str, Any] = {"message_timestamp_after_max_ms": "1000"}
    if before is not None:
        limits["message_timestamp_before_max_ms"] = before
    lab, _ = lab_with(**limits)
    with lab:
        answer = lab.produce("t", 0, batch_of(b"a", timestamp_ms=lab.cluster.wall_ms() + off_ms))
        ok = ok or (before is None and off_ms < 0)
        assert answer.error_code == (0 if ok else ErrorCode.INVALID_TIMESTAMP)
        assert [entry.batch_index for entry in answer.record_errors] == ([] if ok else [0])
        assert answer.log_start_offset == 0


def test_a_compacted_topic_wants_keys():
    lab, _ = lab_with(cleanup_policy="compact")
    with lab:
        answer = lab.produce("t", 0, batch_of(b"a", b"b", keys=(b"k", None)))
        assert answer.error_code == ErrorCode.INVALID_RECORD
        assert [entry.batch_index for entry in answer.record_errors] == [1]


def test_a_topic_or_leader_that_is_not_here():
    lab, _ = lab_with(brokers=2)
    with lab:
        assert lab.produce("u", 0, batch_of(b"a")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert lab.produce("t", 1, batch_of(b"a")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert lab.produce("t", 0, batch_of(b"a"), broker=2).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        answer = lab.produce("t", 0, batch_of(b"a"), broker=2, version=11)
        assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (1, 0)


def test_acks_0_has_no_answer_and_an_error_closes_the_connection():
    lab, _ = lab_with()
    with lab:
        assert lab.produce("t", 0, batch_of(b"a"), acks=0) is None
        with pytest.raises(CloseConnection, match="acks=0"):
            lab.produce("u", 0, batch_of(b"a"), acks=0)
        assert lab.cluster.brokers[1].refused
        assert lab.produce("t", 0, batch_of(b"a"), acks=2).error_code == ErrorCode.INVALID_REQUIRED_ACKS


def test_acks_all_waits_for_the_isr_and_times_out():
    lab, topic = lab_with(brokers=2, replicas=2)
    with lab:
        before = lab.loop.time()
        assert lab.produce("t", 0, batch_of(b"a")).error_code == 0
        assert 0 < lab.loop.time() - before < 0.1
        lab.cluster.lag_followers("t", 0, 5)
        answer = lab.produce("t", 0, batch_of(b"b"), timeout_ms=1000)
        assert (answer.error_code, answer.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, 1)
        assert lab.cluster.log_range("t", 0) == (0, 2, 1, 1)
        assert lab.produce("t", 0, batch_of(b"c"), acks=1).error_code == 0
        lab.sleep(6)
        assert lab.cluster.log_range("t", 0) == (0, 3, 3, 3)
        assert topic.partitions[0].state.isr == (1, 2)


def test_too_few_in_sync_replicas():
    lab, topic = lab_with(brokers=2, replicas=2, min_insync_replicas="2")
    with lab:
        lab.cluster.kill_broker(2)
        waiting = lab.loop.create_task(lab.produced("t", 0, batch_of(b"a")), name="waits")
        lab.sleep(10)
        assert topic.partitions[0].state.isr == (1,)
        assert not waiting.done(), "the high watermark does not move below min.insync.replicas"
        refused = lab.produce("t", 0, batch_of(b"b"))
        assert (refused.error_code, refused.log_start_offset) == (ErrorCode.NOT_ENOUGH_REPLICAS, 0)
        assert lab.produce("t", 0, batch_of(b"c"), acks=1).error_code == 0
        lab.run(lab.cluster.start_broker(2))
        assert lab.run(waiting).error_code == 0
        assert lab.cluster.log_range("t", 0) == (0, 2, 2, 2)


def test_a_leader_that_moved_answers_who_waits():
    lab, _ = lab_with(brokers=2, replicas=2)
    with lab:
        lab.cluster.lag_followers("t", 0, 5)
        waiting = lab.loop.create_task(lab.produced("t", 0, batch_of(b"a")), name="waits")
        lab.sleep(0.1)
        assert lab.cluster.move_leader("t", 0, to=2) == 2
        assert lab.run(waiting).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        lab.sleep(6)
        assert lab.cluster.records("t", 0) == []
        assert lab.produce("t", 0, batch_of(b"b"), broker=2).base_offset == 0


# -- idempotence --------------------------------------------------------------------------------------------------


def test_a_duplicate_within_the_last_five_is_answered_with_its_offset():
    lab, _ = lab_with()
    with lab:
        for sequence in range(6):
            assert (
                lab.produce("t", 0, batch_of(b"v", producer_id=7, epoch=0, sequence=sequence)).base_offset == sequence
            )
        for sequence in range(1, 6):
            again = lab.produce("t", 0, batch_of(b"v", producer_id=7, epoch=0, sequence=sequence))
            assert (again.error_code, again.base_offset, again.log_append_time_ms) == (0, sequence, NOW_MS)
        forgotten = lab.produce("t", 0, batch_of(b"v", producer_id=7, epoch=0, sequence=0))
        assert forgotten.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert lab.cluster.log_range("t", 0) == (0, 6, 6, 6)


def test_an_unknown_producer_begins_anywhere_and_sequences_wrap():
    lab, _ = lab_with()
    with lab:
        first = batch_of(b"a", b"b", producer_id=7, epoch=3, sequence=LAST_SEQUENCE - 1)
        assert lab.produce("t", 0, first).error_code == 0
        assert lab.produce("t", 0, batch_of(b"c", producer_id=7, epoch=3, sequence=0)).base_offset == 2
        assert lab.produce("t", 0, first).base_offset == 0
        wraps = batch_of(b"d", b"e", producer_id=8, epoch=0, sequence=LAST_SEQUENCE)
        assert lab.produce("t", 0, wraps).error_code == 0
        assert lab.produce("t", 0, batch_of(b"f", producer_id=8, epoch=0, sequence=1)).error_code == 0
        assert lab.produce("t", 0, wraps).base_offset == 3


@pytest.mark.parametrize(
    ("epoch", "sequence", "error"),
    [
        (1, 1, ErrorCode.NONE),
        (1, 2, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (0, 1, ErrorCode.INVALID_PRODUCER_EPOCH),
        (2, 0, ErrorCode.NONE),
        (2, 1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ],
)
def test_sequences_and_epochs_of_a_known_producer(epoch: int, sequence: int, error: ErrorCode):
    lab, _ = lab_with()
    with lab:
        lab.produce("t", 0, batch_of(b"a", producer_id=7, epoch=1, sequence=0))
        answer = lab.produce("t", 0, batch_of(b"b", producer_id=7, epoch=epoch, sequence=sequence))
        assert (answer.error_code, answer.log_start_offset) == (error, 0)


def test_a_producer_is_forgotten_after_its_time():
    lab = ModelLab(configs={"producer.id.expiration.ms": "60000", "producer.id.expiration.check.interval.ms": "1000"})
    with lab:
        lab.cluster.create_topic("t")
        lab.run(lab.cluster.start())
        lab.produce("t", 0, batch_of(b"a", producer_id=7, epoch=0, sequence=0))
        lab.sleep(30)
        refused = lab.produce("t", 0, batch_of(b"b", producer_id=7, epoch=0, sequence=5))
        assert refused.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        lab.sleep(40)
        assert lab.produce("t", 0, batch_of(b"b", producer_id=7, epoch=0, sequence=5)).error_code == 0


@pytest.mark.parametrize(("in_order", "known"), [(True, False), (False, True)])
def test_what_a_broker_knows_of_a_producer_after_a_restart(in_order: bool, known: bool):
    """A clean stop leaves a snapshot with the last batch alone; after a crash the log itself is read."""
    lab, _ = lab_with(brokers=2, replicas=1)
    with lab:
        for sequence in range(3):
            lab.produce("t", 0, batch_of(b"v", producer_id=7, epoch=0, sequence=sequence))
        if in_order:
            lab.run(lab.cluster.stop_broker(1))
        else:
            lab.cluster.kill_broker(1)
        lab.sleep(12)
        lab.run(lab.cluster.start_broker(1))
        lab.sleep(1)
        assert lab.produce("t", 0, batch_of(b"v", producer_id=7, epoch=0, sequence=2)).base_offset == 2
        older = lab.produce("t", 0, batch_of(b"v", producer_id=7, epoch=0, sequence=1))
        assert (older.base_offset == 1) is known
        assert known or older.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["next", "next", "again", "skip", "pause_writes", "move"]),
        st.integers(0, 1),  # producer
        st.integers(1, 3),  # records of a new batch
        st.integers(0, 6),  # how far back
    ),
    max_size=30,
)


@settings(max_examples=25, deadline=None)
@given(ACTIONS)
def test_each_sequence_is_in_the_log_once_and_in_order(actions: list[tuple[str, int, int, int]]):
    """Whatever is resent, skipped or fenced, on whichever leader: every record is there once, and in order."""
    lab, topic = lab_with(brokers=2, replicas=2)
    with lab:
        sent: dict[int, list[tuple[int, int, int]]] = {0: [], 1: []}  # (sequence, records, offset) of this epoch
        epochs = {0: 0, 1: 0}
        for action, producer, count, back in actions:
            known = sent[producer]
            following = known[-1][0] + known[-1][1] if known else 0
            partition = topic.partitions[0]
            if action == "move":
                lab.sleep(0.2)
                lab.cluster.move_leader("t", 0)
                lab.sleep(0.2)
                continue
            if action == "pause_writes":
                epochs[producer] += 1
                known.clear()
                following = 0
            sequence, expected, offset = following, ErrorCode.NONE, -1
            if action == "skip" and (known or epochs[producer]):
                sequence, expected = following + 1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            again = action == "again" and back < len(known)
            if again:
                sequence, count, offset = known[-1 - back]
                expected = ErrorCode.NONE if back < 5 else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            values = [b"%d" % (sequence + n) for n in range(count)]
            batch = batch_of(*values, producer_id=producer, epoch=epochs[producer], sequence=sequence)
            answer = lab.produce("t", 0, batch, broker=partition.leader_id)
            assert answer.error_code == expected, (action, producer, sequence)
            if expected == ErrorCode.NONE and again:
                assert answer.base_offset == offset
            elif expected == ErrorCode.NONE:
                known.append((sequence, count, answer.base_offset))
        seen: dict[tuple[int, int], int] = {}
        for record in lab.cluster.records("t", 0):
            key = (record.producer_id, record.producer_epoch)
            assert record.sequence == seen.get(key, 0) == int(record.value or b"-1")
            seen[key] = record.sequence + 1
