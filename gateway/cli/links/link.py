"""`lockgate link`: cluster links, the connection to a source cluster."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gateway.cli import completion
from gateway.cli.api import DEFAULT_URL, USAGE, Url, ask, fail, segment
from gateway.cli.commands import ApiTyper
from gateway.cli.links.link_update import register, show_delete_plan
from gateway.cli.output import Format, Output, col, dump, facts, listing, since, table
from gateway.cli.progress import patience
from gateway.cli.properties import ConfigFile, Configs, SettingFiles, Settings, configs_given

app = ApiTyper(help="Cluster links: the connection to a source cluster.", no_args_is_help=True)
register(app)

Name = Annotated[str, typer.Argument(help="Name of the link.", autocompletion=completion.links)]


@app.command("create")
def create(
    name: Name,
    bootstrap: Annotated[str, typer.Option(metavar="HOST:PORT", help="bootstrap.servers of the source.")] = "",
    config: Configs = None,
    config_file: ConfigFile = None,
    settings: Settings = None,
    setting_files: SettingFiles = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Try everything, also against the source; create nothing.")
    ] = False,
    output: Format = Output.TABLE,
    url: Url = DEFAULT_URL,
) -> None:
    """Create a link to a source cluster, which must answer."""
    properties = configs_given(config, config_file, settings, setting_files)
    if bootstrap:
        properties["bootstrap.servers"] = bootstrap
    if "bootstrap.servers" not in properties:
        fail("name the source with --bootstrap HOST:PORT (or --config bootstrap.servers=HOST:PORT)", USAGE)
    body = {"link_name": name, "configs": [{"name": key, "value": value} for key, value in properties.items()]}
    query = "?validate_only=true" if dry_run else ""
    with patience(f"the gateway has no answer yet from the source {properties['bootstrap.servers']}"):
        link = ask(url, lambda api: api.post(f"/v3/links{query}", body))
    if output is not Output.TABLE:
        dump(link, output)
    elif dry_run:
        typer.echo(f"link {name} to source cluster {link['source_cluster_id']} would be created; nothing was")
    else:
        typer.echo(f"created link {name} to source cluster {link['source_cluster_id']}")


@app.command("list")
def list_links(output: Format = Output.TABLE, url: Url = DEFAULT_URL) -> None:
    """List the links."""
    answer = ask(url, lambda api: api.get("/v3/links"))
    if output is not Output.TABLE:
        dump(answer, output)
        return
    listing(
        [
            col("Link"),
            col("State"),
            col("Mirrors", 1),
            col("Source", 2),
            col("Source cluster id", 3),
            col("Error", note=True),
        ],
        (
            [
                link["link_name"],
                link["link_state"],
                _counts(link["mirrors"]) or "none",
                link["client"].get("bootstrap.servers", ""),
                link["source_cluster_id"],
                _error(link),
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
            ("Error", _error(link)),
            ("Source cluster id", link["source_cluster_id"]),
            ("Target cluster id", link["destination_cluster_id"]),
            ("Created", since(link["created_ms"])),
            ("Mirrors", _counts(link["mirrors"]) or "none"),
            ("Groups held", f"{link['groups_held']}; {link['groups_held_reason']}" if link["groups_held"] else ""),
        ]
    )
    typer.echo("")
    table([col("Config"), col("Value")], sorted([*link["client"].items(), *link["configs"].items()]))


@app.command("delete")
def delete(
    name: Name,
    force: Annotated[bool, typer.Option("--force", help="Also with topics or groups that are not promoted.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would stay, and who writes where then; delete nothing.")
    ] = False,
    output: Format = Output.TABLE,
    url: Url = DEFAULT_URL,
) -> None:
    """Delete a link and what is known of its mirrors and groups. Topics and their records stay."""
    if dry_run:
        query = {"force": str(force).lower(), "validate_only": "true"}
        plan = ask(url, lambda api: api.delete(f"/v3/links/{segment(name)}", query))
        show_delete_plan(plan, output)
        return
    ask(url, lambda api: api.delete(f"/v3/links/{segment(name)}", {"force": str(force).lower()}))
    if output is not Output.TABLE:
        dump({"link_name": name, "deleted": True}, output)
    else:
        typer.echo(f"deleted link {name}")


def _error(link: dict[str, Any]) -> str:
    return f"{link['link_error_code']}: {link['link_error']}" if link["link_error"] else ""


def _counts(mirrors: dict[str, int]) -> str:
    return ", ".join(f"{count} {state}" for state, count in sorted(mirrors.items()))
