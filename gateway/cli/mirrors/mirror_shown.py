"""What `lockgate mirror` shows beside states and lags: plans, what was asked for at create, transition errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from gateway.cli.api import REFUSED, USAGE, Api, Refused, fail
from gateway.cli.mirrors.mirror_common import mirror_path
from gateway.cli.output import Output, col, dump, duration, listing, since


def wanted(source_topic: str, config: list[str], replication_factor: int | None, start: str) -> dict[str, Any]:
    """What is said at create, as REST takes it; ends the command with 2 for a config that is no KEY=VALUE."""
    said: dict[str, Any] = {"source_topic_name": source_topic} if source_topic else {}
    for entry in config:
        name, equals, value = entry.partition("=")
        if not equals or not name.strip():
            fail(f"--config {entry!r}: KEY=VALUE is expected, such as min.insync.replicas=2", USAGE)
        said.setdefault("configs", []).append({"name": name.strip(), "value": value.strip()})
    if replication_factor is not None:
        said["replication_factor"] = replication_factor
    if start:
        said["start"] = start
    return said


def create_plans(plans: list[Any], output: Output) -> None:
    """What creates would do."""
    if output is not Output.TABLE:
        dump({"data": plans}, output)
        return
    for plan in plans:
        adopted = ", takes over the empty topic that is there" if plan["adopted"] else ""
        typer.echo(
            f"would create {plan['mirror_topic_name']} from {plan['source_topic_name']}: {plan['num_partitions']} "
            f"partitions, replication factor {plan['replication_factor']}, mode {plan['mode']}{adopted}"
        )
        if written := written_anew(plan["translates_ids"]):
            typer.echo(f"  schema ids are {written}")
        typer.echo(f"  begins at {', '.join(map(str, plan['starts']))}")
        for name, value in plan["configs"].items():
            typer.echo(f"  {name}={value}")
        for name, value in plan["configs_at_promote"].items():
            typer.echo(f"  at promote: {name}={'(the default of the target)' if value is None else value}")


def promote_plan(api: Api, link: str, body: Mapping[str, Any], output: Output) -> None:
    """What a promote would meet. Ends the command with 1 when it would be refused."""
    try:
        plan = api.post(f"{mirror_path(link)}:promote?validate_only=true", body)
    except Refused as exc:
        fail(str(exc), REFUSED)
    if output is not Output.TABLE:
        dump(plan, output)
    else:
        _shown(plan)
    for line in plan["blockers"]:
        typer.echo(f"blocked: {line}", err=True)
    if plan["blockers"]:
        raise typer.Exit(REFUSED)


def _shown(plan: Any) -> None:
    for topic in plan["topics"]:
        eta = "unknown" if topic["eta_s"] is None else duration(topic["eta_s"])
        lag = "?" if topic["lag"] is None else topic["lag"]
        typer.echo(f"{topic['mirror_topic_name']} ({topic['mirror_status']}): lag {lag}, level in {eta}")
        for wait in topic["waits_for"]:
            typer.echo(f"  {wait}")
        moved = topic["clients_not_migrated"] or {"readers": [], "unknown": ""}
        if moved["readers"] is None:
            typer.echo(f"  who reads on the source is not known: {moved['unknown']}")
        for reader in moved["readers"] or ():
            typer.echo(f"  not moved: {reader['client_id']} of group {reader['group']} at {reader['host']}")
    if not plan["blockers"]:
        typer.echo("nothing blocks the promote")


def where_written(mirror: Any, *, already: bool = False) -> str:
    """Which side has the writes of a topic, and what follows there: one line. `already`: nothing was to be changed."""
    name, undo = mirror["mirror_topic_name"], mirror["undo"]
    written = f"{name}: already written" if already else f"{name}: written"
    if mirror["mirror_direction"] != "REVERSE":
        is_promoted = mirror["mirror_status"] == "STOPPED"
        return f"{written} on the target" if is_promoted else f"{written} on the source; the target follows"
    until = f" until {since(undo['until_time_ms'])}" if undo and undo["state"] == "open" else ""
    return f"{written} on the target; the source follows{until}"


def undo_told(undo: Any) -> str:
    """Until when a promote can be taken back, and what is at risk until then; '' where nothing of it was asked for."""
    if not undo:
        return ""
    until, risk = since(undo["until_time_ms"]), undo["records_at_risk"]
    late = undo.get("late_records", 0)
    if undo["state"] == "open":
        return (
            f"until {until}; "
            + ("it is not known how many records are" if risk is None else records(risk))
            + " at risk"
            + (f"; not now: {records(late)} were written to the source beside the gateway" if late else "")
            + ("; whether somebody wrote to the source beside the gateway is not measured yet" if late is None else "")
        )
    if undo["state"] == "ended":
        return "ended by somebody: there is no mirror back"
    return f"over since {until}" if undo["state"] == "over" else "could not be begun: see the transition errors"


def records(count: int) -> str:
    """So many, in words."""
    return f"{count} record" if count == 1 else f"{count} records"


def asked_for(mirror: Any) -> list[tuple[str, str]]:
    """The facts of `describe` that were said at create, and what became of configs."""
    on_target = mirror["configs_on_target"] or {}
    own = {name: value for name, value in on_target.items() if mirror["configs"].get(name) != value}
    return [
        ("Begins", mirror["start"]),
        ("Configs", ", ".join(f"{name}={value}" for name, value in mirror["configs"].items())),
        ("Replication factor", str(mirror["replication_factor"] or "")),
        ("Set on the target", ", ".join(f"{name}={value}" for name, value in own.items())),
        *(
            ("Set back", f"{one['name']} from {one['found']} to {one['value']}, {since(one['time_ms'])}")
            for one in mirror["configs_set_back"]
        ),
        *(("Warning", warning) for warning in mirror["warnings"]),
    ]


def written_anew(places: list[str]) -> str:
    """What becomes of schema ids; '' where records are copied as bytes."""
    if not places:
        return ""
    return f"written anew in {', '.join(places)}, from the first record on: other bytes than on the source"


def transition_errors(errors: list[Any] | None) -> None:
    """Below the facts."""
    if errors:
        typer.echo("")
        error_table(errors)


def error_table(errors: list[Any]) -> None:
    """One line per error."""
    listing(
        [col("Mirror State Transition Error Code"), col("Mirror State Transition Error Message", note=True)],
        ([error["error_code"], error["error_message"]] for error in errors),
        empty="no transition errors",
    )


def names_in(text: str) -> list[str]:
    """Of names with commas between."""
    return [name for one in text.split(",") if (name := one.strip())]
