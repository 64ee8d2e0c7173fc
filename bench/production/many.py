"""Many partitions: what it costs to create their mirrors, to keep them, to promote them, and to have promoted them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from bench.errors import BenchError
from bench.proc import Meter
from bench.production.backlog import Say
from bench.production.lab import ProductionLab
from bench.stats import Sample
from bench.waiting import wait_until

_LINK: Final = "many"
_PER_TOPIC: Final = 20
_CREATED_S: Final = 300.0
_PROMOTED_S: Final = 120.0
_AT_ONCE: Final = 16


def measure(lab: ProductionLab, say: Say) -> None:
    """One link after the other, each with so many partitions. What brokers cannot hold is named at the end."""
    too_many: list[str] = []
    for partitions in lab.sizes.many:
        topics = [f"many-{partitions}-{number}" for number in range(max(1, partitions // _PER_TOPIC))]
        try:
            try:
                say(Sample(f"many-{partitions}", 0, "gateway", _measured(lab, topics)))
            finally:
                for where in (lab.on_target, lab.on_source):
                    where.drop(*topics)
        except BenchError as error:
            too_many.append(f"{partitions} partitions: {_told(error)}")
    if too_many:
        raise BenchError("; ".join(too_many))


def _told(error: BaseException | None) -> str:
    """What failed first, then what failed when that was cleared away: full brokers do not delete either."""
    told: list[str] = []
    while error is not None:
        told.append(str(error) if isinstance(error, BenchError) else f"{type(error).__name__}: {error}")
        before = error.__context__
        if before is not None and before is error.__cause__:  # told by what was raised from it
            before = before.__context__
        error = before
    return ", then ".join(reversed(told))


def _measured(lab: ProductionLab, topics: Sequence[str]) -> dict[str, float]:
    lab.on_source.create_all(topics, _PER_TOPIC)
    lab.on_source.wait_in_sync(topics, _PER_TOPIC)  # a leader that does not know yet that it is one tells no end
    thousands = len(topics) * _PER_TOPIC / 1000
    bare_s = _bare(lab, [f"bare-{topic}" for topic in topics[: 1000 // _PER_TOPIC]])
    with lab.gateway.link(_LINK, lab.source.bootstrap):
        meter = Meter(lab.gateway.pid)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for done in [pool.submit(lab.gateway.mirror, _LINK, topic) for topic in topics]:
                done.result()
        wait_until(lambda: lab.gateway.ready(_LINK) == len(topics), _CREATED_S, "all mirrors to be ready", poll_s=0.5)
        metrics = {"create_s_per_1000": meter.wall_s / thousands, **meter.per(thousands, "create_cpu_s_per_1000")}
        metrics["bare_s_per_1000"] = bare_s
        metrics["rest_ms_s_per_1000"] = _at_rest(lab) / thousands
        metrics["pause_ms"] = _promoted(lab, topics)
        metrics["stopped_ms_s_per_1000"] = _at_rest(lab) / thousands
    return metrics


def _bare(lab: ProductionLab, topics: Sequence[str]) -> float:
    """Seconds per 1,000 partitions to create such topics on the target without a gateway, until all are in sync."""
    began = time.monotonic()
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for done in [pool.submit(lab.on_target.create, topic, _PER_TOPIC) for topic in topics]:
            done.result()
    lab.on_target.wait_in_sync(topics, _PER_TOPIC)
    took_s = time.monotonic() - began
    lab.on_target.drop(*topics)
    return took_s / (len(topics) * _PER_TOPIC / 1000)


def _promoted(lab: ProductionLab, topics: Sequence[str]) -> float:
    """Promotes all as one set; milliseconds for which it held writes. One topic is looked at meanwhile, not all."""
    count, held_s = lab.gateway.pauses(_LINK)
    lab.gateway.promote_set(_LINK, topics)
    lab.gateway.wait_for(_LINK, topics[-1], "STOPPED", _PROMOTED_S, poll_s=1.0)
    wait_until(lambda: lab.gateway.stopped(_LINK) == len(topics), _PROMOTED_S, "all to be promoted", poll_s=1.0)
    after, held_until_s = lab.gateway.pauses(_LINK)
    if after != count + 1:
        raise BenchError(f"the set was promoted by {after - count} pauses")
    return (held_until_s - held_s) * 1000


def _at_rest(lab: ProductionLab) -> float:
    """CPU milliseconds a second, once all that goes on for a while has settled."""
    time.sleep(lab.sizes.settle_s)
    meter = Meter(lab.gateway.pid)
    time.sleep(lab.sizes.rest_s)
    return (meter.cpu_s or 0.0) * 1000 / meter.wall_s
