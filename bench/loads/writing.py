"""The ways of a write through the gateway, shared by the loads that write.

`gateway` passes the bytes on: no topic is mirrored. `gateway_on` writes to the same kind of topic while another topic
is mirrored, so that each Produce is looked at. `forwarded` writes to a mirrored topic whose mirror is
paused: what is measured is the way of a write to the source alone, without the engine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Final

from bench.contestants.contestant import Contestant
from bench.errors import BenchError
from bench.lab import Lab
from bench.loads.load import Load, Metrics, Turn
from bench.topics import Topics, fresh

LINK: Final = "bench"


class WritingLoad(Load, ABC):
    """Each turn writes to a topic of its own.

    `copies`: with the turn of HAProxy without splicing. `intercepts`: with the turn `gateway_on`.
    """

    copies = False
    intercepts = False

    def turns(self, lab: Lab) -> Mapping[str, Turn]:
        """See `Load`."""
        passers = lab.all_passers if self.copies else lab.passers
        turns: dict[str, Turn] = {each.name: self._passed(lab, each) for each in passers}
        if self.intercepts:
            turns["gateway_on"] = lambda scale: self._intercepted(lab, scale)
        turns["forwarded"] = lambda scale: self._forwarded(lab, scale)
        return turns

    @abstractmethod
    def write(self, lab: Lab, through: Contestant, where: Topics, topic: str, scale: float) -> Metrics:
        """Write to `topic` through a contestant, and check that `where` has every record once."""

    def _passed(self, lab: Lab, contestant: Contestant) -> Turn:
        def turn(scale: float) -> Metrics:
            topic = lab.on_target.create(fresh(self.name))
            metrics = self.write(lab, lab.ready(contestant), lab.on_target, topic, scale)
            lab.on_target.drop(topic)
            return metrics

        return turn

    def _intercepted(self, lab: Lab, scale: float) -> Metrics:
        other = lab.on_source.create(fresh("mirrored"), 1)
        topic = lab.on_target.create(fresh(self.name))
        with lab.gateway.link(LINK, lab.source.bootstrap):
            lab.gateway.mirror(LINK, other, paused=True)
            metrics = self.write(lab, lab.gateway, lab.on_target, topic, scale)
        lab.on_source.drop(other)
        lab.on_target.drop(other, topic)
        return metrics

    def _forwarded(self, lab: Lab, scale: float) -> Metrics:
        topic = lab.on_source.create(fresh(self.name))
        with lab.gateway.link(LINK, lab.source.bootstrap):
            lab.gateway.mirror(LINK, topic, paused=True)
            metrics = self.write(lab, lab.gateway, lab.on_source, topic, scale)
        if lab.on_target.records(topic):
            raise BenchError(f"{topic} was mirrored although its mirror was paused")
        lab.on_source.drop(topic)
        lab.on_target.drop(topic)
        return metrics
