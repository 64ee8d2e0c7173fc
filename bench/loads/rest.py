"""What a proxy takes while nobody talks to it: a part of every figure that is CPU per gigabyte."""

from __future__ import annotations

import time
from collections.abc import Mapping

from bench.contestants.contestant import Contestant
from bench.lab import Lab
from bench.loads.load import Load, Metrics, Turn
from bench.proc import Meter


class Rest(Load):
    """`rest_ms_per_s`: CPU milliseconds in a second."""

    name = "rest"
    title = "at rest"
    share = 12.0

    def rounds(self, lab: Lab) -> int:
        """It hardly varies."""
        return 1

    def turns(self, lab: Lab) -> Mapping[str, Turn]:
        """See `Load`."""
        return {each.name: self._turn(lab, each) for each in lab.passers if each.name != "direct"}

    def _turn(self, lab: Lab, contestant: Contestant) -> Turn:
        return lambda _: self._measure(lab, lab.ready(contestant))

    def _measure(self, lab: Lab, contestant: Contestant) -> Metrics:
        meter = Meter(contestant.pid)
        time.sleep(lab.profile.rest_s)
        return meter.per(meter.wall_s / 1000, "rest_ms_per_s")
