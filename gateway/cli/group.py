"""`lockgate group`: mirror groups."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gateway.cli import completion
from gateway.cli.api import DEFAULT_URL, Url, ask, segment
from gateway.cli.commands import ApiTyper
from gateway.cli.consent import Yes, require_consent
from gateway.cli.mirrors.mirror_common import end
from gateway.cli.output import Format, Output, col, dump, facts, listing, since, table

app = ApiTyper(help="Mirror groups: consumer groups on their way to the target.", no_args_is_help=True)

Group = Annotated[
    str, typer.Argument(help="Name of the group, the same on both clusters.", autocompletion=completion.groups)
]
Link = completion.Link
Force = Annotated[bool, typer.Option("--force", help="Go on although a check says no.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Say what blocks it, what it would wait for and carry over; change nothing.")
]


@app.command("create")
def create(
    group: Group, link: Link, dry_run: DryRun = False, output: Format = Output.TABLE, url: Url = DEFAULT_URL
) -> None:
    """Declare a group of the source a mirror group: it waits at the gateway until it is promoted."""
    answer = ask(url, lambda api: api.post(_path(link) + _query(dry_run), {"group": group}))
    _result("would create" if dry_run else "created", answer, output)


@app.command("list")
def list_groups(link: Link, output: Format = Output.TABLE, url: Url = DEFAULT_URL) -> None:
    """List the mirror groups of a link."""
    answer = ask(url, lambda api: api.list(_path(link)))
    if output is not Output.TABLE:
        dump(answer, output)
        return
    listing(
        [
            col("Group"),
            col("State"),
            col("On the source#"),
            col("Waiting#"),
            col("Since", 1),
            col("Remark", note=True),
        ],
        (
            [
                group["group"],
                group["state"],
                "?" if group["members"] is None else len(group["members"]),
                len(group["waiting"]),
                since(group["state_time_ms"]),
                _remark(group),
            ]
            for group in answer["data"]
        ),
        empty=f"link {link} has no mirror groups",
    )


@app.command("describe")
def describe(group: Group, link: Link, output: Format = Output.TABLE, url: Url = DEFAULT_URL) -> None:
    """Show a mirror group: members on both clusters, members that wait, offsets."""
    answer = ask(url, lambda api: api.get(_path(link, group)))
    if output is not Output.TABLE:
        dump(answer, output)
        return
    facts(
        [
            ("Group", answer["group"]),
            ("Group on the source", answer["source_group"] if answer["source_group"] != answer["group"] else ""),
            ("Link", answer["link_name"]),
            ("Type", _type(answer)),
            ("State", answer["state"]),
            ("Since", since(answer["state_time_ms"])),
            ("On the source", answer["source_state"] or f"unknown: {answer['unknown']}"),
            ("Remark", _remark(answer)),
            ("Offset sync", _sync(answer["offset_sync"])),
            ("Note", answer["note"]),
        ]
    )
    members = answer["members"] or []
    typer.echo("")
    table(
        [col("Where"), col("Client id"), col("Host"), col("Topics", 1)],
        [
            *(["source", m["client_id"], m["host"], ", ".join(m["topics"])] for m in members),
            *(
                ["target", m["client_id"], m["host"], ", ".join(m["topics"])]
                for m in answer.get("target_members") or []
            ),
            *(["waiting", w["client_id"], w["host"], f"for {w['waiting_s']:.0f} s"] for w in answer["waiting"]),
        ],
        empty="no members on either cluster, nobody waits at the gateway",
    )
    _left_behind(members)
    if answer["offsets"]:
        typer.echo("")
        _offsets(answer["offsets"])


@app.command("promote")
def promote(
    group: Group,
    link: Link,
    force: Force = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    output: Format = Output.TABLE,
    url: Url = DEFAULT_URL,
) -> None:
    """Carry the group's offsets over and let it read on the target."""
    what = "" if dry_run else f"this promotes group {group} of link {link}; it reads on the target from then on"
    require_consent(what, link, yes=yes)
    _carry("promote", "promoted", group, link, output, url, force=force, dry_run=dry_run)


@app.command("demote")
def demote(
    group: Group,
    link: Link,
    force: Force = False,
    dry_run: DryRun = False,
    output: Format = Output.TABLE,
    url: Url = DEFAULT_URL,
) -> None:
    """The failback: close the gate, so that the group reads on the source again."""
    _carry("demote", "demoted", group, link, output, url, force=force, dry_run=dry_run)


@app.command("remove-members")
def remove_members(
    group: Group,
    link: Link,
    member: Annotated[
        list[str] | None, typer.Option("--member", help="A member id; none: all whose processes wait at the gateway.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also members that nobody waits for: you know that they are gone.")
    ] = False,
    yes: Yes = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say who would be removed; change nothing.")] = False,
    output: Format = Output.TABLE,
    url: Url = DEFAULT_URL,
) -> None:
    """Remove members from the group on the source that did not leave when they were closed (Streams, static ones).

    Without it the source does so when their session timeout is over.
    """
    path, body = f"{_path(link, group)}:remove-members", {"member_ids": member or [], "force": force}
    plan = ask(url, lambda api: api.post(f"{path}?validate_only=true", body))
    if not plan["data"]:
        typer.echo(f"group {group} has no member on the source whose process waits at the gateway", err=True)
    if dry_run or not plan["data"]:
        _removed(plan, output)
        return
    if not yes:
        _removed(plan, Output.TABLE)
        gone = len(plan["data"])
        require_consent(
            f"this removes {gone} member{'' if gone == 1 else 's'} of {group} on the source, who must be gone",
            link,
            yes=yes,
        )
    named = {"member_ids": [one["member"]["member_id"] for one in plan["data"]], "force": force}
    answer = ask(url, lambda api: api.post(path, named))
    _removed(answer, output)
    end([f"{one['member']['member_id']}: {one['error']}" for one in answer["data"] if one["error"]])


def _removed(answer: Any, output: Output) -> None:
    if output is not Output.TABLE:
        dump(answer, output)
        return
    table(
        [
            col("Client id"),
            col("Host"),
            col("Waits here", 1),
            col("Instance id", 2),
            col("Session timeout", 3),
            col("Removed"),
            col("Error", note=True),
        ],
        (
            [
                one["member"]["client_id"],
                one["member"]["host"],
                "yes" if one["member"]["waits"] else "no",
                one["member"]["instance_id"] or "",
                _timeout(one["member"]),
                {None: "would be", "": "yes"}.get(one["error"], "no"),
                one["error"],
            ]
            for one in answer["data"]
        ),
        empty="no member to remove",
    )


def _timeout(member: Any) -> str:
    return "" if member["session_timeout_ms"] is None else f"{member['session_timeout_ms'] / 1000:g} s"


def _left_behind(members: list[Any]) -> None:
    """Members whose processes wait at the gateway: they hold their group until their session timeout."""
    left = [one for one in members if one["waits"]]
    if not left:
        return
    longest = max((one["session_timeout_ms"] or 0 for one in left), default=0)
    when = f"within their session timeout ({longest / 1000:g} s)" if longest else "within their session timeout"
    typer.echo("")
    typer.echo(
        f"{len(left)} member(s) on the source did not leave, and wait at the gateway: the source removes them {when},"
    )
    typer.echo("or `lockgate group remove-members` at once.")


def _carry(
    verb: str, past: str, group: str, link: str, output: Output, url: str, *, force: bool, dry_run: bool
) -> None:
    """One verb, or what it would meet: then exit code 1 when it would be refused."""
    path = f"{_path(link, group)}:{verb}{_query(dry_run)}"
    answer = ask(url, lambda api: api.post(path, {"force": force}))
    if not dry_run:
        _result(past, answer, output)
        return
    if output is not Output.TABLE:
        dump(answer, output)
    elif not answer["blockers"]:
        typer.echo(f"would {verb} {answer['group']} ({answer['state']})")
        if answer["waits_for"]:
            typer.echo(f"  would wait for: {answer['waits_for']}")
        if answer["note"]:
            typer.echo(f"  {answer['note']}")
        _offsets(answer["offsets"])
    end(answer["blockers"])


def _offsets(offsets: list[Any]) -> None:
    if not offsets:
        return
    table(
        [col("Topic"), col("Partition#"), col("Source offset#"), col("Target offset#"), col("Rule", 1)],
        (
            [
                o["topic"],
                o["partition"],
                o["source_offset"],
                "-" if o["target_offset"] is None else o["target_offset"],
                o["rule"],
            ]
            for o in offsets
        ),
    )


def _query(dry_run: bool) -> str:
    return "?validate_only=true" if dry_run else ""


def _path(link: str, group: str = "") -> str:
    return f"/v3/links/{segment(link)}/groups" + (f"/{segment(group)}" if group else "")


def _result(past: str, group: Any, output: Output) -> None:
    if output is not Output.TABLE:
        dump(group, output)
        return
    typer.echo(f"{past} {group['group']} ({group['state']})")


def _type(answer: Any) -> str:
    """How it consumes; nothing is said of what most groups are."""
    if answer["group_type"] == "CONSUMER":
        return ""
    epoch = answer["topology_epoch"]
    return str(answer["group_type"]) if epoch is None else f"{answer['group_type']}, topology epoch {epoch}"


def _sync(sync: Any) -> str:
    """The last sync of a group's offsets, and what it could not do."""
    if sync is None:
        return ""
    said = [since(sync["last_sync_ms"]) if sync["last_sync_ms"] else "not yet"]
    if sync["lag"]:
        said.append(f"{sync['lag']} records behind the group: not mirrored yet")
    if sync["held_back"]:
        said.append(f"lower on the source, and not lowered here: {', '.join(sync['held_back'])}")
    return "; ".join([*said, *([sync["error"]] if sync["error"] else [])])


def _remark(group: Any) -> str:
    if group["members_after_promote"]:
        return "members are on the source again after the promote"
    if group["commits_after_promote"]:
        return (
            f"offsets of {group['commits_after_promote']} partition(s) were committed on the source after the promote"
        )
    return str(group["error_message"] or group["waits_for"])
