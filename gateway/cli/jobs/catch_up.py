"""`lockgate job catch-up`: copy the backlog of mirror topics by Spark; the gateway's engine goes on at the tail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from pyspark.sql import SparkSession

from gateway.cli.api import DEFAULT_URL, REFUSED, USAGE, Url, fail
from gateway.cli.jobs import common as job_common
from gateway.cli.jobs.common import Conf, DryRun, Master, PyFiles, job, write_report
from gateway.cli.jobs.gateway import JobReports, new_job_id
from gateway.cli.jobs.link import read_plan
from gateway.cli.jobs.progress import JobProgress
from gateway.cli.output import col, duration, rate, table
from gateway.cli.properties import read_properties
from gateway.jobs.catch_up import TAIL_BYTES, CatchUpJob, CatchUpOptions, CatchUpReport
from gateway.jobs.catch_up_ends import Progress, parse_start
from gateway.jobs.errors import JobFailed
from gateway.jobs.link_plan import LinkPlan
from gateway.jobs.lost_records import LostRange

_SHOWN = 20
_Properties = typer.Option(metavar="FILE", help="Client properties that win over the gateway's; its secrets go here.")


def catch_up(
    link: Annotated[str, typer.Option("--link", help="Name of the link.")],
    topics: Annotated[list[str] | None, typer.Argument(help="Mirror topics; all of the link if none is named.")] = None,
    throttle: Annotated[int, typer.Option(metavar="BYTES/S", help="Of all tasks together; 0 for no limit.")] = 0,
    start: Annotated[
        str, typer.Option(help='For empty mirrors: earliest, latest, a time, or {"topic": {"0": 12}}.')
    ] = "",
    tail: Annotated[int, typer.Option(metavar="BYTES", help="Leave so much to the gateway's engine.")] = TAIL_BYTES,
    source_config: Annotated[Path | None, _Properties] = None,
    target_config: Annotated[Path | None, _Properties] = None,
    report: job_common.Report = None,
    dry_run: DryRun = False,
    master: Master = job_common.DEFAULT_MASTER,
    py_files: PyFiles = "",
    conf: Conf = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Copy the backlog of mirror topics up to the tail, where the gateway goes on by itself."""
    here, there = (read_properties(path) if path else {} for path in (source_config, target_config))
    plan = read_plan(url, link, topics or [], here, there, kind="catch-up")
    options = _options(throttle, tail, start)
    if not plan.mirrors:
        fail(f"link {link} has no mirror topic that could be caught up", REFUSED)
    with job("catch-up", master, py_files, conf) as spark:
        if dry_run:
            _survey(CatchUpJob(spark, plan, options, lambda _: None).survey())
            return
        found = _run(spark, plan, options, JobReports(url, link, new_job_id(), plan.names))
    write_report(report, {**asdict(found), "bytes_per_s": found.bytes_per_s})
    _show(found)


def _options(throttle: int, tail: int, start: str) -> CatchUpOptions:
    if throttle < 0 or tail < 0:
        fail("--throttle and --tail are numbers of bytes, 0 or more", USAGE)
    try:
        spec = parse_start(start) if start else None
    except ValueError as exc:
        fail(f"--start: {exc}", USAGE)
    return CatchUpOptions(throttle_bytes_per_s=throttle, tail_bytes=tail, start=spec)


def _run(spark: SparkSession, plan: LinkPlan, options: CatchUpOptions, reports: JobReports) -> CatchUpReport:
    """The job between its first and its last report."""
    state = "failed"
    try:
        reports.begin([mirror.mirror_topic for mirror in plan.mirrors])
        with JobProgress("copying") as view:

            def tell(progress: dict[str, Progress]) -> None:
                view.show(sum(progress.values(), Progress()))
                reports.progress(progress)

            catching_up = CatchUpJob(spark, plan, options, tell, reports.heartbeat.check, reports.lost)
            reports.heartbeat.lost = catching_up.cancel
            found = catching_up.run()
        state = "failed" if found.failed else "done"
        return found
    except JobFailed as exc:
        _show_lost(reports.lost.all)
        fail(str(exc), REFUSED)
    finally:
        reports.end(state)


def _survey(progress: Mapping[str, Progress]) -> None:
    table(
        [col("Mirror topic"), col("Records to copy#"), col("MB, about#")],
        ([name, one.records_total, f"{one.bytes_total / 1e6:.1f}"] for name, one in sorted(progress.items())),
    )


def _show(found: CatchUpReport) -> None:
    left = f"{found.left_records} records left to the gateway"
    typer.echo(
        f"copied {found.records} records, {found.bytes / 1e6:.1f} MB in {duration(found.copy_s)} "
        f"({rate(found.bytes_per_s)}), {found.rounds} rounds, {found.tasks} tasks; {left}"
    )
    if not found.converged:
        typer.echo("producers write about as fast as the job copies: run it with more executors", err=True)
    _show_lost(found.lost)
    for name, why in list(found.failed.items())[:_SHOWN]:
        typer.echo(f"not copied: {name}: {why}", err=True)
    if len(found.failed) > _SHOWN:
        typer.echo(f"and {len(found.failed) - _SHOWN} more partitions; --report has them all", err=True)
    if found.failed or not found.converged:
        raise typer.Exit(REFUSED)


def _show_lost(lost: Sequence[LostRange]) -> None:
    for one in lost[:_SHOWN]:
        typer.echo(
            f"lost: {one.topic}-{one.partition}: source offsets {one.first}..{one.following - 1} were deleted there "
            "before they were copied; mirror.on.records.deleted says to go on",
            err=True,
        )
