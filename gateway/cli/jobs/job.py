"""`lockgate job`: the Spark jobs, one command per file.

They need pyspark, which is not installed everywhere and takes a while to import; so `main` mounts `LazyJobs`, and this
module's commands are imported only when one of them is asked for.
"""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from gateway.cli.api import USAGE, fail
from gateway.cli.connection import ApiTyper

HELP = "Spark jobs: copy a backlog, translate offsets, audit, plan."


class LazyJobs(TyperGroup):
    """The commands of `lockgate job`."""

    def list_commands(self, ctx: Any) -> list[str]:
        """For the help."""
        return _commands().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """One command, None if there is none of that name."""
        return _commands().get_command(ctx, cmd_name)


def _commands() -> TyperGroup:
    try:
        from gateway.cli.jobs import audit as job_audit
        from gateway.cli.jobs import catch_up as job_catch_up
        from gateway.cli.jobs import plan as job_plan
        from gateway.cli.jobs import translate as job_translate
    except ModuleNotFoundError as exc:
        if exc.name is None or exc.name.split(".")[0] not in ("pyspark", "pyarrow"):
            raise
        fail("the jobs need Spark: pip install 'lockgate[spark]'", USAGE)
    jobs = ApiTyper(help=HELP)
    jobs.command("catch-up")(job_catch_up.catch_up)
    jobs.command("translate-offsets")(job_translate.translate_offsets)
    jobs.command("audit")(job_audit.audit)
    jobs.command("plan")(job_plan.plan)
    return typer.main.get_group(jobs)
