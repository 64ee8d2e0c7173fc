"""Many partitions: what it costs to create their mirrors, to keep them, to promote them, and to have promoted them."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from bench.proc import Meter
from bench.production.backlog import Say
from bench.production.lab import ProductionLab
from bench.stats import Sample
from bench.waiting import wait_until

_LINK: Final = "many"
_PER_TOPIC: Final = 20
_CREATED_S: Final = 300.0
_AT_ONCE: Final = 4


def measure(lab: ProductionLab, say: Say) -> None:
    """One link after the other, each with so many partitions."""
    for partitions in lab.sizes.many:
        _measure(lab, partitions, say)


def _measure(lab: ProductionLab, partitions: int, say: Say) -> None:
    topics = [f"many-{partitions}-{number}" for number in range(max(1, partitions // _PER_TOPIC))]
    lab.on_source.create_all(topics, _PER_TOPIC)
    thousands = len(topics) * _PER_TOPIC / 1000
    metrics: dict[str, float] = {}
    with lab.gateway.link(_LINK, lab.source.bootstrap):
        meter = Meter(lab.gateway.pid)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for done in [pool.submit(lab.gateway.mirror, _LINK, topic) for topic in topics]:
                done.result()
        wait_until(lambda: lab.gateway.ready(_LINK) == len(topics), _CREATED_S, "all mirrors to be ready", poll_s=0.2)
        metrics["create_s_per_1000"] = meter.wall_s / thousands
        metrics |= meter.per(thousands, "create_cpu_s_per_1000")
        metrics["rest_ms_s_per_1000"] = _at_rest(lab) / thousands
        before = lab.gateway.pauses(_LINK)
        lab.gateway.promote_set(_LINK, topics)
        wait_until(
            lambda: lab.gateway.pauses(_LINK)[0] == before[0] + len(topics),
            _CREATED_S,
            "all to be promoted",
            poll_s=0.2,
        )
        metrics["pause_ms"] = (lab.gateway.pauses(_LINK)[1] - before[1]) / len(topics) * 1000
        metrics["stopped_ms_s_per_1000"] = _at_rest(lab) / thousands
    say(Sample(f"many-{partitions}", 0, "gateway", metrics))
    for where in (lab.on_target, lab.on_source):
        where.drop(*topics)


def _at_rest(lab: ProductionLab) -> float:
    """CPU milliseconds a second, once all that goes on for a while has settled."""
    time.sleep(lab.sizes.settle_s)
    meter = Meter(lab.gateway.pid)
    time.sleep(lab.sizes.rest_s)
    return (meter.cpu_s or 0.0) * 1000 / meter.wall_s
