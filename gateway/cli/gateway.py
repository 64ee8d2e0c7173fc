"""`lockgate gateway`: the gateways of the fleet."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gateway.cli import completion
from gateway.cli.api import DEFAULT_URL, REFUSED, Url, ask, fail, segment
from gateway.cli.commands import ApiTyper
from gateway.cli.output import Format, Output, col, dump, duration, facts, listing, since

app = ApiTyper(help="Gateways: the fleet before one target.", no_args_is_help=True)

Name = Annotated[
    str, typer.Argument(help="Name of the gateway, as `list` shows it.", autocompletion=completion.gateways)
]


_COLUMNS = (
    col("Gateway"),
    col("State"),
    col("Role", 1),
    col("Leads", 2),
    col("Partitions#", 3),
    col("Since", 4),
    col("Remark", note=True),
)


@app.command("list")
def list_gateways(output: Format = Output.TABLE, url: Url = DEFAULT_URL) -> None:
    """List the gateways: who leads, who is lost."""
    answer = ask(url, lambda api: api.get("/v3/gateways"))
    if output is not Output.TABLE:
        dump(answer, output)
        return
    listing(
        _COLUMNS,
        (
            [
                one["name"],
                one["state"],
                one["role"],
                "leads" if one["leads"] else "",
                one["mirror_partitions"],
                since(one["admitted_ms"]),
                _lease(one),
            ]
            for one in answer["data"]
        ),
        empty="the fleet has no gateways",
    )


@app.command("describe")
def describe(name: Name, output: Format = Output.TABLE, url: Url = DEFAULT_URL) -> None:
    """Show one gateway."""
    answer = ask(url, lambda api: api.get(f"/v3/gateways/{segment(name)}"))
    if output is not Output.TABLE:
        dump(answer, output)
        return
    facts(
        [
            ("Gateway", answer["name"]),
            ("Role", answer["role"]),
            ("State", answer["state"]),
            ("Leads", "yes" if answer["leads"] else ""),
            ("Workers", _several(answer.get("workers", 1))),
            ("Mirror partitions", answer["mirror_partitions"]),
            ("Address for the others", answer["peer"]),
            ("Write lease", duration(answer["lease_s"])),
            ("Admitted", since(answer["admitted_ms"])),
            ("Remark", _lease(answer)),
        ]
    )


@app.command("forget")
def forget(
    name: Name,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say which processes would be waited for no more; change nothing.")
    ] = False,
    output: Format = Output.TABLE,
    url: Url = DEFAULT_URL,
) -> None:
    """Wait no more for a lost gateway. Only when it has stopped for certain: it must not write to a source any more."""
    if dry_run:
        _forget_plan(
            ask(url, lambda api: api.delete(f"/v3/gateways/{segment(name)}", {"validate_only": "true"})), output
        )
        return
    ask(url, lambda api: api.delete(f"/v3/gateways/{segment(name)}"))
    if output is not Output.TABLE:
        dump({"name": name, "forgotten": True}, output)
    else:
        typer.echo(f"forgotten {name}")


def _forget_plan(plan: dict[str, Any], output: Output) -> None:
    if output is not Output.TABLE:
        dump(plan, output)
    elif not plan["refused"]:
        left = plan["lease_left_s"]
        until = "" if left is None else f"; promotes wait for it for {duration(left)} otherwise"
        typer.echo(f"would forget {', '.join(plan['processes'])}{until}. Whether it has stopped you must know")
    if plan["refused"]:
        fail(plan["refused"], REFUSED)


def _several(workers: int) -> str:
    return str(workers) if workers > 1 else ""


def _lease(one: dict[str, Any]) -> str:
    """What a lost gateway means for others."""
    if one["state"] == "up":
        return ""
    left = one["lease_left_s"]
    until = "its lease is over" if left is None else f"its lease is over in {duration(left)}"
    return f"promotes wait until it is back, or {until}"
