"""Load 9: topics promoted one after the other, each while 20 MB/s are written to it through the gateway."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Final

from bench.lab import Lab
from bench.loads.load import Load, Metrics, Turn
from bench.loads.writing import LINK
from bench.process import Conversation
from bench.topics import PARTITIONS, fresh
from bench.waiting import wait_until

_STEADY_S: Final = 0.5
_AFTER_S: Final = 0.2
_LAG: Final = 1_000


class Promote(Load):
    """`pause_ms` is the gateway's own count of how long it held writes; the others are what the client felt."""

    name = "promote"
    title = "topic promote under 20 MB/s"
    share = 40.0

    def __init__(self) -> None:
        self._open = ExitStack()
        self._topics: list[str] = []

    def rounds(self, lab: Lab) -> int:
        """One promote each."""
        return lab.profile.promotes

    def least_rounds(self, lab: Lab) -> int:
        """Fewer would be no percentile at all."""
        return min(5, lab.profile.promotes)

    def prepare(self, lab: Lab) -> None:
        """All topics are mirrored, and one producer writes for all promotes."""
        self._topics = [fresh(self.name) for _ in range(lab.profile.promotes)]
        self._names = list(self._topics)
        lab.on_source.create_all(self._names)
        self._open.enter_context(lab.gateway.link(LINK, lab.source.bootstrap))
        for topic in self._names:
            lab.gateway.mirror(LINK, topic)
        options = ["--mb-per-s", str(lab.profile.promote_mb_s)]
        self._writer = Conversation("bench.clients.steady_writer", [lab.gateway.bootstrap, *options])
        self._open.callback(self._writer.end)

    def turns(self, lab: Lab) -> Mapping[str, Turn]:
        """See `Load`."""
        return {"gateway": lambda _: self._promote(lab, self._topics.pop(0))}

    def finish(self, lab: Lab) -> None:
        """See `Load`."""
        self._open.close()
        lab.on_source.drop(*self._names)
        lab.on_target.drop(*self._names)

    def _promote(self, lab: Lab, topic: str) -> Metrics:
        self._writer.ask(f"topic {topic}")
        time.sleep(_STEADY_S)
        wait_until(lambda: _lag(lab, topic) < _LAG, 30.0, f"the mirror of {topic} to keep up", poll_s=0.05)
        count, seconds = lab.gateway.pauses(LINK)
        normal = json.loads(self._writer.ask("seen"))
        began = time.monotonic()
        self._writer.ask("mark")
        lab.gateway.promote(LINK, topic)
        lab.gateway.wait_for(LINK, topic, "STOPPED")
        took = time.monotonic() - began
        time.sleep(_AFTER_S)
        felt = json.loads(self._writer.ask("seen"))
        after, held = lab.gateway.pauses(LINK)
        return {
            "pause_ms": (held - seconds) * 1000 / (after - count),
            "client_longest_ms": felt["longest_ms"],
            "client_silence_ms": felt["silence_ms"],
            "before_longest_ms": normal["longest_ms"],
            "promote_s": took,
            "mb_per_s": normal["mb_per_s"],
        }


def _lag(lab: Lab, topic: str) -> int:
    lags = lab.gateway.status(LINK, topic)["mirror_lags"]
    return sum(_LAG if lag["lag"] is None else lag["lag"] for lag in lags) if len(lags) == PARTITIONS else _LAG
