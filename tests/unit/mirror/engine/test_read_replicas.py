"""What a replica answers means the leader, and never anything about the log."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.kafka.view import BrokerView, ClusterView, PartitionView, TopicView
from gateway.mirror.engine.read_replicas import FetchNode, ReadReplicas, Reads
from gateway.mirror.partition.log_reader import LogBounds
from protocol.errors import ErrorCode
from protocol.fetch import FetchedPartition

LEADER, NEAR = 1, 3
BROKER = BrokerView("b", 1, None)


class Partition:
    """As much of a `PartitionRunner` as is looked at."""

    source_topic, partition = "t", 0

    def __init__(self) -> None:
        self.ends: list[int] = []
        self.mirror = SimpleNamespace(source=SimpleNamespace(last_error=""), wants_fetch=lambda _now: True)

    def leader_end(self, end: int) -> None:
        self.ends.append(end)


class Scene:
    """One partition of a source of three brokers."""

    def __init__(self, rack: str = "c") -> None:
        self.now = 0.0
        self.asked: list[Any] = []
        self.invalidated = 0
        part = PartitionView(LEADER, 0, (1, 2, 3), 0)
        self.view = ClusterView(brokers=dict.fromkeys((1, 2, 3), BROKER), topics={"t": TopicView(b"i" * 16, {0: part})})
        source = SimpleNamespace(
            view=self.view, config=SimpleNamespace(metadata_max_age_s=30.0), invalidate=self._invalidate
        )
        logs = SimpleNamespace(ask=lambda key, delay_s, answer: self.asked.append(answer))
        self.replicas = ReadReplicas(rack, cast("Any", source), cast("Any", logs), lambda: self.now, self._move)
        self.source = source
        self.runner: Any = Partition()
        self.place = FetchNode(-1, asks=False)
        self.moves = -1
        self._move(self.runner)

    def _invalidate(self, _topic: str) -> None:
        self.invalidated += 1

    def _move(self, runner: Any) -> None:
        self.moves += 1
        self.place = self.replicas.place(runner, LEADER)

    def answer(self, node: int, error: int = 0, named: int = -1, high: int = 100, **more: Any) -> Reads:
        part = FetchedPartition("t", 0, error, high, high, 0, more.get("diverging"), None, (), named, memoryview(b""))
        return self.replicas.answered(self.runner, node, part)

    def read_near(self) -> None:
        assert self.answer(LEADER, named=NEAR) is Reads.MOVED
        assert self.place == FetchNode(NEAR, asks=True)


def test_without_a_rack_leaders_are_read_and_nothing_is_asked() -> None:
    scene = Scene(rack="")
    assert scene.place == FetchNode(LEADER, asks=False)
    assert scene.answer(LEADER) is Reads.LEADER
    scene.replicas.tick(1e6)
    assert (scene.asked, scene.moves) == ([], 0)


def test_the_named_replica_is_read() -> None:
    scene = Scene()
    assert scene.place == FetchNode(LEADER, asks=True)
    scene.read_near()
    assert scene.answer(NEAR) is Reads.FOLLOWER
    assert scene.moves == 1


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ],
)
def test_what_a_replica_refuses_the_leader_is_asked(error: ErrorCode) -> None:
    """The partition hears nothing of it: a replica's log start and end are old."""
    scene = Scene()
    scene.read_near()
    assert scene.answer(NEAR, error=error) is Reads.MOVED
    assert scene.place == FetchNode(LEADER, asks=False)
    assert scene.invalidated == 1
    assert scene.answer(LEADER, error=error) is Reads.LEADER, "of the leader it counts"


def test_another_history_of_a_replica_is_no_truncation() -> None:
    scene = Scene()
    scene.read_near()
    assert scene.answer(NEAR, diverging=(1, 5)) is Reads.MOVED
    assert scene.place == FetchNode(LEADER, asks=False)


def test_a_lost_replica_is_left_and_the_leader_asked_later() -> None:
    scene = Scene()
    scene.read_near()
    scene.replicas.lost(NEAR, [scene.runner])
    assert scene.place == FetchNode(LEADER, asks=False)
    scene.replicas.lost(LEADER, [scene.runner])
    assert scene.moves == 2, "of a leader the metadata tells"
    scene.replicas.tick(9.0)
    assert scene.place == FetchNode(LEADER, asks=False)
    scene.replicas.tick(10.0)
    assert scene.place == FetchNode(LEADER, asks=True)


def test_a_replica_that_is_no_broker_any_more_is_not_read() -> None:
    scene = Scene()
    scene.source.view = ClusterView(brokers={1: BROKER}, topics=scene.view.topics)
    assert scene.answer(LEADER, named=NEAR) is Reads.MOVED
    assert scene.place == FetchNode(LEADER, asks=False)
    assert scene.invalidated == 1, "or it is not known yet that it is there again"


def test_bytes_that_cannot_be_read_are_asked_of_the_leader() -> None:
    scene = Scene()
    scene.read_near()
    scene.replicas.used(scene.runner)
    assert scene.place.node == NEAR
    scene.runner.mirror.source.last_error = "the batch fails its checksum"
    scene.replicas.used(scene.runner)
    assert scene.place == FetchNode(LEADER, asks=False)


def test_the_end_of_the_log_is_the_leaders() -> None:
    """And a replica that stays behind it is left, though by its own end there is nothing more to read."""
    scene = Scene()
    scene.read_near()
    for second in range(1, 8):
        scene.answer(NEAR, high=100)
        scene.replicas.tick(float(second))
        scene.now = float(second)
        if scene.asked:
            scene.asked.pop()(LogBounds(0, 100 + 50 * second, None))
    assert scene.runner.ends[0] == 150
    assert scene.place == FetchNode(LEADER, asks=False)


def test_an_answer_of_a_term_before_says_nothing() -> None:
    scene = Scene()
    scene.read_near()
    scene.replicas.tick(1.0)
    late = scene.asked.pop()
    scene.answer(NEAR, error=ErrorCode.OFFSET_OUT_OF_RANGE)
    late(LogBounds(0, 500, None))
    assert scene.runner.ends == []
    scene.replicas.forget(scene.runner)
    late("no answer")
