"""`lockgate job audit`: is the target's copy the source's data? Batch by batch, record by record where need be."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Annotated

import typer

from gateway.cli import job_common
from gateway.cli.api import DEFAULT_URL, REFUSED, USAGE, Url, fail
from gateway.cli.job_common import (
    Conf,
    DryRun,
    LinkedSource,
    LinkedTarget,
    Master,
    PyFiles,
    cluster,
    job,
    say,
)
from gateway.cli.job_link import Link, MapFile, mirrored, segments_given
from gateway.cli.job_progress import ProgressView
from gateway.cli.output import rate, table
from gateway.jobs.audit.job import run_audit
from gateway.jobs.audit.page import page
from gateway.jobs.audit.report import Report
from gateway.jobs.audit.scene import AuditOptions, Scene, prepare
from gateway.jobs.audit.verdict import Verdict
from gateway.jobs.inputs import topic_names
from gateway.jobs.link_map import positions_of
from gateway.jobs.link_plan import LinkPlan

Html = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write the report as a page to this file.")]


def audit(
    topics: Annotated[list[str] | None, typer.Argument(help="Topics; all mirrors of the link when left out.")] = None,
    link: Link = "",
    source: LinkedSource = "",
    target: LinkedTarget = "",
    offset_map: MapFile = "",
    fraction: Annotated[float, typer.Option(help="How much of each partition to compare, 0 < fraction <= 1.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Draws the same sample again.")] = 0,
    wait: Annotated[float, typer.Option(help="Seconds to wait for the target to come to the source's end.")] = 60.0,
    report: job_common.Report = None,
    html: Html = None,
    dry_run: DryRun = False,
    master: Master = job_common.DEFAULT_MASTER,
    py_files: PyFiles = "",
    conf: Conf = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Compare topics of two clusters up to their ends as of now. Exit code 0 only when all is IDENTICAL."""
    if not 0 < fraction <= 1:
        fail(f"--fraction {fraction:g} is not above 0 and at most 1", USAGE)
    if link and offset_map:
        fail("--map goes with --source and --target; a link has its own", USAGE)
    plan = _plan(topics or [], link, source, target, url)
    with job("audit", master, py_files, conf) as spark:
        options = AuditOptions(
            source=plan.source,
            target=plan.target,
            topics=list(plan.names),
            names=plan.names,
            segments=segments_given(spark, plan, offset_map),
            positions=positions_of(plan),
            fraction=fraction,
            seed=seed,
            wait_s=0 if dry_run else wait,
        )
        if dry_run:
            _show_plan(prepare(spark, options))
            return
        with ProgressView("comparing") as view:
            found = run_audit(spark, options, say, view.show)
    _write(found, report, html)
    _show(found)
    if found.verdict is not Verdict.IDENTICAL:
        raise typer.Exit(REFUSED)


def _plan(topics: list[str], link: str, source: str, target: str, url: str) -> LinkPlan:
    """Both clusters, and the topics' names on them."""
    names = topic_names(topics)
    if link:
        return mirrored(url, link, names, source, target)
    if not names or not source or not target:
        fail("an audit needs topics, --source and --target, or a --link", USAGE)
    return LinkPlan.without_link(cluster(source), cluster(target), names)


def _show_plan(scene: Scene) -> None:
    table(
        ["Topic", "Partition#", "Source log", "Target log", "To compare", "Pieces#"],
        (
            [
                one.topic,
                one.partition,
                f"{one.source_start}..{one.source_end}",
                f"{one.target_start}..{one.target_end}",
                f"{one.start}..{one.end}",
                sum((one.topic, one.partition) in pieces for pieces in scene.pieces),
            ]
            for one in scene.compared
        ),
    )


def _write(found: Report, report: Path | None, html: Path | None) -> None:
    text = job_common.write_report(report, found.to_dict())
    if html is not None:
        html.parent.mkdir(parents=True, exist_ok=True)
        html.write_text(page(found.to_dict(), sha256(text.encode()).hexdigest()))


def _show(found: Report) -> None:
    table(
        ["Topic", "Partition#", "Result", "Batches#", "Equal#", "Records#", "One by one#"],
        (
            [
                one.range.topic,
                one.range.partition,
                one.sentence,
                one.counts.source_batches,
                one.counts.equal_batches,
                one.counts.source_records,
                one.counts.decoded,
            ]
            for one in found.findings
        ),
    )
    seconds = f"{found.total_s:.1f} s"
    say(f"{found.verdict}: {found.total('source_records')} records, {seconds}, {rate(found.bytes_per_s)} of log")
