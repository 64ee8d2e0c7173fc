"""`lockgate migration undo`: the promotes of a migration are taken back, and what `status` says of that."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from gateway.cli import completion
from gateway.cli.api import REFUSED, Api, Refused, fail, segment
from gateway.cli.consent import named, require_consent
from gateway.cli.mirrors.mirror_common import end, mirror_path, results
from gateway.cli.mirrors.mirror_shown import records
from gateway.cli.output import Output, dump, since
from gateway.cli.waiting import until_done

_DRY: Final = "validate_only=true"
NameOrFile = Annotated[
    str, typer.Argument(metavar="MIGRATION|FILE", help="Its name, or its file.", autocompletion=completion.migrations)
]


def undo_migration(
    name: str,
    application: str,
    output: Output,
    url: str,
    *,
    groups: bool,
    keep_late_writes: bool,
    wait: bool,
    yes: bool,
    dry_run: bool,
) -> None:
    """Ask for it, wait for its end, and say what became of each topic. Ends the command with 1 when one is not home."""
    query = [f"application={segment(application)}"] if application else []
    query += ["groups=true"] if groups else []
    query += ["keep_late_writes=true"] if keep_late_writes else []
    path, api = f"/v3/migrations/{segment(name)}:undo", Api(url)
    try:
        if not (yes or dry_run):
            require_consent(_asked(name, api.post(_with_query(path, [*query, _DRY]))), name, yes=False)
        answer = api.post(_with_query(path, [*query, _DRY] if dry_run else query))
        topics = answer["mirror_topic_names"]
        waits = wait and not dry_run
        done = until_done(api, mirror_path(answer["link_name"]), topics, "going home") if waits else []
    except Refused as exc:
        fail(str(exc), REFUSED)
    if output is not Output.TABLE:
        dump(answer, output)
    elif dry_run:
        typer.echo(f"would take home {', '.join(topics)}{_with([*answer['groups'], *answer['demoted_groups']])}")
    else:
        for group in answer["demoted_groups"]:
            typer.echo(f"demoted {group}: its members may start on the source")
        if not wait:
            typer.echo(f"going home: {', '.join(topics)}")
    home = [m for m in done if m["mirror_direction"] == "FORWARD" and m["mirror_status"] not in ("FAILED", "STOPPED")]
    if output is Output.TABLE:
        results("undone", home, output)
    left = [m for m in done if m not in home]
    end([f"{m['mirror_topic_name']}: {m['promote_error'] or m['error_message'] or m['mirror_status']}" for m in left])
    if output is Output.TABLE and not dry_run:
        typer.echo(
            f"migration {name} is {answer['migration']['state']}; lockgate migration resume {name} promotes again"
        )


def _asked(name: str, plan: Any) -> str:
    groups = f" with {_count(plan['groups'])}" if plan["groups"] else ""
    demoted = f", after the demote of {_count(plan['demoted_groups'])}" if plan["demoted_groups"] else ""
    what = f"this takes {named(plan['mirror_topic_names'])} of migration {name} home{groups}{demoted}"
    return f"{what}; clients write to the source from then on"


def _count(groups: list[str]) -> str:
    return f"{len(groups)} group{'' if len(groups) == 1 else 's'} ({', '.join(groups)})"


def _with_query(path: str, query: list[str]) -> str:
    return path + (f"?{'&'.join(query)}" if query else "")


def is_file(name: str) -> bool:
    """Whether a file is meant, and not a migration by its name."""
    return name.endswith((".yaml", ".yml", ".json")) or "/" in name or Path(name).is_file()


def _with(groups: list[str]) -> str:
    return f", after the demote of {', '.join(groups)}" if groups else ""


def undo_told(undo: Any) -> str:
    """Of one application, in `status`; '' where nothing of it was asked for."""
    if not undo:
        return ""
    parts = []
    if undo["open"]:
        some = "" if undo["open"] == undo["promoted"] else f"{undo['open']} of {undo['promoted']} topics "
        until = f"until {since(undo['until_time_ms'])}" if undo["until_time_ms"] else "without an end"
        risk = "an unknown number of records" if undo["records_at_risk"] is None else records(undo["records_at_risk"])
        parts.append(f"{some}{until}; {risk} at risk")
    if (late := undo.get("late_records", 0)) is None:
        parts.append("whether somebody wrote to the source beside the gateway is not measured yet")
    elif late:
        parts.append(f"not now: {records(late)} were written to the source beside the gateway, see mirror describe")
    if undo["over"]:
        parts.append(f"over: {undo['over']} topic(s)")
    if undo["refused"]:
        parts.append(f"not possible: {undo['refused']} topic(s), see mirror describe")
    return "; ".join(parts)
