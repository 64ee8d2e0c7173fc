"""Load 5: the mirror engine alone on a backlog, and MirrorMaker 2 on the same one.

The backlog is written straight to the source while both stand still: the gateway's mirror is paused, MirrorMaker
stopped by signal. Then each in turn copies it to its own topic on the target, until that holds every record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Final

from bench.contestants.mirrormaker import MirrorMaker
from bench.lab import Lab
from bench.loads.load import Load, Metrics, Turn
from bench.loads.produce import RECORD_BYTES, write_1m, write_16k
from bench.loads.writing import LINK
from bench.proc import Meter
from bench.waiting import wait_until

TOPICS: Final = {"mirror_16k": "mirror-16k", "mirror_1m": "mirror-1m"}
_COPIED_S: Final = 180.0
_FIRST_S: Final = 90.0
_WRITERS: Final[Mapping[str, Callable[[str, str, int], float]]] = {"mirror_16k": write_16k, "mirror_1m": write_1m}


class Mirroring(Load):
    """One size of batches. Both loads share the MirrorMaker processes, which keep their compiled code."""

    share = 60.0

    def __init__(self, name: str, title: str, *, last: bool) -> None:
        self.name = name
        self.title = title
        self._topic = TOPICS[name]
        self._last = last
        self._written = 0
        self._open = ExitStack()

    def prepare(self, lab: Lab) -> None:
        """All have copied a quarter before the first round."""
        if not lab.mirror_makers:
            self._start_mirror_makers(lab, list(TOPICS.values()))
        self._open.enter_context(lab.gateway.link(LINK, lab.source.bootstrap))
        lab.gateway.mirror(LINK, self._topic, paused=True)
        self._fill(lab, 0.25)
        for turn in self.turns(lab).values():
            turn(1.0)

    def begin_round(self, lab: Lab) -> None:
        """Write the backlog."""
        self._fill(lab, 1.0)

    def turns(self, lab: Lab) -> Mapping[str, Turn]:
        """See `Load`."""
        return {"gateway": lambda _: self._by_gateway(lab)} | {
            each.name: self._turn_of(lab, each) for each in lab.mirror_makers
        }

    def finish(self, lab: Lab) -> None:
        """See `Load`."""
        self._open.close()
        lab.on_target.drop(self._topic, *(each.copy_of(self._topic) for each in lab.mirror_makers))
        if self._last:
            while lab.mirror_makers:
                lab.mirror_makers.pop().stop()
            lab.on_source.drop(*TOPICS.values())

    def _start_mirror_makers(self, lab: Lab, topics: list[str]) -> None:
        """Start them one after the other, and see one record of each topic come through."""
        lab.on_source.create_all(topics)
        for topic in topics:
            write_16k(lab.source.bootstrap, topic, 1)
        for tuned in (False, True) if lab.profile.mm2_tuned else (False,):
            mirror_maker = MirrorMaker(lab.folder, lab.source.bootstrap, lab.target.bootstrap, topics, tuned=tuned)
            lab.mirror_makers.append(mirror_maker)
            mirror_maker.start()
            for topic in topics:
                lab.on_target.wait_for_records(mirror_maker.copy_of(topic), 1, _FIRST_S, poll_s=0.5)
            mirror_maker.pause()

    def _fill(self, lab: Lab, scale: float) -> None:
        records = max(100, int(lab.profile.mirror_mb * scale * 1e6 / RECORD_BYTES))
        _WRITERS[self.name](lab.source.bootstrap, self._topic, records)
        self._written = records

    def _by_gateway(self, lab: Lab) -> Metrics:
        meter = Meter(lab.gateway.pid)
        lab.gateway.resume(LINK, self._topic)
        metrics = self._copied(lab, meter, self._topic)
        lab.gateway.pause(LINK, self._topic)
        return metrics

    def _turn_of(self, lab: Lab, mirror_maker: MirrorMaker) -> Turn:
        def turn(_: float) -> Metrics:
            meter = Meter(mirror_maker.pid)
            mirror_maker.resume()
            try:
                return self._copied(lab, meter, mirror_maker.copy_of(self._topic))
            finally:
                mirror_maker.pause()

        return turn

    def _copied(self, lab: Lab, meter: Meter, copy: str) -> Metrics:
        """CPU from the go-ahead to the last record; the rate from the first record that is seen to the last."""
        wanted = lab.on_source.records(self._topic)
        before = wanted - self._written
        first = wait_until(
            lambda: (found := lab.on_target.records(copy)) > before and found, _COPIED_S, f"records in {copy}"
        )
        at_first = meter.wall_s
        lab.on_target.wait_for_records(copy, wanted, _COPIED_S)
        took = meter.wall_s - at_first
        metrics = meter.per(self._written * RECORD_BYTES / 1e9, "cpu_s_per_gb")
        if first < wanted:
            metrics["mb_per_s"] = (wanted - first) * RECORD_BYTES / 1e6 / took
        return {**metrics, "first_s": at_first}
