"""One run from its first broker to its verdict."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.chaos.behind import behind
from tests.chaos.cast import STEADY, TOPICS, Cast, groups_of
from tests.chaos.conductor import SOURCE, TARGET, Conductor
from tests.chaos.final import (
    NotSettled,
    drain,
    finish_pipeline,
    level,
    level_mirrors,
    read_everything,
    read_topic,
    stop_producers,
)
from tests.chaos.handover import handovers, percentile, waits
from tests.chaos.joined import JOINED_FROM, JoinedConductor
from tests.chaos.lab import Lab
from tests.chaos.nemeses import Trouble, Turns
from tests.chaos.plan import Plan
from tests.chaos.report import Report
from tests.chaos.resent import as_line, resent
from tests.chaos.watch import Watch, leaks
from tests.chaos.ways import judge_ways
from tests.checker.check import check
from tests.checker.merge import merge
from tests.checker.model import HistoryError
from tests.support.clients.recorder import Recorder

Say = Callable[[str], None]
PROBE = "reader-target"


class Run:
    """Carries out a plan in `folder`. What is there afterwards: merged.jsonl, the history, and every log."""

    def __init__(self, plan: Plan, folder: Path, say: Say, patch: str = "") -> None:
        self._plan, self._folder, self._say, self._patch = plan, folder, say, patch
        self._report = Report()
        self._recorder = Recorder(folder / "history.jsonl")
        self._aside = Recorder(folder / "joined.jsonl")
        self._cast: Cast | None = None
        self._faults: list[dict[str, Any]] = []
        self._stood_still: list[dict[str, Any]] = []  # when a link was paused
        self._began_ns = 0
        self._data: dict[str, Path] = {}

    def perform(self) -> Report:
        """The whole of it. What goes wrong is in the report."""
        topologies = self._plan.seed >= JOINED_FROM
        lab = Lab(self._folder, self._plan.gateways, self._plan.source_kafka, self._patch, topologies=topologies)
        self._data = {side: lab.side(side).nodes[1].data for side in (SOURCE, TARGET)}
        try:
            lab.up()
            self._perform(lab)
        except (NotSettled, AssertionError, OSError) as error:
            self._report.broken = self._report.broken or str(error)
        finally:
            lab.down()
        self._judge()
        self._report.broken = "; ".join(filter(None, [self._report.broken, lab.seeds.leaked()]))
        self._recorder.close()
        self._aside.close()
        return self._report

    def _perform(self, lab: Lab) -> None:
        topics = {name: {"preserve": name.startswith("plain") or name in STEADY} for name in TOPICS}
        self._recorder.setup(SOURCE, topics=topics, direct=SOURCE)
        cast = self._cast = Cast(self._recorder, self._plan.seed, groups_of(self._plan.source_kafka))
        conductor = JoinedConductor(self._plan, lab, cast, self._aside)
        conductor.prepare()
        self._begin(lab, cast)
        began = time.monotonic()
        self._began_ns = time.monotonic_ns()
        conductor.begins(began)
        turns = Turns()
        lanes = [Trouble(lane, self._plan, lab, self._recorder, began, turns) for lane in ("network", "processes")]
        watch = Watch(lab.gateways, began)
        for thread in (*lanes, conductor, watch):
            thread.start()
        self._say(f"{self._plan.duration_s:g} s of it, from now on")
        for lane in lanes:
            lane.join(max(0.0, began + self._plan.duration_s - time.monotonic()))
        for lane in lanes:
            lane.stop()
        lab.heal()
        self._say("healed; the migration under way comes to its end")
        conductor.stop()
        try:
            self._come_to_rest(lab, cast, conductor, [lane.failed for lane in lanes if lane.failed])
        finally:
            watch.stop()
            self._report.broken = "; ".join(filter(None, [self._report.broken, leaks(watch.growth())]))
            self._note(lanes, conductor, cast, watch)

    def _begin(self, lab: Lab, cast: Cast) -> None:
        for producer in cast.producers:
            producer.start(lab.source.bootstrap, SOURCE)
        for member in cast.all_members:
            member.start(lab.source.bootstrap, SOURCE)
        cast.at_source.start(lab.source.bootstrap, SOURCE)
        cast.at_target.start(lab.target.bootstrap, TARGET)
        cast.at_gateway.start(lab.gateway_bootstrap, TARGET)

    def _come_to_rest(self, lab: Lab, cast: Cast, conductor: JoinedConductor, failed: list[str]) -> None:
        """Everything comes to rest; what is wrong already is kept, and the rest is judged all the same."""
        stop_producers(cast)
        reasons = [*failed, conductor.stuck]
        self._say("reading both clusters")
        steps: list[Callable[[], str | None]] = [
            lambda: level(lab.operator),
            lambda: finish_pipeline(lab, cast, conductor.topics),
            lambda: level(lab.operator),  # with what it wrote last
            lambda: self._judge_ways(lab, conductor),
            lambda: self._read(lab, cast, conductor),
            lambda: lab.seeds.bundle(0, lab.gateways[0].url),
        ]
        for step in steps:
            try:
                reasons.append(step() or "")
            except (NotSettled, AssertionError) as error:
                reasons.append(str(error))
        for client in cast.everybody:
            client.ask_to_stop()
        for client in cast.everybody:
            client.stop()
        self._report.broken = "; ".join(reason for reason in reasons if reason)

    def _judge_ways(self, lab: Lab, conductor: JoinedConductor) -> str:
        """Topologies have clusters, links and a history of their own."""
        for site in conductor.sites:
            level(site.operator, site.link)
        places = {place for way in conductor.ways for place in way.places}
        logs = {(side, topic): read_topic(lab, side, topic, 1)[0] for side, topic in sorted(places)}
        return "; ".join(judge_ways(conductor.ways, self._aside.lines(), logs))

    def _read(self, lab: Lab, cast: Cast, conductor: Conductor) -> None:
        level_ones = level_mirrors(lab)
        logs, missing = read_everything(lab, conductor.topics)
        for side, topics in logs.items():
            for topic, partitions in topics.items():
                self._recorder.final_log(side, topic, partitions)
        self._recorder.write("ok", "control", "mirrored", level_ones)
        assert not missing, "; ".join(missing)
        drain(cast, logs)

    def _note(self, lanes: list[Trouble], conductor: JoinedConductor, cast: Cast, watch: Watch) -> None:
        self._stood_still = conductor.paused
        faults = [*(fault for lane in lanes for fault in lane.done), *conductor.aimed]
        self._faults = sorted(faults, key=lambda fault: fault["began_s"])
        self._report.faults, self._report.migrations = len(self._faults), conductor.migrations
        errors = {client.name: client.errors for client in cast.everybody if client.errors}
        self._report.more = {
            "plan": self._plan.as_json(),
            "faults_done": self._faults,
            "acts_done": conductor.done,
            "ways": [way.places for way in conductor.ways],
            "client_errors": {name: {"count": len(e), "first": e[:10]} for name, e in errors.items()},
            "client_hung": cast.hung,
            "client_lives": {client.name: client.lives for client in cast.everybody},
            "growth": watch.growth(),
            "samples": watch.samples,
        }

    def _judge(self) -> None:
        self._say("judging")
        self._recorder.lines()  # what is not written yet is, now
        files = [self._recorder.path, *(self._cast.histories if self._cast else [])]
        lines = list(merge(files))
        again = resent(lines, self._data)
        lines[1:1] = [as_line(again)]
        self._report.more["resent"] = again
        (self._folder / "merged.jsonl").write_text("".join(lines), encoding="utf-8")
        try:
            self._report.verdict = check(lines)
        except HistoryError as error:
            self._report.broken = f"{self._report.broken}; history: {error}".strip("; ")
            return
        for told in behind(self._report.verdict, lines):
            self._say(told)
        found = handovers(waits(lines, PROBE), [*self._faults, *self._stood_still], self._began_ns)
        self._report.handovers_ms, self._report.handover_p99_ms = found, percentile(found, 0.99)
