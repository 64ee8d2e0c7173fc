"""`lockgate link schemas`: the schemas that a link copies."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gateway.cli import completion
from gateway.cli.api import DEFAULT_URL, REFUSED, Url, ask, segment
from gateway.cli.commands import ApiTyper
from gateway.cli.output import Format, Output, and_more, col, dump, line, listing, table

app = ApiTyper(help="The schemas that a link copies from the source's registry.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Name of the link.", autocompletion=completion.links)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done; change nothing.")]

_SIGNS = {"REGISTER": ("+", "green"), "DELETE": ("-", "red"), "LEVEL": ("~", "cyan"), "MODE": ("~", "cyan")}


@app.command("plan")
def plan(name: Name, output: Format = Output.TABLE, url: Url = DEFAULT_URL) -> None:
    """Show what the next round of schema sync would change on the target's registry, as a diff. Nothing is changed."""
    _show(ask(url, lambda api: api.get(f"/v3/links/{segment(name)}/schema-plan")), output)


@app.command("list")
def list_schemas(name: Name, output: Format = Output.TABLE, url: Url = DEFAULT_URL) -> None:
    """List the subjects that the link has copied: versions and ids on both sides."""
    answer = _page(name, "", url)
    found = list(answer["data"])
    while answer["next"]:
        answer = _page(name, answer["next"], url)
        found += answer["data"]
    if output is not Output.TABLE:
        dump({**answer, "data": found}, output)
        return
    listing(
        [
            col("Subject"),
            col("Version#"),
            col("Id#"),
            col("Target version#", 1),
            col("Target id#", 1),
            col("Note", 2),
        ],
        (
            [
                subject["subject"],
                one["version"],
                one["schema_id"],
                one["target_version"],
                one["target_schema_id"],
                _note(subject, one),
            ]
            for subject in found
            for one in subject["versions"]
        ),
        empty="no schemas",
    )


@app.command("sync")
def sync(
    name: Name,
    ids: Annotated[list[int] | None, typer.Option("--id", help="An id that records have; may be repeated.")] = None,
    dry_run: DryRun = False,
    output: Format = Output.TABLE,
    url: Url = DEFAULT_URL,
) -> None:
    """Copy what is new now, instead of at the next round; then show what is left."""
    query = "?validate_only=true" if dry_run else ""
    path = f"/v3/links/{segment(name)}/schemas:sync{query}"
    _show(ask(url, lambda api: api.post(path, {"ids": ids or []})), output)


@app.command("check")
def check(
    name: Name,
    topic: Annotated[str, typer.Option("--topic", help="Only this mirror topic.")] = "",
    output: Format = Output.TABLE,
    url: Url = DEFAULT_URL,
) -> None:
    """Compare the ids that mirrored records have with what the target's registry knows.

    Of each partition the first record of its first and of its last batch is looked at. Exit code 1 when an id is not
    known there: ask for it with `lockgate link schemas sync --id` before the topic is promoted.
    """
    answer = ask(url, lambda api: api.get(f"/v3/links/{segment(name)}/schema-check", {"topic": topic}))
    if output is not Output.TABLE:
        dump(answer, output)
    else:
        table(
            [col("Topic"), col("Ids#"), col("Unknown on the target")],
            (
                [
                    one["mirror_topic_name"],
                    f"{len(one['seen'])}{'+' if one['more'] else ''}",
                    ", ".join(map(str, one["unknown"])) or "none",
                ]
                for one in answer["data"]
            ),
            empty="no mirror topics",
        )
    if answer["unknown_count"]:
        raise typer.Exit(REFUSED)


@app.command("promote")
def promote(
    name: Name,
    force: Annotated[bool, typer.Option("--force", help="Also while something is not on the target.")] = False,
    dry_run: DryRun = False,
    output: Format = Output.TABLE,
    url: Url = DEFAULT_URL,
) -> None:
    """Hand the subjects to the clients of the target's registry: they register there from now on.

    Subjects leave mode IMPORT, and what is registered on the source afterwards does not come over any more.
    """
    query = "?validate_only=true" if dry_run else ""
    path = f"/v3/links/{segment(name)}/schemas:promote{query}"
    answer = ask(url, lambda api: api.post(path, {"force": force}))
    if output is not Output.TABLE:
        dump(answer, output)
    elif dry_run:
        _show(answer, output)
    else:
        typer.echo(f"promoted the schemas of link {name}: {answer['promoted_count']} subjects")


def _page(name: str, after: str, url: str) -> Any:
    return ask(url, lambda api: api.get(f"/v3/links/{segment(name)}/schemas", {"after": after}))


def _show(answer: dict[str, Any], output: Output) -> None:
    if output is not Output.TABLE:
        dump(answer, output)
        return
    if not answer["schema_sync_enabled"]:
        typer.echo("schema sync is off (schema.sync.enable); it would do this:")
    for change in answer["changes"]:
        sign, style = _SIGNS[change["change"]]
        line(f"{sign} {change_words(change)}", style)
    and_more(answer["change_count"] - len(answer["changes"]))
    for one in answer["left_out"]:
        version = f" version {one['version']}" if one["version"] else ""
        line(f"! {one['subject']}{version}: {one['reason']}, {one['reason_detail']}", "yellow")
    and_more(answer["left_out_count"] - len(answer["left_out"]))
    for one in answer["errors"]:
        line(f"refused: {one['error_code']}: {one['error_message']}", "red")
    typer.echo(
        f"{answer['change_count']} changes, {answer['unchanged_count']} versions stay, {answer['left_out_count']} are "
        f"left out; {answer['subject_count']} subjects, {answer['id_count']} ids"
    )


def change_words(change: dict[str, Any]) -> str:
    """A change on one line."""
    match change["change"]:
        case "REGISTER":
            return f"{change['subject']} version {change['version']}, id {change['schema_id']}"
        case "DELETE":
            return f"{change['subject']} version {change['version']}, id {change['schema_id']}: soft-deleted"
        case "LEVEL":
            return f"{change['subject']}: compatibility {change['value'] or 'as for all subjects'}"
    return f"{change['subject']}: mode {change['value'] or 'as for all subjects'}"


def _note(subject: dict[str, Any], version: dict[str, Any]) -> str:
    notes = {
        "promoted": subject["promoted"],
        "the target's own": version["own"],
        "soft-deleted": version["deleted"],
    }
    return ", ".join(note for note, is_so in notes.items() if is_so)
