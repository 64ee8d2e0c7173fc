"""`lockgate migration apply`, `status` and what else is done with a migration file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from gateway.cli import completion
from gateway.cli.api import DEFAULT_URL, REFUSED, USAGE, Url, ask, fail, fail_all, segment
from gateway.cli.commands import ApiTyper
from gateway.cli.consent import Yes, require_consent
from gateway.cli.migrations.migration_undo import NameOrFile, is_file, undo_migration, undo_told
from gateway.cli.mirrors.mirror_common import end
from gateway.cli.output import Format, Output, col, console, dump, facts, listing, since, table
from gateway.cli.rehearsal import migration_rehearsed
from gateway.migration.rules.file import MigrationFile, Until, plain
from gateway.migration.rules.file import schema as file_schema
from gateway.migration.rules.file_text import TEXT_BYTES, Problem, TextError, of_yaml
from gateway.telemetry.printable import printable

File = Annotated[Path, typer.Argument(metavar="FILE", help="The migration file (YAML).")]
Name = Annotated[str, typer.Argument(metavar="MIGRATION", help="Its name.", autocompletion=completion.migrations)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, as a diff; change nothing.")]

_SIGNS = {
    "CREATE_MIRROR": ("+", "mirror topic", "green"),
    "DECLARE_GROUP": ("+", "mirror group", "green"),
    "PROMOTE_GROUP": ("~", "promote group", "yellow"),
    "PROMOTE_TOPICS": ("~", "promote topics", "yellow"),
    "PROMOTE_TOGETHER": ("~", "promote together", "yellow"),
}
_NAMED = 8
_JOURNAL = 15


def register(app: ApiTyper) -> None:
    """Add the commands to those of migrations."""
    app.command("schema")(schema)
    app.command("apply")(apply)
    app.command("list")(list_migrations)
    app.command("status")(status)
    app.command("ready")(ready)
    app.command("rehearse")(rehearse)
    app.command("undo")(undo)
    app.command("pause")(pause)
    app.command("resume")(resume)
    app.command("abort")(abort)
    app.command("delete")(delete)


def schema() -> None:
    """Print the JSON Schema of migration files: editors complete and check by it."""
    typer.echo(json.dumps(file_schema(), indent=2))


def read_file(path: Path) -> MigrationFile:
    """The migration file; ends the command with 2 when it cannot be used."""
    try:
        if (size := path.stat().st_size) > TEXT_BYTES:
            fail(f"{path}: a migration file has {TEXT_BYTES} bytes at most; this one has {size}", USAGE)
        return of_yaml(path.read_text(encoding="utf-8"))
    except OSError as exc:
        fail(f"{path}: {exc.strerror}", USAGE)
    except UnicodeDecodeError:
        fail(f"{path}: not YAML: it is no text in UTF-8", USAGE)
    except TextError as exc:
        fail_all([*(_at(path, one) for one in exc.problems), *_not_told(path, exc.more)], USAGE)


def _at(path: Path, problem: Problem) -> str:
    return f"{path}: {problem.message}" if problem.line is None else f"{path}:{problem.line}: {problem.message}"


def _not_told(path: Path, more: int) -> list[str]:
    return [f"{path}: and {more} more"] if more else []


def apply(
    file: File, dry_run: DryRun = False, yes: Yes = False, output: Format = Output.TABLE, url: Url = DEFAULT_URL
) -> None:
    """Apply a migration file: the fleet carries it out step by step, by itself.

    Shows what is left as a diff; asks when groups or topics would change sides. Apply it again after a change of it.
    What is so already is left as it is. Exit code 1 when something of it needs a person.
    """
    wanted = read_file(file)
    path, body = _path(wanted.migration), plain(wanted)
    answer = ask(url, lambda api: api.put(f"{path}?validate_only=true", body))
    if output is Output.TABLE:
        _diff(answer)
    if not dry_run:
        require_consent(promotes(answer), wanted.migration, yes=yes)
        answer = ask(url, lambda api: api.put(path, body))
    if output is not Output.TABLE:
        dump(answer, output)
    elif not dry_run:
        typer.echo(f"applied {answer['migration']} ({answer['state']}): lockgate migration status {wanted.migration}")
    end(_problems(answer))


def promotes(answer: Any) -> str:
    """What of a migration changes sides from now on, in one line; '' when nothing does."""
    steps = [step for one in answer["applications"] for step in one["steps"] if step["kind"].startswith("PROMOTE_")]
    of_kinds = ((sorted(name for step in steps for name in step[kind]), kind[:-1]) for kind in ("topics", "groups"))
    parts = [f"{len(names)} {kind}(s) ({_some(names)})" for names, kind in of_kinds if names]
    if answer["problems"] and any(one["until"] != Until.MIRRORED for one in answer["applications"]):
        parts.append("what it means beside, which is not known now")
    if not parts:
        return ""
    when = "the first at once" if any(not step["waits_for"] for step in steps) else "each when nothing holds it"
    return f"migration {answer['migration']} promotes {' and '.join(parts)}, {when}"


def _problems(answer: Any) -> list[str]:
    of_applications = [f"{one['name']}: {problem}" for one in answer["applications"] for problem in one["problems"]]
    return [*answer["problems"], *of_applications]


def _diff(answer: Any) -> None:
    """What is between the world and the file, a line each."""
    left = 0
    for one in answer["applications"]:
        for step in one["steps"]:
            sign, what, style = _SIGNS[step["kind"]]
            names = _some([*step["topics"], *step["groups"]])
            waits = f"  (waits: {step['waits_for']})" if step["waits_for"] else ""
            _line(f"{sign} {one['name']}: {what} {names}{waits}", style)
            left += 1
        if one["steps_beyond"]:
            _line(f"  {one['name']}: until {one['until']}; {one['steps_beyond']} step(s) more beyond that", "dim")
    typer.echo(f"{left} step(s) left" if left else "nothing is left to be done")


def _some(names: list[str]) -> str:
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")


def _line(words: str, style: str) -> None:
    console().print(Text(printable(words), style=style), soft_wrap=True)


def list_migrations(output: Format = Output.TABLE, url: Url = DEFAULT_URL) -> None:
    """List the migrations."""
    answer = ask(url, lambda api: api.get("/v3/migrations"))
    if output is not Output.TABLE:
        dump(answer, output)
        return
    listing(
        [col("Migration"), col("State"), col("Link", 1), col("Since", 2), col("Applied by", 3)],
        (
            [one["migration"], one["state"], one["link_name"], since(one["state_time_ms"]), one["applied_by"]]
            for one in answer["data"]
        ),
        empty="there are no migrations",
    )


def status(name: Name, output: Format = Output.TABLE, url: Url = DEFAULT_URL) -> None:
    """Show how far a migration is, what it waits for, and what was done last."""
    answer = ask(url, lambda api: api.get(_path(name)))
    if output is not Output.TABLE:
        dump(answer, output)
        return
    facts(
        [
            ("Migration", answer["migration"]),
            ("Link", answer["link_name"]),
            ("State", f"{answer['state']} (STOPPED_BY_RULE)" if answer.get("stopped_by") else answer["state"]),
            ("Stopped by", answer.get("stopped_by", "")),
            ("Since", since(answer["state_time_ms"])),
            ("Applied by", answer["applied_by"]),
            ("Under way", "; ".join(answer["running"])),
            ("Client errors", _client_errors(answer)),
            ("Problems", "; ".join(answer["problems"])),
        ]
    )
    typer.echo("")
    table(
        [
            col("Application"),
            col("Stage"),
            col("Until"),
            col("Left#"),
            col("Waits for", note=True),
            col("Undo", note=True),
        ],
        (
            [
                one["name"],
                one["stage"],
                one["until"],
                len(one["steps"]),
                _waits(one, answer["failures"]),
                undo_told(one.get("undo")),
            ]
            for one in answer["applications"]
        ),
    )
    if answer["journal"]:
        typer.echo("")
        table(_JOURNAL_COLUMNS, map(_entry, answer["journal"][-_JOURNAL:]), label=3)


def _client_errors(answer: Any) -> str:
    """Errors among the answers to clients, and where most of them are; '' without that rule in the file."""
    bound = answer["file"].get("stop_when", {}).get("client_errors_percent")
    if bound is None:
        return ""
    seen = answer.get("client_errors")
    if seen is None:
        return f"not known yet; {bound:g} % at most"
    looked_at = f"{seen['answers_looked_at']:,} answers looked at in {seen['window_s']:.0f} s"
    share = "not known: only" if seen["percent"] is None else f"{seen['percent']:g} % of"
    told = [f"{share} {looked_at}; {bound:g} % at most"]
    for one in seen["failing"][:1]:
        client = f", client '{one['client_id']}'" if one["client_id"] else ""
        told.append(f"{one['kind']} '{one['name']}': {one['errors_seen']:,} x {one['error']}{client}")
    if seen["unheard_gateways"]:
        told.append(f"{len(seen['unheard_gateways'])} gateway(s) have not told")
    return "; ".join(told)


def _waits(one: Any, failures: dict[str, str]) -> str:
    """The first thing that holds an application."""
    if one["problems"]:
        return str(one["problems"][0])
    refused = [reason for step, reason in failures.items() if f" {one['name']}: " in step]
    waits = [step["waits_for"] for step in one["steps"] if step["waits_for"]]
    return str((refused or waits or [""])[0])


def _entry(entry: Any) -> list[object]:
    pause = "" if entry["pause_ms"] is None else f"writes paused for {entry['pause_ms']} ms"
    detail = "; ".join(part for part in (entry["detail"], pause) if part)
    return [since(entry["time_ms"]), entry["what"], entry["application"], _some(entry["names"]), entry["by"], detail]


_JOURNAL_COLUMNS = (
    col("When"),
    col("What"),
    col("Application", 1),
    col("Names", 3),
    col("By", 2),
    col("Detail", note=True),
)


def ready(
    name: Annotated[
        str, typer.Argument(metavar="[MIGRATION]", help="Its name.", autocompletion=completion.migrations)
    ] = "",
    link: Annotated[
        str, typer.Option("--link", help="All that this link mirrors, instead.", autocompletion=completion.links)
    ] = "",
    output: Format = Output.TABLE,
    url: Url = DEFAULT_URL,
) -> None:
    """Say how ready applications are to be promoted, 0 to 100, with reasons and remedies. Nothing is changed.

    Exit code 1 while something blocks a promote.
    """
    if bool(name) == bool(link):
        fail("name a migration, or a link with --link", USAGE)
    path = f"{_path(name)}/readiness" if name else f"/v3/links/{segment(link)}/readiness"
    answer = ask(url, lambda api: api.get(path))
    if output is not Output.TABLE:
        dump(answer, output)
    else:
        _ready(answer)
    blocks = [one for each in answer["applications"] for one in each["findings"] if one["weight"] == "BLOCKS"]
    if blocks:
        raise typer.Exit(REFUSED)


def _ready(answer: Any) -> None:
    typer.echo(f"readiness {answer['score']} of 100")
    table(
        [col("Application"), col("Score#"), col("Blocks#"), col("Findings#"), col("Finding", note=True)],
        (
            [
                one["application"],
                one["score"],
                sum(each["weight"] == "BLOCKS" for each in one["findings"]),
                len(one["findings"]),
                [_finding(each) for each in one["findings"]],
            ]
            for one in answer["applications"]
        ),
        empty="there is nothing to promote",
    )


def _finding(one: Any) -> str:
    """What costs points, and what to do about it."""
    costs = f", costs {one['points']}" if one["points"] else ""
    remedy = f"; remedy: {one['remedy']}" if one["remedy"] else ""
    return f"{one['weight']}{costs}: {one['reason']}{remedy}"


def rehearse(
    name: Name,
    application: Annotated[str, typer.Option("--application", help="Only this one.")] = "",
    dry_run: DryRun = False,
    output: Format = Output.TABLE,
    url: Url = DEFAULT_URL,
) -> None:
    """Rehearse the promotes that are left, one application after the other: all but the cutover, and back.

    Exit code 1 when one was refused or given up.
    """
    query = [f"application={segment(application)}"] if application else []
    query += ["validate_only=true"] if dry_run else []
    path = f"{_path(name)}:rehearse" + (f"?{'&'.join(query)}" if query else "")
    migration_rehearsed(ask(url, lambda api: api.post(path)), output, dry_run=dry_run)


def undo(
    name: NameOrFile,
    application: Annotated[str, typer.Option("--application", help="Only this one.")] = "",
    groups: Annotated[
        bool, typer.Option("--groups", help="Demote groups that only read, too: their members go to the source.")
    ] = False,
    keep_late_writes: Annotated[
        bool,
        typer.Option("--keep-late-writes", help="What was written to the source beside the gateway stays there."),
    ] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the end.")] = True,
    yes: Yes = False,
    dry_run: DryRun = False,
    output: Format = Output.TABLE,
    url: Url = DEFAULT_URL,
) -> None:
    """Take the promotes of a migration back, as one set: its topics are written on the source again.

    It is possible while they are mirrored back: `migration status` says until when, and what is at risk. The migration
    is PAUSED then.
    """
    migration = read_file(Path(name)).migration if is_file(name) else name
    undo_migration(
        migration,
        application,
        output,
        url,
        groups=groups,
        keep_late_writes=keep_late_writes,
        wait=wait,
        yes=yes,
        dry_run=dry_run,
    )


def pause(name: Name, dry_run: DryRun = False, output: Format = Output.TABLE, url: Url = DEFAULT_URL) -> None:
    """Take no further step until it is resumed. What has begun comes to its end."""
    _switch(name, "pause", "paused", output, url, dry_run=dry_run)


def resume(
    name: Name, dry_run: DryRun = False, yes: Yes = False, output: Format = Output.TABLE, url: Url = DEFAULT_URL
) -> None:
    """Go on with a paused migration. Asks when groups or topics would change sides."""
    if not dry_run:
        require_consent(promotes(ask(url, lambda api: api.get(_path(name)))), name, yes=yes)
    _switch(name, "resume", "resumed", output, url, dry_run=dry_run)


def abort(name: Name, dry_run: DryRun = False, output: Format = Output.TABLE, url: Url = DEFAULT_URL) -> None:
    """End a migration where it is. What is done stays: mirrors go on, groups and topics are where they are."""
    _switch(name, "abort", "aborted", output, url, dry_run=dry_run)


def _switch(name: str, verb: str, past: str, output: Output, url: str, *, dry_run: bool) -> None:
    query = "?validate_only=true" if dry_run else ""
    answer = ask(url, lambda api: api.post(f"{_path(name)}:{verb}{query}"))
    if output is not Output.TABLE:
        dump(answer, output)
        return
    typer.echo(f"{f'would {verb}' if dry_run else past} {answer['migration']} ({answer['state']})")


def delete(name: Name, dry_run: DryRun = False, output: Format = Output.TABLE, url: Url = DEFAULT_URL) -> None:
    """Forget a migration with its journal. Mirrors and groups stay as they are."""
    query = {"validate_only": "true"} if dry_run else None
    ask(url, lambda api: api.delete(_path(name), query))
    if output is not Output.TABLE:
        dump({"migration": name, "deleted": not dry_run}, output)
        return
    typer.echo(f"{'would delete' if dry_run else 'deleted'} {name}")


def _path(name: str) -> str:
    return f"/v3/migrations/{segment(name)}"
