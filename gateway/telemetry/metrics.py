"""Every metric of the gateway: name, labels, meaning. Read off at each scrape from what the planes count anyway.

Nothing on the hot path knows Prometheus. The planes hand in plain numbers through the Protocols here; the one
thing pushed is the length of fences, a few a day.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Protocol

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from gateway.domain.ports import PartitionStatus
from gateway.domain.records import MirrorState
from gateway.version import VERSION
from protocol.apis import APIS

FENCE_BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class ApiNumbers(Protocol):
    """Totals of one API; `buckets` are counts per bucket, not cumulative, the last one above all bounds."""

    @property
    def api_key(self) -> int: ...  # noqa: D102
    @property
    def requests(self) -> int: ...  # noqa: D102
    @property
    def request_bytes(self) -> int: ...  # noqa: D102
    @property
    def buckets(self) -> Sequence[int]: ...  # noqa: D102
    @property
    def latency_sum_s(self) -> float: ...  # noqa: D102


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyNumbers:
    """What the data plane counts. `bounds_s`: upper bounds of the latency buckets."""

    bounds_s: Sequence[float]
    apis: Sequence[ApiNumbers]
    connections: int = 0
    closed: Mapping[str, int] = field(default_factory=dict)
    auto_create_refused: Mapping[str, int] = field(default_factory=dict)
    held: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MirrorNumbers:
    """One mirror topic; `late`: records that came to the source after its promote; `lost`: deleted there too early.

    `reverse`: it is mirrored back. `not_mirrored`: records that a failover is known to have left behind.
    """

    link: str
    topic: str
    state: MirrorState
    partitions: Sequence[PartitionStatus]
    late: int = 0
    lost: int = 0
    reverse: bool = False
    not_mirrored: int = 0


@dataclass(frozen=True, slots=True)
class GroupNumbers:
    """One mirror group; `waiting`: members held at its gate; `late`: members on the source after its promote.

    `synced_ms`: wall clock of its last offset sync, None while it has none; `sync_lag`: records read on the source that
    the mirror does not have yet; `held_back`: partitions whose offset the sync would have to lower.
    """

    link: str
    group: str
    state: str
    waiting: int
    late: int = 0
    late_commits: int = 0
    synced_ms: int | None = None
    sync_lag: int = 0
    held_back: int = 0


@dataclass(frozen=True, slots=True)
class ControlNumbers:
    """What the control plane knows. `links`: name -> is its source there."""

    links: Mapping[str, bool]
    mirrors: Sequence[MirrorNumbers]
    groups: Sequence[GroupNumbers]


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetNumbers:
    """This gateway in its fleet. `states`: of the leader, how many gateways are up, silent, lost; else empty.

    `lease_left_s`: for how long it may write to sources without being heard of. `mirrored`: partitions, here.
    """

    leads: bool
    lease_left_s: float
    mirrored: int
    states: Mapping[str, int] = field(default_factory=dict)


class Metrics:
    """The gateway's registry. Plug in `control`, `proxy` and `fleet` when they exist; until then they show nothing."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.control: Callable[[], ControlNumbers] | None = None
        self.proxy: Callable[[], ProxyNumbers] | None = None
        self.fleet: Callable[[], FleetNumbers] | None = None
        self._fences = Histogram(
            "lockgate_fence_duration_seconds",
            "How long a topic promote held writes, by how it ended (stopped, aborted).",
            ["link", "outcome"],
            buckets=FENCE_BUCKETS_S,
            registry=self.registry,
        )
        self.registry.register(_Scrape(self))

    def fence_ended(self, link: str, outcome: str, seconds: float) -> None:
        """A promote released the writes it held. `outcome`: stopped | aborted."""
        self._fences.labels(link, outcome).observe(seconds)

    def render(self) -> tuple[bytes, str]:
        """The text for Prometheus, and its content type."""
        return generate_latest(self.registry), CONTENT_TYPE_LATEST


class _Scrape(Collector):
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        yield InfoMetricFamily("lockgate_build", "Version of this gateway.", {"version": VERSION})
        with contextlib.suppress(RuntimeError):  # no event loop: nobody is served yet
            tasks = len(asyncio.all_tasks())
            yield GaugeMetricFamily("lockgate_asyncio_tasks", "Tasks of the event loop.", value=tasks)
        if self._metrics.control is not None:
            yield from _control_metrics(self._metrics.control())
        if self._metrics.proxy is not None:
            yield from _proxy_metrics(self._metrics.proxy())
        if self._metrics.fleet is not None:
            yield from _fleet_metrics(self._metrics.fleet())


def _fleet_metrics(numbers: FleetNumbers) -> Iterator[Metric]:
    for name, meaning, value in (
        ("lockgate_fleet_leader", "1 while this gateway leads the fleet.", float(numbers.leads)),
        ("lockgate_write_lease_seconds", "For how long it may write unheard of; 0: not at all.", numbers.lease_left_s),
        ("lockgate_mirrored_partitions", "Partitions that this gateway mirrors.", float(numbers.mirrored)),
    ):
        family = GaugeMetricFamily(name, meaning)
        family.add_metric([], value)
        yield family
    gateways = GaugeMetricFamily("lockgate_fleet_gateways", "Gateways, as the leader sees them.", labels=["state"])
    for state, count in numbers.states.items():
        gateways.add_metric([state], float(count))
    yield gateways


def _control_metrics(numbers: ControlNumbers) -> Iterator[Metric]:
    up = GaugeMetricFamily("lockgate_link_up", "1 while the link's source cluster answers.", labels=["link"])
    for link, available in numbers.links.items():
        up.add_metric([link], float(available))
    yield up
    state = GaugeMetricFamily(
        "lockgate_mirror_state",
        "1 for the state the mirror topic is in, 0 for the others.",
        labels=["link", "topic", "state"],
    )
    for mirror in numbers.mirrors:
        for each in MirrorState:
            state.add_metric([mirror.link, mirror.topic, each.value], float(each is mirror.state))
    late_records = GaugeMetricFamily(
        "lockgate_mirror_late_records", "Records on the source from after the promote.", labels=["link", "topic"]
    )
    lost_records = GaugeMetricFamily(
        "lockgate_mirror_lost_records",
        "Records that the source deleted before they were mirrored.",
        labels=["link", "topic"],
    )
    for mirror in numbers.mirrors:
        late_records.add_metric([mirror.link, mirror.topic], float(mirror.late))
        lost_records.add_metric([mirror.link, mirror.topic], float(mirror.lost))
    yield state
    yield late_records
    yield lost_records
    yield from _way_back_metrics(numbers.mirrors)
    yield from _partition_metrics(numbers.mirrors)
    groups = GaugeMetricFamily("lockgate_groups", "Mirror groups by state.", labels=["link", "state"])
    held = GaugeMetricFamily(
        "lockgate_group_held_members", "Members held at the group's gate.", labels=["link", "group"]
    )
    late = GaugeMetricFamily(
        "lockgate_group_late_members", "Members of a promoted group on the source.", labels=["link", "group"]
    )
    counts: dict[tuple[str, str], int] = {}
    for group in numbers.groups:
        counts[group.link, group.state] = counts.get((group.link, group.state), 0) + 1
        held.add_metric([group.link, group.group], float(group.waiting))
        late.add_metric([group.link, group.group], float(group.late))
    for labels, count in counts.items():
        groups.add_metric(labels, float(count))
    yield groups
    yield held
    yield late
    late_commits = GaugeMetricFamily(
        "lockgate_group_late_commits",
        "Partitions for which a promoted group has committed on the source since.",
        labels=["link", "group"],
    )
    for group in numbers.groups:
        late_commits.add_metric([group.link, group.group], float(group.late_commits))
    yield late_commits
    yield from _sync_metrics(numbers.groups)


def _sync_metrics(groups: Sequence[GroupNumbers]) -> Iterator[Metric]:
    labels = ["link", "group"]
    at = GaugeMetricFamily(
        "lockgate_group_offset_sync_timestamp_seconds", "Last offset sync; 0: none yet.", labels=labels
    )
    lag = GaugeMetricFamily(
        "lockgate_group_offset_sync_lag_records", "Records read on the source, not mirrored yet.", labels=labels
    )
    held_back = GaugeMetricFamily(
        "lockgate_group_offset_sync_held_back", "Partitions whose offset would have to be lowered.", labels=labels
    )
    for group in groups:
        if group.synced_ms is not None:
            at.add_metric([group.link, group.group], group.synced_ms / 1000)
            lag.add_metric([group.link, group.group], float(group.sync_lag))
            held_back.add_metric([group.link, group.group], float(group.held_back))
    yield at
    yield lag
    yield held_back


def _way_back_metrics(mirrors: Sequence[MirrorNumbers]) -> Iterator[Metric]:
    reversed_ = GaugeMetricFamily(
        "lockgate_mirror_reversed",
        "1 while the topic is written on the target and mirrored back to the source.",
        labels=["link", "topic"],
    )
    left = GaugeMetricFamily(
        "lockgate_mirror_not_mirrored_records",
        "Records that a failover is known to have left behind on the source.",
        labels=["link", "topic"],
    )
    for mirror in mirrors:
        reversed_.add_metric([mirror.link, mirror.topic], float(mirror.reverse))
        left.add_metric([mirror.link, mirror.topic], float(mirror.not_mirrored))
    yield reversed_
    yield left


# name, meaning, value; a name that ends in _total is a counter
_PARTITION: Sequence[tuple[str, str, Callable[[PartitionStatus], float]]] = (
    ("lockgate_mirror_lag_records", "Records of the source not yet on the target.", lambda p: p.lag),
    ("lockgate_mirror_lag_seconds", "Age of the oldest record not yet mirrored.", lambda p: p.lag_ms / 1000),
    ("lockgate_mirror_bytes_per_second", "Mirrored bytes, moving average of 5 s.", lambda p: p.bytes_per_s),
    ("lockgate_mirror_records_total", "Records mirrored since the start of this process.", lambda p: p.records_total),
    ("lockgate_mirror_bytes_total", "Bytes mirrored since the start of this process.", lambda p: p.bytes_total),
    (
        "lockgate_mirror_bypassed_records",
        "Records of the last 60 s that no gateway forwarded: their producers have not moved.",
        lambda p: p.bypassed_last_minute,
    ),
)


def _partition_metrics(mirrors: Sequence[MirrorNumbers]) -> Iterator[Metric]:
    for name, meaning, value in _PARTITION:
        family = _family(name, meaning, ["link", "topic", "partition"])
        for mirror in mirrors:
            for partition in mirror.partitions:
                family.add_metric([mirror.link, mirror.topic, str(partition.partition)], float(value(partition)))
        yield family


def _proxy_metrics(numbers: ProxyNumbers) -> Iterator[Metric]:
    requests = _family("lockgate_requests_total", "Client requests by API.", ["api"])
    sizes = _family("lockgate_request_bytes_total", "Bytes of client requests by API.", ["api"])
    latency = HistogramMetricFamily(
        "lockgate_request_seconds", "From a request's first byte to the end of its response, by API.", labels=["api"]
    )
    for api in numbers.apis:
        name = APIS[api.api_key].name if api.api_key in APIS else str(api.api_key)
        requests.add_metric([name], float(api.requests))
        sizes.add_metric([name], float(api.request_bytes))
        bounds = [*(str(bound) for bound in numbers.bounds_s), "+Inf"]
        buckets = list(zip(bounds, map(float, accumulate(api.buckets)), strict=True))
        latency.add_metric([name], buckets, api.latency_sum_s)
    yield from (requests, sizes, latency)
    connections = GaugeMetricFamily("lockgate_client_connections", "Client connections open now.")
    connections.add_metric([], float(numbers.connections))
    yield connections
    yield _counted(
        "lockgate_connections_closed_total", "Client connections closed, by reason.", "reason", numbers.closed
    )
    yield _counted(
        "lockgate_auto_create_refused_total",
        "Requests for a topic that is on a source but not mirrored, which must not be created here.",
        "topic",
        numbers.auto_create_refused,
    )
    yield _counted("lockgate_produce_held_total", "Produce requests held by a promote.", "topic", numbers.held)


def _counted(name: str, meaning: str, label: str, counts: Mapping[str, int]) -> Metric:
    family = _family(name, meaning, [label])
    for value, count in counts.items():
        family.add_metric([value], float(count))
    return family


def _family(name: str, meaning: str, labels: Iterable[str]) -> CounterMetricFamily | GaugeMetricFamily:
    kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
    return kind(name, meaning, labels=list(labels))
