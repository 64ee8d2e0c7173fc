"""`lockgate quickstart`: a migration between two clusters on this machine, to look at."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from gateway.devcluster import DevClusterError, ensure_jars
from gateway.quickstart.lab import CLIENT_KAFKA, SOURCE_KAFKA, Lab, QuickstartError, default_folder
from gateway.quickstart.tour import Terminal, Tour, tell_environment


def quickstart(
    folder: Annotated[Path | None, typer.Option("--dir", metavar="DIR", help="Folder for all files of it.")] = None,
    clean: Annotated[bool, typer.Option("--clean", help="End and remove what is left of an earlier one.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Walk through it without asking.")] = False,
) -> None:
    """Watch a whole migration on this machine: two clusters, a gateway, clients under load. A JDK (17) is enough."""
    lab = Lab(folder or default_folder())
    if clean:
        lab.clean()
        typer.echo(f"nothing of a quickstart is left in {lab.folder}")
        return
    if lab.folder.exists():
        typer.echo(f"error: {lab.folder} is there already: lockgate quickstart --clean", err=True)
        raise typer.Exit(1)
    asks = not yes and sys.stdin.isatty() and sys.stdout.isatty()
    try:
        passed = _walked(lab, asks=asks)
    except (QuickstartError, DevClusterError) as exc:
        lab.end()
        typer.echo(f"error: {exc}\nIts logs are in {lab.folder}; lockgate quickstart --clean removes them", err=True)
        raise typer.Exit(1) from exc
    except (KeyboardInterrupt, typer.Abort):
        typer.echo("interrupted")
        lab.clean()
        raise typer.Exit(130) from None
    lab.clean()
    raise typer.Exit(0 if passed else 1)


def _walked(lab: Lab, *, asks: bool) -> bool:
    began = time.monotonic()
    for version in (CLIENT_KAFKA, SOURCE_KAFKA):
        typer.echo(f"Apache Kafka {version}: its jars")
        ensure_jars(version, _progress)
    typer.echo(f"Two clusters of one broker, in {lab.folder}")
    lab.start_clusters()
    found = Tour(lab, _terminal(asks=asks)).walk()
    word = "PASS" if found.passed else "FAIL"
    typer.secho(
        f"quickstart: {word} seconds={time.monotonic() - began:.0f} lost={found.lost} duplicated={found.duplicated}",
        bold=True,
    )
    if asks:
        typer.echo(f"\nThe gateway runs on. Its console: {lab.url}/console (token: {lab.folder / 'api.token'})")
        typer.echo("To ask it from another shell, or to go back (lockgate mirror reverse orders):")
        for line in tell_environment(lab):
            typer.echo(f"   {line}")
        typer.prompt("Enter ends all of it, and removes its files", default="", show_default=False, prompt_suffix=" ")
    return found.passed


def _terminal(*, asks: bool) -> Terminal:
    def ask() -> None:
        if asks:
            typer.prompt("Enter goes on", default="", show_default=False, prompt_suffix=" ")

    return Terminal(
        say=typer.echo,
        title=lambda text: typer.secho(f"\n{text}", bold=True),
        shown=lambda command: typer.secho(f" $ {command}", fg=typer.colors.CYAN),
        ask=ask,
    )


def _progress(count: int, of: int) -> None:
    if sys.stderr.isatty():
        typer.echo(f"\r   {count} of {of}", err=True, nl=count == of)
