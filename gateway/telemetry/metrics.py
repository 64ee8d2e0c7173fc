"""Every metric of the gateway: name, labels, meaning. Read off at each scrape from what the planes count anyway.

Nothing on the hot path knows Prometheus. The planes hand in plain numbers (`numbers.py`); the one thing pushed is
the length of write pauses, a few a day.

A partition has some ten samples, which take 0.1 ms to be written. Of thousands of partitions that is longer than
clients are to wait: then the numbers are read in the event loop, and the text is written beside it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, chain

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Histogram, ProcessCollector, generate_latest
from prometheus_client import Counter as CounterMetric
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from gateway.mirror.interface import PartitionStatus
from gateway.state.records import MirrorError, MirrorState
from gateway.telemetry.families import Table, counted, family, of_each, without_created
from gateway.telemetry.group_metrics import group_metrics
from gateway.telemetry.link_metrics import link_metrics
from gateway.telemetry.migration_metrics import migration_metrics
from gateway.telemetry.numbers import (
    ControlNumbers,
    FleetNumbers,
    MirrorNumbers,
    ProxyNumbers,
    TokenNumbers,
)
from gateway.transport.loop_watch import Stalls
from gateway.version import VERSION
from protocol.apis import APIS

PAUSE_BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

CREATE_BUCKETS_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

_AT_ONCE = 100
"""Partitions whose samples are written in the event loop."""


class Metrics:
    """All of a gateway. Plug in `control`, `proxy` and `fleet` when they exist; until then they show nothing."""

    def __init__(self) -> None:
        self._pushed = CollectorRegistry()
        self._process = ProcessCollector(registry=None)
        self.control: Callable[[], ControlNumbers] | None = None
        self.proxy: Callable[[], ProxyNumbers] | None = None
        self.fleet: Callable[[], FleetNumbers] | None = None
        self._pauses = Histogram(
            "lockgate_write_pause_duration_seconds",
            "How long a topic promote held writes, by how it ended (stopped, aborted, rehearsed).",
            ["link", "outcome"],
            buckets=PAUSE_BUCKETS_S,
            registry=self._pushed,
        )
        self._pause_steps = CounterMetric(
            "lockgate_write_pause_step_seconds",
            "Of the time that topic promotes held writes, what each step took; decide is what is between the steps.",
            ["link", "step"],
            registry=self._pushed,
        )
        self._creates = Histogram(
            "lockgate_mirror_create_duration_seconds",
            "How long the creation of a mirror topic took, by how it ended (created, refused, failed).",
            ["link", "outcome"],
            buckets=CREATE_BUCKETS_S,
            registry=self._pushed,
        )

    def pause_ended(self, link: str, outcome: str, seconds: float, steps: Mapping[str, float]) -> None:
        """A promote released the writes it held. `outcome`: stopped | aborted | rehearsed. `steps`: seconds of it."""
        self._pauses.labels(link, outcome).observe(seconds)
        for step, spent_s in steps.items():
            self._pause_steps.labels(link, step).inc(max(0.0, spent_s))

    def create_ended(self, link: str, outcome: str, seconds: float) -> None:
        """A mirror topic was created, or was not. `outcome`: see `topics/measured_create.py`."""
        self._creates.labels(link, outcome).observe(seconds)

    def families(self) -> Iterator[Metric]:
        """All that a scrape would show now."""
        return self._families(*self._read())

    def render(self) -> tuple[bytes, str]:
        """The text for Prometheus, and its content type."""
        return self._written(*self._read())

    async def text(self) -> tuple[bytes, str]:
        """As `render`, for `/metrics` of one process: what takes long is done beside the event loop."""
        told, mirrors = self._read()
        if sum(len(mirror.partitions) for mirror in mirrors) <= _AT_ONCE:
            return self._written(told, mirrors)
        return await asyncio.to_thread(self._written, told, mirrors)

    def _read(self) -> tuple[Sequence[Metric], Sequence[MirrorNumbers]]:
        """All families but those of mirror topics, whose numbers nobody changes."""
        told: list[Metric] = [InfoMetricFamily("lockgate_build", "Version of this gateway.", {"version": VERSION})]
        with contextlib.suppress(RuntimeError):  # no event loop: nobody is served yet
            tasks = len(asyncio.all_tasks())
            told.append(GaugeMetricFamily("lockgate_asyncio_tasks", "Tasks of the event loop.", value=tasks))
        control = None if self.control is None else self.control()
        told += self._process.collect()
        if control is not None:
            told += _control_metrics(control)
        if self.proxy is not None:
            told += _proxy_metrics(self.proxy())
        if self.fleet is not None:
            told += _fleet_metrics(self.fleet())
        return told, () if control is None else control.mirrors

    def _families(self, told: Sequence[Metric], mirrors: Sequence[MirrorNumbers]) -> Iterator[Metric]:
        return chain(map(without_created, self._pushed.collect()), told, _mirror_metrics(mirrors))

    def _written(self, told: Sequence[Metric], mirrors: Sequence[MirrorNumbers]) -> tuple[bytes, str]:
        scrape = CollectorRegistry()
        scrape.register(_Scrape(self._families(told, mirrors)))
        return generate_latest(scrape), CONTENT_TYPE_LATEST


class _Scrape(Collector):
    """What is written once."""

    def __init__(self, families: Iterator[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        return self._families


def _fleet_metrics(numbers: FleetNumbers) -> Iterator[Metric]:
    for name, meaning, value in (
        ("lockgate_fleet_leader", "1 while this gateway leads the fleet.", float(numbers.leads)),
        (
            "lockgate_fleet_agreed",
            "0 while the coordinator of the fleet's group does not agree with this gateway: /v3/status says why.",
            float(numbers.agreed),
        ),
        (
            "lockgate_write_lease_seconds",
            "Seconds left on this gateway's write lease; 0: it must not write to sources.",
            numbers.lease_left_s,
        ),
        ("lockgate_mirrored_partitions", "Partitions that this gateway mirrors.", float(numbers.mirrored)),
    ):
        gauge = GaugeMetricFamily(name, meaning)
        gauge.add_metric([], value)
        yield gauge
    gateways = GaugeMetricFamily("lockgate_fleet_gateways", "Gateways, as the leader sees them.", labels=["state"])
    for state, count in numbers.states.items():
        gateways.add_metric([state], float(count))
    yield gateways
    if numbers.lost_lease_s is not None:
        lease = GaugeMetricFamily("lockgate_fleet_lost_lease_seconds", "For how long promotes wait for lost gateways.")
        lease.add_metric([], numbers.lost_lease_s)
        yield lease
    yield counted(
        "lockgate_link_fetch_throttled_seconds_total",
        "For how long brokers have held back the fetches of this gateway's mirrors (throttle_time_ms, a quota).",
        "link",
        numbers.throttled_s,
    )
    yield from _stalls(numbers.stalls)
    yield counted(
        "lockgate_append_throttled_seconds_total",
        "For how long brokers have held back the appends of this gateway's mirrors (throttle_time_ms, a quota).",
        "side",
        numbers.append_throttled_s,
    )
    losses = CounterMetricFamily(
        "lockgate_state_topic_losses", "How often the state topic has lost records that were acknowledged."
    )
    losses.add_metric([], float(numbers.state_losses))
    yield losses
    if numbers.audit_lost is not None:
        lost = CounterMetricFamily("lockgate_audit_lines_lost", "Lines of the audit trail that are not in its topic.")
        lost.add_metric([], float(numbers.audit_lost))
        yield lost


def _stalls(found: Mapping[str, Stalls]) -> Iterator[Metric]:
    stalls = family(
        "lockgate_event_loop_stalls_total", "Turns of the event loop of more than 50 ms: nobody was served.", ["cause"]
    )
    seconds = family("lockgate_event_loop_stalled_seconds_total", "How long these turns took together.", ["cause"])
    longest = family("lockgate_event_loop_longest_stall_seconds", "The longest of these turns so far.", ["cause"])
    for cause, each in found.items():
        stalls.add_metric([cause], float(each.turns))
        seconds.add_metric([cause], each.total_s)
        longest.add_metric([cause], each.longest_s)
    yield from (stalls, seconds, longest)


def _of_job(mirror: MirrorNumbers, *, field: str) -> float | None:
    """A number of the job that copies the topic; -1 of it is not known."""
    value = None if mirror.catch_up is None else float(getattr(mirror.catch_up, field))
    return None if value is None or value < 0 else value


_MIRROR: Table[MirrorNumbers] = (
    (
        "lockgate_mirror_records_after_cutover",
        "Records on the source from after the promote; no sample: not measured yet.",
        lambda m: m.records_after_cutover,
    ),
    ("lockgate_mirror_lost_records", "Records that the source deleted before they were mirrored.", lambda m: m.lost),
    (
        "lockgate_mirror_reversed",
        "1 while the topic is written on the target and mirrored back to the source.",
        lambda m: m.reverse,
    ),
    (
        "lockgate_mirror_undo_until_timestamp_seconds",
        "Until when the topic's promote can be taken back: its mirror back is kept, and ends then by itself.",
        lambda m: None if m.undo_until_ms is None else m.undo_until_ms / 1000,
    ),
    (
        "lockgate_mirror_undo_refused",
        "1 for a promoted topic without an undo: its mirror back could not be begun; `mirror describe` says why.",
        lambda m: m.undo_refused,
    ),
    (
        "lockgate_mirror_records_at_risk",
        "Records that the source of a mirror back does not have yet: an undo waits for them.",
        lambda m: m.at_risk,
    ),
    (
        "lockgate_mirror_not_mirrored_records",
        "Records that a failover is known to have left behind on the source.",
        lambda m: m.not_mirrored,
    ),
    (
        "lockgate_mirror_state_timestamp_seconds",
        "Since when the mirror topic is in its state.",
        lambda m: m.state_since_ms / 1000,
    ),
    (
        "lockgate_mirror_translated",
        "1 while offsets differ between the clusters: mode translate.",
        lambda m: m.translated,
    ),
    ("lockgate_mirror_readable", "0 while the topic is being padded to the source's offsets.", lambda m: m.readable),
    (
        "lockgate_mirror_promote_failed",
        "1 when the last promote did not end in STOPPED; `mirror describe` says why.",
        lambda m: m.promote_failed,
    ),
    (
        "lockgate_mirror_retries_unknown_partitions",
        "Partitions in which a retry over the last failover may be appended once more.",
        lambda m: m.retries_unknown,
    ),
    (
        "lockgate_mirror_waiting_partitions",
        "Partitions that wait: their source for the end of a transaction, or the mirror for schema ids.",
        lambda m: sum(1 for partition in m.partitions if partition.waits_for),
    ),
    (
        "lockgate_mirror_failing_partitions",
        "Partitions with an error at present.",
        lambda m: sum(1 for partition in m.partitions if partition.last_error),
    ),
    (
        "lockgate_mirror_configs_set_back",
        "Configs that somebody changed on the copy and config sync has set back, as many as are kept.",
        lambda m: m.set_back,
    ),
    (
        "lockgate_mirror_warnings",
        "Ways in which the copy differs from its origin that clients would meet at the cutover; `describe` says which.",
        lambda m: m.warnings,
    ),
    (
        "lockgate_mirror_transition_errors",
        "Transition errors of the mirror topic, as many as are kept.",
        lambda m: m.transition_errors,
    ),
)

_CATCH_UP: Table[MirrorNumbers] = tuple(
    (f"lockgate_catch_up_{name}", meaning, partial(_of_job, field=field))
    for name, meaning, field in (
        ("records", "Records that a job is to copy.", "records_total"),
        ("done_records", "Records that it has copied.", "records_done"),
        ("bytes", "Bytes that a job is to copy, about.", "bytes_total"),
        ("done_bytes", "Bytes that it has copied, about.", "bytes_done"),
        ("bytes_per_second", "How fast it copies.", "bytes_per_s"),
        ("eta_seconds", "When it will be done.", "eta_s"),
    )
)


def _lag_s(status: PartitionStatus) -> float | None:
    return None if status.lag_ms is None else status.lag_ms / 1000


_PARTITION: Table[PartitionStatus] = (
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
    (
        "lockgate_mirror_source_end_offset",
        "Log end offset of the cluster that is mirrored from.",
        lambda p: p.source_end,
    ),
    ("lockgate_mirror_copy_end_offset", "Log end offset of the copy.", lambda p: p.target_end),
    ("lockgate_mirror_map_segments", "Segments of the offset map, while offsets differ.", lambda p: p.segments or None),
    (
        "lockgate_mirror_missing_schema_ids",
        "Schema ids that the partition waits for, until the link's id map has them.",
        lambda p: len(p.missing_ids) or None,
    ),
    (
        "lockgate_mirror_schema_ids_written_total",
        "Schema ids that were written anew since the mirror began in this process.",
        lambda p: p.ids_written_total or None,
    ),
)
_TOKENS: Table[TokenNumbers] = (
    (
        "lockgate_delegation_tokens",
        "Principals with a delegation token of the link's source; of the target where link is empty.",
        lambda t: t.owners,
    ),
    (
        "lockgate_delegation_tokens_made_total",
        "Delegation tokens that this cluster has made for clients of `identity: token`, since the gateway's start.",
        lambda t: t.made,
    ),
    (
        "lockgate_delegation_tokens_refused_total",
        "Delegation tokens that this cluster has refused to make, mostly for want of the CreateTokens right.",
        lambda t: t.refused,
    ),
)
_LIMITS: Table[ProxyNumbers] = (
    (
        "lockgate_waiters_not_counted_total",
        "Requests that waited at gates beyond their principal's limit.",
        lambda p: p.uncounted_waiters,
    ),
    ("lockgate_forwarded_writes_total", "Produce requests that were sent to a source.", lambda p: p.forwarded),
    (
        "lockgate_forwarded_writes_throttled_total",
        "Writes to sources that were throttled: beyond their principal's quota.",
        lambda p: p.throttled,
    ),
    ("lockgate_held_request_bytes", "Requests that wait in the gateway.", lambda p: p.held_bytes),
    (
        "lockgate_held_answer_bytes",
        "Answers that wait in the gateway until their clients take them.",
        lambda p: p.held_answer_bytes,
    ),
    (
        "lockgate_held_answers_waited_total",
        "How often an answer, or a request for one, waited for room.",
        lambda p: p.answers_waited,
    ),
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
    """But for those of mirror topics."""
    yield from link_metrics(numbers.links, numbers.link_numbers)
    yield from group_metrics(numbers.groups)
    yield from migration_metrics(numbers.migrations)


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
    errors = GaugeMetricFamily(
        "lockgate_mirror_error", "1 for the error of a mirror topic that has one.", labels=["link", "topic", "error"]
    )
    phases = GaugeMetricFamily(
        "lockgate_mirror_partitions", "Partitions of a mirror topic, by phase.", labels=["link", "topic", "phase"]
    )
    for mirror in mirrors:
        if mirror.error is not MirrorError.NO_ERROR:
            errors.add_metric([mirror.link, mirror.topic, mirror.error.value], 1.0)
        for phase, count in _phases(mirror).items():
            phases.add_metric([mirror.link, mirror.topic, phase], float(count))
    yield from (errors, phases)
    yield from of_each(
        _CATCH_UP,
        ["link", "topic", "job"],
        [([m.link, m.topic, m.catch_up.job], m) for m in mirrors if m.catch_up is not None],
    )
    yield from of_each(_MIRROR, ["link", "topic"], [([mirror.link, mirror.topic], mirror) for mirror in mirrors])
    partitions = [
        ([mirror.link, mirror.topic, str(partition.partition)], partition)
        for mirror in mirrors
        for partition in mirror.partitions
    ]
    yield from of_each(_PARTITION, ["link", "topic", "partition"], partitions)
    yield _fetched(mirrors)


def _fetched(mirrors: Sequence[MirrorNumbers]) -> Metric:
    found = family(
        "lockgate_mirror_fetched_bytes_total",
        "Bytes of records fetched since the start of this process, by whether the partition's leader sent them.",
        ["link", "topic", "replica"],
    )
    for mirror in mirrors:
        labels = [mirror.link, mirror.topic]
        found.add_metric([*labels, "leader"], float(sum(p.leader_bytes_total for p in mirror.partitions)))
        found.add_metric([*labels, "follower"], float(sum(p.follower_bytes_total for p in mirror.partitions)))
    return found


def _phases(mirror: MirrorNumbers) -> Mapping[str, int]:
    """Phase -> partitions; those of which nothing is measured, such as of a STOPPED mirror, are `idle`."""
    found = Counter(partition.phase for partition in mirror.partitions)
    idle = mirror.partition_count - len(mirror.partitions)
    return found + Counter(idle=max(0, idle))


def _proxy_metrics(numbers: ProxyNumbers) -> Iterator[Metric]:
    requests = family("lockgate_requests_total", "Client requests by API.", ["api"])
    sizes = family("lockgate_request_bytes_total", "Bytes of client requests by API.", ["api"])
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
    yield counted(
        "lockgate_connections_refused_total",
        "Client connections not accepted, by limit (connections, address, rate, handshakes, handshakes_of_all, proxy, "
        "header, server_name).",
        "limit",
        numbers.refused,
    )
    yield from of_each(_LIMITS, [], [([], numbers)])
    yield from of_each(_TOKENS, ["link"], [([link], tokens) for link, tokens in numbers.tokens.items()])
    errors = family(
        "lockgate_link_client_errors_total",
        "Connections to the link's source that this gateway could not open (error: authentication, connection).",
        ["link", "error"],
    )
    for link, found in numbers.client_errors.items():
        for error, count in found.items():
            errors.add_metric([link, error], float(count))
    yield errors
    yield counted(
        "lockgate_connections_closed_total", "Client connections closed, by reason.", "reason", numbers.closed
    )
    yield counted(
        "lockgate_auto_create_refused_total",
        "Requests for a topic that is on a source but not mirrored, which must not be created here.",
        "topic",
        numbers.auto_create_refused,
    )
    yield counted(
        "lockgate_link_write_throttled_seconds_total",
        "For how long brokers of the source have throttled clients' writes (throttle_time_ms, a quota), over all "
        "connections.",
        "link",
        numbers.writes_throttled_s,
    )
    yield counted("lockgate_produce_held_total", "Produce requests held by a promote.", "topic", numbers.held)
