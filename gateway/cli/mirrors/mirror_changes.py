"""`lockgate mirror delete`, `repair`, and `state-transition-error list`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gateway.cli.api import DEFAULT_URL, REFUSED, USAGE, Api, Refused, Url, ask, fail
from gateway.cli.commands import ApiTyper
from gateway.cli.consent import Yes, named, require_consent
from gateway.cli.mirrors.mirror_common import Link, Topic, Topics, each, end, mirror_path, results
from gateway.cli.mirrors.mirror_shown import error_table
from gateway.cli.output import Format, Output, dump
from gateway.cli.waiting import until_done

errors_app = ApiTyper(help="Why mirror topics did not come to a state.", no_args_is_help=True)
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")]
_ACTIONS = ("resume", "translate", "recreate")


def register(app: typer.Typer) -> None:
    """Add the commands to `lockgate mirror`."""
    app.command("delete")(delete)
    app.command("repair")(repair)
    app.add_typer(errors_app, name="state-transition-error")


def delete(
    topics: Topics,
    link: Link,
    delete_topic: Annotated[
        bool, typer.Option("--delete-topic", help="Delete the topic on the target, too. Asks.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Although a check that protects data says no.")] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    output: Format = Output.TABLE,
    url: Url = DEFAULT_URL,
) -> None:
    """Delete mirror topics: they are mirrored no more. The topics stay on the target unless --delete-topic is given."""
    api, names = Api(url), list(dict.fromkeys(topics))
    params = {"delete_topic": _word(delete_topic), "force": _word(force)}
    if dry_run or (delete_topic and not yes):
        plans, refused = _deletion_plans(api, link, names, params)
        if dry_run:
            if output is not Output.TABLE:
                dump({"data": plans}, output)
            end(refused)
            return
        if refused:
            end(refused)
        require_consent(f"this deletes {named(names)} on the target, with all records", link, yes=yes)
    done, refused = each(names, lambda topic: _delete(api, link, topic, params))
    if output is not Output.TABLE:
        dump({"data": [_deleted(link, name, delete_topic=delete_topic) for name in done]}, output)
    else:
        for name in done:
            typer.echo(f"deleted {name}{' and its topic' if delete_topic else ''}")
    end(refused)


def _deleted(link: str, topic: str, *, delete_topic: bool) -> dict[str, Any]:
    return {"link_name": link, "mirror_topic_name": topic, "deleted": True, "topic_deleted": delete_topic}


def _delete(api: Api, link: str, topic: str, params: dict[str, str]) -> str:
    api.delete(mirror_path(link, topic), params)
    return topic


def _deletion_plans(api: Api, link: str, names: list[str], params: dict[str, str]) -> tuple[list[Any], list[str]]:
    """Tell them on stderr; returns them, and why some would be refused."""
    asked = params | {"validate_only": "true"}
    plans, refused = each(names, lambda topic: api.delete(mirror_path(link, topic), asked))
    for plan in plans:
        if plan["refused"]:
            refused.append(plan["refused"])
            continue
        what = "the topic on the target and its records" if plan["delete_topic"] else "the record; the topic stays"
        typer.echo(f"{plan['mirror_topic_name']} ({plan['mirror_status']}): {what}", err=True)
        if plan["delete_topic"] and plan["groups_promoted"]:
            typer.echo(f"  read on the target by: {', '.join(plan['groups_promoted'])}", err=True)
    return plans, refused


def repair(
    topic: Topic,
    link: Link,
    action: Annotated[
        str, typer.Option("--action", help="resume, translate or recreate; else the first that deletes nothing.")
    ] = "",
    yes: Yes = False,
    dry_run: DryRun = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the end.")] = True,
    output: Format = Output.TABLE,
    url: Url = DEFAULT_URL,
) -> None:
    """Say what can be done for a mirror topic that has FAILED, and do it after asking."""
    if action and action not in _ACTIONS:
        fail(f"--action {action!r} is not one of {', '.join(_ACTIONS)}", USAGE)
    api, path = Api(url), mirror_path(link, topic)
    try:
        plan = api.post(f"{path}:repair?validate_only=true")
    except Refused as exc:
        fail(str(exc), REFUSED)
    if dry_run and output is not Output.TABLE:
        dump(plan, output)
        return
    _repair_plan(plan, err=not dry_run)
    if dry_run:
        return
    chosen = _chosen(plan, action)
    require_consent(f"this repairs {topic}: {chosen['action']}: {chosen['effect']}", link, yes=yes)
    try:
        if chosen["action"] == "recreate":
            done = api.post(f"{path}:recreate")
        else:
            done = api.post(f"{path}:repair", {"action": chosen["action"]})
    except Refused as exc:
        fail(str(exc), REFUSED)
    mirrors = until_done(api, mirror_path(link), [topic], "repairing") if wait else [done]
    failed = [mirror for mirror in mirrors if mirror["mirror_status"] == "FAILED"]
    results("repaired" if wait else "repairing", [mirror for mirror in mirrors if mirror not in failed], output)
    end([f"{mirror['mirror_topic_name']}: {mirror['error_message']}" for mirror in failed])


def _repair_plan(plan: Any, *, err: bool) -> None:
    typer.echo(
        f"{plan['mirror_topic_name']} has FAILED: {plan['mirror_topic_error']}: {plan['error_message']}", err=err
    )
    for one in plan["repairs"]:
        says = one["effect"] if one["possible"] else f"not possible: {one['refused']}"
        typer.echo(f"  {one['action']}: {says}", err=err)


def _chosen(plan: Any, action: str) -> Any:
    """The repair to do; ends the command with 1 when it is not possible."""
    by_name = {one["action"]: one for one in plan["repairs"]}
    if action:
        if not by_name[action]["possible"]:
            fail(f"mirror topic {plan['mirror_topic_name']}: {action}: {by_name[action]['refused']}", REFUSED)
        return by_name[action]
    safe = [one for one in plan["repairs"] if one["possible"] and one["action"] != "recreate"]
    if not safe:
        hint = "; --action recreate deletes its copy and fills it anew" if by_name["recreate"]["possible"] else ""
        fail(f"mirror topic {plan['mirror_topic_name']}: no repair is possible that deletes nothing{hint}", REFUSED)
    return safe[0]


@errors_app.command("list")
def list_errors(topic: Topic, link: Link, output: Format = Output.TABLE, url: Url = DEFAULT_URL) -> None:
    """List what kept a mirror topic from a state that it was to go to."""
    answer = ask(url, lambda api: api.get(f"{mirror_path(link, topic)}/state-transition-errors"))
    if output is not Output.TABLE:
        dump(answer, output)
        return
    error_table(answer["data"])


def _word(value: bool) -> str:
    return str(value).lower()
