"""Every metric of the gateway: name, labels, meaning. Read off at each scrape from what the planes count anyway.

Nothing on the hot path knows Prometheus. The planes hand in plain numbers (`numbers.py`); the one thing pushed is
the length of write pauses, a few a day.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TypeAlias, TypeVar

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from gateway.mirror.interface import PartitionStatus
from gateway.state.records import MirrorState
from gateway.telemetry.numbers import (
    ControlNumbers,
    FleetNumbers,
    GroupNumbers,
    MirrorNumbers,
    ProxyNumbers,
    TokenNumbers,
)
from gateway.version import VERSION
from protocol.apis import APIS

_T = TypeVar("_T")
PAUSE_BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """The gateway's registry. Plug in `control`, `proxy` and `fleet` when they exist; until then they show nothing."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.control: Callable[[], ControlNumbers] | None = None
        self.proxy: Callable[[], ProxyNumbers] | None = None
        self.fleet: Callable[[], FleetNumbers] | None = None
        self._pauses = Histogram(
            "lockgate_write_pause_duration_seconds",
            "How long a topic promote held writes, by how it ended (stopped, aborted).",
            ["link", "outcome"],
            buckets=PAUSE_BUCKETS_S,
            registry=self.registry,
        )
        self.registry.register(_Scrape(self))

    def pause_ended(self, link: str, outcome: str, seconds: float) -> None:
        """A promote released the writes it held. `outcome`: stopped | aborted."""
        self._pauses.labels(link, outcome).observe(seconds)

    def render(self) -> tuple[bytes, str]:
        """The text for Prometheus, and its content type."""
        return generate_latest(self.registry), CONTENT_TYPE_LATEST

    async def text(self) -> tuple[bytes, str]:
        """For `/metrics` of one process."""
        return self.render()


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
    if numbers.audit_lost is not None:
        lost = CounterMetricFamily("lockgate_audit_lines_lost", "Lines of the audit trail that are not in its topic.")
        lost.add_metric([], float(numbers.audit_lost))
        yield lost


_Table: TypeAlias = Sequence[tuple[str, str, Callable[[_T], float | None]]]
"""Name, meaning, value; a name that ends in _total is a counter. What is not known (None) has no sample."""

_MIRROR: _Table[MirrorNumbers] = (
    ("lockgate_mirror_records_after_cutover", "Records on the source from after the promote.", lambda m: m.late),
    ("lockgate_mirror_lost_records", "Records that the source deleted before they were mirrored.", lambda m: m.lost),
    (
        "lockgate_mirror_reversed",
        "1 while the topic is written on the target and mirrored back to the source.",
        lambda m: m.reverse,
    ),
    (
        "lockgate_mirror_not_mirrored_records",
        "Records that a failover is known to have left behind on the source.",
        lambda m: m.not_mirrored,
    ),
)


def _lag_s(status: PartitionStatus) -> float | None:
    return None if status.lag_ms is None else status.lag_ms / 1000


_PARTITION: _Table[PartitionStatus] = (
    ("lockgate_mirror_lag_records", "Records of the source not yet on the target.", lambda p: p.lag),
    ("lockgate_mirror_lag_seconds", "Age of the oldest record not yet mirrored.", _lag_s),
    ("lockgate_mirror_bytes_per_second", "Mirrored bytes, moving average of 5 s.", lambda p: p.bytes_per_s),
    ("lockgate_mirror_records_total", "Records mirrored since the start of this process.", lambda p: p.records_total),
    ("lockgate_mirror_bytes_total", "Bytes mirrored since the start of this process.", lambda p: p.bytes_total),
    (
        "lockgate_mirror_merged_batches_total",
        "Batches mirrored as a part of a merged one since the start of this process.",
        lambda p: p.merged_total,
    ),
    (
        "lockgate_mirror_queued_bytes",
        "Memory of what was fetched and is not known to be on the target yet.",
        lambda p: p.queued_bytes,
    ),
    (
        "lockgate_mirror_bypassed_records",
        "Records of the last 60 s that no gateway forwarded: their producers have not moved.",
        lambda p: p.bypassed_last_minute,
    ),
)
_TOKENS: _Table[TokenNumbers] = (
    (
        "lockgate_delegation_tokens",
        "Principals with a delegation token of the link's source; of the target where link is empty.",
        lambda t: t.owners,
    ),
    ("lockgate_delegation_tokens_made_total", "Delegation tokens made for clients, likewise.", lambda t: t.made),
    (
        "lockgate_delegation_tokens_refused_total",
        "Delegation tokens that the cluster did not make, mostly for want of an ACL, likewise.",
        lambda t: t.refused,
    ),
)
_GROUP: _Table[GroupNumbers] = (
    ("lockgate_group_held_members", "Members held at the group's gate.", lambda g: g.waiting),
    ("lockgate_group_members_after_promote", "Members of a promoted group on the source.", lambda g: g.late),
    (
        "lockgate_group_commits_after_promote",
        "Partitions for which a promoted group has committed on the source since.",
        lambda g: g.commits_after_promote,
    ),
)
_SYNC: _Table[GroupNumbers] = (
    (
        "lockgate_group_offset_sync_timestamp_seconds",
        "Last offset sync; 0: none yet.",
        lambda g: (g.synced_ms or 0) / 1000,
    ),
    (
        "lockgate_group_offset_sync_lag_records",
        "Records read on the source, not mirrored yet.",
        lambda g: g.sync_lag,
    ),
    (
        "lockgate_group_offset_sync_held_back",
        "Partitions whose offset would have to be lowered.",
        lambda g: g.held_back,
    ),
)


_LIMITS: _Table[ProxyNumbers] = (
    (
        "lockgate_waiters_not_counted_total",
        "Requests that waited at gates beyond their principal's limit.",
        lambda p: p.uncounted_waiters,
    ),
    (
        "lockgate_forwarded_writes_throttled_total",
        "Writes to sources that were throttled: beyond their principal's quota.",
        lambda p: p.throttled,
    ),
    ("lockgate_held_request_bytes", "Requests that wait in the gateway.", lambda p: p.held_bytes),
    (
        "lockgate_client_connections_unread",
        "Client connections that are not read until there is memory for their requests.",
        lambda p: p.unread_connections,
    ),
    (
        "lockgate_client_connections_unread_total",
        "How often a client connection was not read until there was memory for its request.",
        lambda p: p.unread_times,
    ),
)


def _control_metrics(numbers: ControlNumbers) -> Iterator[Metric]:
    up = GaugeMetricFamily("lockgate_link_up", "1 while the link's source cluster answers.", labels=["link"])
    for link, available in numbers.links.items():
        up.add_metric([link], float(available))
    yield up
    yield from _mirror_metrics(numbers.mirrors)
    yield from _group_metrics(numbers.groups)


def _mirror_metrics(mirrors: Sequence[MirrorNumbers]) -> Iterator[Metric]:
    state = GaugeMetricFamily(
        "lockgate_mirror_state",
        "1 for the state the mirror topic is in, 0 for the others.",
        labels=["link", "topic", "state"],
    )
    for mirror in mirrors:
        for each in MirrorState:
            state.add_metric([mirror.link, mirror.topic, each.value], float(each is mirror.state))
    yield state
    yield from _of_each(_MIRROR, ["link", "topic"], [([mirror.link, mirror.topic], mirror) for mirror in mirrors])
    partitions = [
        ([mirror.link, mirror.topic, str(partition.partition)], partition)
        for mirror in mirrors
        for partition in mirror.partitions
    ]
    yield from _of_each(_PARTITION, ["link", "topic", "partition"], partitions)


def _group_metrics(numbers: Sequence[GroupNumbers]) -> Iterator[Metric]:
    groups = GaugeMetricFamily("lockgate_groups", "Mirror groups by state.", labels=["link", "state"])
    for (link, state), count in Counter((group.link, group.state) for group in numbers).items():
        groups.add_metric([link, state], float(count))
    yield groups
    rows = [([group.link, group.group], group) for group in numbers]
    yield from _of_each(_GROUP, ["link", "group"], rows)
    yield from _of_each(_SYNC, ["link", "group"], [row for row in rows if row[1].synced_ms is not None])


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
        "lockgate_connections_refused_total",
        "Client connections not accepted, by limit (connections, address, rate, proxy, header).",
        "limit",
        numbers.refused,
    )
    yield from _of_each(_LIMITS, [], [([], numbers)])
    yield from _of_each(_TOKENS, ["link"], [([link], tokens) for link, tokens in numbers.tokens.items()])
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


def _of_each(table: _Table[_T], labels: Sequence[str], rows: Sequence[tuple[Sequence[str], _T]]) -> Iterator[Metric]:
    """One family per entry of the table, with a sample for each row: its labels' values, and what the value is of."""
    for name, meaning, value in table:
        family = _family(name, meaning, labels)
        for values, each in rows:
            if (number := value(each)) is not None:
                family.add_metric(values, float(number))
        yield family


def _counted(name: str, meaning: str, label: str, counts: Mapping[str, int]) -> Metric:
    family = _family(name, meaning, [label])
    for value, count in counts.items():
        family.add_metric([value], float(count))
    return family


def _family(name: str, meaning: str, labels: Iterable[str]) -> CounterMetricFamily | GaugeMetricFamily:
    kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
    return kind(name, meaning, labels=list(labels))
