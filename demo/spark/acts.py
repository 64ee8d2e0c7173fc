"""What happens, in order: a backlog, the copy with everything that can go wrong in it, the hand-off, the proof."""

from __future__ import annotations

import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Producer

from demo.clusters import create_topic, start
from demo.errors import DemoError
from demo.lockgate import Lockgate
from demo.records import headers_of, key_of, value_of
from demo.spark import groups
from demo.spark.check import Counted, count, exact_groups, read_logs
from demo.spark.job import kill_a_task, retried_tasks
from demo.spark.run import Run
from demo.spark.settings import (
    BACKLOG_WRITTEN_S,
    GATEWAY_UP_S,
    JOB_DONE_S,
    JOB_PROGRESS_S,
    JOB_STARTED_S,
    LEASE_OVER_S,
    LEVEL_S,
    LINK,
    LIVE_AFTER_S,
    PARTITIONS,
    READ_BACK_S,
    TOPIC,
    WORKERS,
)
from demo.spark.wheel import build_wheel


def prepare(run: Run) -> None:
    """Clusters, Spark, gateway, backlog, groups, and producers that write on."""
    settings, view = run.settings, run.view
    with view.step("Start two Kafka clusters, a Spark master and two workers") as step:
        for cluster in (run.source, run.target):
            start(cluster)
        run.spark.start()
        run.wheel = build_wheel(run.logs)
        step.note = f"{run.spark.url}, {run.wheel.name} for the executors"
    with view.step(f"Write a backlog of {settings.backlog_mb:,} MB to the source"):
        create_topic(run.source.bootstrap, TOPIC, PARTITIONS)
        backlog = run.write("backlog", run.source.bootstrap, "--count", str(settings.backlog))
        run.until(lambda: backlog.exit_code is not None, "the backlog to be written", BACKLOG_WRITTEN_S)
        run.add_to_transaction(backlog)
    with view.step(f"{settings.groups} groups commit offsets on the source") as step:
        names = [f"readers-{number:02}" for number in range(settings.groups)]
        run.groups = groups.draw(names, run.ends("source"), settings.seed)
        groups.commit(run.source.bootstrap, TOPIC, run.groups)
        step.note = f"drawn with seed {settings.seed}"
    with view.step("Start the gateway; link, and a mirror topic that is paused at once"):
        run.gateway = gateway = Lockgate(run.target.bootstrap, run.logs)
        gateway.start()
        run.until(gateway.healthy, "the gateway to be healthy", GATEWAY_UP_S)
        gateway.run("link", "create", LINK, "--bootstrap", run.source.bootstrap)
        gateway.run("mirror", "create", TOPIC, "--link", LINK)
        gateway.run("mirror", "pause", TOPIC, "--link", LINK)
    with view.step("Two producers write on") as step:
        rate = ("--rate", str(settings.rate))
        run.writers = [
            run.write("live-source", run.source.bootstrap, *rate),
            run.write("live-gateway", gateway.bootstrap, *rate),
        ]
        step.note = f"{2 * settings.rate:,.0f} records/s, one straight to the source, one through the gateway"


def copy(run: Run) -> None:
    """The catch-up job: a task is killed, the driver is killed, a second run goes on, the engine takes over."""
    settings, view, total = run.settings, run.view, run.settings.backlog
    catch_up = ("catch-up", TOPIC, "--throttle")
    before = run.copied()
    with view.step("Start the catch-up job") as step:
        run.start_job("catch-up-1", *catch_up, str(settings.throttle))
        run.until(lambda: run.state() == "CATCHING_UP", "the job's first report", JOB_STARTED_S)
        run.until(lambda: run.copied() >= before + total * 0.1, "a tenth of the backlog", JOB_PROGRESS_S)
        step.note = "mirror describe: CATCHING_UP"
    with view.step("Kill the process of a task") as step:
        pids: list[int] = []
        run.until(lambda: bool(pids) or _killed(run, pids), "a task to kill", JOB_PROGRESS_S)
        run.until(lambda: retried_tasks(run.spark, WORKERS) > 0, "its second attempt", JOB_PROGRESS_S)
        run.until(lambda: run.copied() >= before + total * 0.35, "a third of the backlog", JOB_PROGRESS_S)
        step.note = f"SIGKILL to {', '.join(map(str, pids))}; tried again, and copying"
    with view.step("Kill the driver") as step:
        job, run.job = run.job, None
        assert job is not None
        if job.exit_code is not None:
            raise DemoError("the job had ended before its driver could be killed", job.child.tail())
        job.kill()
        run.until(lambda: run.state() != "CATCHING_UP", "the end of the killed job's lease", LEASE_OVER_S)
        done = run.copied()
        step.note = f"{done:,} of {total:,} records and what the producers wrote are on the target"
    with view.step("Start the job again, and the live engine while it runs") as step:
        run.start_job("catch-up-2", *catch_up, str(2 * settings.throttle))
        run.until(lambda: run.state() == "CATCHING_UP", "the second job's first report", JOB_STARTED_S)
        run.until(lambda: run.copied() > done, "it to go on", JOB_PROGRESS_S)
        assert run.gateway is not None
        run.gateway.run("mirror", "resume", TOPIC, "--link", LINK)
        if run.state() != "CATCHING_UP":
            raise DemoError("the job had ended before the engine was started: use a larger backlog")
        _hand_over(run)
        report = run.finish_job("catch-up-2", JOB_DONE_S)
        step.note = f"{report['records']:,} records in {report['rounds']} rounds; level {run.handoff_ms} ms after it"
    with view.step(f"{LIVE_AFTER_S:.0f} s more of traffic, then level"):
        end = time.monotonic() + LIVE_AFTER_S
        run.until(lambda: time.monotonic() >= end, "the time to pass", LIVE_AFTER_S + 10)
        run.stop_writers()
        run.until(lambda: run.ends("target") == run.ends("source"), "the target to be level", LEVEL_S)


def _killed(run: Run, pids: list[int]) -> bool:
    pids += kill_a_task(run.spark)
    run.killed_tasks += bool(pids)
    return bool(pids)


def _hand_over(run: Run) -> None:
    """From the job's last report until the target has what the source had then."""
    run.until(lambda: run.copied() > 0 and run.state() != "CATCHING_UP", "the job's end", JOB_DONE_S)
    began = time.monotonic()
    wanted = run.ends("source")
    run.copied_to = run.ends("target")

    def level() -> bool:
        return all(end >= wanted[index] for index, end in run.ends("target").items())

    run.until(level, "the engine to go on", LEVEL_S)
    run.handoff_ms = round((time.monotonic() - began) * 1000)


@dataclass(slots=True)
class Judgement:
    """What goes into the last line."""

    counted: Counted
    audit: str
    groups_exact: int


def judge(run: Run) -> Judgement:
    """Translate, audit, and count for ourselves."""
    view = run.view
    with view.step(f"translate-offsets for {run.settings.groups} groups") as step:
        named = [word for group in run.groups for word in ("--group", group)]
        run.start_job("translate-offsets", "translate-offsets", "--commit", *named)
        outcomes = run.finish_job("translate-offsets", JOB_DONE_S)["outcomes"]
        step.note = ", ".join(f"{name} {number}" for name, number in sorted(outcomes.items()))
    with view.step("audit") as step:
        run.start_job("audit", "audit", "--html", str(run.logs / "audit.html"))
        audit = run.finish_job("audit", JOB_DONE_S)
        step.note = f"{audit['verdict']}: {_sums(audit['totals'])}; digest {audit['digest'][:16]}"
    if run.settings.fault != "none":
        _spoil(run)
    with view.step("Read both clusters back, and count") as step:
        with ProcessPoolExecutor(2) as pool:
            both = [
                pool.submit(read_logs, cluster.bootstrap, TOPIC, PARTITIONS, READ_BACK_S)
                for cluster in (run.source, run.target)
            ]
            source, target = (one.result() for one in both)
        counted = count(source, target, run.acknowledged, run.copied_to)
        there = groups.committed(run.target.bootstrap, TOPIC, run.groups)
        exact = exact_groups(source, target, run.groups, there)
        step.note = f"{counted.acknowledged:,} acknowledged, {counted.found:,} on the target"
    return Judgement(counted, _verdict(audit), exact)


def _sums(totals: dict[str, Any]) -> str:
    """What the audit says that it compared; of each cluster, all that was asked for is in it."""
    sides = []
    for name in ("source", "target"):
        side = totals[name]
        left = {what: side[what] for what in ("markers", "aborted", "gaps", "deleted") if side[what]}
        left |= totals[f"{name}_only"]
        parts = [f"{totals['compared']:,} equal", *(f"{count:,} {what}" for what, count in left.items())]
        sides.append(f"{name} {side['offsets']:,} offsets = {' + '.join(parts)}")
    return f"{'; '.join(sides)}; sums {'close' if totals['closes'] else 'DO NOT CLOSE'}"


def _verdict(audit: dict[str, Any]) -> str:
    return str(audit["verdict"])


def _spoil(run: Run) -> None:
    """The fault that was asked for, written straight to the target."""
    if run.settings.fault == "duplicate":
        producer = Producer({"bootstrap.servers": run.target.bootstrap, "log_level": 3})
        name = "backlog"
        producer.produce(TOPIC, key=key_of(0), value=value_of(name, 0), headers=list(headers_of(name, 0)), partition=0)
        producer.flush(30)
    else:
        group, offsets = next((group, of) for group, of in run.groups.items() if of[0] > 0)
        groups.commit(run.target.bootstrap, TOPIC, {group: {0: offsets[0] - 1}})
