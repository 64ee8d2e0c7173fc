"""Jobs that copy mirrors: the engine leaves those alone, for as long as the job is heard of."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest

from gateway.errors import Conflict, NotFound
from gateway.state.producer_ids import mirror_producer_id
from gateway.state.records import MirrorError, MirrorRecord, MirrorState
from gateway.topics.catch_up import LEASE_S, CatchUp, JobState
from tests.support.control.control_plane import Plane
from tests.support.waiting import wait_until_async


def progress(job: str = "job-1", done: int = 5) -> CatchUp:
    return CatchUp(
        job=job,
        by="spark",
        records_done=done,
        records_total=10,
        bytes_done=50,
        bytes_total=100,
        bytes_per_s=5.0,
        eta_s=10.0,
    )


async def report(plane: Plane, job: str = "job-1", state: JobState = JobState.RUNNING, *topics: str) -> None:
    await plane.service.catch_ups.report("l", job, state, {topic: progress(job) for topic in topics or ("orders",)})


async def test_the_engine_leaves_a_topic_to_the_job_and_goes_on_afterwards(plane):
    await plane.with_mirror()
    assert plane.engine.running.keys() == {("l", "orders")}

    await report(plane)
    assert plane.engine.running == {}
    assert plane.service.mirrors.list("l")[0].catch_up == progress()
    assert plane.state() is MirrorState.ACTIVE

    await report(plane, "job-1", JobState.DONE)
    assert plane.engine.running.keys() == {("l", "orders")}
    assert plane.service.mirrors.list("l")[0].catch_up is None


async def test_nobody_starts_the_engine_on_a_topic_that_a_job_copies(plane):
    await plane.with_mirror()
    await report(plane)

    await plane.service.mirrors.pause("l", "orders")
    await plane.service.mirrors.resume("l", "orders")
    assert plane.engine.running == {}

    await report(plane, "job-1", JobState.FAILED)
    assert plane.engine.running.keys() == {("l", "orders")}


async def test_a_paused_topic_stays_paused_after_the_job(plane):
    await plane.with_mirror()
    await plane.service.mirrors.pause("l", "orders")

    await report(plane)
    await report(plane, "job-1", JobState.DONE)

    assert plane.engine.running == {}
    assert plane.state() is MirrorState.PAUSED


async def test_a_job_that_is_not_heard_of_has_ended(plane, monkeypatch):
    await plane.with_mirror()
    now = 100.0
    catch_ups = plane.service.catch_ups
    monkeypatch.setattr(catch_ups, "_clock", lambda: now)
    await report(plane)

    now += LEASE_S - 1
    await report(plane)
    now += LEASE_S - 1
    await catch_ups.expire()
    assert plane.engine.running == {}

    now += 2
    await catch_ups.expire()
    assert plane.engine.running.keys() == {("l", "orders")}


async def test_a_second_job_is_refused_while_the_first_lives(plane):
    await plane.with_mirror()
    await plane.with_mirror("clicks")
    await report(plane, "job-1", JobState.RUNNING, "orders")

    with pytest.raises(Conflict, match="'orders' is being caught up by spark job job-1"):
        await report(plane, "job-2", JobState.RUNNING, "clicks", "orders")
    assert plane.engine.running.keys() == {("l", "clicks")}, "a refused job takes nothing"

    await report(plane, "job-2", JobState.DONE)
    assert plane.service.catch_ups.of("l", "orders") == progress("job-1"), "only its own end ends a job"


async def test_no_promote_while_a_job_copies(plane):
    await plane.with_mirror()
    await report(plane)

    with pytest.raises(Conflict, match="being caught up by spark job job-1"):
        await plane.service.mirrors.promote("l", ["orders"])
    assert plane.state() is MirrorState.ACTIVE


async def test_no_failover_while_a_job_copies(plane):
    """It would append behind what clients write to the target by then."""
    await plane.with_mirror()
    await plane.store.put(replace(plane.store.mirrors["l", "orders"], readable=True))
    await report(plane)

    for ask in (
        plane.service.failbacks.failover_plan("l", "orders"),
        plane.service.failbacks.failover("l", ["orders"]),
    ):
        with pytest.raises(Conflict, match="a job copies mirror topic 'orders' now.*stop the job, and ask again"):
            await ask
    assert plane.state() is MirrorState.ACTIVE


async def test_no_job_begins_on_a_topic_that_is_failed_over_meanwhile(plane):
    await plane.with_mirror()
    async with plane.parts.locks.hold("mirror/orders"):
        begun = asyncio.create_task(report(plane))
        await wait_until_async(lambda: plane.service.catch_ups.of("l", "orders") is not None)
        stopped = replace(plane.store.mirrors["l", "orders"], state=MirrorState.STOPPED)
        await plane.by_hand(stopped)

    with pytest.raises(Conflict, match="is STOPPED: there is nothing to catch up"):
        await begun
    assert plane.service.catch_ups.of("l", "orders") is None
    assert not plane.service.catch_ups.paused_for_job()


async def test_what_cannot_be_caught_up(plane):
    await plane.with_mirror()
    with pytest.raises(NotFound):
        await report(plane, "job-1", JobState.RUNNING, "nope")
    plane.service.events.partition_failed("l", "orders", 1, MirrorError.OFFSET_GAP, "gap")
    await plane.service.events.reconcile()

    with pytest.raises(Conflict, match="is FAILED: there is nothing to catch up"):
        await report(plane)


async def test_deleting_the_link_ends_the_job(plane):
    await plane.with_mirror()
    await report(plane)

    await plane.service.links.delete("l", force=True)

    assert plane.service.catch_ups.of("l", "orders") is None
    assert plane.engine.running == {}


async def test_describe_measures_while_the_job_copies(plane):
    await plane.with_mirror(ends=100)
    await report(plane)

    lags = (await plane.service.mirrors.describe("l", "orders")).partitions

    assert {(lag.phase, lag.source_end, lag.lag) for lag in lags} == {("catching_up", 100, 100)}


async def test_the_plan(plane, monkeypatch):
    record = await plane.with_mirror()
    await plane.with_mirror("clicks")
    config = SimpleNamespace(properties={"bootstrap.servers": "target:9092", "sasl.password": "secret"})
    monkeypatch.setattr(type(plane.target), "cluster", SimpleNamespace(config=config))

    plan = plane.service.catch_ups.plan("l", ["orders"])

    assert [mirror.mirror_topic for mirror in plan.mirrors] == ["orders"]
    assert plan.mirrors[0].starts == record.starts
    assert plan.target_client["sasl.password"] == "secret"
    assert {mirror.mirror_topic for mirror in plane.service.catch_ups.plan("l", []).mirrors} == {"orders", "clicks"}
    assert mirror_producer_id(plan.link.link_id, record.mirror_id) >= 2**50


async def test_what_a_job_went_on_without_is_counted(plane):
    await plane.with_mirror()
    await report(plane)
    lost = {"orders": [(0, 100, 200), (0, 100, 200), (99, 0, 5)]}
    await plane.service.catch_ups.report("l", "job-1", JobState.DONE, {}, lost)
    record = plane.store.mirrors["l", "orders"]
    assert [one.count for one in record.lost] == [100, *[0] * (len(record.starts) - 1)]


async def test_what_a_job_goes_on_without_is_counted_while_it_runs(plane):
    """A job that is killed sends no last report."""
    await plane.with_mirror()
    for _ in range(2):
        await plane.service.catch_ups.report(
            "l", "job-1", JobState.RUNNING, {"orders": progress()}, {"orders": [(0, 100, 200)]}
        )
    assert plane.store.mirrors["l", "orders"].lost[0].count == 100
    assert plane.service.catch_ups.of("l", "orders") is not None
    await plane.service.catch_ups.report("l", "job-1", JobState.RUNNING, {}, {"orders": [(0, 200, 250)]})
    assert plane.store.mirrors["l", "orders"].lost[0].count == 150
    with pytest.raises(Conflict, match="job-1"):
        await plane.service.catch_ups.report("l", "job-2", JobState.RUNNING, {}, {"orders": [(0, 0, 9)]})


async def test_what_is_told_again_is_not_written_again(plane, monkeypatch):
    """The next heartbeat repeats what was not answered in time: with many topics it must get further than the first."""
    await plane.with_mirror()
    written: list[MirrorRecord] = []
    put = plane.store.put

    async def noted(*records, **more):
        written.extend(records)
        await put(*records, **more)

    monkeypatch.setattr(plane.store, "put", noted)
    for _ in range(3):
        await plane.service.catch_ups.report(
            "l", "job-1", JobState.RUNNING, {"orders": progress()}, {"orders": [(0, 100, 200)]}
        )
    assert [one.lost[0].count for one in written] == [100]


async def test_a_record_that_changes_meanwhile_does_not_refuse_the_job(plane, monkeypatch):
    await plane.with_mirror()
    await report(plane)
    put = plane.store.put

    async def overtaken(*records, **more):
        monkeypatch.setattr(plane.store, "put", put)
        old = plane.store.mirrors["l", "orders"]
        await plane.store.replace(old, replace(old, mode_reason="another operation"))
        await put(*records, **more)

    monkeypatch.setattr(plane.store, "put", overtaken)
    await plane.service.catch_ups.report(
        "l", "job-1", JobState.RUNNING, {"orders": progress()}, {"orders": [(0, 100, 200)]}
    )
    record = plane.store.mirrors["l", "orders"]
    assert (record.lost[0].count, record.mode_reason) == (100, "another operation")


async def test_a_loss_of_a_topic_that_is_not_there_is_not_answered_as_counted(plane):
    await plane.with_mirror()
    with pytest.raises(NotFound):
        await plane.service.catch_ups.report(
            "l", "job-1", JobState.RUNNING, {"orders": progress()}, {"nope": [(0, 100, 200)]}
        )
