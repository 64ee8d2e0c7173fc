"""What the commands of `lockgate mirror` share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from gateway.cli import completion
from gateway.cli.api import REFUSED, Api, Refused, fail, segment
from gateway.cli.output import Output, dump

Topic = Annotated[
    str,
    typer.Argument(help="Mirror topic: link.prefix and the source topic's name.", autocompletion=completion.topics),
]
Topics = Annotated[list[str], typer.Argument(help="One or more topics.", autocompletion=completion.topics)]
Link = completion.Link


def mirror_path(link: str, topic: str = "") -> str:
    """Where the API has the mirrors of a link, or one of them."""
    return f"/v3/links/{segment(link)}/mirrors" + (f"/{segment(topic)}" if topic else "")


def names_in_order(names: list[str]) -> list[str]:
    """Each once, as they were given."""
    return list(dict.fromkeys(names))


def one_by_one(verb: str, past: str, topics: list[str], link: str, output: Output, url: str) -> None:
    """Carry out one operation on each topic, and say what became of it."""
    api = Api(url)
    done, refused = each(topics, lambda topic: api.post(f"{mirror_path(link, topic)}:{verb}"))
    results(past, done, output)
    end(refused)


def each(topics: list[str], work: Callable[[str], Any]) -> tuple[list[Any], list[str]]:
    """Each topic on its own: what was done, and why the others were refused."""
    done, refused = [], []
    for topic in dict.fromkeys(topics):
        try:
            done.append(work(topic))
        except Refused as exc:
            refused.append(str(exc))
    return done, refused


def end(refused: list[str]) -> None:
    """The end of a command over several topics: exit code 1 with the reasons when some were refused."""
    for message in refused[:-1]:
        typer.echo(f"error: {message}", err=True)
    if refused:
        fail(refused[-1], REFUSED)


def results(past: str, mirrors: list[Any], output: Output) -> None:
    """One line per topic, or all of it in another format."""
    if output is not Output.TABLE:
        dump({"data": mirrors}, output)
        return
    for mirror in mirrors:
        typer.echo(f"{past} {mirror['mirror_topic_name']} ({mirror['mirror_status']})")


def not_mirrored(left: dict[str, int], exact: bool | None) -> str:
    """Records that a failover leaves behind on the source, or left there; '' when it is certainly none.

    `exact`: the source said so; None without a failover.
    """
    known = sum(count for count in left.values() if count > 0)
    unknown = [partition for partition, count in left.items() if count < 0]
    parts = [f"{count} records of partition {partition}" for partition, count in left.items() if count > 0]
    if len(parts) > 1:
        parts = [f"{known} records ({', '.join(parts)})"]
    if unknown:
        parts.append(f"an unknown number in partition {', '.join(unknown)}: its end on the source was never seen")
    seen = f"{' and '.join(parts)}: on the source, not on the target" if parts else ""
    if exact is not False:
        return seen
    unseen = "the source is unreachable, so there may be"
    return f"{seen}; {unseen} more" if seen else f"no unmirrored records are known; {unseen} some"
