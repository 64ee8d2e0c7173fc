"""The exact demo's judge: a clean run passes, and each seeded fault is found under its own name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from demo.checker import LogRecord, TopicLog
from demo.exact.cast import group_of
from demo.exact.settings import ORDERS, PAYMENTS, PROFILES, TOPICS
from demo.exact.verdict import ExactVerdict, judge_logs
from demo.history import Ack, ClientError, History, ReadBatch, Side
from demo.records import CUSTOMERS, RecordId

WRITERS = {ORDERS: "orders-java", PAYMENTS: "payments-java", PROFILES: "profiles-librdkafka"}
Partition = list[LogRecord]


@dataclass
class Scene:
    """Ten records a topic in one partition; the transactional one has 5..6 aborted, the compacted one lost 0 to a later
    record with its key."""

    source: dict[str, Partition] = field(default_factory=dict)
    target: dict[str, Partition] = field(default_factory=dict)
    copied: dict[str, Partition] = field(default_factory=dict)
    history: History = field(default_factory=History)
    served: dict[str, dict[str, int]] = field(default_factory=dict)
    failed_back: bool = True

    def verdict(self) -> ExactVerdict:
        def logs(partitions: dict[str, Partition]) -> dict[str, TopicLog]:
            return {topic: TopicLog({0: records}) for topic, records in partitions.items()}

        return judge_logs(
            self.history,
            logs(self.source),
            logs(self.target),
            logs(self.copied),
            served=self.served,
            failed_back=self.failed_back,
        )


@pytest.fixture
def scene() -> Scene:
    made = Scene()
    for topic, writer in WRITERS.items():
        seqs = [*range(10), CUSTOMERS] if topic == PROFILES else list(range(10))
        aborted = {5, 6} if topic == PAYMENTS else set()
        written = [LogRecord(seq, RecordId(writer, seq), seq) for seq in seqs if seq not in aborted]
        made.history.acks[writer] = [Ack(r.id.seq, 0, r.offset, 0) for r in written]
        if aborted:
            made.history.aborted[writer] = [range(5, 7)]
        kept = [r for r in written if not (topic == PROFILES and r.id.seq == 0)]
        made.source[topic] = kept
        made.target[topic] = kept if topic == ORDERS else [r._replace(offset=i) for i, r in enumerate(kept)]
        made.copied[topic] = list(made.target[topic])
        ids = [r.id for r in written]
        made.history.reads[group_of(topic)] = [ReadBatch("m", Side.SOURCE, 0, 0, list(range(len(ids))), ids)]
    for act in range(4):
        made.served[str(act)] = dict.fromkeys(WRITERS.values(), act + 1)
    return made


def test_a_clean_run_passes(scene: Scene) -> None:
    verdict = scene.verdict()
    assert verdict.passed, verdict.examples
    assert verdict.aborted == 2


def _drop(scene: Scene, cluster: str, topic: str, at: int) -> None:
    partitions: dict[str, Partition] = getattr(scene, cluster)
    partitions[topic] = [r for i, r in enumerate(partitions[topic]) if i != at]


def _swap(scene: Scene) -> None:
    records = list(scene.target[PAYMENTS])
    records[2], records[3] = records[3]._replace(offset=2), records[2]._replace(offset=3)
    scene.target[PAYMENTS] = records


def _repeat(scene: Scene) -> None:
    scene.target[ORDERS] = [*scene.target[ORDERS], scene.target[ORDERS][3]._replace(offset=10)]


def _show_aborted(scene: Scene, cluster: str) -> None:
    partitions: dict[str, Partition] = getattr(scene, cluster)
    partitions[PAYMENTS] = [*partitions[PAYMENTS], LogRecord(99, RecordId(WRITERS[PAYMENTS], 5), 5)]


def _shift(scene: Scene) -> None:
    scene.target[ORDERS] = [r._replace(offset=r.offset + 1) for r in scene.target[ORDERS]]


def _stamp(scene: Scene, topic: str) -> None:
    scene.target[topic] = [*scene.target[topic][:-1], scene.target[topic][-1]._replace(digest=1234)]


def _reads(scene: Scene, topic: str) -> ReadBatch:
    return scene.history.reads[group_of(topic)][0]


def _error(scene: Scene) -> None:
    scene.history.errors.append(ClientError("orders-java", 0, "OutOfOrderSequenceException"))


FAULTS: dict[str, tuple[Callable[[Scene], object], str]] = {
    "lost on the target": (lambda s: _drop(s, "target", ORDERS, 4), "lost"),
    "lost on the source after the failback": (lambda s: _drop(s, "source", PAYMENTS, 0), "lost"),
    "the newest of a key lost": (lambda s: _drop(s, "target", PROFILES, 3), "lost"),
    "twice": (_repeat, "duplicated"),
    "swapped": (_swap, "reordered"),
    "aborted and visible": (lambda s: _show_aborted(s, "target"), "aborted_seen"),
    "aborted and copied": (lambda s: _show_aborted(s, "copied"), "aborted_seen"),
    "aborted and read": (lambda s: _reads(s, PAYMENTS).ids.append(RecordId(WRITERS[PAYMENTS], 6)), "aborted_seen"),
    "an error shown": (_error, "errors"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_seeded_fault_is_counted(scene: Scene, fault: str) -> None:
    seed, where = FAULTS[fault]
    seed(scene)
    for batches in scene.history.reads.values():
        for at, batch in enumerate(batches):
            batches[at] = batch._replace(offsets=list(range(len(batch.ids))))
    verdict = scene.verdict()
    assert not verdict.passed
    assert getattr(verdict, where)


INEXACT: dict[str, Callable[[Scene], object]] = {
    "other offsets on the plain topic": _shift,
    "another timestamp": lambda s: _stamp(s, PAYMENTS),
    "read again": lambda s: _reads(s, PROFILES).ids.append(RecordId(WRITERS[PROFILES], 3)),
    "never read": lambda s: _reads(s, ORDERS).ids.pop(2),
}


@pytest.mark.parametrize("fault", INEXACT)
def test_inexact_offsets_are_seen(scene: Scene, fault: str) -> None:
    INEXACT[fault](scene)
    verdict = scene.verdict()
    assert not verdict.offsets_exact
    assert not verdict.passed


def test_a_producer_that_fell_silent_is_no_round_trip(scene: Scene) -> None:
    scene.served["3"]["payments-java"] = scene.served["2"]["payments-java"]
    assert not scene.verdict().round_trip


def test_mirrors_that_are_not_home_are_no_round_trip(scene: Scene) -> None:
    scene.failed_back = False
    assert not scene.verdict().passed


def test_all_three_topics_are_judged(scene: Scene) -> None:
    assert set(scene.source) == set(TOPICS)
