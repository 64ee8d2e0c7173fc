"""What a topic's mirror answers of where it stands: of what runs here, and of nothing else."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gateway.mirror.engine.topic import TopicMirror
from gateway.mirror.partition.rules.target_side import LOOK_AGAIN_S
from gateway.mirror.partition.runner import PartitionRunner
from gateway.mirror.rules.copy_ends import CopyEnds, whole
from gateway.state.producer_entries import PackedProducers
from gateway.state.producer_ids import GATEWAY_PID_BASE, mirror_producer_id
from gateway.state.records import MirrorRecord, PartitionStart, ProducerEntry
from tests.support.mirror.batches import make_batch
from tests.support.mirror.partition_talk import tail, topic_mirror

RECORD = MirrorRecord(
    link="l", source_topic="t", mirror_topic="t", mirror_id=2, readable=True, starts=(PartitionStart(0, 0),) * 2
)
ENTRY = ProducerEntry(GATEWAY_PID_BASE, 0, 7, 16, 0)


@pytest.fixture
def topic() -> TopicMirror:
    return topic_mirror(RECORD)


def begun(topic: TopicMirror, index: int, position: int = 0) -> PartitionRunner:
    """A partition whose copy ends at `position`; the source has 10 records."""
    runner = topic.add(index)
    runner.begin()
    last = tail(position, producer_id=mirror_producer_id(1, 2)) if position else None
    runner._do(runner.mirror.target_log, 0, position, last, 0.0)
    runner._do(runner.mirror.source_log, 0, 10, 0.0)
    return runner


def read(runner: PartitionRunner) -> None:
    """All ten records, and the append of them."""
    data = make_batch(0, 10, producer_id=GATEWAY_PID_BASE, epoch=0, sequence=7)
    runner.fetched(memoryview(data), 10, 0.0, runner.cursor.fetch_offset)


def appended(runner: PartitionRunner) -> None:
    append = runner.take()
    assert append is not None
    runner.append_answered(append.base, 0, append.base, "")


def test_who_leads_a_copy_whose_end_is_looked_at_again_is_asked_anew(topic: TopicMirror) -> None:
    """What its mirror concludes from a low end, a cut of the offset map too, no deposed leader alone has said."""
    asked: list[str] = []
    dependencies: Any = topic._dependencies
    dependencies.target = SimpleNamespace(invalidate=asked.append)
    runner = topic.add(0)
    topic.read_target_log(runner, 0.0)
    assert asked == []
    topic.read_target_log(runner, LOOK_AGAIN_S)
    assert asked == ["t"]


def test_the_answer_is_whole_or_none(topic: TopicMirror) -> None:
    first, second = begun(topic, 0), begun(topic, 1)
    for runner in (first, second):
        read(runner)
        appended(runner)
    assert whole(topic.ends()) == CopyEnds((10, 10), (10, 10), ((ENTRY,), (ENTRY,)))
    assert topic.running_partitions()[:3] == ((10, 10), (), ())

    topic.drop(1)  # released: another gateway has it now
    assert whole(topic.ends()) is None
    assert topic.running_partitions()[:3] == ((10, -1), (1,), ())


def test_what_has_just_begun_does_not_know_where_it_is(topic: TopicMirror) -> None:
    begun(topic, 0)
    topic.add(1).begin()  # no log was read yet
    assert topic.running_partitions()[:3] == ((0, -1), (), (1,))
    assert topic.ends()[1] is None


def test_what_was_not_read_far_enough_back_does_not_know_its_producers(topic: TopicMirror) -> None:
    first, second = begun(topic, 0), begun(topic, 1, position=10)
    read(first)
    appended(first)
    assert topic.running_partitions()[:3] == ((10, 10), (), (1,))
    assert whole(topic.ends()) is None
    second.cursor.nothing_below()
    assert whole(topic.ends()) == CopyEnds((10, 10), (10, 10), ((ENTRY,), ()))


def test_what_is_of_unknown_outcome_does_not_know_where_it_is(topic: TopicMirror) -> None:
    first, second = begun(topic, 0), begun(topic, 1)
    for runner in (first, second):
        read(runner)
    appended(first)
    assert second.take() is not None
    second.append_unknown("connection lost")
    assert whole(topic.ends()) is None
    assert topic.running_partitions().cold == (1,)


def test_the_answer_of_many_producers_is_worked_out_later(topic: TopicMirror) -> None:
    """It is asked for under a write pause, of hundreds of partitions at once."""
    runner = begun(topic, 0)
    for number in range(2_500):
        runner.cursor.producers.saw(GATEWAY_PID_BASE + number, 0, 0, 0, 100 + number)
    (end, _) = topic.ends()
    assert end is not None
    runner.cursor.producers.saw(GATEWAY_PID_BASE, 0, 1, 0, 9_999)  # read behind the answer
    producers = PackedProducers.of(end.producers)
    assert producers.at_most == 5 * 2_500
    assert len(list(producers.work_out())) == 4
    assert [entry.base_offset for entry in producers] == list(range(100, 2_600))
    assert list(end.following) == list(range(101, 2_601))
