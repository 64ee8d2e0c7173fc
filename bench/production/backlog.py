"""A backlog that was written while everybody stood still, copied by each contestant in turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bench.proc import Meter
from bench.production.filling import fill
from bench.production.lab import ProductionLab
from bench.production.sizes import Cell, Sizes
from bench.stats import Sample
from bench.waiting import wait_until

LINK: Final = "backlog"
_COPIED_S: Final = 300.0
_SMALL_BATCH: Final = 4_096

Say = Callable[[Sample], None]


def load_of(cell: Cell) -> str:
    """What its samples are called."""
    return f"backlog-{cell.name}"


def batches_of(cell: Cell, sizes: Sizes) -> int:
    """How many to write to each partition."""
    if cell.batch * cell.size < _SMALL_BATCH:
        return max(1, sizes.tiny_records // cell.batch // cell.partitions)
    return max(1, sizes.mb * 1_000_000 // (cell.batch * cell.size) // cell.partitions)


def measure(lab: ProductionLab, say: Say) -> None:
    """Every kind of backlog of the grid. Tells of each turn."""
    grid = lab.sizes.grid
    for cell in grid:
        lab.on_source.create(cell.name, cell.partitions)
        fill(lab.source.bootstrap, cell.name, cell._replace(batch=1), 1)
    lab.start_mirror_makers({cell.name: cell.partitions for cell in grid})
    with lab.gateway.link(LINK, lab.source.bootstrap):
        for cell in grid:
            lab.gateway.mirror(LINK, cell.name)
            lab.on_target.wait_for_records(cell.name, cell.partitions, 60.0, partitions=cell.partitions)
            lab.gateway.pause(LINK, cell.name)
        for number in range(lab.sizes.rounds):
            for cell in grid:
                _round(lab, cell, number, say)
    lab.stop_mirror_makers()
    lab.on_target.drop(*(cell.name for cell in grid))
    lab.on_source.drop(*(cell.name for cell in grid))


def _round(lab: ProductionLab, cell: Cell, number: int, say: Say) -> None:
    before = lab.on_source.records(cell.name, cell.partitions)
    written = fill(lab.source.bootstrap, cell.name, cell, batches_of(cell, lab.sizes))
    for mirror_maker in lab.mirror_makers:
        copy = mirror_maker.copy_of(cell.name)
        meter = Meter(mirror_maker.pid)
        mirror_maker.resume()
        metrics = copied(lab, cell, copy, meter, before, written)
        mirror_maker.pause()
        say(Sample(load_of(cell), number, mirror_maker.name, metrics))
    meter = Meter(lab.gateway.pid)
    lab.gateway.resume(LINK, cell.name)
    metrics = copied(lab, cell, cell.name, meter, before, written)
    lab.gateway.pause(LINK, cell.name)
    say(Sample(load_of(cell), number, "gateway", metrics))


def copied(lab: ProductionLab, cell: Cell, copy: str, meter: Meter, before: int, written: int) -> dict[str, float]:
    """CPU from the go-ahead to the last record; the rate from the first record that is seen to the last."""
    first = wait_until(
        lambda: (found := lab.on_target.records(copy, cell.partitions)) > before and found, 60.0, f"records in {copy}"
    )
    began = meter.wall_s
    lab.on_target.wait_for_records(copy, before + written, _COPIED_S, partitions=cell.partitions, poll_s=0.02)
    seconds, cpu = max(0.001, meter.wall_s - began), meter.cpu_s or 0.0
    mb = written * cell.size / 1e6
    return {
        "records_per_s": (before + written - first) / seconds,
        "mb_per_s": mb * (before + written - first) / written / seconds,
        "cpu_s_per_million": cpu / written * 1e6,
        "cpu_s_per_gb": cpu / mb * 1e3,
    }
