"""`lockgate job`: the Spark jobs, one command per file.

They need pyspark, which is not installed everywhere and takes a while to import; so `main` mounts `LazyJobs`, and this
module's commands are imported only when one of them is asked for. Without Spark the help says which there are, and each
of them how to install it.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final, NoReturn

import typer
from typer.core import TyperGroup

from gateway.cli.api import USAGE, fail
from gateway.cli.commands import ApiTyper, ShownGroup

HELP: Final = "Spark jobs: copy a backlog, translate offsets, audit, plan."
NEEDS: Final = "the jobs need Spark: pip install 'lockgate[spark]' in this environment, and Java 17"
_EXTRA: Final = ("pyspark", "pyarrow", "py4j")
_ANYTHING: Final = {"allow_extra_args": True, "ignore_unknown_options": True}
COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "catch-up": ("catch_up", "Copy the backlog of mirror topics up to the tail, where the gateway goes on by itself."),
    "translate-offsets": ("translate", "Translate the groups' offsets on the source into offsets of the target."),
    "audit": ("audit", "Compare topics of two clusters up to their ends as of now."),
    "plan": ("plan", "Take an inventory of the source and plan its migration. Nothing is changed."),
}
"""The module of each, and what is said of it where Spark is missing."""


class LazyJobs(ShownGroup):
    """The commands of `lockgate job`."""

    def list_commands(self, ctx: Any) -> list[str]:
        """For the help."""
        return _commands().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """One command, None if there is none of that name."""
        return _commands().get_command(ctx, cmd_name)


def _commands() -> TyperGroup:
    jobs = ApiTyper(help=HELP)
    try:
        found = {name: import_module(f"gateway.cli.jobs.{module}") for name, (module, _) in COMMANDS.items()}
    except ModuleNotFoundError as exc:
        if exc.name is None or exc.name.split(".")[0] not in _EXTRA:
            raise
        for name, (_, words) in COMMANDS.items():
            told = f"{words}\n\nIts options are shown once Spark is there: {NEEDS}."
            jobs.command(name, help=told, context_settings=_ANYTHING)(_refuse)
    else:
        for name, module in found.items():
            jobs.command(name)(getattr(module, name.replace("-", "_")))
    return typer.main.get_group(jobs)


def _refuse() -> NoReturn:
    fail(NEEDS, USAGE)
