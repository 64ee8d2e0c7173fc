"""`lockgate link acls`: the ACLs that a link copies."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gateway.cli import completion
from gateway.cli.api import DEFAULT_URL, Url, ask, segment
from gateway.cli.commands import ApiTyper
from gateway.cli.output import Format, Output, and_more, dump, line

app = ApiTyper(help="The ACLs that a link copies from its source.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Name of the link.", autocompletion=completion.links)]


@app.command("plan")
def plan(name: Name, output: Format = Output.TABLE, url: Url = DEFAULT_URL) -> None:
    """Show what the next round of ACL sync would change on the target, as a diff. Nothing is changed."""
    answer = ask(url, lambda api: api.get(f"/v3/links/{segment(name)}/acl-plan"))
    if output is not Output.TABLE:
        dump(answer, output)
        return
    if not answer["acl_sync_enabled"]:
        typer.echo("ACL sync is off (acl.sync.enable); with every ACL included it would do this:")
    _lines("+", "green", answer["create"], answer["create_count"])
    _lines("-", "red", answer["delete"], answer["delete_count"])
    for one in answer["left_out"]:
        line(f"! {acl_words(one['acl'])}: {one['reason']}, {one['reason_detail']}", "yellow")
    and_more(answer["left_out_count"] - len(answer["left_out"]))
    for one in answer["waiting"]:
        line(f"{'-' if one['is_delete'] else '+'} {acl_words(one['acl'])} waits: {one['reason_detail']}", "yellow")
    and_more(answer["waiting_count"] - len(answer["waiting"]))
    for one in answer["errors"]:
        line(f"refused: {one['error_code']}: {one['error_message']}", "red")
    typer.echo(
        f"{answer['create_count']} to create, {answer['delete_count']} to delete, {answer['unchanged_count']} stay, "
        f"{answer['own_count']} are the target's own, {answer['left_out_count']} are left out"
    )


def acl_words(acl: dict[str, Any]) -> str:
    """An ACL on one line."""
    pattern = "PREFIXED " if acl["pattern_type"] == "PREFIXED" else ""
    what = f"{pattern}{acl['resource_type']} {acl['resource_name']}"
    return f"{acl['permission']} {acl['principal']} from {acl['host']}: {acl['operation']} on {what}"


def _lines(sign: str, style: str, acls: list[dict[str, Any]], count: int) -> None:
    for acl in acls:
        line(f"{sign} {acl_words(acl)}", style)
    and_more(count - len(acls))
