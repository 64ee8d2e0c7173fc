"""`--rehearse` and `migration rehearse`: what a rehearsal of a promote came to."""

from __future__ import annotations

from typing import Any

import typer

from gateway.cli.api import REFUSED, Api, Refused, fail
from gateway.cli.mirrors.mirror_common import mirror_path
from gateway.cli.output import Output, col, dump, table

_SHOWN = 20


def rehearse_promote(
    api: Api, link: str, topics: list[str], output: Output, bound_ms: int, *, dry_run: bool = False
) -> None:
    """Of mirror topics as one set. Ends the command with 1 when it was refused, or given up."""
    query = "?validate_only=true" if dry_run else ""
    body = {"mirror_topic_names": topics, "bound_ms": bound_ms}
    try:
        answer = api.post(f"{mirror_path(link)}:rehearse-promote{query}", body)
    except Refused as exc:
        fail(str(exc), REFUSED)
    if output is not Output.TABLE:
        dump(answer, output)
    elif dry_run:
        typer.echo(f"would rehearse the promote of {', '.join(answer['mirror_topic_names'])}")
    else:
        shown(answer)
    if not dry_run and not answer["reached"]:
        fail(f"the rehearsal was given up: {answer['given_up']}", REFUSED)


def shown(answer: Any) -> None:
    """One rehearsal: the write pause, and who waited."""
    names = ", ".join(answer["mirror_topic_names"])
    pause = "" if answer["pause_ms"] is None else f": writes were paused for {answer['pause_ms']} ms"
    typer.echo(f"{'rehearsed' if answer['reached'] else 'gave up'} {names}{pause}; nothing has changed sides")
    if answer["stalls"]:
        rows = ([one["client_id"], one["address"], one["stall_ms"]] for one in answer["stalls"][:_SHOWN])
        table([col("Client id"), col("Address", 1), col("Longest stall ms#")], rows)
    if answer["num_clients"] > _SHOWN:
        typer.echo(f"  and {answer['num_clients'] - _SHOWN} more clients waited: --output json has the first 100")
    for gateway in answer["gateways_not_told"]:
        typer.echo(f"gateway {gateway} did not say whose requests waited there")


def migration_rehearsed(answer: Any, output: Output, *, dry_run: bool) -> None:
    """Of a migration. Ends the command with 1 when one of its applications was refused, or given up."""
    broken = []
    for one in answer["applications"]:
        given_up = one["refused"] or (one["rehearsal"] or {}).get("given_up", "")
        broken += [f"{one['application']}: {given_up}"] if given_up else []
    if output is not Output.TABLE:
        dump(answer, output)
    for one in answer["applications"] if output is Output.TABLE else ():
        if dry_run and not one["refused"]:
            typer.echo(f"would rehearse the promote of {one['application']}")
        elif one["rehearsal"] is not None:
            typer.echo(f"{one['application']}:")
            shown(one["rehearsal"])
    if not answer["applications"]:
        typer.echo("no application has topics that are mirrored and not promoted", err=True)
    for line in broken[:-1]:
        typer.echo(f"error: {line}", err=True)
    if broken:
        fail(broken[-1], REFUSED)
