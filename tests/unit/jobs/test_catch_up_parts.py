"""Of catch-up: the throttle of the whole job, one bad partition beside others, looks that fail, and when it goes on."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.jobs import catch_up_round
from gateway.jobs.catch_up import ATTEMPTS, CatchUpJob, CatchUpOptions, CatchUpReport
from gateway.jobs.catch_up_ends import Ends, read_ends, require_same_topics
from gateway.jobs.catch_up_round import Watch, share_of, tasks_for
from gateway.jobs.errors import JobFailed
from gateway.jobs.link_plan import LinkPlan
from gateway.jobs.lost_records import LostRange
from gateway.jobs.session import refuse_speculation
from gateway.jobs.source import copy as copy_module
from gateway.jobs.source.clusters import AppendFailed
from gateway.jobs.source.copy import RangeCopy
from gateway.jobs.source.ranges import OffsetRange
from gateway.jobs.source.segments import CopyFailure, Segment, WriteReport, WriterReport
from gateway.kafka.connection.errors import ClusterUnavailable, LogTruncated
from gateway.kafka.rules.names import topic_id_text
from gateway.kafka.view import TopicView
from gateway.mirror.partition.rules.throttle import Throttle

PLAN = LinkPlan.without_link({}, {}, ("t",))


@given(st.integers(1, 5000), st.integers(1, 500), st.integers(0, 10**9))
def test_all_tasks_together_stay_below_the_throttle(ranges: int, slots: int, throttle: int) -> None:
    """However many of them run at a time."""
    tasks = tasks_for(ranges, slots, throttled=throttle > 0)
    assert tasks * share_of(throttle, tasks) <= max(throttle, tasks)
    assert (share_of(throttle, tasks) == 0) == (throttle == 0)


def test_1600_partitions_on_two_slots() -> None:
    tasks = tasks_for(1600, 2, throttled=True)
    assert tasks * share_of(100_000_000, tasks) <= 100_000_000


async def test_one_bad_partition_does_not_end_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async def one(self: RangeCopy, mirror: Any, wanted: OffsetRange) -> WriterReport:
        if wanted.partition == 1:
            raise AppendFailed("t-1 at target offset 5: TARGET_DIVERGED")
        if wanted.partition == 2:
            raise ClusterUnavailable("no leader")
        return WriterReport((Segment("t", wanted.partition, 0, 0, 9),), 9, 90)

    monkeypatch.setattr(RangeCopy, "_one", one)
    copy = RangeCopy(None, None, Throttle(0, 0.0))  # type: ignore[arg-type]
    mirror: Any = SimpleNamespace()
    done = await copy.run([(mirror, OffsetRange("t", index, 0, 9)) for index in range(4)])
    assert sum(one.records for one in done) == 18
    assert [failure for one in done for failure in one.failed] == [
        CopyFailure("t", 1, "t-1 at target offset 5: TARGET_DIVERGED"),
        CopyFailure("t", 2, "no leader"),
    ]


async def test_what_was_lost_before_a_failure_is_told_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        """Goes on behind what was deleted, and then the target takes nothing any more."""

        has_map, position = True, 100

        def __init__(self, mirror: Any, partition: int, *_: Any) -> None:
            self.lost = [LostRange("t", partition, 100, 200)]

        async def begin(self) -> None:
            pass

        def close(self) -> None:
            pass

    async def follow(self: RangeCopy, append: Any, wanted: OffsetRange) -> None:
        raise AppendFailed("no progress for 120 s")

    monkeypatch.setattr(copy_module, "PartitionAppend", Failing)
    monkeypatch.setattr(RangeCopy, "_follow", follow)
    mirror: Any = SimpleNamespace()
    (done,) = await RangeCopy(None, None, Throttle(0, 0.0)).run([(mirror, OffsetRange("t", 0, 0, 900))])  # type: ignore[arg-type]
    assert done == WriterReport(
        failed=(CopyFailure("t", 0, "no progress for 120 s"),), lost=(LostRange("t", 0, 100, 200),)
    )


def test_failures_are_in_the_report_that_is_saved(tmp_path: Any) -> None:
    report = WriteReport.of([WriterReport(failed=(CopyFailure("t", 1, "why"),)), None])
    report.save(str(tmp_path / "r"))
    assert WriteReport.load(str(tmp_path / "r")) == report


class Spark:
    sparkContext = SimpleNamespace(getLocalProperty=lambda _: None, setLocalProperty=lambda *_: None)


def job(**options: Any) -> tuple[CatchUpJob, CatchUpReport]:
    made = CatchUpJob(Spark(), PLAN, CatchUpOptions(**options), lambda _: None)  # type: ignore[arg-type]
    report = CatchUpReport(link="l", source_cluster_id="s", target_cluster_id="t", topics=["t"], partitions=2)
    return made, report


def rounds(made: CatchUpJob, report: CatchUpReport, ends: dict[Any, Ends], found: list[WriteReport]) -> int:
    """How many rounds it goes on for, when each has these outcomes."""
    made._copy = lambda ends: found.pop(0)  # type: ignore[method-assign]
    made._watched = lambda work: work()  # type: ignore[method-assign]
    before, count = None, 0
    while made._goes_on(ends, before, report):
        before = made._left(ends)
        made._round(ends, report)
        count += 1
    return count


def test_a_partition_that_fails_is_tried_again_and_then_given_up() -> None:
    made, report = job()
    ends = {("t", 0): Ends(0, 10, 10), ("t", 1): Ends(0, 10, 5)}
    bad = WriteReport((), 0, 0, 1, (CopyFailure("t", 1, "why"),))
    assert rounds(made, report, ends, [bad] * 10) == ATTEMPTS
    assert made._failures == {("t", 1): (ATTEMPTS, "why")}


def test_a_source_that_was_truncated_is_not_tried_again() -> None:
    """A second look at it would begin in the new history."""
    made, report = job()
    bad = WriteReport((), 0, 0, 1, (CopyFailure("t", 1, "truncated", final=True),))
    assert rounds(made, report, {("t", 1): Ends(0, 10, 5)}, [bad] * 10) == 1
    assert made._failures == {("t", 1): (ATTEMPTS, "truncated")}


async def test_the_job_asks_the_source_for_the_history_that_it_has_read(monkeypatch: pytest.MonkeyPatch) -> None:
    class Truncated:
        def __init__(self, *_: Any, last_epoch: int, **__: Any) -> None:
            self.position, self._last_epoch = 100, last_epoch

        async def next(self) -> None:
            raise LogTruncated(f"epoch {self._last_epoch}")

    monkeypatch.setattr(copy_module, "RangeReader", Truncated)
    runner = SimpleNamespace(cursor=SimpleNamespace(last_epoch=7))
    append: Any = SimpleNamespace(fetch_offset=100, position=100, runner=runner)
    copying = RangeCopy(None, None, Throttle(0, 0.0))  # type: ignore[arg-type]
    for way in (copying._follow, copying._copy):
        with pytest.raises(LogTruncated, match="epoch 7"):
            await way(append, OffsetRange("t", 0, 0, 900))
    failure = copy_module._failed(OffsetRange("t", 0, 0, 900), LogTruncated("cut")).failed[0]
    assert failure.final


class Cluster:
    """Names topics."""

    def __init__(self, **topics: bytes) -> None:
        self.topics = {name: TopicView(topic_id, {}) for name, topic_id in topics.items()}

    async def refresh(self, topics: Any) -> Cluster:
        return self


A, B = b"a" * 16, b"b" * 16


@pytest.mark.parametrize(
    ("source", "target", "which"),
    [(B, A, "topic t on the source was created anew"), (A, B, "topic w.t on the target was created anew")],
)
async def test_a_topic_that_was_created_anew_ends_the_job(source: bytes, target: bytes, which: str) -> None:
    mirror: Any = SimpleNamespace(source_topic="t", mirror_topic="w.t", starts=())
    ids = {"t": topic_id_text(A)}, {"w.t": topic_id_text(A)}
    here: Any = Cluster(t=source)
    there: Any = Cluster(**{"w.t": target})
    with pytest.raises(JobFailed, match=which):
        await read_ends(here, there, [mirror], None, ids)


async def test_what_has_no_id_is_not_compared() -> None:
    old: Any = Cluster(t=bytes(16), u=B)
    await require_same_topics("source", old, {"t": topic_id_text(A), "u": ""}, ["t", "u", "unknown"])


def test_what_went_wrong_once_is_forgotten() -> None:
    made, report = job()
    ends = {("t", 1): Ends(0, 10, 5)}
    bad, good = WriteReport((), 0, 0, 1, (CopyFailure("t", 1, "why"),)), WriteReport((), 5, 50, 1)
    assert rounds(made, report, ends, [bad, good]) == 2
    assert made._failures == {}


def test_a_source_that_does_not_tell_sizes_is_copied_to_the_tail() -> None:
    """Bytes are not known: what is left is worked out from what was copied."""
    made, report = job(tail_bytes=1000)
    ends = {("t", 0): Ends(0, 10_000_000, 0)}
    made._bytes_per = {("t", 0): 0.0}
    assert made._left(ends) > 0
    made._copy = lambda ends: WriteReport((), 100, 20_000, 1)  # type: ignore[method-assign]
    made._watched = lambda work: work()  # type: ignore[method-assign]
    made._round(ends, report)
    assert made._left(ends) == 10_000_000 * 200
    assert made._goes_on(ends, 10_000_000 * 500.0, report)


def test_who_must_not_go_on_does_not() -> None:
    def dead() -> None:
        raise JobFailed("the gateway has not answered")

    made = CatchUpJob(Spark(), PLAN, CatchUpOptions(), lambda _: None, dead)  # type: ignore[arg-type]
    with pytest.raises(JobFailed):
        made._goes_on({}, None, job()[1])


def test_a_look_that_fails_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catch_up_round, "_LOOK_S", 0.001)
    looks: list[int] = []
    enough = threading.Event()

    def look(self: Watch) -> None:
        looks.append(1)
        if len(looks) > 3:
            enough.set()
        raise (ClusterUnavailable("no leader"), OSError("cut"), ValueError("a map just written"))[len(looks) % 3]

    monkeypatch.setattr(Watch, "_look", look)
    cancelled: list[int] = []
    with Watch(PLAN, (), lambda _: None).over(lambda: cancelled.append(1)):
        assert enough.wait(10)
    assert not cancelled


def test_what_the_listener_raises_ends_the_round(monkeypatch: pytest.MonkeyPatch) -> None:
    def look(self: Watch) -> None:
        raise JobFailed("the gateway refuses")

    monkeypatch.setattr(Watch, "_look", look)
    cancelled = threading.Event()

    def round_of() -> None:
        with Watch(PLAN, (), lambda _: None).over(cancelled.set):
            assert cancelled.wait(10)
            raise RuntimeError("cancelled")

    with pytest.raises(JobFailed, match="refuses"):
        round_of()


@pytest.mark.parametrize(("value", "refused"), [("true", True), ("TRUE", True), ("false", False)])
def test_speculation_is_refused(value: str, refused: bool) -> None:
    conf = {"spark.speculation": value}
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(getConf=lambda: conf))
    if not refused:
        refuse_speculation(spark)
        return
    with pytest.raises(ValueError, match="turn it off"):
        refuse_speculation(spark)
