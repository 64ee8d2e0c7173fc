"""What a failover hands over of producers: batches that are on the copy, however many more the mirror has fetched."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from gateway.cutover.failover.ends import known_producers
from gateway.cutover.failover.rules.failover import failed_over
from gateway.cutover.failover.rules.snapshot import CopyEnd, SourceReading
from gateway.mirror.partition.rules.producer_table import by_producer, retry_of
from gateway.state.producer_ids import GATEWAY_PID_BASE
from gateway.state.records import MirrorRecord, PartitionStart
from tests.support.mirror.batches import make_batch
from tests.support.mirror.partition_talk import topic_mirror

RECORD = MirrorRecord(
    link="l", source_topic="t", mirror_topic="t", mirror_id=2, readable=True, starts=(PartitionStart(0, 0),)
)


def batch(base: int) -> bytes:
    """Ten records of one producer, at offsets that are its sequences."""
    return make_batch(base, 10, producer_id=GATEWAY_PID_BASE, epoch=0, sequence=base)


async def test_the_retry_of_a_batch_that_waits_to_be_appended_is_new_after_a_failover() -> None:
    topic = topic_mirror(RECORD)
    runner = topic.add(0)
    runner.begin()
    runner._do(runner.mirror.target_log, 0, 0, None, 0.0)
    runner._do(runner.mirror.source_log, 0, 30, 0.0)
    runner.fetched(memoryview(batch(0) + batch(10) + batch(20)), 30, 0.0)
    first = runner.take()
    assert first is not None
    runner.append_answered(first.base, 0, first.base, "")
    second = runner.take()  # it is on its way, and is answered while the mirror is stopped
    assert second is not None
    engine: Any = SimpleNamespace(partition_ends=lambda record: topic.ends())
    known = known_producers(engine, RECORD)
    runner.append_answered(second.base, 0, second.base, "")
    await topic.stop()

    record = failed_over(RECORD, [CopyEnd(20, 20)], SourceReading((30,), answered=True), known, 1, 1)
    table = by_producer(record.cutover.producers[0])
    assert [retry_of(table, batch(base)) for base in (0, 10, 20)] == [0, 10, None]
    assert record.cutover.retries_unknown == ()
