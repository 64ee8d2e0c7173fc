"""`lockgate quotas`: client quotas of a link's source, set on the target."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.text import Text

from gateway.cli.api import DEFAULT_URL, REFUSED, USAGE, Url, ask, fail, segment
from gateway.cli.commands import ApiTyper
from gateway.cli.mirrors.mirror_common import Link
from gateway.cli.output import Format, Output, console, dump
from gateway.telemetry.printable import printable

app = ApiTyper(help="Client quotas of a link's source.", no_args_is_help=True)

Factor = Annotated[
    list[str] | None,
    typer.Option(
        "--factor",
        metavar="NUMBER",
        help="The target's are the source's times this; KEY=NUMBER for one key; may be repeated.",
    ),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Set also what the target has with another number.")]
DefaultIp = Annotated[
    bool, typer.Option("--default-ip", help="Copy the quota of all addresses, too: it meets gateways as well.")
]
_SIGNS = {"MISSING": ("+", "green"), "SET": ("+", "green"), "OVERWRITE": ("~", "green"), "SAME": ("=", "")}


@app.callback()
def root() -> None:
    """Client quotas of a link's source."""


@app.command("plan")
def plan(
    link: Link,
    factor: Factor = None,
    overwrite: Overwrite = False,
    default_ip: DefaultIp = False,
    output: Format = Output.TABLE,
    url: Url = DEFAULT_URL,
) -> None:
    """Show which quotas would be set on the target, as a diff. Nothing is changed."""
    params: dict[str, str | list[str]] = {
        "factor": factor or [],
        "overwrite": str(overwrite).lower(),
        "default_ip": str(default_ip).lower(),
    }
    _show(ask(url, lambda api: api.get(f"/v3/links/{segment(link)}/quota-plan", params)), output)


@app.command("apply")
def apply(
    link: Link,
    factor: Factor = None,
    overwrite: Overwrite = False,
    default_ip: DefaultIp = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be set; set nothing.")] = False,
    output: Format = Output.TABLE,
    url: Url = DEFAULT_URL,
) -> None:
    """Set the quotas that the target lacks. What it has of its own stays.

    Exit code 1 when one of them was refused.
    """
    body = {**_factors(factor or []), "overwrite": overwrite, "default_ip": default_ip}
    query = "?validate_only=true" if dry_run else ""
    answer = ask(url, lambda api: api.post(f"/v3/links/{segment(link)}/quotas:apply{query}", body))
    _show(answer, output)
    if answer["counts"]["REFUSED"]:
        raise typer.Exit(REFUSED)


def _factors(given: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {"factors": {}}
    for text in given:
        key, sign, number = text.rpartition("=")
        try:
            factor = float(number)
        except ValueError:
            fail(f"--factor {text}: expected a number or KEY=NUMBER", USAGE)
        if sign:
            found["factors"][key] = factor
        else:
            found["factor"] = factor
    return found


def _show(answer: Any, output: Output) -> None:
    if output is not Output.TABLE:
        dump(answer, output)
        return
    for row in answer["data"]:
        sign, style = _SIGNS.get(row["state"], ("!", "red" if row["state"] == "REFUSED" else "yellow"))
        present = "" if row["present_value"] is None else f", the target has {row['present_value']:g}"
        why = f", {row['state_detail']}" if row["state_detail"] else ""
        number = "-" if row["target_value"] is None else f"{row['target_value']:g}"
        what = f"{_entity(row['target_entity'] or row['entity'])}: {row['key']}={number}"
        _line(f"{sign} {what} (source {row['value']:g}{present}): {row['state']}{why}", style)
    hidden = sum(answer["counts"].values()) - len(answer["data"])
    if hidden > 0:
        typer.echo(f"  and {hidden} more")
    for note in answer["notes"]:
        typer.echo(f"note: {note}")
    counted = [f"{many} {state}" for state, many in answer["counts"].items() if many]
    typer.echo(", ".join([*counted, f"{answer['own_count']} are the target's own"]))


def _entity(parts: list[dict[str, Any]]) -> str:
    named = (
        f"{part['entity_type']} {'<default>' if part['entity_name'] is None else part['entity_name']}" for part in parts
    )
    return ", ".join(named)


def _line(words: str, style: str) -> None:
    console().print(Text(printable(words), style=style), soft_wrap=True)
