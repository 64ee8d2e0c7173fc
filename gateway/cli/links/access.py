"""`lockgate access`: who may do what, where."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gateway.cli.api import DEFAULT_URL, REFUSED, Url, ask, segment
from gateway.cli.commands import ApiTyper
from gateway.cli.mirrors.mirror_common import Link
from gateway.cli.output import Format, Output, col, dump, table
from gateway.telemetry.printable import printable

app = ApiTyper(help="What clients may do.", no_args_is_help=True)


@app.callback()
def root() -> None:
    """What clients may do."""


@app.command("check")
def check(
    link: Link,
    principal: Annotated[str, typer.Option("--principal", metavar="User:NAME", help="As the source knows it.")],
    host: Annotated[
        str, typer.Option("--host", help="Address from which it comes to the clusters themselves; else any.")
    ] = "",
    topic: Annotated[str, typer.Option("--topic", help="Only this mirror topic.")] = "",
    differences: Annotated[bool, typer.Option("--differences", help="Only what is not the same everywhere.")] = False,
    output: Format = Output.TABLE,
    url: Url = DEFAULT_URL,
) -> None:
    """Compare what a principal may do on the source, on the target, and through the gateway.

    Exit code 1 when something is not the same everywhere.
    """
    params = {"principal": principal, "host": host, "topic": topic}
    answer = ask(url, lambda api: api.get(f"/v3/links/{segment(link)}/access", params))
    if differences:
        answer["data"] = [row for row in answer["data"] if row["differs"]]
    if output is not Output.TABLE:
        dump(answer, output)
    else:
        _show(answer)
    if answer["differences"]:
        raise typer.Exit(REFUSED)


def _show(answer: dict[str, Any]) -> None:
    name = answer["target_principal_name"]
    if name not in ("", answer["principal_name"]):
        typer.echo(printable(f"{answer['principal_name']} is {name} on the target"))
    rows = answer["data"]
    if rows:
        table(_COLUMNS, map(_cells, rows), label=3, style=lambda number: "red" if rows[number]["differs"] else "")
    for note in answer["notes"]:
        typer.echo(f"note: {note}")
    many = answer["differences"]
    typer.echo("no differences" if not many else f"{many} difference{'' if many == 1 else 's'}")


_COLUMNS = (
    col("Name"),
    col("Resource"),
    col("Operation"),
    col("Source"),
    col("Target"),
    col("Gateway"),
    col("Reason", note=True),
)


def _cells(row: dict[str, Any]) -> list[str]:
    allowed = ("yes" if row[f"{where}_allowed"] else "no" for where in ("source", "target", "gateway"))
    return [_named(row), row["resource_type"], row["operation"], *allowed, row["reason"]]


def _named(row: dict[str, Any]) -> str:
    source, target = row["source_name"], row["target_name"]
    name = source if source == target else f"{source or '-'} -> {target or '-'}"
    return f"{name}*" if row["pattern_type"] == "PREFIXED" else name
