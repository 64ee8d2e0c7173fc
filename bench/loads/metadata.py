"""Load 8: Metadata of every topic of a cluster with many partitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bench.clients.raw import Asker, all_metadata
from bench.contestants.contestant import Contestant
from bench.errors import BenchError
from bench.lab import Lab
from bench.loads.load import Load, Metrics, Turn
from bench.proc import Meter
from bench.topics import fresh

_TOPICS: Final = 10


class Metadata(Load):
    """Runs last: so many partitions slow a small broker down for good."""

    name = "metadata"
    share = 40.0
    title = "Metadata of all topics"

    def __init__(self) -> None:
        self._partitions = 0

    def prepare(self, lab: Lab) -> None:
        """See `Load`."""
        each = lab.profile.metadata_partitions // _TOPICS
        lab.on_target.create_all([fresh(self.name) for _ in range(_TOPICS)], each)
        self._partitions = each * _TOPICS

    def turns(self, lab: Lab) -> Mapping[str, Turn]:
        """See `Load`."""
        return {each.name: self._turn(lab, each) for each in lab.passers}

    def _turn(self, lab: Lab, contestant: Contestant) -> Turn:
        return lambda _: self._measure(lab, lab.ready(contestant))

    def _measure(self, lab: Lab, contestant: Contestant) -> Metrics:
        requests = lab.profile.metadata_requests
        question = all_metadata()
        asker = Asker(contestant.bootstrap)
        size = len(asker.ask(question))
        meter = Meter(contestant.pid)
        for _ in range(requests):
            if abs(len(asker.ask(question)) - size) > size // 10:
                raise BenchError("Metadata answers differ in size")
        took = meter.wall_s
        asker.close()
        charged = meter.per(requests / 1000, "cpu_ms_per_request")
        if charged:
            charged["cpu_ms_per_10k"] = charged["cpu_ms_per_request"] * 10_000 / self._partitions
        return {**charged, "ms_per_request": took / requests * 1000, "answer_kb": size / 1000}
