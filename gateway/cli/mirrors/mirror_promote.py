"""`lockgate mirror promote`: goes forward, to the target, or home with --failback; never in the other direction.

Asked again it changes nothing: topics that are where they are to go are told with where they are written, and only the
others are sent. The gateway refuses a set that does not go the way that is asked for. With --cancel a promote that has
not cut over is called off; whoever interrupts the wait for one is told so, since it goes on without the command.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Final

import typer

from gateway.cli.api import DEFAULT_URL, REFUSED, USAGE, Api, Refused, Url, fail
from gateway.cli.consent import Yes, named, require_consent
from gateway.cli.mirrors.mirror_common import Link, Topics, end, mirror_path, names_in_order
from gateway.cli.mirrors.mirror_shown import names_in, promote_plan, where_written
from gateway.cli.output import Format, Output, dump
from gateway.cli.rehearsal import rehearse_promote
from gateway.cli.waiting import until_promoted

_FORWARD: Final = "FORWARD"
_REVERSE: Final = "REVERSE"
_INTERRUPTED: Final = 130
_NAMED: Final = 5
"""Topics of a set that are named one by one."""


def register(app: typer.Typer) -> None:
    """Add the command to `lockgate mirror`."""
    app.command("promote")(promote)


def promote(
    topics: Topics,
    link: Link,
    failback: Annotated[
        bool, typer.Option("--failback", help="Go home: topics that are mirrored back are written on the source again.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the end of the promote.")] = True,
    force: Annotated[
        bool, typer.Option("--force", help="Also with groups that still read on the source, or without the source.")
    ] = False,
    groups: Annotated[
        str, typer.Option("--groups", help="Groups that change sides with the topics, with commas between.")
    ] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what blocks it and who has not moved, and change nothing.")
    ] = False,
    rehearse: Annotated[
        bool, typer.Option("--rehearse", help="Do all of it but the cutover, go back, and say who waited how long.")
    ] = False,
    bound_ms: Annotated[
        int, typer.Option("--bound-ms", min=0, help="With --rehearse: how long writes may be paused at most.")
    ] = 0,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Call a promote off that has not cut over; all of its set goes back.")
    ] = False,
    yes: Yes = False,
    output: Format = Output.TABLE,
    url: Url = DEFAULT_URL,
) -> None:
    """Promote mirror topics as one set: from then on they are written on the target.

    With --failback topics that are mirrored back are written on the source again. Topics that are there already stay as
    they are. With --groups the groups change sides under the same write pause, so that no transaction has two sides.
    """
    api, names, along = Api(url), names_in_order(topics), names_in(groups)
    if cancel:
        if failback or rehearse or force or along:
            fail("--cancel goes with --dry-run alone", USAGE)
        _called_off(api, link, names, output, dry_run=dry_run)
        return
    if bound_ms and not rehearse:
        fail("--bound-ms is of --rehearse", USAGE)
    if along and (rehearse or force):
        fail("--groups goes with neither --rehearse nor --force", USAGE)
    if failback and rehearse:
        fail("--failback goes without --rehearse", USAGE)
    if rehearse:
        rehearse_promote(api, link, names, output, bound_ms, dry_run=dry_run)
        return
    there = _already(api, link, names, failback=failback)
    left = [name for name in names if name not in there]
    if not left and not along:
        _told(list(there.values()), output, already=True)
        return
    for mirror in there.values():
        typer.echo(where_written(mirror, already=True), err=True)
    direction = _REVERSE if failback else _FORWARD
    body = {"mirror_topic_names": left, "force": force, "mirror_direction": direction}
    body |= {"group_names": along} if along else {}
    if dry_run:
        promote_plan(api, link, body, output)
        return
    require_consent(_asked(left, along, link, failback=failback), link, yes=yes)
    _carried_out(api, link, left, body, output, wait=wait)


def _asked(names: list[str], groups: list[str], link: str, *, failback: bool) -> str:
    does = "takes home" if failback else "promotes"
    with_groups = f" with {len(groups)} group(s) ({', '.join(groups)})" if groups else ""
    side = "source" if failback else "target"
    return f"this {does} {named(names)} of link {link}{with_groups}; clients write to the {side} from then on"


def _carried_out(api: Api, link: str, names: list[str], body: dict[str, Any], output: Output, *, wait: bool) -> None:
    with going_on(link, names):
        try:
            begun = api.post(f"{mirror_path(link)}:promote", body)["data"]
        except Refused as exc:
            fail(str(exc), REFUSED)
        if not wait:
            _told(begun, output, begun=True)
            return
        done = until_promoted(api, mirror_path(link), names)
    failed = [mirror for mirror in done if not _is_there(mirror, failback=body["mirror_direction"] == _REVERSE)]
    _told(done if output is not Output.TABLE else [mirror for mirror in done if mirror not in failed], output)
    end([f"{m['mirror_topic_name']}: {m['promote_error'] or m['error_message'] or m['mirror_status']}" for m in failed])


@contextmanager
def going_on(link: str, names: Sequence[str]) -> Iterator[None]:
    """Who interrupts the block is told that the promote goes on, and how to end it; the exit code is 130."""
    try:
        yield
    except KeyboardInterrupt:
        named = list(names if len(names) <= _NAMED else names[:1])  # one name calls all of a set off
        more = f" and {len(names) - 1} more" if len(names) > _NAMED else ""
        typer.echo(
            f"the promote of {', '.join(named)}{more} goes on in the gateway; call it off with: "
            f"lockgate mirror promote {' '.join(named)} --cancel --link {link}",
            err=True,
        )
        raise typer.Exit(_INTERRUPTED) from None


def _called_off(api: Api, link: str, names: list[str], output: Output, *, dry_run: bool) -> None:
    path = f"{mirror_path(link)}:cancel-promote" + ("?validate_only=true" if dry_run else "")
    try:
        done = api.post(path, {"mirror_topic_names": names})
    except Refused as exc:
        fail(str(exc), REFUSED)
    if output is not Output.TABLE:
        dump(done, output)
        return
    would = "would be " if dry_run else ""
    for mirror in done["data"]:
        is_back = not mirror["mirror_status"].startswith("PENDING_")
        stands = where_written(mirror) if is_back else f"{mirror['mirror_topic_name']}: on its way back"
        typer.echo(f"{mirror['mirror_topic_name']}: its promote would be called off" if dry_run else stands)
    for name in done["paused_migrations"]:
        typer.echo(
            f"migration {name} {would}paused: it would promote them again; lockgate migration resume {name}", err=True
        )


def _already(api: Api, link: str, names: list[str], *, failback: bool) -> dict[str, Any]:
    """Topics that are written where they are to go, by name. What is no mirror topic is for the gateway to refuse."""
    try:
        mirrors = {mirror["mirror_topic_name"]: mirror for mirror in api.list(mirror_path(link))["data"]}
    except Refused as exc:
        fail(str(exc), REFUSED)
    return {name: mirrors[name] for name in names if name in mirrors and _is_there(mirrors[name], failback=failback)}


def _is_there(mirror: Any, *, failback: bool) -> bool:
    """Whether its writes go where such a promote brings them, and nothing is about to change that."""
    status, is_back = mirror["mirror_status"], mirror["mirror_direction"] == _REVERSE
    if status.startswith("PENDING_") or status == "FAILED":
        return False
    return not (is_back or status == "STOPPED") if failback else is_back or status == "STOPPED"


def _told(mirrors: list[Any], output: Output, *, begun: bool = False, already: bool = False) -> None:
    """One line per topic, or all of it in another format."""
    if output is not Output.TABLE:
        dump({"data": mirrors}, output)
        return
    for mirror in mirrors:
        name = mirror["mirror_topic_name"]
        begins = f"{name}: the promote has begun ({mirror['mirror_status']})"
        typer.echo(begins if begun else where_written(mirror, already=already))
