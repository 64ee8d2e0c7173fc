"""The `lockgate` command: mounts one sub-command per file."""

from __future__ import annotations

from typing import Annotated

import typer

from gateway.cli import dev, gateway, group, health, quickstart, serve, support_bundle
from gateway.cli.commands import ApiTyper
from gateway.cli.doctor import doctor
from gateway.cli.jobs import job
from gateway.cli.links import access, link, link_acls, link_schemas, quotas, users
from gateway.cli.migrations import migration, migration_file, report
from gateway.cli.mirrors import (
    mirror,
    mirror_back,
    mirror_candidates,
    mirror_changes,
    mirror_messages,
    mirror_promote,
)
from gateway.version import VERSION

app = ApiTyper(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Move Kafka clients between clusters.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("serve")(serve.serve)
app.command("health")(health.health)
app.command("doctor")(doctor.doctor)
app.command("quickstart")(quickstart.quickstart)
app.command("support-bundle")(support_bundle.support_bundle)
link.app.add_typer(link_acls.app, name="acls")
link.app.add_typer(link_schemas.app, name="schemas")
app.add_typer(link.app, name="link")
mirror_back.register(mirror.app)
mirror_promote.register(mirror.app)
mirror_changes.register(mirror.app)
mirror_candidates.register(mirror.app)
mirror_messages.register(mirror.app)
app.add_typer(mirror.app, name="mirror")
app.add_typer(group.app, name="group")
app.add_typer(access.app, name="access")
app.add_typer(users.app, name="users")
app.add_typer(quotas.app, name="quotas")
migration_file.register(migration.app)
app.add_typer(migration.app, name="migration")
app.add_typer(report.app, name="report")
app.add_typer(gateway.app, name="gateway")
app.add_typer(typer.Typer(cls=job.LazyJobs, help=job.HELP, no_args_is_help=True), name="job")
app.add_typer(dev.app, name="dev")


@app.command("version")
def show_version() -> None:
    """Print the version."""
    typer.echo(f"lockgate {VERSION}")


@app.command("help")
def show_help(
    words: Annotated[list[str] | None, typer.Argument(metavar="[COMMAND]…", help="Of which.")] = None,
) -> None:
    """Show the help of a command, as -h does."""
    typer.main.get_command(app).main([*(words or []), "--help"], prog_name="lockgate")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"lockgate {VERSION}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Move Kafka clients from one cluster to another with one rolling restart and no stop."""


def main() -> None:
    """Console script."""
    app()
