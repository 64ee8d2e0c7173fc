"""A gateway of two processes beside one of a single process: what a small request costs, and who serves how many."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from bench.contestants.lockgate import Lockgate
from bench.proc import Meter
from bench.production.backlog import Say
from bench.production.filling import Pipe, batch_of, leaders, produce_frame
from bench.production.lab import ProductionLab
from bench.stats import Sample

LOAD: Final = "workers"
_PARTITIONS: Final = 6
_CONNECTIONS: Final = 72
"""The kernel gives each to one of the processes: with fewer, one might have nearly all."""

_BURST: Final = 16
"""Requests that are sent at once, as by a client that has them ready: one by one the load would be the slowest."""

_VALUE: Final = bytes(100)


def name_of(workers: int) -> str:
    """How a gateway with so many is called in the samples."""
    return f"{workers} workers"


def measure(lab: ProductionLab, say: Say) -> None:
    """Produce requests of one record at full speed, to a topic of the target, through one gateway after the other."""
    lab.gateway.stop()
    lab.on_target.create(LOAD, _PARTITIONS)
    try:
        for number in range(lab.sizes.rounds):
            for workers in (1, 2):
                folder = lab.folder / f"workers-{workers}"
                folder.mkdir(exist_ok=True)
                say(Sample(LOAD, number, name_of(workers), _through(folder, lab, workers)))
    finally:
        lab.on_target.drop(LOAD)
        lab.gateway.start()


def _through(folder: Path, lab: ProductionLab, workers: int) -> dict[str, float]:
    gateway = Lockgate(folder, lab.target.bootstrap, workers=workers)
    try:
        gateway.start()
        assert gateway.pid is not None
        _flood(gateway.bootstrap, max(1, lab.sizes.flood // 10))  # connections, first calls
        serving = gateway.worker_pids()
        meters = {pid: Meter(pid) for pid in {*serving, gateway.pid}}  # the process that starts workers counts as well
        requests = _flood(gateway.bootstrap, lab.sizes.flood)
        used = {pid: meter.cpu_s or 0.0 for pid, meter in meters.items()}
        per_s = requests / meters[gateway.pid].wall_s
    finally:
        gateway.close()
    served = [used[pid] for pid in serving]
    metrics = {"cpu_s_per_million": sum(used.values()) / requests * 1e6, "per_s": per_s}
    return metrics | {"share": min(served) / sum(served)}


def _flood(bootstrap: str, requests: int) -> int:
    brokers = list(leaders(bootstrap, LOAD, _PARTITIONS).items())
    batch = batch_of([_VALUE])
    each = -(-requests // _CONNECTIONS // _BURST) * _BURST
    with ThreadPoolExecutor(_CONNECTIONS) as pool:
        for done in [pool.submit(_send, *brokers[n % len(brokers)], batch, each) for n in range(_CONNECTIONS)]:
            done.result()
    return each * _CONNECTIONS


def _send(where: str, led: Sequence[int], batch: bytes, times: int) -> None:
    frames = b"".join(produce_frame(LOAD, {led[number % len(led)]: batch}) for number in range(_BURST))
    pipe = Pipe(where)
    for _ in range(times // _BURST):
        pipe.send(frames, _BURST)
    pipe.close()
