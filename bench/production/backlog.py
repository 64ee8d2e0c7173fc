"""A backlog that was written while everybody stood still, copied by each contestant in turn."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from bench.contestants.mirrormaker import MirrorMaker
from bench.proc import Meter
from bench.production.filling import fill
from bench.production.lab import ProductionLab
from bench.production.sizes import TOLD, Cell, Sizes
from bench.rounds import rotated
from bench.stats import Sample
from bench.waiting import wait_until

LINK: Final = "backlog"
_BEGUN_S: Final = 90.0
_COPIED_S: Final = 300.0
_LOOK_S: Final = 0.02
_SMALL_BATCH: Final = 4_096

Say = Callable[[Sample], None]


def load_of(cell: Cell) -> str:
    """What its samples are called."""
    return f"backlog-{cell.name}"


def batches_of(cell: Cell, sizes: Sizes, mb: int = 0) -> int:
    """How many to write to each partition; `mb`: megabytes of a backlog that is larger than others."""
    if cell.batch * cell.size < _SMALL_BATCH:
        return max(1, sizes.tiny_records // cell.batch // cell.partitions)
    return max(1, (mb or sizes.mb) * 1_000_000 // (cell.batch * cell.size) // cell.partitions)


def measure(lab: ProductionLab, say: Say) -> None:
    """Every kind of backlog of the grid, and those of the last line in more rounds. Tells of each turn."""
    grid = lab.sizes.grid
    for cell in grid:
        lab.on_source.create(cell.name, cell.partitions)
        fill(lab.source.bootstrap, cell.name, cell._replace(batch=1), 1)
    try:
        lab.start_mirror_makers({cell.name: cell.partitions for cell in grid})
        with lab.gateway.link(LINK, lab.source.bootstrap):
            for cell in grid:
                lab.gateway.mirror(LINK, cell.name)
                lab.on_target.wait_for_records(cell.name, cell.partitions, _BEGUN_S, partitions=cell.partitions)
                lab.gateway.pause(LINK, cell.name)
            for number in range(lab.sizes.rounds):
                for cell in [one for one in grid if one in TOLD or not number]:
                    _round(lab, cell, number, say)
    finally:
        copies = [one.copy_of(cell.name) for one in lab.mirror_makers for cell in grid]
        lab.stop_mirror_makers()
        lab.on_target.drop(*copies, *(cell.name for cell in grid))
        lab.on_source.drop(*(cell.name for cell in grid))


def _round(lab: ProductionLab, cell: Cell, number: int, say: Say) -> None:
    """All copy what was written while they stood still, another one first in each round."""
    before = lab.on_source.records(cell.name, cell.partitions)
    written = fill(lab.source.bootstrap, cell.name, cell, batches_of(cell, lab.sizes))
    turns: dict[str, Callable[[], dict[str, float]]] = {
        each.name: partial(_by_mirror_maker, lab, each, cell, before, written) for each in lab.mirror_makers
    }
    turns["gateway"] = partial(_by_gateway, lab, cell, before, written)
    for name in rotated(list(turns), number):
        say(Sample(load_of(cell), number, name, turns[name]()))


def _by_mirror_maker(lab: ProductionLab, one: MirrorMaker, cell: Cell, before: int, written: int) -> dict[str, float]:
    meter = Meter(one.pid)
    one.resume()
    try:
        return copied(lab, cell, one.copy_of(cell.name), meter, before, written)
    finally:
        one.pause()


def _by_gateway(lab: ProductionLab, cell: Cell, before: int, written: int) -> dict[str, float]:
    meter = Meter(lab.gateway.pid)
    lab.gateway.resume(LINK, cell.name)
    metrics = copied(lab, cell, cell.name, meter, before, written)
    lab.gateway.pause(LINK, cell.name)
    return metrics


def copied(lab: ProductionLab, cell: Cell, copy: str, meter: Meter, before: int, written: int) -> dict[str, float]:
    """CPU from the go-ahead to the last record; the rate from the last look that saw nothing new to the last record.

    So a backlog that is copied between two looks has a rate, too, and one that is too low rather than too high.
    """
    nothing_at = meter.wall_s

    def has_begun() -> bool:
        nonlocal nothing_at
        looked_at = meter.wall_s
        if lab.on_target.records(copy, cell.partitions) > before:
            return True
        nothing_at = looked_at
        return False

    wait_until(has_begun, _BEGUN_S, f"records in {copy}", poll_s=_LOOK_S)
    lab.on_target.wait_for_records(copy, before + written, _COPIED_S, partitions=cell.partitions, poll_s=_LOOK_S)
    seconds, cpu = meter.wall_s - nothing_at, meter.cpu_s or 0.0
    mb = written * cell.size / 1e6
    return {
        "records_per_s": written / seconds,
        "mb_per_s": mb / seconds,
        "cpu_s_per_million": cpu / written * 1e6,
        "cpu_s_per_gb": cpu / mb * 1e3,
        "first_s": nothing_at,
    }
