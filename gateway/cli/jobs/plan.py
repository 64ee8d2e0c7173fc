"""`lockgate job plan`: what is on the source, what becomes of it, how long it takes, what stands in the way."""

from __future__ import annotations

from typing import Annotated

import typer

from gateway.cli.api import REFUSED, USAGE, fail
from gateway.cli.jobs import common as job_common
from gateway.cli.jobs.common import Source, cluster, one_line_errors, say, write_report
from gateway.cli.output import col, table
from gateway.cli.output import rate as per_second
from gateway.jobs.inputs import topic_names
from gateway.jobs.plan.assess import MigrationAssessment, duration
from gateway.jobs.plan.job import MEASURE_S, run_plan, to_dict

_MB = 1_000_000


def plan(
    source: Source,
    topics: Annotated[list[str] | None, typer.Argument(help="Topics; all when left out.")] = None,
    target: Annotated[str, typer.Option("--target", metavar="HOST:PORT|FILE", help="Target cluster, if any yet.")] = "",
    rate: Annotated[float, typer.Option(help="MB/s of a catch-up, if known; measured otherwise.")] = 0.0,
    streams: Annotated[int, typer.Option(help="Partitions copied at the same time.")] = 1,
    measure: Annotated[float, typer.Option(help="Seconds to measure.")] = MEASURE_S,
    prefix: Annotated[str, typer.Option(help="What the mirror topics' names begin with on the target.")] = "",
    measure_writes: Annotated[
        bool, typer.Option(help="Also measure the target, by a topic that is created there and deleted again.")
    ] = False,
    report: job_common.Report = None,
    dry_run: job_common.DryRun = False,
) -> None:
    """Take an inventory of the source and plan its migration. Nothing is changed. Exit code 1 when something blocks."""
    _check(rate, streams, measure_writes=measure_writes, target=target)
    here, there = cluster(source), cluster(target) if target else None
    wanted = topic_names(topics or [])
    if dry_run:
        say(f"would ask {source} for {', '.join(wanted) or 'all topics'}, and read for {measure:g} s")
        return
    with one_line_errors():
        found = run_plan(
            here,
            there,
            wanted,
            rate=rate * _MB,
            streams=streams,
            measure_s=measure,
            prefix=prefix,
            write=measure_writes,
        )
    write_report(report, to_dict(found))
    _show(found)
    if found.blockers:
        raise typer.Exit(REFUSED)


def _check(rate: float, streams: int, *, measure_writes: bool, target: str) -> None:
    if rate < 0 or streams < 1:
        fail("--rate must not be negative and --streams at least 1", USAGE)
    if measure_writes and not target:
        fail("--measure-writes needs a --target to write to", USAGE)
    if measure_writes and rate:
        fail("--measure-writes and --rate exclude each other: a rate that is given is not measured", USAGE)


def _show(found: MigrationAssessment) -> None:
    table(
        [
            col("Topic"),
            col("Becomes"),
            col("Partitions#", 2),
            col("MB#", 1),
            col("Records/s#", 1),
            col("Why", note=True),
            col("Not carried over", note=True),
        ],
        (
            [
                one.topic.name,
                one.fate,
                one.topic.partitions,
                "?" if one.topic.bytes < 0 else f"{one.topic.bytes / _MB:.1f}",
                f"{one.topic.offsets_per_s:.1f}",
                "; ".join((*one.reasons, *one.notes)),
                ", ".join(one.left_behind),
            ]
            for one in found.topics
        ),
        empty="the source has no topics",
    )
    table(
        [col("Group"), col("Moves"), col("State", 1), col("Clients", 2), col("Why", note=True)],
        (
            [one.group.name, "yes" if one.moves else "no", one.group.state, ", ".join(one.group.clients), one.reason]
            for one in found.groups
        ),
        empty="no groups",
    )
    say(f"catch-up at {per_second(found.rate)}: {duration(found.catch_up_s)}")
    if found.inventory.acls:
        say(f"{len(found.inventory.acls)} ACLs are not carried over; --report lists them")
    for text in found.inventory.untold:
        say(f"not told: {text}")
    for text in found.notes:
        say(text)
    for text in found.blockers:
        say(f"blocker: {text}")
