"""Load 2: fetch through a contestant, by Kafka's ConsumerPerformance."""

from __future__ import annotations

from collections.abc import Mapping

from bench.clients import java_tools
from bench.contestants.contestant import Contestant
from bench.lab import Lab
from bench.loads.load import Load, Turn
from bench.loads.produce import RECORD_BYTES, write_16k
from bench.proc import Meter
from bench.topics import fresh


class Fetch(Load):
    """One topic, read whole by each contestant in turn."""

    name = "fetch"
    title = "fetch, 1 KB records (ConsumerPerformance)"
    share = 60.0
    warms_up = True

    def __init__(self) -> None:
        self._topic = ""

    def rounds(self, lab: Lab) -> int:
        """All that the profile allows: it is one of the figures that the bench is known by."""
        return lab.profile.rounds

    def prepare(self, lab: Lab) -> None:
        """See `Load`."""
        self._topic = lab.on_target.create(fresh(self.name))
        write_16k(lab.target.bootstrap, self._topic, self._records(lab))

    def turns(self, lab: Lab) -> Mapping[str, Turn]:
        """See `Load`."""
        return {each.name: self._turn(lab, each) for each in lab.all_passers}

    def finish(self, lab: Lab) -> None:
        """See `Load`."""
        lab.on_target.drop(self._topic)

    def _records(self, lab: Lab) -> int:
        return int(lab.profile.fetch_mb * 1e6 / RECORD_BYTES)

    def _turn(self, lab: Lab, contestant: Contestant) -> Turn:
        def turn(scale: float) -> dict[str, float]:
            wanted = int(self._records(lab) * scale)
            meter = Meter(lab.ready(contestant).pid)
            read = java_tools.consume(contestant.bootstrap, self._topic, wanted)
            return {"mb_per_s": read.mb_per_s, **meter.per(read.records * RECORD_BYTES / 1e9, "cpu_s_per_gb")}

        return turn
