"""What a running gateway tells a job of its link. Secrets are never told, and never on a command line: they are in a
file of client properties, which wins over what the gateway tells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import typer
from pyspark.sql import SparkSession

from gateway.cli.api import REFUSED, USAGE, ask, fail, segment
from gateway.cli.jobs.gateway import ask_again
from gateway.cli.properties import client_properties
from gateway.jobs.errors import JobFailed
from gateway.jobs.inputs import read_table
from gateway.jobs.link_map import SegmentsOf
from gateway.jobs.link_plan import LinkPlan
from gateway.jobs.offset_map import SEGMENTS

Link = Annotated[
    str,
    typer.Option(
        "--link", metavar="NAME", help="Take both clusters and the mirror topics from this link of a gateway."
    ),
]

MapFile = Annotated[str, typer.Option("--map", help="Offset map (CSV, JSON or Parquet) when offsets differ.")]


def read_plan(
    url: str,
    link: str,
    topics: list[str],
    source: Mapping[str, str],
    target: Mapping[str, str],
    *,
    kind: Literal["catch-up", "job-plan"] = "job-plan",
) -> LinkPlan:
    """Ask the gateway, or end the command.

    Args:
        topics: mirror topics; all of the link when empty.
        source, target: client properties that win over the gateway's.
        kind: `catch-up` refuses topics that cannot be caught up, `job-plan` has every mirror topic.
    """
    path = f"/v3/links/{segment(link)}/{kind}"
    body = ask(url, lambda api: api.get(path, {"topic": topics} if topics else None))
    try:
        return LinkPlan.from_rest(body, source=source, target=target)
    except ValueError as exc:
        fail(str(exc), USAGE)


def read_again(url: str, link: str, plan: LinkPlan) -> LinkPlan:
    """All mirrors of a plan's link as they are now. Raises JobFailed, in one line, when the gateway does not tell."""
    body = ask_again(url, f"/v3/links/{segment(link)}/job-plan")
    try:
        return LinkPlan.from_rest(body, source=plan.source, target=plan.target)
    except ValueError as exc:
        raise JobFailed(str(exc)) from exc


def mirrored(url: str, link: str, topics: list[str], source: str, target: str) -> LinkPlan:
    """As `read_plan`, of a link that has a mirror topic at least; or end the command.

    Args:
        source, target: what --source and --target say, each may be empty; see `client_properties`.
    """
    plan = read_plan(url, link, topics, client_properties(source), client_properties(target))
    if not plan.mirrors:
        fail(f"link {link} has no mirror topic", REFUSED)
    return plan


def segments_given(spark: SparkSession, offset_map: str) -> SegmentsOf | None:
    """The segments of a file, which hold for every topic; None without one."""
    if not offset_map:
        return None
    table = read_table(spark, offset_map, SEGMENTS, optional={})
    return lambda _: table
