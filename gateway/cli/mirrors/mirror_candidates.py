"""`lockgate mirror candidates`: what nobody mirrors yet, and why."""

from __future__ import annotations

from typing import Annotated

import typer

from gateway.cli import completion
from gateway.cli.api import DEFAULT_URL, Url, ask, one_of, segment
from gateway.cli.commands import ApiTyper
from gateway.cli.mirrors.mirror_common import Link
from gateway.cli.output import Format, Output, col, dump, listing, since
from gateway.topics.rules.auto_create import Reason


def register(app: ApiTyper) -> None:
    """Add the command to those of mirrors."""
    app.command("candidates")(candidates)


def candidates(
    link: Link,
    reason: Annotated[
        str,
        typer.Option(
            "--reason",
            help="Only those with this reason, such as NEXT_ROUND.",
            autocompletion=completion.words(*Reason),
        ),
    ] = "",
    output: Format = Output.TABLE,
    url: Url = DEFAULT_URL,
) -> None:
    """List the source topics that the link does not mirror, each with the reason. Nothing is created."""
    wanted = one_of("--reason", reason, Reason)
    params = {"reason": wanted} if wanted else None
    answer = ask(url, lambda api: api.list(f"/v3/links/{segment(link)}/candidates", params))
    if output is not Output.TABLE:
        dump(answer, output)
        return
    task = answer["auto_create"]
    state = f"Auto-create: {task['state']}"
    if task["state_time_ms"]:
        state += f" since {since(task['state_time_ms'])}"
    typer.echo(state + (f": {task['last_error']}" if task["state"] == "IN_ERROR" else ""), err=True)
    listing(
        [col("Source topic"), col("Reason"), col("Mirror topic", 1), col("Detail", note=True)],
        (
            [
                one["source_topic_name"],
                one["reason"],
                one["mirror_topic_name"],
                one["reason_detail"],
            ]
            for one in answer["data"]
        ),
        empty=f"link {link} mirrors every topic of its source that it can see"
        if not reason
        else f"no topic with the reason {reason}",
    )
