"""Metrics of mirror groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric

from gateway.telemetry.families import Table, of_each
from gateway.telemetry.numbers import GroupNumbers

_GROUP: Final[Table[GroupNumbers]] = (
    ("lockgate_group_held_members", "Members held at the group's gate.", lambda g: g.waiting),
    (
        "lockgate_group_longest_wait_seconds",
        "For how long a member has been held at the group's gate, of the one that waits longest.",
        lambda g: g.longest_wait_s,
    ),
    (
        "lockgate_group_source_members",
        "Members on the source of a group that is not promoted: they have not moved.",
        lambda g: g.members,
    ),
    (
        "lockgate_group_members_after_promote",
        "Members of a promoted group on the source.",
        lambda g: g.members_after_promote,
    ),
    (
        "lockgate_group_commits_after_promote",
        "Partitions for which a promoted group has committed on the source since.",
        lambda g: g.commits_after_promote,
    ),
    (
        "lockgate_group_state_timestamp_seconds",
        "Since when the group is in its state.",
        lambda g: g.state_since_ms / 1000,
    ),
    ("lockgate_group_carried_offsets", "Offsets that the last promote carried over.", lambda g: g.carried),
)
_SYNC: Final[Table[GroupNumbers]] = (
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
    (
        "lockgate_group_offset_sync_committed_total",
        "Offsets translated and committed since this gateway leads.",
        lambda g: g.sync_committed,
    ),
    (
        "lockgate_group_offset_sync_errors_total",
        "Rounds of the offset sync that failed since this gateway leads.",
        lambda g: g.sync_errors,
    ),
    (
        "lockgate_group_offset_sync_round_seconds",
        "How long the last good round took, both clusters asked.",
        lambda g: g.sync_round_s,
    ),
    ("lockgate_group_offset_sync_failing", "1 while the last round failed.", lambda g: g.sync_failing),
)


def group_metrics(numbers: Sequence[GroupNumbers]) -> Iterator[Metric]:
    """Of all groups."""
    groups = GaugeMetricFamily("lockgate_groups", "Mirror groups by state.", labels=["link", "state"])
    for (link, state), count in Counter((group.link, group.state) for group in numbers).items():
        groups.add_metric([link, state], float(count))
    yield groups
    rows = [([group.link, group.group], group) for group in numbers]
    yield from of_each(_GROUP, ["link", "group"], rows)
    yield from of_each(_SYNC, ["link", "group"], [row for row in rows if row[1].synced_ms is not None])
    states = GaugeMetricFamily(
        "lockgate_group_state", "1 for the state the group is in.", labels=["link", "group", "state"]
    )
    lags = GaugeMetricFamily(
        "lockgate_group_lag_records",
        "Records that a group has not committed yet, on each cluster (side: source, target).",
        labels=["link", "group", "topic", "side"],
    )
    for group in numbers:
        states.add_metric([group.link, group.group, group.state], 1.0)
        for side, by_topic in (("source", group.source_lag), ("target", group.target_lag)):
            for topic, lag in by_topic.items():
                lags.add_metric([group.link, group.group, topic, side], float(lag))
    yield from (states, lags)
