"""What deletes records in the broker model: the log cleaner, retention and DeleteRecords."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.batch.header import crc_is_valid
from protocol.errors import ErrorCode
from protocol.messages import DeleteRecordsRequest
from tests.simulation.kafka.logs.partition import Partition
from tests.support.fakes.model_cluster import NOW_MS, ModelLab, batch_of


def compacted(lab: ModelLab, **configs: str) -> Partition:
    named = {name.replace("_", "."): value for name, value in configs.items()}
    return lab.cluster.create_topic("t", 1, 1, {"cleanup.policy": "compact", **named}).partitions[0]


def shown(lab: ModelLab) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in lab.cluster.records("t", 0) if not record.control]


def test_the_last_record_of_each_key_stays_at_its_offset():
    with ModelLab() as lab:
        partition = compacted(lab)
        lab.produce("t", 0, batch_of(b"1", b"2", b"3", keys=(b"a", b"b", b"c")))
        lab.produce("t", 0, batch_of(b"4", keys=(b"a",)))
        lab.produce("t", 0, batch_of(b"5", b"6", keys=(b"b", b"b")))
        lab.cluster.compact("t")
        assert shown(lab) == [(2, b"c", b"3"), (3, b"a", b"4"), (5, b"b", b"6")]
        headers = [batch.header for batch in partition.best.log.batches]
        assert [(header.base_offset, header.last_offset, header.count) for header in headers] == [
            (0, 2, 1),
            (3, 3, 1),
            (4, 5, 1),
        ]
        assert all(crc_is_valid(memoryview(batch.data), batch.header) for batch in partition.best.log.batches)
        assert lab.cluster.log_range("t", 0) == (0, 6, 6, 6)
        assert lab.produce("t", 0, batch_of(b"7", keys=(b"d",))).base_offset == 6


def test_a_tombstone_goes_after_its_time():
    with ModelLab() as lab:
        compacted(lab, delete_retention_ms="1000")
        lab.produce("t", 0, batch_of(b"1", keys=(b"a",)))
        lab.produce("t", 0, batch_of(None, b"2", keys=(b"a", b"b")))
        lab.cluster.compact("t")
        assert shown(lab) == [(1, b"a", None), (2, b"b", b"2")]
        assert {record.timestamp for record in lab.cluster.records("t", 0)} == {NOW_MS}
        lab.sleep(0.5)
        lab.cluster.compact("t")
        assert len(shown(lab)) == 2
        lab.sleep(1)
        lab.cluster.compact("t")
        assert shown(lab) == [(2, b"b", b"2")]
        assert lab.cluster.records("t", 0)[0].timestamp == NOW_MS


def test_the_last_batch_of_a_producer_stays_empty():
    with ModelLab() as lab:
        partition = compacted(lab)
        lab.produce("t", 0, batch_of(b"1", producer_id=5, epoch=0, sequence=0))
        lab.produce("t", 0, batch_of(b"2", producer_id=5, epoch=0, sequence=1))
        lab.produce("t", 0, batch_of(b"3"))
        lab.cluster.compact("t")
        log = partition.best.log
        assert [(batch.header.base_offset, batch.header.count) for batch in log.batches] == [(1, 0), (2, 1)]
        assert (log.batches[0].header.producer_id, log.batches[0].header.base_sequence) == (5, 1)
        log.reload_producers()
        again = lab.produce("t", 0, batch_of(b"2", producer_id=5, epoch=0, sequence=1))
        assert (again.error_code, again.base_offset) == (0, 1)


def test_aborted_records_go_and_what_follows_an_open_transaction_is_left_alone():
    with ModelLab() as lab:
        partition = compacted(lab, delete_retention_ms="1000")
        log = partition.best.log

        def begin(producer_id: int) -> None:
            name = b"%d" % producer_id
            batch = batch_of(name, keys=(name,), producer_id=producer_id, epoch=0, sequence=0, transactional=True)
            partition.append(partition.best, batch)

        def end(producer_id: int, commit: bool) -> None:
            assert partition.append_marker(producer_id, 0, commit, 0) == ErrorCode.NONE

        begin(1)
        begin(2)
        end(1, commit=False)
        end(2, commit=True)
        begin(3)
        begin(4)
        end(4, commit=False)
        lab.cluster.compact("t")
        assert [value for _, _, value in shown(lab)] == [b"2", b"3", b"4"]
        assert partition.ongoing(3) == log.last_stable_offset == 4
        assert [record.value for record in lab.cluster.records("t", 0, committed_only=True)] == [b"2"]
        assert log.producers.aborted_between(0, log.end) == [(1, 0), (4, 5)]
        end(3, commit=True)
        lab.produce("t", 0, batch_of(b"x", keys=(b"2",)))
        for _ in range(3):
            lab.cluster.compact("t")
            lab.sleep(2)
        assert [value for _, _, value in shown(lab)] == [b"3", b"x"]
        assert log.producers.aborted_between(0, log.end) == [(1, 0), (4, 5)], "their producers are still known"
        log.expire_producers(NOW_MS + 10**9, 1000)
        for _ in range(3):
            lab.cluster.compact("t")
            lab.sleep(2)
        assert log.producers.aborted_between(0, log.end) == []
        assert [batch.header.count for batch in log.batches] == [1, 1, 1], "the two records, and one marker"


WRITES = st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c", b"d"]), st.booleans(), st.booleans()), max_size=25)


@settings(max_examples=40, deadline=None)
@given(WRITES)
def test_a_compacted_log_says_the_same(writes: list[tuple[bytes, bool, bool]]):
    """Reading it from the start gives the same value for every key, and nothing moved."""
    with ModelLab() as lab:
        compacted(lab)
        for number, (key, is_tombstone, cleans) in enumerate(writes):
            lab.produce("t", 0, batch_of(None if is_tombstone else b"%d" % number, keys=(key,)))
            before = {record.offset: record for record in lab.cluster.records("t", 0)}
            table = {record.key: record.value for record in before.values()}
            ranges = lab.cluster.log_range("t", 0)
            if cleans:
                lab.cluster.compact("t")
            after = lab.cluster.records("t", 0)
            assert {record.key: record.value for record in after} == table
            assert all(before[record.offset] == record for record in after)
            assert lab.cluster.log_range("t", 0) == ranges


def test_retention_takes_whole_segments_by_age_and_size():
    with ModelLab() as lab:
        configs = {"segment.bytes": "150", "retention.ms": "10000"}
        log = lab.cluster.create_topic("t", 1, 1, configs).partitions[0].best.log
        for _ in range(6):
            lab.produce("t", 0, batch_of(b"x", timestamp_ms=lab.cluster.wall_ms()))
            lab.sleep(2)
        assert [segment.base for segment in log.segments] == [0, 2, 4]
        lab.cluster.retain("t")
        assert log.start == 0
        lab.sleep(2)
        lab.cluster.retain("t")
        assert log.start == 2
        lab.cluster.configure_topic("t", {"retention.ms": "-1", "retention.bytes": "140"})
        lab.cluster.retain("t")
        assert (log.start, len(log.batches)) == (4, 2)
        lab.cluster.configure_topic("t", {"retention.ms": "1"})
        lab.cluster.retain("t")
        assert lab.cluster.log_range("t", 0) == (6, 6, 6, 6), "the active segment goes, too"
        assert lab.produce("t", 0, batch_of(b"y")).base_offset == 6


def test_delete_records_moves_the_log_start_on_all_replicas():
    with ModelLab(brokers=2) as lab:
        partition = lab.cluster.create_topic("t", 1, 2, assignments=[[1, 2]]).partitions[0]
        lab.sleep(1)
        lab.produce("t", 0, batch_of(b"a", b"b"))
        lab.produce("t", 0, batch_of(b"c"))
        assert partition.delete_records(4) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
        assert partition.delete_records(1) == (ErrorCode.NONE, 1)
        assert [record.offset for record in lab.cluster.records("t", 0)] == [1, 2]
        lab.sleep(1)
        assert partition.replicas[2].log.start == 1
        assert partition.delete_records(-1) == (ErrorCode.NONE, 3)
        lab.cluster.configure_topic("t", {"cleanup.policy": "compact"})
        assert partition.delete_records(-1) == (ErrorCode.POLICY_VIOLATION, -1)


def test_delete_records_is_answered_when_every_live_replica_has_done_it():
    with ModelLab(brokers=2) as lab:
        lab.cluster.create_topic("t", 1, 2, assignments=[[1, 2]])
        lab.sleep(1)
        lab.produce("t", 0, batch_of(b"a", b"b"))
        lab.sleep(1)
        kind = DeleteRecordsRequest.DeleteRecordsTopic

        def delete(before: int, timeout_ms: int) -> tuple[int, float]:
            started = lab.loop.time()
            part = kind.DeleteRecordsPartition(partition_index=0, offset=before)
            request = DeleteRecordsRequest(topics=[kind(name="t", partitions=[part])], timeout_ms=timeout_ms)
            return lab.ask(request, 2).topics[0].partitions[0].error_code, lab.loop.time() - started

        code, took = delete(1, 5000)
        assert (code, lab.cluster.partition("t", 0).replicas[2].log.start) == (0, 1)
        assert 0 < took < 1
        lab.cluster.lag_followers("t", 0, 10)
        code, took = delete(2, 2000)
        assert code == ErrorCode.REQUEST_TIMED_OUT
        assert took >= 2
        lab.cluster.kill_broker(2)
        lab.sleep(12)
        assert delete(2, 2000)[0] == 0


def test_producers_stay_known_when_their_records_are_deleted():
    with ModelLab() as lab:
        partition = lab.cluster.create_topic("t").partitions[0]
        lab.produce("t", 0, batch_of(b"a", producer_id=5, epoch=0, sequence=0))
        partition.delete_records(-1)
        assert [producer.producer_id for producer in partition.producers()] == [5]
        refused = lab.produce("t", 0, batch_of(b"b", producer_id=5, epoch=0, sequence=3))
        assert refused.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
