"""`lockgate serve`: run a gateway."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.api import USAGE, fail, fail_all


def serve(
    config: Annotated[Path, typer.Option("--config", metavar="FILE", help="Settings of this gateway, YAML.")],
) -> None:
    """Run a gateway until SIGTERM or Ctrl-C."""
    # Imported here: the other commands start in a tenth of the time without the data plane.
    from gateway.config.file import ConfigError, load

    try:
        settings = load(config)
    except ConfigError as exc:
        fail_all(exc.problems, USAGE)
    from gateway.runtime import run
    from gateway.telemetry.logs import configure, configure_audit

    configure(settings.log.level, settings.log.format)
    try:
        configure_audit(settings.api.audit_file)
    except OSError as exc:
        fail(f"{config}: api.audit_file: cannot write {settings.api.audit_file}: {exc.strerror}", USAGE)
    raise typer.Exit(run(settings))
