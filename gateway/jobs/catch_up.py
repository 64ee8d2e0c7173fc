"""Catch-up: the backlog of mirror topics copied by Spark, up to the tail, where the gateway's engine goes on.

The job is a few plain batch queries, one round after the other: from the target's log ends to the source's ends as of
now. Nothing is kept between rounds, attempts of tasks, or runs: the position is the target's log end, so whatever is
run again goes on from there. (A streaming checkpoint would say the same a second time, and could be wrong.)

While it runs the gateway's engine leaves the topics alone, because the job reports to the gateway. The last round ends
close to the tail; what is left is the engine's, which starts at the target's log ends as it always does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from gateway.jobs.attempts.server import AttemptServer, attempts_of
from gateway.jobs.catch_up_ends import AllEnds, Progress, ProgressMeter, StartSpec, move_starts, read_ends
from gateway.jobs.catch_up_round import JobTag, Watch, copy_round, ranges_of
from gateway.jobs.errors import JobFailed, reason
from gateway.jobs.kafka import Loop
from gateway.jobs.link_map import MapReader, open_maps
from gateway.jobs.link_plan import LinkPlan
from gateway.jobs.lost_records import LostRange, LostRecordLog
from gateway.jobs.session import refuse_speculation, require_same_on_executors
from gateway.jobs.source.segments import Segment, WriteReport, merge
from gateway.jobs.source.stream import bytes_per_offset
from gateway.jobs.spark_progress import described, noted
from gateway.kafka.cluster import Cluster
from gateway.kafka.topic_partition import TopicPartition

TAIL_BYTES: Final = 32 * 1024 * 1024
"""What the engine copies in a second or less: with no more than this left the job is done."""

ATTEMPTS: Final = 3
"""Rounds that one partition may fail in before it is given up. The others go on."""

_ASSUMED_BYTES: Final = 1024.0
"""Of an offset, until something was copied and where the source does not tell the sizes of its logs."""


Tell = Callable[[dict[str, Progress]], None]
"""Told about every second how far the job is, by mirror topic. What it raises ends the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUpOptions:
    """How to copy.

    Attributes:
        throttle_bytes_per_s: of all tasks together; 0 for none.
        tail_bytes: see `TAIL_BYTES`.
        start: where mirrors begin of which nothing was copied yet; None for where they were created to.
    """

    throttle_bytes_per_s: int = 0
    tail_bytes: int = TAIL_BYTES
    start: StartSpec | None = None


@dataclass(slots=True)
class CatchUpReport:
    """What was done. `left_bytes`: left to the engine, about. `converged` is False when producers were too fast.
    `failed`: partitions of the source that could not be copied, and why. `lost`: what the source deleted before it was
    copied, where the link says to go on."""

    link: str
    source_cluster_id: str
    target_cluster_id: str
    topics: list[str]
    partitions: int
    records: int = 0
    bytes: int = 0
    rounds: int = 0
    tasks: int = 0
    copy_s: float = 0.0
    left_records: int = 0
    left_bytes: int = 0
    converged: bool = True
    failed: dict[str, str] = field(default_factory=dict)
    segments: tuple[Segment, ...] = ()
    lost: tuple[LostRange, ...] = ()

    @property
    def bytes_per_s(self) -> float:
        """Of the rounds, without Spark's start."""
        return self.bytes / self.copy_s if self.copy_s > 0 else 0.0


class CatchUpJob:
    """One run. `plan` names the topics. `alive` raises JobFailed when the job must not go on."""

    def __init__(
        self,
        spark: SparkSession,
        plan: LinkPlan,
        options: CatchUpOptions,
        tell: Tell,
        alive: Callable[[], None] = lambda: None,
        lost: LostRecordLog | None = None,
    ) -> None:
        """`lost`: gets what tasks go on without; None when nobody but the report tells of it."""
        self._spark = spark
        self._plan = plan
        self._options = options
        self._tell = tell
        self._alive = alive
        self._lost = LostRecordLog(is_counted=False) if lost is None else lost
        self._jobs = JobTag(spark, "catch-up")
        self._failures: dict[TopicPartition, tuple[int, str]] = {}
        self._mean = _ASSUMED_BYTES
        self._mirrors = {mirror.source_topic: mirror for mirror in plan.mirrors}
        self._bytes_per: dict[TopicPartition, float] = {}
        self._meter: ProgressMeter
        self._loop: Loop
        self._attempts: AttemptServer
        self._source: Cluster
        self._target: Cluster
        self._maps: MapReader

    def run(self) -> CatchUpReport:
        """Copy until the tail.

        Raises:
            JobFailed: in one line, with topic, partition and offset where there is one. What goes
                wrong with one partition alone is in the report.
            NetError: a cluster is out of reach.
            ValueError: spark.speculation is on; tasks cannot ask the driver whether they may append;
                the clusters are not the link's, or the start cannot be moved.
        """
        refuse_speculation(self._spark)
        require_same_on_executors(self._spark)
        plan = self._plan
        report = CatchUpReport(
            link=plan.link,
            source_cluster_id=plan.source_cluster_id,
            target_cluster_id=plan.target_cluster_id,
            topics=sorted(mirror.mirror_topic for mirror in plan.mirrors),
            partitions=sum(len(mirror.starts) for mirror in plan.mirrors),
        )
        with Loop() as self._loop, attempts_of(self._spark, self._lost.add) as self._attempts:
            ends = self._begin()
            before = None
            while self._goes_on(ends, before, report):
                before = self._left(ends)
                self._round(ends, report)
                ends = self._ends()
                self._meter.goal(ends)
            report.left_records = sum(one.missing for one in ends.values())
            report.left_bytes = round(self._left(ends))
            report.lost = self._lost.all
            report.failed = {f"{topic}-{index}": why for (topic, index), (_, why) in sorted(self._failures.items())}
        noted(self._spark, _outcome(report))
        return report

    def cancel(self) -> None:
        """End what Spark copies now, and nothing else of its session. From any thread."""
        self._jobs.cancel()

    def survey(self) -> dict[str, Progress]:
        """What there is to copy, by mirror topic; nothing is changed. Raises as `run` does."""
        with Loop() as self._loop:
            ends = self._begin()
            return self._progress({key: one.target_end for key, one in ends.items()})

    def _connect(self, which: str, properties: Mapping[str, str], cluster_id: str) -> Cluster:
        cluster = self._loop.connect(properties)
        if cluster.view.cluster_id != cluster_id:
            found = cluster.view.cluster_id
            raise ValueError(f"the {which} that was reached is cluster {found}, the link's {which} is {cluster_id}")
        return cluster

    def _begin(self) -> AllEnds:
        plan = self._plan
        self._source = self._connect("source", plan.source, plan.source_cluster_id)
        self._target = self._connect("target", plan.target, plan.target_cluster_id)
        self._maps = self._loop.run(open_maps(self._target, plan))
        self._loop.on_close(self._maps.close)
        ends = self._ends()
        if self._options.start is not None:
            for topic, mirror in self._mirrors.items():
                moved = move_starts(self._source, mirror, ends, self._options.start)
                self._mirrors[topic] = self._loop.run(moved)
            ends = self._ends()
        source_ends = {key: one.source_end for key, one in ends.items()}
        self._bytes_per = self._loop.run(bytes_per_offset(self._source, source_ends))
        self._meter = ProgressMeter(ends, self._bytes_per, time.monotonic())
        return ends

    def _ends(self) -> AllEnds:
        mirrors, ids = list(self._mirrors.values()), self._plan.topic_ids
        return self._loop.run(read_ends(self._source, self._target, mirrors, self._maps, ids))

    def _left(self, ends: AllEnds) -> float:
        """Bytes, about. Where the source does not tell the sizes of its logs, by what was copied so far."""
        return sum(one.missing * (self._bytes_per.get(key) or self._mean) for key, one in ends.items())

    def _goes_on(self, ends: AllEnds, before: float | None, report: CatchUpReport) -> bool:
        self._alive()
        ends = {key: one for key, one in ends.items() if not self._given_up(key)}
        if not any(one.missing for one in ends.values()):
            return False
        if any(key in self._failures for key in ends):
            return True
        left = self._left(ends)
        if before is None or left > self._options.tail_bytes:
            report.converged = before is None or left <= before / 2
            return report.converged
        return False

    def _round(self, ends: AllEnds, report: CatchUpReport) -> None:
        began = time.monotonic()
        with described(self._spark, self._description(ends, report.rounds + 1)):
            done = self._watched(lambda: self._copy(ends))
        report.copy_s += time.monotonic() - began
        report.rounds += 1
        report.records += done.records
        report.bytes += done.bytes
        report.tasks += done.tasks
        report.segments = merge([*report.segments, *done.segments])
        self._mean = max(1.0, report.bytes / report.records) if report.records else self._mean
        again = {(one.topic, one.partition): one for one in done.failed}
        self._failures = {
            **{key: one for key, one in self._failures.items() if self._given_up(key)},
            **{key: (ATTEMPTS if one.final else self._tries(key) + 1, one.why) for key, one in again.items()},
        }

    def _description(self, ends: AllEnds, number: int) -> str:
        parts = sum(one.missing > 0 for one in ends.values())
        records = sum(one.missing for one in ends.values())
        return (
            f"lockgate catch-up, link {self._plan.link}, round {number}: {records:,} records of {parts} partition(s), "
            f"about {self._left(ends) / 1e6:,.0f} MB"
        )

    def _given_up(self, key: TopicPartition) -> bool:
        return self._tries(key) >= ATTEMPTS

    def _tries(self, key: TopicPartition) -> int:
        return self._failures.get(key, (0, ""))[0]

    def _watched(self, work: Callable[[], WriteReport]) -> WriteReport:
        """Spark's part, while another thread tells of the progress."""
        watch = Watch(self._plan, list(self._mirrors.values()), lambda ends: self._tell(self._progress(ends)))
        with self._jobs, watch.over(self.cancel):
            try:
                return work()
            except (Py4JError, PySparkException) as exc:
                self._alive()
                raise JobFailed(reason(exc)) from exc

    def _progress(self, target_ends: Mapping[TopicPartition, int]) -> dict[str, Progress]:
        return self._named(self._meter.update(target_ends, time.monotonic()))

    def _named(self, progress: dict[str, Progress]) -> dict[str, Progress]:
        return {self._mirrors[topic].mirror_topic: found for topic, found in progress.items()}

    def _copy(self, ends: AllEnds) -> WriteReport:
        mirrors = list(self._mirrors.values())
        return copy_round(
            self._spark,
            source=self._plan.source,
            target=self._plan.target,
            mirrors=mirrors,
            ranges=ranges_of({key: one for key, one in ends.items() if not self._given_up(key)}, mirrors),
            throttle_bytes_per_s=self._options.throttle_bytes_per_s,
            attempts=self._attempts.address,
        )


def _outcome(report: CatchUpReport) -> str:
    return (
        f"lockgate catch-up, link {report.link}: {report.records:,} records, {report.bytes / 1e6:,.0f} MB copied in "
        f"{report.rounds} round(s); {report.left_records:,} records left to the gateway, {len(report.failed)} "
        "partition(s) failed"
    )
