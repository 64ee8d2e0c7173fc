"""Load 7: many idle connections (memory of each) and many busy ones beside them (latency, CPU)."""

from __future__ import annotations

import json
from collections.abc import Mapping

from bench.contestants.contestant import Contestant
from bench.lab import Lab
from bench.loads.load import Load, Metrics, Turn
from bench.proc import Meter, memory_kb
from bench.process import Conversation
from bench.topics import PARTITIONS, fresh


class Connections(Load):
    """The proxies are started anew before each round, so that nothing they kept from before hides what is added."""

    name = "connections"
    title = "1,000 idle and 200 busy connections"

    def __init__(self) -> None:
        self._topic = ""

    def rounds(self, lab: Lab) -> int:
        """Memory hardly varies."""
        return min(2, lab.profile.rounds)

    def prepare(self, lab: Lab) -> None:
        """See `Load`."""
        self._topic = lab.on_target.create(fresh(self.name))

    def begin_round(self, lab: Lab) -> None:
        """See the class."""
        for contestant in lab.passers:
            lab.restart(contestant)

    def turns(self, lab: Lab) -> Mapping[str, Turn]:
        """See `Load`."""
        return {each.name: self._turn(lab, each) for each in lab.passers}

    def finish(self, lab: Lab) -> None:
        """See `Load`."""
        lab.on_target.drop(self._topic)

    def _turn(self, lab: Lab, contestant: Contestant) -> Turn:
        return lambda _: self._measure(lab, lab.ready(contestant))

    def _measure(self, lab: Lab, contestant: Contestant) -> Metrics:
        profile = lab.profile
        pid = contestant.pid
        before = 0 if pid is None else memory_kb(pid)
        numbers = {
            "--partitions": PARTITIONS,
            "--idle": profile.idle_connections,
            "--busy": profile.busy_connections,
            "--rate": profile.busy_rate,
            "--seconds": profile.busy_s,
        }
        options = [text for pair in numbers.items() for text in map(str, pair)]
        crowd = Conversation("bench.clients.connections", [contestant.bootstrap, self._topic, *options])
        try:
            crowd.hear()
            memory = {} if pid is None else {"idle_kb": (memory_kb(pid) - before) / profile.idle_connections}
            meter = Meter(pid)
            seen = json.loads(crowd.ask("go"))
            charged = meter.per(seen["requests"] / 1e6, "cpu_s_per_million")
        finally:
            crowd.end()
        return {**memory, **charged, "p50_ms": seen["p50_ms"], "p99_ms": seen["p99_ms"]}
