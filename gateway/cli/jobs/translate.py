"""`lockgate job translate-offsets`: where every group stands on the source, in offsets of the target."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from gateway.cli.api import DEFAULT_URL, REFUSED, USAGE, Url, fail
from gateway.cli.jobs import common as job_common
from gateway.cli.jobs.common import (
    Conf,
    DryRun,
    LinkedSource,
    LinkedTarget,
    Master,
    PyFiles,
    cluster,
    job,
    say,
    write_report,
)
from gateway.cli.jobs.link import Link, MapFile, mirrored, segments_given
from gateway.cli.jobs.progress import JobProgress
from gateway.cli.output import col, table
from gateway.jobs.inputs import topic_names
from gateway.jobs.link_plan import LinkPlan, changed_mirrors
from gateway.jobs.session import require_same_on_executors
from gateway.jobs.translate.by_link import ByLink
from gateway.jobs.translate.checkpoint_job import rewrite
from gateway.jobs.translate.commit import CommitTerms
from gateway.jobs.translate.gather import find_groups, read_offsets, read_offsets_file
from gateway.jobs.translate.job import run, translate_groups, translate_mm2
from gateway.jobs.translate.read_back import SAMPLE, SampledOffset, differences
from gateway.state.records import GroupState

_SHOWN = 50
_ON_TARGET = (GroupState.PENDING_PROMOTED, GroupState.PROMOTED)


def translate_offsets(
    link: Link = "",
    source: LinkedSource = "",
    target: LinkedTarget = "",
    group: Annotated[list[str] | None, typer.Option("--group", help="Only this group; may be repeated.")] = None,
    topic: Annotated[list[str] | None, typer.Option("--topic", help="Only this topic; may be repeated.")] = None,
    offset_map: MapFile = "",
    offsets: Annotated[
        str,
        typer.Option("--offsets", help="Offsets kept elsewhere: CSV, JSON or Parquet of (topic, partition, offset)."),
    ] = "",
    mm2: Annotated[str, typer.Option("--mm2", metavar="ALIAS", help="MirrorMaker 2's alias of the source.")] = "",
    mm2_prefix: Annotated[str | None, typer.Option(help="What its topics begin with; ALIAS. by default.")] = None,
    mm2_syncs: Annotated[
        str, typer.Option(help="Cluster:topic of its offset syncs as source:NAME or target:NAME; empty for none.")
    ] = "",
    mm2_written_once: Annotated[
        bool, typer.Option(help="It wrote each record once, so offsets between two syncs are exact.")
    ] = False,
    checkpoint: Annotated[Path | None, typer.Option(help="Checkpoint folder of Spark Structured Streaming.")] = None,
    new_checkpoint: Annotated[Path | None, typer.Option(help="Where to write it, translated.")] = None,
    query_stopped: Annotated[
        bool, typer.Option("--query-stopped", help="The checkpoint's query is, though its last batch is not committed.")
    ] = False,
    commit: Annotated[bool, typer.Option("--commit", help="Commit on the target (never back, groups empty).")] = False,
    inexact: Annotated[
        bool, typer.Option("--inexact", help="Offsets that are not exact too: records are read twice, or skipped.")
    ] = False,
    out: Annotated[str, typer.Option(metavar="FOLDER", help="Write the translated offsets as Parquet there.")] = "",
    report: job_common.Report = None,
    dry_run: DryRun = False,
    master: Master = job_common.DEFAULT_MASTER,
    py_files: PyFiles = "",
    conf: Conf = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Translate committed offsets, MirrorMaker 2's checkpoints, Spark's checkpoints, or offsets in a file."""
    inputs = [name for name, given in (("--offsets", offsets), ("--mm2", mm2), ("--checkpoint", checkpoint)) if given]
    _check(inputs, link, source, target, offset_map, for_group=not (offsets and commit) or bool(group))
    plan = _plan(topic_names(topic or []), link, source, target, url)
    there = plan.target

    def read_again() -> LinkPlan:
        return _plan(topic_names(topic or []), link, source, target, url)

    with job("translate-offsets", master, py_files, conf) as spark, JobProgress("translating") as view:
        segments = segments_given(spark, offset_map)
        require_same_on_executors(spark)
        by_link = ByLink(plan) if plan.link else None
        if checkpoint is not None:
            _require_rewritable(plan, new_checkpoint, dry_run=dry_run)
            rewritten = rewrite(
                spark,
                checkpoint,
                new_checkpoint or checkpoint,
                there,
                segments,
                by_link=by_link,
                inexact=inexact,
                source=plan.source,
                stopped=query_stopped,
                write=not dry_run,
                look_again=lambda: changed_mirrors(plan, read_again()),
            )
            _show_checkpoint(rewritten, report, inexact=inexact)
            return
        if mm2:
            found = _mm2(spark, there, plan.source, mm2, mm2_prefix, mm2_syncs, mm2_written_once)
        else:
            table_ = (
                _file(spark, offsets, group) if offsets else _groups(spark, plan, group or [], topic_names(topic or []))
            )
            found = translate_groups(
                spark,
                table_,
                there,
                segments,
                by_link=by_link,
                names=plan.names,
                group_prefix=plan.group_prefix,
            )
        if out and not dry_run:
            found.write.mode("errorifexists").parquet(out)
        outcome = run(
            spark,
            found,
            there,
            write=commit and not dry_run,
            terms=_terms(plan, inexact=inexact),
            read_back=_read_back(plan),
            look_again=lambda _: _look_again(plan, read_again(), inexact=inexact),
            say=say,
            tell=view.show,
        )
    write_report(report, outcome.report)
    _show(outcome.report)
    if outcome.failed:
        raise typer.Exit(REFUSED)


def _terms(plan: LinkPlan, *, inexact: bool) -> CommitTerms:
    return CommitTerms(frozenset(name for name, state in plan.groups.items() if state in _ON_TARGET), inexact)


def _look_again(plan: LinkPlan, now: LinkPlan, *, inexact: bool) -> tuple[CommitTerms, list[str]]:
    """A job takes its time: meanwhile groups were promoted, and topics, or offsets came to differ."""
    return _terms(now, inexact=inexact), changed_mirrors(plan, now)


def _require_rewritable(plan: LinkPlan, new_checkpoint: Path | None, *, dry_run: bool) -> None:
    if any(topic != name for topic, name in plan.names.items()):
        fail("a stream's topics cannot be renamed: the link's mirror topics have a prefix", REFUSED)
    if new_checkpoint is None and not dry_run:
        fail("--new-checkpoint is missing: the old folder is never written to", USAGE)


def _check(inputs: list[str], link: str, source: str, target: str, offset_map: str, *, for_group: bool) -> None:
    if len(inputs) > 1:
        fail(f"{inputs[0]} and {inputs[1]} are two ways; take one", USAGE)
    if link and (offset_map or "--mm2" in inputs):
        fail(f"{'--map' if offset_map else '--mm2'} goes with --source and --target; a link has its own map", USAGE)
    if not link and not target:
        fail("--target is missing: where the offsets are to be valid", USAGE)
    if not link and not inputs and not source:
        fail("--source is missing: where the groups' offsets are", USAGE)
    if not for_group:
        fail("--commit with --offsets needs --group: whose offsets they are", USAGE)


def _plan(topics: list[str], link: str, source: str, target: str, url: str) -> LinkPlan:
    """Both clusters, and the topics' names on them. Without a link every topic has the same name on both."""
    if link:
        return mirrored(url, link, topics, source, target)
    return LinkPlan.without_link(cluster(source) if source else {}, cluster(target), ())


def _groups(spark: SparkSession, plan: LinkPlan, groups: list[str], topics: list[str]) -> DataFrame:
    """Committed offsets of the source's groups, of a link for its mirror topics only."""
    names = find_groups(plan.source, groups)
    say(f"reading the offsets of {len(names)} group(s)")
    wanted = list(plan.names) if plan.link else topics
    return read_offsets(spark, plan.source, names, wanted).persist()


def _mm2(
    spark: SparkSession,
    target: Mapping[str, str],
    source: Mapping[str, str],
    alias: str,
    prefix: str | None,
    syncs: str,
    written_once: bool,
) -> DataFrame:
    where, _, name = syncs.partition(":")
    if syncs and (where not in ("source", "target") or not name):
        fail(f"--mm2-syncs is source:NAME or target:NAME, not {syncs!r}", USAGE)
    if where == "source" and not source:
        fail("--source is missing: where the offset syncs are", USAGE)
    return translate_mm2(
        spark,
        target,
        checkpoints_topic=f"{alias}.checkpoints.internal",
        syncs_topic=name,
        syncs_cluster=source if where == "source" else target,
        prefix=f"{alias}." if prefix is None else prefix,
        written_once=written_once,
    )


def _file(spark: SparkSession, path: str, group: list[str] | None) -> DataFrame:
    if group and len(group) > 1:
        fail("--offsets are those of one group", USAGE)
    return read_offsets_file(spark, path, (group or [""])[0])


def _read_back(plan: LinkPlan) -> Callable[[DataFrame], list[str]]:
    """Of a link, both clusters of which are known."""

    def look(translated: DataFrame) -> list[str]:
        if not plan.link:
            return []
        here = {there: topic for topic, there in plan.names.items()}
        rows = translated.where("exact").select("topic", "partition", "source_offset", "target_offset").distinct()
        chosen = rows.orderBy(F.rand(seed=0)).limit(4 * SAMPLE).collect()
        places = [SampledOffset(here[row.topic], *row) for row in chosen if row.topic in here]
        return differences(plan.source, plan.target, places)

    return look


def _show_checkpoint(found: dict[str, Any], report: Path | None, *, inexact: bool) -> None:
    write_report(report, found)
    for row in found["last_batch_not_exact"]:
        where = f"{row['topic']}-{row['partition']} at {row['source_offset']}"
        say(f"not exact: {where}: {row['rule']} {row['why']}".rstrip())
    done = f", written to {found['new']}" if found["written"] else ", nothing was written"
    say(f"{found['offsets']} offsets in {len(found['files'])} files{done}")
    if found["runs_again_from"]:
        say(f"{found['last_batch']} is not committed: Spark runs that batch again, from {found['runs_again_from'][0]}")
    if found["last_batch_not_exact"] and not inexact:
        fail("the query would read records twice, or skip some; --inexact writes the checkpoint even so", REFUSED)


def _show(report: dict[str, Any]) -> None:
    groups = report["groups"]
    table(
        [col("Group"), col("Partitions#"), col("Exact#"), col("Rules", 1), col("Lag#")],
        (
            [
                one["group"],
                one["partitions"],
                one["exact"],
                ", ".join(f"{rule} {count}" for rule, count in sorted(one["rules"].items())),
                "" if one["lag"] is None else one["lag"],
            ]
            for one in groups[:_SHOWN]
        ),
        empty="no committed offsets",
    )
    if len(groups) > _SHOWN:
        say(f"and {len(groups) - _SHOWN} more groups; --report has them all")
    if report["committed"]:
        say("on the target: " + ", ".join(f"{name} {count}" for name, count in sorted(report["outcomes"].items())))
    for one in report["not_exact"][: _SHOWN if not report["committed"] else 0]:
        where = f"{one['topic']}-{one['partition']} at {one['source_offset']}"
        say(f"not exact: {one['group']} {where}: {one['rule']} {one['why']}".rstrip())
    for text in (*report["other_records"], *report["changed"]):
        say(f"{'no more' if report['committed'] else 'nothing'} is committed: {text}")
    for one in report.get("problems", ())[:_SHOWN]:
        say(f"{one['outcome']}: {one['group']} {one['topic']}-{one['partition']} {one['message']}".rstrip())
