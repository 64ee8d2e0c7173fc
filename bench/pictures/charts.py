"""Which pictures a report gives. Each is told by what it shows; one of which nothing was measured is left out. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from bench.pictures.bars import Group, bars
from bench.stats import Sample, Samples, Spread

_CODECS: Final = ("none", "lz4", "zstd")
_LESS: Final = "less is better"
_MORE: Final = "more is better"
_COPIERS: Final = ("gateway", "mm2", "mm2_tuned")
_SMALL_BYTES: Final = 4_096


class Picture(NamedTuple):
    """`name`: of its file, without the ending. `says`: a sentence about it."""

    name: str
    says: str
    svg: str


def samples_of(report: Mapping[str, Any]) -> Samples:
    """The raw samples of a report."""
    return Samples([Sample(**sample) for sample in report["samples"]])


def of_production(report: Mapping[str, Any]) -> Iterator[Picture]:
    """What `bench.production` measured."""
    samples = samples_of(report)
    loads = [load for load in dict.fromkeys(sample.load for sample in samples.all) if load.startswith("backlog-")]
    small = [load for load in loads if _batch_bytes(load) < _SMALL_BYTES]
    large = [load for load in loads if _batch_bytes(load) >= _SMALL_BYTES]
    for name, of, metric, unit, title, better in (
        ("backlog-small-rate", small, "records_per_s", "records per second", "A backlog of small batches: rate", _MORE),
        (
            "backlog-small-cpu",
            small,
            "cpu_s_per_million",
            "CPU-s per million records",
            "A backlog of small batches: CPU",
            _LESS,
        ),
        ("backlog-large-rate", large, "mb_per_s", "MB per second", "A backlog of 16 KB and 1 MB batches: rate", _MORE),
        ("backlog-large-cpu", large, "cpu_s_per_gb", "CPU-s per GB", "A backlog of 16 KB and 1 MB batches: CPU", _LESS),
    ):
        groups = [_group(samples, load, _cell(load), metric, _COPIERS) for load in of]
        yield from _picture(name, title, f"{unit}; {better}", groups, _SAYS[name])
    yield from _by_load(samples, "tail", "lag_p50_ms lag_p99_ms lag_max_ms", _TAIL, bound=("lag_p99_ms", 250.0))
    yield from _far(samples)
    yield from _many(samples)
    yield from _workers(samples)


def of_proxies(report: Mapping[str, Any]) -> Iterator[Picture]:
    """What `bench` measured of what stands between."""
    samples = samples_of(report)
    for name, loads, metric, unit, title in (
        (
            "proxy-bytes",
            (("produce_16k", "produce, 16 KB"), ("fetch", "fetch")),
            "cpu_s_per_gb",
            "CPU-s per GB",
            "Passing bytes on: CPU",
        ),
        (
            "proxy-small",
            (("small", "3,000 a second"), ("flood", "at full speed")),
            "cpu_s_per_million",
            "CPU-s per million requests",
            "Produce requests of one record of 100 bytes: CPU",
        ),
    ):
        groups = [_group(samples, load, label, metric, samples.contestants(load)) for load, label in loads]
        yield from _picture(name, title, f"{unit}; {_LESS}", groups, _SAYS[name])


def _group(samples: Samples, load: str, label: str, metric: str, names: Sequence[str]) -> Group:
    found = {name: samples.spread(load, name, metric) for name in names}
    return Group(label, {name: spread for name, spread in found.items() if spread is not None})


def _picture(name: str, title: str, unit: str, groups: Sequence[Group], says: str) -> Iterator[Picture]:
    shown = [group for group in groups if group.bars]
    if shown:
        yield Picture(name, says, bars(title, unit, shown))


def _by_load(
    samples: Samples, load: str, metrics: str, title: tuple[str, str], *, bound: tuple[str, float]
) -> Iterator[Picture]:
    groups = []
    for metric in metrics.split():
        spread = samples.spread(load, "gateway", metric)
        if spread is not None:
            label = metric.removeprefix("lag_").removesuffix("_ms")
            groups.append(Group(label, {"gateway": spread}, bound[1] if metric == bound[0] else None))
    yield from _picture(load, *title, groups, _SAYS[load])


def _far(samples: Samples) -> Iterator[Picture]:
    groups = [
        Group(f"{name} away", {"gateway": spread})
        for name in samples.contestants("far")
        if (spread := samples.spread("far", name, "mb_per_s")) is not None
    ]
    title = "One partition, from a source that is far away: rate"
    yield from _picture("far", title, f"MB per second; {_MORE}", groups, _SAYS["far"])


def _many(samples: Samples) -> Iterator[Picture]:
    loads = [load for load in dict.fromkeys(sample.load for sample in samples.all) if load.startswith("many-")]
    for name, metric, title, unit in (
        ("many-create", "create_s_per_1000", "Creating the mirrors of so many partitions", "seconds per 1,000"),
        ("many-rest", "rest_ms_s_per_1000", "At rest, mirrored", "CPU-ms per second and 1,000"),
        ("many-stopped", "stopped_ms_s_per_1000", "At rest, promoted", "CPU-ms per second and 1,000"),
        ("many-pause", "pause_ms", "One promote of them all: how long writes wait", "ms"),
    ):
        groups = [_group(samples, load, f"{int(load[5:]):,} partitions", metric, ("gateway",)) for load in loads]
        yield from _picture(name, title, f"{unit}; {_LESS}", groups, _SAYS[name])


def _workers(samples: Samples) -> Iterator[Picture]:
    found = {name: samples.spread("workers", name, "cpu_s_per_million") for name in samples.contestants("workers")}
    groups = [Group(name, {"gateway": spread}) for name, spread in found.items() if spread is not None]
    title = "Small requests at full speed, through one and through two processes: CPU"
    yield from _picture("workers", title, f"CPU-s per million requests; {_LESS}", groups, _SAYS["workers"])


def _batch_bytes(load: str) -> int:
    batch, _, size = load.removeprefix("backlog-").split("-")[0].partition("x")
    return int(batch) * int(size)


def _cell(load: str) -> str:
    """`backlog-10x100-p6-lz4` → `10 × 100 B, 6 part., lz4`."""
    shape, partitions, *codec = load.removeprefix("backlog-").split("-")
    batch, _, size = shape.partition("x")
    count = int(partitions[1:])
    return f"{int(batch):,} × {_bytes(int(size))}, {count} part., {codec[0] if codec else _CODECS[0]}"


def _bytes(size: int) -> str:
    return f"{size} B" if size < 1_000 else f"{size // 1_000} KB"


_TAIL: Final = (
    "One partition at a steady 1,000 batches a second: lag of its copy",
    f"ms; {_LESS}; the line is the bound",
)
_SAYS: Final[Mapping[str, str]] = {
    "backlog-small-rate": "Batches of one and of ten records of 100 bytes, as producers without linger write them.",
    "backlog-small-cpu": "CPU of the one process that copies; brokers are not in it.",
    "backlog-large-rate": "Records of 1 KB, in batches of 16 and of 1,000.",
    "backlog-large-cpu": "CPU of the one process that copies; brokers are not in it.",
    "tail": "From the moment a record is made to the moment a reader of the copy has it.",
    "far": "The network between the gateway and the source's brokers takes so long there and back.",
    "many-create": "From the first request to the moment that all are mirrored and may be read.",
    "many-rest": "What the gateway takes while nothing is written.",
    "many-stopped": "And what it takes when all are promoted, to look for writers that were forgotten.",
    "many-pause": "All topics as one set, under one write pause.",
    "workers": "What a request costs must not grow with the processes that share the work.",
    "proxy-bytes": "1 KB records; the whole process, all of its threads.",
    "proxy-small": "The more requests come at once, the less each costs.",
}


def spread_of(values: Mapping[str, Any]) -> Spread:
    """As a report has it."""
    return Spread(**values)
