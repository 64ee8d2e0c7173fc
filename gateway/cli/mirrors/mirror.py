"""`lockgate mirror`: mirror topics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

import typer

from gateway.cli import completion
from gateway.cli.api import DEFAULT_URL, REFUSED, Api, Url, ask, fail, one_of
from gateway.cli.commands import ApiTyper
from gateway.cli.completion import AnyLink
from gateway.cli.dry_run import DryRun, would
from gateway.cli.mirrors.mirror_common import (
    Link,
    Topic,
    Topics,
    each,
    end,
    mirror_path,
    not_mirrored,
    one_by_one,
    results,
)
from gateway.cli.mirrors.mirror_shown import (
    asked_for,
    create_plans,
    transition_errors,
    undo_told,
    wanted,
    written_anew,
)
from gateway.cli.output import Format, Output, Sorted, col, dump, duration, facts, listing, rate, since, table
from gateway.cli.waiting import until_copied
from gateway.state.records import MirrorState

app = ApiTyper(help="Mirror topics: copies of source topics, kept level.", no_args_is_help=True)


@app.command("create")
def create(
    topics: Topics,
    link: Link,
    source_topic: Annotated[str, typer.Option("--source-topic", help="The source topic of one mirror topic.")] = "",
    config: Annotated[
        list[str] | None,
        typer.Option("--config", metavar="KEY=VALUE", help="A config of this topic, instead of what is synced."),
    ] = None,
    replication_factor: Annotated[
        int | None, typer.Option("--replication-factor", min=1, help="Instead of the link's.")
    ] = None,
    start: Annotated[
        str,
        typer.Option(
            "--start",
            help="Where to begin: earliest, latest, an ISO-8601 time, milliseconds, or offsets: 0:120,1:98.",
            autocompletion=completion.words("earliest", "latest"),
        ),
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until what is there now is copied.")] = False,
    output: Format = Output.TABLE,
    url: Url = DEFAULT_URL,
) -> None:
    """Create mirror topics and begin to copy."""
    if source_topic and len(topics) > 1:
        fail("--source-topic names the source of one mirror topic, not of several", REFUSED)
    api, said = Api(url), wanted(source_topic, config or [], replication_factor, start)
    path = mirror_path(link) + ("?validate_only=true" if dry_run else "")
    done, refused = each(topics, lambda topic: api.post(path, {"mirror_topic_name": topic, **said}))
    if dry_run:
        create_plans(done, output)
        end(refused)
        return
    if wait and done:
        done = until_copied(api, mirror_path(link), [mirror["mirror_topic_name"] for mirror in done])
    results("created", done, output)
    end(refused)


@app.command("list")
def list_mirrors(
    link: AnyLink = "",
    status: Annotated[
        str,
        typer.Option(
            "--mirror-status", help="Only those in this state.", autocompletion=completion.words(*MirrorState)
        ),
    ] = "",
    output: Format = Output.TABLE,
    url: Url = DEFAULT_URL,
) -> None:
    """List the mirror topics of a link, or of all links."""
    status = one_of("--mirror-status", status, MirrorState)
    answer = ask(url, lambda api: _listed(api, link, status))
    if output is not Output.TABLE:
        dump(answer, output)
        return
    listing(
        [*_COLUMNS, *([] if link else [col("Link", 1)])],
        ([*_cells(mirror), *([] if link else [mirror["link_name"]])] for mirror in answer["data"]),
        empty=(f"link {link} has no mirror topics" if link else "no mirror topics")
        + (f" in state {status}" if status else ""),
    )


_COLUMNS: Final = (
    col("Mirror topic"),
    col("Status"),
    col("Lag#"),
    col("Lag ms#", 2),
    col("Direction", 3),
    col("Throughput#", 4),
    col("Partitions#", 5),
    col("Mode", 6),
    col("Since", 7),
    col("Source topic", 8),
    col("Error", note=True),
    col("Remedy", note=True),
)


def _cells(mirror: Any) -> list[Any]:
    name, source = mirror["mirror_topic_name"], mirror["source_topic_name"]
    throughput = sum(lag["bytes_per_s"] for lag in mirror["mirror_lags"])
    repair = f"lockgate mirror repair {name} --link {mirror['link_name']}"
    return [
        name,
        mirror["mirror_status"],
        _told(sum, mirror["mirror_lags"], "lag"),
        _told(max, mirror["mirror_lags"], "lag_ms"),
        mirror["mirror_direction"].lower(),
        Sorted(rate(throughput), throughput),
        mirror["num_partitions"],
        mirror["mode"],
        since(mirror["state_time_ms"]),
        "" if source == name else source,
        mirror["promote_error"] or mirror["error_message"],
        f"{repair} says what can be done" if mirror["mirror_status"] == "FAILED" else "",
    ]


@app.command("describe")
def describe(topic: Topic, link: Link, output: Format = Output.TABLE, url: Url = DEFAULT_URL) -> None:
    """Show a mirror topic: state, each partition, and who has not migrated to the gateway yet."""
    path = mirror_path(link, topic)
    mirror = ask(url, lambda api: api.get(path, {"include_state_transition_errors": "true"}))
    if output is not Output.TABLE:
        dump(mirror, output)
        return
    error = "" if mirror["mirror_topic_error"] == "NO_ERROR" else f"{mirror['mirror_topic_error']}: "
    facts(
        [
            ("Mirror topic", mirror["mirror_topic_name"]),
            ("Source topic", mirror["source_topic_name"]),
            ("Link", mirror["link_name"]),
            ("Status", mirror["mirror_status"]),
            ("Direction", _direction(mirror["mirror_direction"])),
            ("Catch-up", _catch_up(mirror["catch_up"])),
            ("Since", since(mirror["state_time_ms"])),
            ("Undo", undo_told(mirror.get("undo"))),
            ("Error", error + mirror["error_message"]),
            ("Way out", "`lockgate mirror repair` says what it can do" if mirror["mirror_status"] == "FAILED" else ""),
            ("Waits for", mirror["waiting_for"]),
            ("Last promote", mirror["promote_error"]),
            ("Schema ids unknown", ", ".join(map(str, mirror.get("unresolved_schema_ids", ())))),
            ("Left behind", not_mirrored(mirror["records_not_mirrored"], mirror["records_not_mirrored_exact"])),
            ("Retries unknown", _retries(mirror["retries_unknown"])),
            ("Lost records", _lost(mirror["records_lost"])),
            ("Records after the cutover", _late(mirror["records_after_cutover"])),
            ("Mode", f"{mirror['mode']} ({mirror['mode_reason']})"),
            ("Schema ids", written_anew(mirror.get("translates_ids", ()))),
            ("From", _from(mirror.get("provenance"))),
            ("Readable", "yes" if mirror["readable"] else "not yet: the topic is being padded to the source's offsets"),
            ("Stopped at", ", ".join(map(str, mirror["stopped_at"]))),
            *asked_for(mirror),
        ]
    )
    transition_errors(mirror["mirror_state_transition_errors"])
    typer.echo("")
    _partitions(mirror)
    _clients_not_migrated(mirror["clients_not_migrated"], mirror["records_after_cutover"])


def _from(found: dict[str, Any] | None) -> str:
    """From where the records are: the source, and in a chain the clusters before it, the nearest first."""
    if found is None:
        return ""
    chain = "".join(
        f" ← {up['cluster_id']} (link {up['link']}{', promoted' if up['until_offsets'] else ''})"
        for up in found["upstream"]
    )
    return f"cluster {found['source_cluster_id']} (link tag {found['link_tag']}){chain}"


@app.command("translate-offset")
def translate_offset(
    topic: Topic,
    link: Link,
    partition: Annotated[int, typer.Option("--partition", min=0, help="Partition.")],
    offset: Annotated[int, typer.Option("--offset", min=0, help="An offset on the source.")],
    reverse: Annotated[bool, typer.Option("--reverse", help="The offset is one of the target.")] = False,
    output: Format = Output.TABLE,
    url: Url = DEFAULT_URL,
) -> None:
    """Show where an offset of a mirror topic is on the other cluster."""
    path = f"{mirror_path(link, topic)}/partitions/{partition}:translate"
    found = ask(url, lambda api: api.get(path, {"offset": str(offset), "reverse": str(reverse).lower()}))
    if output is not Output.TABLE:
        dump(found, output)
        return
    here, there = ("target", "source") if reverse else ("source", "target")
    typer.echo(f"{here} offset {offset} is {there} offset {found['translated']} ({found['rule']})")


@app.command("pause")
def pause(
    topics: Topics, link: Link, dry_run: DryRun = False, output: Format = Output.TABLE, url: Url = DEFAULT_URL
) -> None:
    """Pause mirror topics. Writes that come through the gateway still go to the source."""
    if dry_run:
        would("pause", topics, link, output, url)
    one_by_one("pause", "paused", topics, link, output, url)


@app.command("resume")
def resume(
    topics: Topics, link: Link, dry_run: DryRun = False, output: Format = Output.TABLE, url: Url = DEFAULT_URL
) -> None:
    """Resume paused mirror topics."""
    if dry_run:
        would("resume", topics, link, output, url)
    one_by_one("resume", "resumed", topics, link, output, url)


def _listed(api: Api, link: str, status: str) -> Any:
    """What the API says of one link, or of each of them."""
    query = {"mirror_status": status} if status else None
    if link:
        return api.list(mirror_path(link), query)
    links = [each["link_name"] for each in api.get("/v3/links")["data"]]
    return {"data": [mirror for each in links for mirror in api.list(mirror_path(each), query)["data"]]}


def _direction(direction: str) -> str:
    return "from the target back to the source" if direction == "REVERSE" else ""


def _late(late: dict[str, int] | None) -> str:
    """Records that a writer beside the gateway left on the source after the promote."""
    if late is None:
        return "not measured since the present leader leads"
    if not late:
        return ""
    where = ", ".join(f"{count} in partition {partition}" for partition, count in late.items())
    return f"{where}: written to the source after the promote, not on the target"


def _lost(lost: dict[str, int]) -> str:
    """Records that the source deleted before they were mirrored."""
    if not lost:
        return ""
    where = ", ".join(f"{count} in partition {partition}" for partition, count in lost.items())
    return f"{where}: deleted on the source before they were mirrored"


def _shown(number: int | None) -> str:
    return "?" if number is None else str(number)


def _told(together: Callable[[list[int]], int], lags: list[Any], name: str) -> str:
    """Of all partitions; '?' as long as it is not known of one."""
    numbers = [lag[name] for lag in lags]
    return "?" if None in numbers else str(together(numbers) if numbers else 0)


def _catch_up(job: Any) -> str:
    """How far a job is with the topic."""
    if job is None:
        return ""
    part = 100.0 if not job["records_total"] else 100.0 * job["records_done"] / job["records_total"]
    eta = "unknown" if job["eta_s"] < 0 else duration(job["eta_s"])
    return f"by {job['by']} job {job['job']}: {part:.1f} %, {rate(job['bytes_per_s'])}, {eta} to go"


def _partitions(mirror: Any) -> None:
    table(
        [
            col("Partition#"),
            col("Phase"),
            col("Lag#"),
            col("Lag ms#", 1),
            col("Source end#", 2),
            col("Mirrored to#", 2),
            col("Throughput#", 3),
            col("Error", note=True),
        ],
        (
            [
                lag["partition"],
                lag["phase"],
                *(_shown(lag[name]) for name in ("lag", "lag_ms", "source_end", "mirrored_to")),
                rate(lag["bytes_per_s"]),
                lag["last_error"],
            ]
            for lag in mirror["mirror_lags"]
        ),
        empty="no partition is being mirrored",
    )
    queued = sum(lag["queued_bytes"] for lag in mirror["mirror_lags"])
    if queued:
        typer.echo(f"In memory, not known to be on the target yet: {queued / 1e6:,.1f} MB")
    for lag in mirror["mirror_lags"]:
        if lag["waits_for"]:
            typer.echo(f"Partition {lag['partition']}: {lag['waits_for']}")


def _clients_not_migrated(clients_not_migrated: Any, after_cutover: Any) -> None:
    typer.echo("")
    if after_cutover:
        typer.echo("A producer writes to the source, beside the gateway: restart it onto the gateway")
    bypassed = clients_not_migrated["bypassed_last_minute"]
    if bypassed:
        typer.echo(f"Producers not moved: {bypassed} records of the last minute did not come through the gateway")
    if clients_not_migrated["readers"] is None:
        typer.echo(f"Consumers not moved: unknown, {clients_not_migrated['unknown']}")
    elif clients_not_migrated["readers"]:
        typer.echo("Consumers not moved:")
        table(
            [col("Group"), col("Client id"), col("Host")],
            ([reader["group"], reader["client_id"], reader["host"]] for reader in clients_not_migrated["readers"]),
        )
    elif after_cutover is None:
        typer.echo("Producers not moved: unknown, the source was not compared since the present leader leads")
    elif not bypassed and not after_cutover:
        typer.echo("Nobody is known to be left on the source.")


def _retries(partitions: list[int]) -> str:
    """Partitions in which a retry over the last failover is not known as one."""
    if not partitions:
        return ""
    return f"in partition {', '.join(map(str, partitions))}: a retry over the failover may be appended once more"
