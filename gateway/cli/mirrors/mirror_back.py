"""`lockgate mirror reverse`, its two halves under Confluent's names, `failover` and `truncate-and-restore`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from gateway.cli.api import DEFAULT_URL, REFUSED, Api, Refused, Url, fail
from gateway.cli.consent import Yes, named, require_consent
from gateway.cli.dry_run import DryRun, would
from gateway.cli.mirrors.mirror_common import Link, Topics, end, mirror_path, not_mirrored, results
from gateway.cli.mirrors.mirror_promote import going_on
from gateway.cli.mirrors.mirror_shown import names_in, undo_told, where_written
from gateway.cli.output import Format, Output, dump
from gateway.cli.waiting import until_done, until_reversed

Force = Annotated[
    bool, typer.Option("--force", help="As for a promote: also with groups that still read on the source.")
]
ReverseDryRun = Annotated[
    bool, typer.Option("--dry-run", help="Say what blocks it, with both logs compared; change nothing.")
]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the end.")]


def register(app: typer.Typer) -> None:
    """Add the commands to `lockgate mirror`."""
    app.command("reverse")(reverse)
    app.command("reverse-and-start-mirror")(reverse_and_start)
    app.command("reverse-and-pause-mirror")(reverse_and_pause)
    app.command("undo")(undo)
    app.command("failover")(failover)
    app.command("truncate-and-restore")(restore)


def reverse(
    topics: Topics,
    link: Link,
    pause: Annotated[bool, typer.Option("--pause", help="Leave the mirror back paused until `mirror resume`.")] = False,
    force: Force = False,
    wait: Wait = True,
    yes: Yes = False,
    dry_run: ReverseDryRun = False,
    output: Format = Output.TABLE,
    url: Url = DEFAULT_URL,
) -> None:
    """Mirror topics back to the source, so that the failback stays open. `mirror promote --failback` then goes home.

    Topics that are still mirrored to the target are promoted first.
    """
    _reverse(topics, link, "pause" if pause else "start", output, url, force=force, wait=wait, yes=yes, dry_run=dry_run)


def reverse_and_start(
    topics: Topics,
    link: Link,
    force: Force = False,
    wait: Wait = True,
    yes: Yes = False,
    dry_run: ReverseDryRun = False,
    output: Format = Output.TABLE,
    url: Url = DEFAULT_URL,
) -> None:
    """Promote topics if they are not yet, and mirror them back to the source."""
    _reverse(topics, link, "start", output, url, force=force, wait=wait, yes=yes, dry_run=dry_run)


def reverse_and_pause(
    topics: Topics,
    link: Link,
    force: Force = False,
    wait: Wait = True,
    yes: Yes = False,
    dry_run: ReverseDryRun = False,
    output: Format = Output.TABLE,
    url: Url = DEFAULT_URL,
) -> None:
    """The same, and leave the mirror back paused until `mirror resume`."""
    _reverse(topics, link, "pause", output, url, force=force, wait=wait, yes=yes, dry_run=dry_run)


def _reverse(
    topics: list[str],
    link: str,
    how: str,
    output: Output,
    url: str,
    *,
    force: bool,
    wait: bool,
    yes: bool,
    dry_run: bool,
) -> None:
    api, names = Api(url), list(dict.fromkeys(topics))
    path = f"{mirror_path(link)}:reverse-and-{how}-mirror"
    if dry_run or not yes:
        plans = _post(api, f"{path}?validate_only=true", names, force=force)
        if dry_run:
            _reverse_plans(plans, output)
            return
        end([line for plan in plans for line in plan["blockers"]])
        require_consent(_reversal(names, link, promoted=plans[0]["promoted_first"]), link, yes=yes)
    done = _post(api, path, names, force=force)
    if wait:
        done = until_reversed(api, mirror_path(link), names)
    _finish("reversed" if wait else "reversing", done, ("ACTIVE", "PAUSED", "SOURCE_UNAVAILABLE"), output, wait=wait)


def _reversal(names: list[str], link: str, *, promoted: bool) -> str:
    """What a reverse does to these topics, which are all of one kind."""
    if promoted:
        what = f"this promotes {named(names)} of link {link}, and mirrors back what is written then"
        return f"{what}; clients write to the target from then on"
    return f"this mirrors {named(names)} of link {link} back: the source gets what is written on the target"


def _reverse_plans(plans: list[Any], output: Output) -> None:
    """What a reverse would meet; ends the command with 1 when it would be refused."""
    if output is not Output.TABLE:
        dump({"data": plans}, output)
    else:
        for plan in plans:
            if not plan["blockers"]:
                first = "promote and then " if plan["promoted_first"] else ""
                typer.echo(f"would {first}reverse {plan['mirror_topic_name']}")
    end(list(dict.fromkeys(line for plan in plans for line in plan["blockers"])))


def undo(
    topics: Topics,
    link: Link,
    groups: Annotated[
        str, typer.Option("--groups", help="Groups that change sides with the topics, with commas between.")
    ] = "",
    keep_late_writes: Annotated[
        bool,
        typer.Option("--keep-late-writes", help="What was written to the source beside the gateway stays there."),
    ] = False,
    wait: Wait = True,
    yes: Yes = False,
    dry_run: DryRun = False,
    output: Format = Output.TABLE,
    url: Url = DEFAULT_URL,
) -> None:
    """Take the promote of topics back, as one set: they are written on the source again. Clients go on.

    It is possible while they are mirrored back: `mirror describe` says until when, and how many records are at risk.
    With --groups the groups change sides under the same write pause, so that no transaction has two sides.
    It is refused while the source has records that were written there beside the gateway; the refusal says how many,
    where, and what can be done. With --keep-late-writes they stay where they are and come to the target behind the
    cutover, where that is possible.
    """
    api, names = Api(url), list(dict.fromkeys(topics))
    path = f"{mirror_path(link)}:undo"
    asked: dict[str, Any] = {"groups": names_in(groups), "keep_late_writes": keep_late_writes}
    if dry_run:
        plan = _post(api, f"{path}?validate_only=true", names, **asked)
        if output is not Output.TABLE:
            dump({"data": plan}, output)
            return
        for mirror in plan:
            typer.echo(
                f"would undo the promote of {mirror['mirror_topic_name']}: {undo_told(mirror['undo']) or 'no end'}"
            )
        return
    what = f"this takes {named(names)} of link {link} home; clients write to the source from then on"
    require_consent(what, link, yes=yes)
    with going_on(link, names):
        done = _post(api, path, names, **asked)
        if wait:
            done = until_done(api, mirror_path(link), names, "going home")
    home = [m for m in done if not wait or (m["mirror_direction"] == "FORWARD" and m["mirror_status"] != "FAILED")]
    if wait and output is Output.TABLE:
        for mirror in home:
            typer.echo(where_written(mirror))
    else:
        results("undoing", done, output)
    left = [m for m in done if m not in home]
    end([f"{m['mirror_topic_name']}: {m['promote_error'] or m['error_message'] or m['mirror_status']}" for m in left])


def failover(
    topics: Topics,
    link: Link,
    yes: Yes = False,
    dry_run: DryRun = False,
    output: Format = Output.TABLE,
    url: Url = DEFAULT_URL,
) -> None:
    """Write topics on the target at once, whatever the source does. Says what may be lost, and asks."""
    api = Api(url)
    names = list(dict.fromkeys(topics))
    for plan in _post(api, f"{mirror_path(link)}:failover?validate_only=true", names):
        left = not_mirrored(plan["records_not_mirrored"], plan["records_not_mirrored_exact"])
        typer.echo(
            f"{plan['mirror_topic_name']}: {left or 'nothing: the target has every record that the source has now'}",
            err=True,
        )
        if plan.get("retries_unknown"):
            typer.echo(
                f"{plan['mirror_topic_name']}: too many producers to go along in {len(plan['retries_unknown'])} "
                "partitions: what they send again may be there twice",
                err=True,
            )
    if dry_run:
        would("failover", topics, link, output, url)
    what = f"this fails over {named(names)} of link {link}; clients write to the target from then on"
    require_consent(what, link, yes=yes)
    _finish("failed over", _post(api, f"{mirror_path(link)}:failover", names), ("STOPPED",), output, wait=True)


def restore(
    topics: Topics,
    link: Link,
    yes: Yes = False,
    wait: Wait = True,
    dry_run: DryRun = False,
    output: Format = Output.TABLE,
    url: Url = DEFAULT_URL,
) -> None:
    """Delete failback destinations, create them anew and fill them from the target. Says what is lost, and asks."""
    api = Api(url)
    names = list(dict.fromkeys(topics))
    for plan in _post(api, f"{mirror_path(link)}:truncate-and-restore?validate_only=true", names):
        for line in _losses(plan):
            typer.echo(f"{plan['mirror_topic_name']}: {line}", err=True)
    if dry_run:
        would("truncate-and-restore", topics, link, output, url)
    what = f"this deletes {named(names)} of link {link} on the source, and fills them anew from the target"
    require_consent(what, link, yes=yes)
    done = _post(api, f"{mirror_path(link)}:truncate-and-restore", names)
    if wait:
        done = until_done(api, mirror_path(link), names, "restoring")
    _finish("restored" if wait else "restoring", done, ("ACTIVE", "SOURCE_UNAVAILABLE"), output, wait=wait)


def _losses(plan: Any) -> list[str]:
    """What goes with the old topic, one line each."""
    lines = []
    for name, meaning in (
        ("records_divergent", "that only the failback destination has are thrown away"),
        ("records_older", "that the target does not keep any more are thrown away"),
    ):
        counts = plan[name]
        if counts:
            where = ", ".join(f"{count} in partition {partition}" for partition, count in counts.items())
            lines.append(f"{sum(counts.values())} records {meaning} ({where})")
    lines.append(f"{plan['records_refilled']} offsets are filled from the target")
    return lines


def _post(
    api: Api,
    path: str,
    names: list[str],
    *,
    force: bool = False,
    groups: Sequence[str] = (),
    keep_late_writes: bool = False,
) -> list[Any]:
    more = ({"force": True} if force else {}) | ({"group_names": list(groups)} if groups else {})
    more |= {"keep_late_writes": True} if keep_late_writes else {}
    try:
        found: list[Any] = api.post(path, {"mirror_topic_names": names} | more)["data"]
    except Refused as exc:
        fail(str(exc), REFUSED)
    return found


def _finish(past: str, mirrors: list[Any], good: tuple[str, ...], output: Output, *, wait: bool) -> None:
    failed = [mirror for mirror in mirrors if wait and mirror["mirror_status"] not in good]
    results(past, mirrors if output is not Output.TABLE else [m for m in mirrors if m not in failed], output)
    end([f"{m['mirror_topic_name']}: {m['error_message'] or m['mirror_status']}" for m in failed])
