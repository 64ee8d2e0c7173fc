"""`lockgate job audit`: is the target's copy the source's data? What it may say, and its exit codes, are told in
`gateway.jobs.audit`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.api import DEFAULT_URL, REFUSED, USAGE, Url, fail
from gateway.cli.jobs import common as job_common
from gateway.cli.jobs.common import Conf, DryRun, LinkedSource, LinkedTarget, Master, PyFiles, cluster, job, say
from gateway.cli.jobs.link import Link, MapFile, mirrored, read_again
from gateway.cli.jobs.progress import JobProgress
from gateway.cli.output import col, rate, table
from gateway.jobs.audit.job import run_audit
from gateway.jobs.audit.kinds import EXPLAINED
from gateway.jobs.audit.page import page
from gateway.jobs.audit.pieces import Span
from gateway.jobs.audit.report import Report
from gateway.jobs.audit.scene import AuditInput, AuditOptions, prepare
from gateway.jobs.audit.sums import sum_lines
from gateway.jobs.audit.verdict import EXIT_CODES, AuditVerdict
from gateway.jobs.inputs import read_table, topic_names
from gateway.jobs.link_plan import LinkPlan
from gateway.jobs.offset_map import SEGMENTS, relations
from gateway.state.records import MirrorRecord

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
    """Compare topics of two clusters up to their ends as of now.

    Exit code 0 only when all is IDENTICAL; 1 DIFFERENT, 4 INCOMPLETE, 5 EMPTY, 6 identical in a sample.
    """
    if not 0 < fraction <= 1:
        fail(f"--fraction {fraction:g} is not above 0 and at most 1", USAGE)
    if link and offset_map:
        fail("--map goes with --source and --target; a link has its own", USAGE)
    with _refusals_apart():
        plan = _plan(topics or [], link, source, target, url)
    with job("audit", master, py_files, conf, refused=EXIT_CODES[AuditVerdict.INCOMPLETE]) as spark:
        given = read_table(spark, offset_map, SEGMENTS, optional={}) if offset_map else None
        options = AuditOptions(
            source=plan.source,
            target=plan.target,
            topics=list(plan.names),
            names=plan.names,
            link=plan.link,
            records=_records(plan),
            records_now=(lambda: _records(read_again(url, link, plan))) if link else None,
            given=None if given is None else relations(given),
            fraction=fraction,
            seed=seed,
            wait_s=0 if dry_run else wait,
            provenance=plan.provenance,
            sources=plan.sources,
            ids_now=(lambda: _ids(read_again(url, link, plan))) if link else None,
        )
        if dry_run:
            _show_plan(prepare(options, say), options)
            return
        with JobProgress("comparing") as view:
            found = run_audit(spark, options, say, view.show)
    _write(found, report, html)
    _show(found)
    if found.exit_code:
        raise typer.Exit(found.exit_code)


@contextmanager
def _refusals_apart() -> Iterator[None]:
    """1 says of an audit that something differs; a gateway that refuses to tell of its link says nothing like that."""
    try:
        yield
    except typer.Exit as exc:
        raise typer.Exit(EXIT_CODES[AuditVerdict.INCOMPLETE] if exc.exit_code == REFUSED else exc.exit_code) from None


def _records(plan: LinkPlan) -> dict[str, MirrorRecord]:
    return {record.source_topic: record for record in plan.records}


def _ids(plan: LinkPlan) -> tuple[Mapping[int, int], Mapping[int, int]]:
    return plan.ids, plan.same_ids


def _plan(topics: list[str], link: str, source: str, target: str, url: str) -> LinkPlan:
    """Both clusters, and the topics' names on them."""
    names = topic_names(topics)
    if link:
        return mirrored(url, link, names, source, target)
    if not names or not source or not target:
        fail("an audit needs topics, --source and --target, or a --link", USAGE)
    return LinkPlan.without_link(cluster(source), cluster(target), names)


def _show_plan(scene: AuditInput, options: AuditOptions) -> None:
    pieces = scene.pieces(options, 1)
    table(
        [
            col("Topic"),
            col("Partition#"),
            col("Source log", 2),
            col("Target log", 2),
            col("Source offsets", 1),
            col("Target offsets", 1),
            col("Pieces#", 3),
            col("Problem", note=True),
        ],
        (
            [
                one.topic,
                one.partition,
                _span(one.source_log),
                _span(one.target_log),
                _span(one.source),
                _span(one.target),
                len(pieces[one.topic, one.partition]),
                "; ".join(one.problems),
            ]
            for one in scene.asked
        ),
        label=2,
    )


def _span(span: Span) -> str:
    return f"{span.low}..{span.high}"


def _write(found: Report, report: Path | None, html: Path | None) -> None:
    text = job_common.write_report(report, found.to_dict())
    if html is not None:
        html.parent.mkdir(parents=True, exist_ok=True)
        html.write_text(page(found.to_dict(), sha256(text.encode()).hexdigest()))


def _show(found: Report) -> None:
    table(
        [
            col("Topic"),
            col("Partition#"),
            col("Different#"),
            col("Equal#", 1),
            col("Source#", 2),
            col("Target#", 2),
            col("Explained#", 3),
            col("Result", note=True),
        ],
        (
            [
                one.asked.topic,
                one.asked.partition,
                one.sums.different,
                one.sums.compared,
                one.sums.source.records,
                one.sums.target.records,
                sum(one.sums.kinds[kind] for kind in EXPLAINED),
                one.sentence,
            ]
            for one in found.findings
        ),
        label=2,
    )
    for line in sum_lines(found.to_dict()["totals"]):
        say(line)
    say(
        f"{found.verdict}: {found.sums.compared:,} records are equal, {found.total_s:.1f} s, "
        f"{rate(found.bytes_per_s)} of log"
    )
