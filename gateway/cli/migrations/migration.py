"""`lockgate migration`: a migration as one thing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gateway.cli.api import DEFAULT_URL, USAGE, Url, ask, fail, segment
from gateway.cli.commands import ApiTyper
from gateway.cli.mirrors.mirror_common import Link
from gateway.cli.output import Format, Output, col, dump, table

app = ApiTyper(help="Plan and run a migration from a file.", no_args_is_help=True)

_SHOWN = 40


@app.command("discover")
def discover(
    link: Link,
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="FILE", help="Draw what ties what, and write it there.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-f", metavar="FILE", help="Write a draft of the migration file there.")
    ] = None,
    output: Format = Output.TABLE,
    url: Url = DEFAULT_URL,
) -> None:
    """Find out what must move together on a link's source, and why. Nothing is changed."""
    params = {"picture": "true"} if svg else None
    answer = ask(url, lambda api: api.get(f"/v3/links/{segment(link)}/migration-discovery", params))
    if svg is not None:
        _write(svg, answer["svg"])
    if out is not None:
        if not answer["file"]:
            fail(f"the source of link '{link}' has no topic and no group: there is nothing to write", 1)
        _write(out, answer["file"])
    if output is not Output.TABLE:
        dump(answer, output)
        return
    _show(answer)


def _show(answer: Any) -> None:
    table(
        [
            col("Set"),
            col("What"),
            col("Topics", 1),
            col("Groups", 2),
            col("After", 3),
            col("Transactional ids", 4),
        ],
        (
            [
                one["name"],
                one["kind"] if one["binds"] else "-",
                _few(one["topics"]),
                _few(one["groups"]),
                ", ".join(one["after"]),
                _few(one["transactional_ids"]),
            ]
            for one in answer["sets"]
        ),
        empty="the source has no topic and no group that could be moved",
    )
    binding = [tie for one in answer["sets"] for tie in one["ties"] if tie["binds"]]
    if binding:
        typer.echo("")
        table(
            [col("Tied"), col("To"), col("Because", note=True)],
            ([_node(tie["one"]), _node(tie["other"]), _because(tie)] for tie in binding[:_SHOWN]),
        )
        if len(binding) > _SHOWN:
            typer.echo(f"  and {len(binding) - _SHOWN} more ties: --output json")
    _groups(answer["groups"])
    if answer["not_known"]:
        typer.echo("")
        table(
            [col("Not known"), col("How to tell it", note=True)],
            ([one["what"], one["how_to_tell"]] for one in answer["not_known"][:_SHOWN]),
        )


def _groups(groups: list[Any]) -> None:
    """Who is in them, and the parts of Streams applications."""
    members = [(group["name"], one) for group in groups for one in group["members"]]
    if members:
        typer.echo("")
        table(
            [col("Group"), col("Client id"), col("Address", 1), col("Instance id", 2)],
            ([name, one["client_id"], one["address"], one["instance_id"]] for name, one in members[:_SHOWN]),
        )
        if (count := sum(group["member_count"] for group in groups)) > _SHOWN:
            typer.echo(f"  and {count - _SHOWN} more members: --output json")
    parts = [(group["name"], one) for group in groups for one in group["subtopologies"]]
    if parts:
        typer.echo("")
        table(
            [col("Group"), col("Subtopology"), col("Reads", 1), col("Writes", 1), col("Changelogs", 2)],
            (
                [name, one["name"], _few(one["reads"]), _few(one["writes"]), _few(one["changelogs"])]
                for name, one in parts[:_SHOWN]
            ),
        )


def _few(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _node(node: Any) -> str:
    return f"{node['kind'].replace('_', ' ')} {node['name']}"


def _because(tie: Any) -> str:
    return f"{tie['reason']}{' (likely)' if tie['likely'] else ''}"


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as exc:
        fail(f"{path}: {exc.strerror}", USAGE)
