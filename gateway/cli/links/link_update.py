"""`lockgate link configuration`, `link task`, `link pause` and `link resume`: a link while it runs."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gateway.cli import completion
from gateway.cli.api import DEFAULT_URL, REFUSED, USAGE, Url, ask, fail, segment
from gateway.cli.commands import ApiTyper
from gateway.cli.output import Format, Output, col, dump, facts, listing, since, table
from gateway.cli.properties import ConfigFile, Configs, SettingFiles, Settings, configs_given

Name = Annotated[str, typer.Argument(help="Name of the link.", autocompletion=completion.links)]

DryRun = Annotated[bool, typer.Option("--dry-run", help="Say whether it would be done; change nothing.")]

configuration = ApiTyper(help="Configs of a link, changed while it runs.", no_args_is_help=True)
task = ApiTyper(help="What a link does beside mirroring.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Mount these commands under `link`."""
    app.add_typer(configuration, name="configuration")
    app.add_typer(task, name="task")
    app.command("pause")(pause)
    app.command("resume")(resume)


@configuration.command("update")
def update(
    name: Name,
    config: Configs = None,
    config_file: ConfigFile = None,
    settings: Settings = None,
    setting_files: SettingFiles = None,
    reset: Annotated[
        list[str] | None, typer.Option("--reset", metavar="KEY", help="Back to its default; may be repeated.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Try everything, also against the source; change nothing.")
    ] = False,
    output: Format = Output.TABLE,
    url: Url = DEFAULT_URL,
) -> None:
    """Change configs of a link, all or none. New credentials are tried against the source first."""
    given = configs_given(config, config_file, settings, setting_files)
    changes = [{"name": key, "value": value, "operation": "SET"} for key, value in given.items()]
    changes += [{"name": key, "operation": "DELETE"} for key in reset or []]
    if not changes:
        fail("name what is to be changed with --config KEY=VALUE, --config-file FILE or --reset KEY", USAGE)
    body = {"data": changes, "validate_only": dry_run}
    link = ask(url, lambda api: api.put(f"/v3/links/{segment(name)}/configs:alter", body))
    if output is not Output.TABLE:
        dump(link, output)
        return
    names = ", ".join(sorted({change["name"] for change in changes}))
    typer.echo(f"link {name} would be changed: {names}; nothing was" if dry_run else f"changed link {name}: {names}")


@configuration.command("list")
@configuration.command("describe")
def describe(
    name: Name,
    config: Annotated[str, typer.Option("--config", metavar="KEY", help="This config only.")] = "",
    output: Format = Output.TABLE,
    url: Url = DEFAULT_URL,
) -> None:
    """Show the configs of a link; secrets are hidden."""
    path = f"/v3/links/{segment(name)}/configs" + (f"/{segment(config)}" if config else "")
    answer = ask(url, lambda api: api.get(path))
    if output is not Output.TABLE:
        dump(answer, output)
        return
    rows = [answer] if config else answer["data"]
    listing(
        [col("Config"), col("Value"), col("Read-only", 2), col("Default", 1)],
        ([row["name"], row["value"], _yes(row["read_only"]), _yes(row["source"] == "DEFAULT_CONFIG")] for row in rows),
    )


@task.command("list")
def tasks(name: Name, output: Format = Output.TABLE, url: Url = DEFAULT_URL) -> None:
    """List the tasks of a link, their states and errors."""
    answer = ask(url, lambda api: api.get(f"/v3/links/{segment(name)}/tasks"))
    if output is not Output.TABLE:
        dump(answer, output)
        return
    listing(
        [
            col("Task"),
            col("State"),
            col("Error code", 1),
            col("Last run", 2),
            col("Since", 3),
            col("Error", note=True),
        ],
        (
            [
                row["task_name"],
                row["state"],
                "; ".join(error["error_code"] for error in row["errors"]),
                since(row["last_run_ms"] or 0),
                since(row["state_time_ms"]),
                [error["error_message"] for error in row["errors"]],
            ]
            for row in answer["data"]
        ),
    )


def pause(name: Name, dry_run: DryRun = False, output: Format = Output.TABLE, url: Url = DEFAULT_URL) -> None:
    """Mirror and sync nothing of a link until it is resumed. Clients' writes go on."""
    _switch(name, "pause", "paused", output, url, dry_run=dry_run)


def resume(name: Name, dry_run: DryRun = False, output: Format = Output.TABLE, url: Url = DEFAULT_URL) -> None:
    """Go on with a paused link."""
    _switch(name, "resume", "resumed", output, url, dry_run=dry_run)


def _switch(name: str, verb: str, past: str, output: Output, url: str, *, dry_run: bool) -> None:
    query = "?validate_only=true" if dry_run else ""
    link = ask(url, lambda api: api.post(f"/v3/links/{segment(name)}:{verb}{query}"))
    if output is not Output.TABLE:
        dump(link, output)
    elif dry_run:
        typer.echo(f"link {name} would be {past}; nothing was changed")
    else:
        typer.echo(f"{past} link {name} ({link['link_state']})")


def show_delete_plan(plan: dict[str, Any], output: Output) -> None:
    """What a deletion would leave; ends the command with 1 when it would be refused."""
    if output is not Output.TABLE:
        dump(plan, output)
    else:
        facts([("Link", plan["link_name"]), ("Would be deleted", "no" if plan["refusal"] else "yes")])
        table(
            [col("Name"), col("Stays"), col("State"), col("Then", note=True)],
            ([row["name"], row["kind"], row["state"], row["then"]] for row in plan["remains"]),
            empty="it has no mirrors and no groups",
        )
    if plan["refusal"]:
        fail(plan["refusal"], REFUSED)


def _yes(value: bool) -> str:
    return "yes" if value else ""
