"""The acts up to the first promote: applications on the source, what belongs together, one restart, a rehearsal."""

from __future__ import annotations

import json
from functools import partial
from typing import Any, Final

import yaml

from demo.app.cast import JAVA_SOURCES
from demo.app.run import AppRun
from demo.app.settings import (
    BILLING,
    CHANGELOG,
    CLUSTERS_S,
    COUNTER,
    LINK,
    MADE,
    MIGRATION,
    MOVED_S,
    SETS,
    SINK_OF,
    STARTED_S,
    STATES_S,
    FoundSet,
)
from demo.clusters import create_topic, start
from demo.commands import COMPILED_S, compile_java
from demo.errors import DemoError
from demo.fleet import Client
from demo.history import Side
from demo.lockgate import Lockgate
from demo.settings import GATEWAY_UP_S

_TRIES: Final = 5
"""Of what a person would ask again: a rehearsal that was given up, an undo that was asked for too early."""


def prepare(run: AppRun) -> None:
    """Two clusters, and four applications on the source."""
    settings = run.settings
    with run.view.step("Start the clusters, compile the Java clients") as step:
        clusters = (run.source, run.target)
        starts = [partial(start, cluster, CLUSTERS_S) for cluster in clusters]
        run.at_once(starts, "the clusters to start", CLUSTERS_S + 10)
        compiles = partial(compile_java, settings.kafka, run.classes, JAVA_SOURCES, run.jars)
        run.in_background(compiles, "the Java compiler", COMPILED_S + 5)
        step.note = f"Kafka {settings.kafka}"
    with run.view.step(
        "Start a Streams application, a transactional one, a group and a producer on the source"
    ) as step:
        for topic in MADE:
            create_topic(run.source.bootstrap, topic, settings.partitions)
        for client in run.fleet.clients:
            client.start(run.source.bootstrap, Side.SOURCE)
        run.until(lambda: all(p.acknowledged for p in run.fleet.producers), "every first record", STARTED_S)
        run.until(run.now_and_then(partial(_all_work, run)), "every application's first records", STATES_S)
        step.note = ", ".join(client.part.name for client in run.fleet.clients)


def discover(run: AppRun) -> None:
    """The gateway, the link, and a migration file of what it finds."""
    with run.view.step("Start the gateway, create the link"):
        run.gateway = gateway = Lockgate(run.target.bootstrap, run.logs)
        gateway.start()
        run.until(gateway.healthy, "the gateway to be healthy", GATEWAY_UP_S)
        options = ("--bootstrap", run.source.bootstrap, "--set", "groups.auto.promote=false")
        run.command("link", "create", LINK, *options)
    with run.view.step("Find out what belongs together") as step:
        picture = str(run.logs / "discovered.svg")
        run.command("migration", "discover", "--link", LINK, "-f", str(run.file), "--svg", picture)
        drafted = yaml.safe_load(run.file.read_text(encoding="utf-8"))
        _check(found_sets(drafted))
        step.note = ", ".join(
            f"{one['name']}: {len(one['topics'])} topics" + (" as one" if one.get("together") else "")
            for one in drafted["applications"]
        )
    with run.view.step("Apply the file up to `until: mirrored`"):
        _write(run, drafted, until="mirrored")
        run.command("migration", "apply", str(run.file), "--yes")
        run.until_done()
        run.until(run.now_and_then(partial(_all_mirrored, run)), "every mirror to be ACTIVE", STATES_S)


def move(run: AppRun) -> None:
    """One rolling restart: producers first, then the applications, which wait at the gateway."""
    for producer in run.fleet.producers:
        with run.view.step(f"Restart {producer.part.name} onto the gateway"):
            run.restart(producer, Side.TARGET)
            run.until(lambda producer=producer: producer.acknowledged > 0, "its first record", STARTED_S)  # type: ignore[misc]
    applications_to_the_gateway(run, run.fleet.members())


def applications_to_the_gateway(run: AppRun, members: list[Client]) -> None:
    """Restart them; Streams' members do not leave on close, so an operator removes what they left."""
    for member in members:
        with run.view.step(f"Restart {member.part.name} onto the gateway"):
            run.restart(member, Side.TARGET)
    with run.view.step(f"Remove the member of {COUNTER} that its process left on the source") as step:
        looks = run.now_and_then(lambda: _left_behind(run) or _nobody_left(run))
        run.until(looks, "its process to wait at the gateway, or the end of its session", STATES_S)
        if _left_behind(run):
            run.command("group", "remove-members", COUNTER, "--link", LINK, "--yes")
            step.note = "Streams does not leave its group on close"
        else:
            step.note = "its session has ended meanwhile"


def rehearse(run: AppRun) -> None:
    """What would be done, and for how long it would hold whom."""
    with run.view.step("Say what `apply` would do: a dry run") as step:
        _write(run, yaml.safe_load(run.file.read_text(encoding="utf-8")), until="promoted")
        step.note = _last(run.command("migration", "apply", str(run.file), "--dry-run"))
    with run.view.step("Rehearse the promotes") as step:
        for attempt in range(1, _TRIES + 1):
            try:
                told = run.command("migration", "rehearse", MIGRATION, "--output", "json", timeout_s=MOVED_S)
            except DemoError:
                if attempt == _TRIES:
                    raise
                continue
            run.rehearsed_stall_ms = longest_stall(json.loads(told))
            if run.rehearsed_stall_ms is not None:
                break  # else nobody wrote in that moment: nothing was learnt
        step.note = f"the longest stall of a client: {run.rehearsed_stall_ms} ms; asked {attempt} time(s)"


def promote(run: AppRun) -> None:
    """All of the file."""
    with run.view.step("Apply the file: every set is promoted") as step:
        run.command("migration", "apply", str(run.file), "--yes")
        run.until_done()
        step.note = f"write pauses: {', '.join(map(str, pauses(run.migration())))} ms"
    traffic(run, Side.TARGET, "on the target")


def traffic(run: AppRun, side: Side, where: str) -> None:
    """Some seconds of it, in which everybody must go on; `side`: where the applications' writes come out first."""
    with run.view.step(f"Traffic {where}"):
        acknowledged = {client.part.name: client.acknowledged for client in run.fleet.producers}
        read = {client.part.name: client.read for client in run.fleet.members(BILLING)}
        written = {topic: run.written(side, topic) for topic in SINK_OF.values()}
        run.pause(run.settings.traffic_s)

        def goes_on() -> bool:
            return (
                all(client.acknowledged > acknowledged[client.part.name] for client in run.fleet.producers)
                and all(client.read > read[client.part.name] for client in run.fleet.members(BILLING))
                and all(run.written(side, topic) > before for topic, before in written.items())
            )

        run.until(run.now_and_then(goes_on), "everybody to go on", STATES_S)


def found_sets(file: Any) -> frozenset[FoundSet]:
    """The sets of a migration file."""
    return frozenset(
        FoundSet(frozenset(one["topics"]), frozenset(one.get("groups", ())), bool(one.get("together")))
        for one in file["applications"]
    )


def longest_stall(answer: Any) -> int | None:
    """Of all clients in all rehearsals, in milliseconds; None: nobody waited."""
    rehearsals = [one["rehearsal"] for one in answer["applications"] if one["rehearsal"]]
    return max((stall["stall_ms"] for one in rehearsals for stall in one["stalls"]), default=None)


def pauses(migration: Any) -> list[int]:
    """Of all write pauses that the journal tells, in milliseconds; rehearsals are not among them."""
    told = [entry for entry in migration["journal"] if not entry["what"].startswith("REHEARS")]
    return [entry["pause_ms"] for entry in told if entry["pause_ms"] is not None]


def _check(found: frozenset[FoundSet]) -> None:
    wanted = frozenset(SETS)
    if found != wanted:
        left, more = sorted(map(str, wanted - found)), sorted(map(str, found - wanted))
        raise DemoError(
            "other sets were found", "\n".join([*(f"- {one}" for one in left), *(f"+ {one}" for one in more)])
        )


def _write(run: AppRun, file: Any, *, until: str) -> None:
    """As a person adjusts a draft: a name, how long the way back is open, how far it goes."""
    applications = [{**one, "until": until} for one in file["applications"]]
    wanted = {**file, "migration": MIGRATION, "failback_keep": "1h", "applications": applications}
    run.file.write_text(yaml.safe_dump(wanted, sort_keys=False), encoding="utf-8")


def _all_work(run: AppRun) -> bool:
    return (
        all(member.read_here for member in run.fleet.members(BILLING))
        and all(run.written(Side.SOURCE, topic) > 0 for topic in SINK_OF.values())
        and run.written(Side.SOURCE, CHANGELOG) > 0
    )


def _all_mirrored(run: AppRun) -> bool:
    states = run.mirrors()
    wanted = {topic for one in SETS for topic in one.topics}
    return wanted <= states.keys() and set(states.values()) == {("ACTIVE", "FORWARD")}


def _left_behind(run: AppRun) -> bool:
    """The source still has a member, and its process waits at the gateway."""
    path = f"/v3/links/{LINK}/groups/{COUNTER}:remove-members?validate_only=true"
    answer = run.asked("POST", path, json={"member_ids": [], "force": False})
    return answer.is_success and bool(answer.json()["data"])


def _nobody_left(run: AppRun) -> bool:
    """The source has ended the session, which takes 45 s: restarts have taken longer."""
    answer = run.asked("GET", f"/v3/links/{LINK}/groups/{COUNTER}")
    found = answer.json() if answer.is_success else {}  # before its first request here it is no mirror group
    return found.get("state") == "PROMOTED" or (found.get("members") == [] and bool(found["waiting"]))


def _last(output: str) -> str:
    """The summary that a command ends with."""
    return (output.strip().splitlines() or [""])[-1]
