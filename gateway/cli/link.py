"""`lockgate link`: cluster links, the connection to a source cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gateway.cli import completion
from gateway.cli.api import DEFAULT_URL, USAGE, Url, ask, fail, segment
from gateway.cli.connection import ApiTyper
from gateway.cli.output import Format, Output, dump, facts, since, table
from gateway.cli.properties import read_properties

app = ApiTyper(help="Cluster links: the connection to a source cluster.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Name of the link.", autocompletion=completion.links)]


@app.command("create")
def create(
    name: Name,
    bootstrap: Annotated[str, typer.Option(metavar="HOST:PORT", help="bootstrap.servers of the source.")] = "",
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Client properties and link options, one key=value a line.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="One of them; may be repeated.")
    ] = None,
    output: Format = Output.TABLE,
    url: Url = DEFAULT_URL,
) -> None:
    """Create a link to a source cluster, which must answer."""
    properties = read_properties(config) if config else {}
    for text in settings or []:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            fail(f"--set {text}: expected KEY=VALUE", USAGE)
        if any(word in key for word in ("password", "secret", "jaas")) and not value.strip().startswith("${"):
            fail(
                f"--set {key.strip()}: others see a secret on a command line; give a reference to it, such as "
                "${env:NAME}, or put it into a file, --config FILE",
                USAGE,
            )
        properties[key.strip()] = value.strip()
    if bootstrap:
        properties["bootstrap.servers"] = bootstrap
    if "bootstrap.servers" not in properties:
        fail("name the source with --bootstrap HOST:PORT (or bootstrap.servers in --config or --set)", USAGE)
    body = {"link_name": name, "configs": [{"name": key, "value": value} for key, value in properties.items()]}
    link = ask(url, lambda api: api.post("/v3/links", body))
    if output is not Output.TABLE:
        dump(link, output)
    else:
        typer.echo(f"created link {name} to source cluster {link['source_cluster_id']}")


@app.command("list")
def list_links(output: Format = Output.TABLE, url: Url = DEFAULT_URL) -> None:
    """List the links."""
    answer = ask(url, lambda api: api.get("/v3/links"))
    if output is not Output.TABLE:
        dump(answer, output)
        return
    table(
        ["Link", "State", "Source", "Source cluster id", "Mirrors"],
        (
            [
                link["link_name"],
                link["link_state"],
                link["client"].get("bootstrap.servers", ""),
                link["source_cluster_id"],
                _counts(link["mirrors"]) or "none",
            ]
            for link in answer["data"]
        ),
        empty="no links",
    )


@app.command("describe")
def describe(name: Name, output: Format = Output.TABLE, url: Url = DEFAULT_URL) -> None:
    """Show a link with all its options."""
    link = ask(url, lambda api: api.get(f"/v3/links/{segment(name)}"))
    if output is not Output.TABLE:
        dump(link, output)
        return
    facts(
        [
            ("Link", link["link_name"]),
            ("State", link["link_state"]),
            ("Since", since(link["state_time_ms"])),
            ("Error", link["link_error"]),
            ("Source cluster id", link["source_cluster_id"]),
            ("Target cluster id", link["destination_cluster_id"]),
            ("Created", since(link["created_ms"])),
            ("Mirrors", _counts(link["mirrors"]) or "none"),
        ]
    )
    typer.echo("")
    table(["Config", "Value"], sorted([*link["client"].items(), *link["configs"].items()]))


@app.command("delete")
def delete(
    name: Name,
    force: Annotated[bool, typer.Option("--force", help="Also with topics or groups that are not promoted.")] = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Delete a link and what is known of its mirrors and groups. Topics and their records stay."""
    ask(url, lambda api: api.delete(f"/v3/links/{segment(name)}", {"force": str(force).lower()}))
    typer.echo(f"deleted link {name}")


def _counts(mirrors: dict[str, int]) -> str:
    return ", ".join(f"{count} {state}" for state, count in sorted(mirrors.items()))
