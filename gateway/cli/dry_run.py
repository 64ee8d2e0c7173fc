"""`--dry-run` of what changes mirror topics: the gateway is asked what would begin, and changes nothing.

The question is that of Confluent's paths, `validate_only=true`, which every verb there has: each topic gets an answer
of its own. Exit code 1 when one of them would be refused.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gateway.cli.api import REFUSED, Api, Refused, fail, segment
from gateway.cli.mirrors.mirror_common import end
from gateway.cli.output import Output, dump

DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Ask the gateway whether it would begin, and what it would lose; change nothing."),
]


def would(verb: str, topics: list[str], link: str, output: Output, url: str) -> None:
    """Tell what a verb would do with each topic, and end the command."""
    answer = _asked(Api(url), verb, topics, link)
    refused = [f"{each['mirror_topic_name']}: {each['error_message']}" for each in answer["data"] if each["error_code"]]
    if output is not Output.TABLE:
        dump(answer, output)
    else:
        for each in answer["data"]:
            if not each["error_code"]:
                typer.echo(f"would {verb} {each['mirror_topic_name']}{_cost(each)}")
    end(refused)
    raise typer.Exit


def _asked(api: Api, verb: str, topics: list[str], link: str) -> Any:
    try:
        cluster = api.get("/v3/status")["target_cluster_id"]
        path = f"/kafka/v3/clusters/{segment(cluster)}/links/{segment(link)}/mirrors:{verb}?validate_only=true"
        return api.post(path, {"mirror_topic_names": list(dict.fromkeys(topics))})
    except Refused as exc:
        fail(str(exc), REFUSED)


def _cost(each: Any) -> str:
    lost = each["messages_truncated"]
    return f", which throws away {lost} records" if lost else ""
