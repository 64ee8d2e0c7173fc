"""The plan from end to end: inventory, the copy's rate, what becomes of everything, as JSON. Spark is not needed."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any, Final

from gateway.jobs.kafka import Loop
from gateway.jobs.plan.assess import Fate, MigrationAssessment, TopicPlan, duration, make_plan
from gateway.jobs.plan.facts import CopyRates, Inventory
from gateway.jobs.plan.gather import InventoryGatherer
from gateway.jobs.plan.sampling import read_rate
from gateway.jobs.plan.target_checks import write_rate
from gateway.kafka.cluster import Cluster
from gateway.version import VERSION

FORMAT: Final = "lockgate-plan/1"
MEASURE_S: Final = 3.0


def run_plan(
    source: Mapping[str, str],
    target: Mapping[str, str] | None,
    topics: Collection[str],
    *,
    rate: float = 0.0,
    streams: int = 1,
    measure_s: float = MEASURE_S,
    prefix: str = "",
    write: bool = False,
) -> MigrationAssessment:
    """Take the inventory and make the plan.

    Args:
        topics: all that are not internal when empty.
        rate: bytes a second of a catch-up, reading and writing; 0 to measure what one reader gets, times `streams`.
        streams: how many partitions will be copied at the same time.
        measure_s: how long to measure.
        prefix: of mirror topics' names on the target.
        write: measure how fast the target is written, too, by a topic that is created there and deleted again.

    Raises:
        ValueError: a topic that the source does not have.
        NetError: a cluster does not answer.
    """
    with Loop() as loop:
        here = loop.connect(source)
        there = loop.connect(target) if target else None
        inventory, ranges = loop.run(InventoryGatherer(here, prefix=prefix).inventory(topics, there))
        if rate <= 0:
            at_once = min(streams, max(1, len(ranges)))
            one = loop.run(read_rate(here, ranges, measure_s))
            rates = CopyRates(total=one * at_once, one=one, read=one * at_once)
            if write and there is not None:
                rates = loop.run(_with_writes(rates, there, inventory, at_once, measure_s))
        else:
            rates = CopyRates(total=rate, one=rate / streams, asked_for=True)
    return make_plan(inventory, rates)


async def _with_writes(
    rates: CopyRates, target: Cluster, inventory: Inventory, at_once: int, measure_s: float
) -> CopyRates:
    replicas = max((topic.replication_factor for topic in inventory.topics), default=1)
    one, written = await write_rate(target, measure_s, at_once, min(replicas, len(target.view.brokers)))
    total = min(rates.read, written) if rates.read else written
    return replace(rates, total=total, one=min(rates.one, one) if rates.one else one, written=written)


def to_dict(plan: MigrationAssessment) -> dict[str, Any]:
    """The plan as JSON."""
    inventory = plan.inventory
    seconds = plan.catch_up_s
    return {
        "format": FORMAT,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "lockgate": VERSION,
        "source": {"cluster_id": inventory.cluster_id, "brokers": inventory.brokers},
        "target": None
        if inventory.target is None
        else {"cluster_id": inventory.target.cluster_id, "brokers": inventory.target.brokers},
        "totals": {
            "topics": len(plan.topics),
            "partitions": sum(one.topic.partitions for one in plan.topics),
            "bytes": sum(max(0, one.topic.bytes) for one in plan.topics),
            "bytes_per_s": round(sum(one.topic.bytes_per_s for one in plan.topics)),
            **{str(fate): sum(one.fate is fate for one in plan.topics) for fate in Fate},
            "groups": len(plan.groups),
            "groups_moving": sum(one.moves for one in plan.groups),
        },
        "catch_up": {
            "bytes_per_s": round(plan.rate),
            "bytes_per_s_of_one_partition": round(plan.rates.one),
            "measured": not plan.rates.asked_for,
            "read_bytes_per_s": round(plan.rates.read),
            "written_bytes_per_s": round(plan.rates.written),
            "seconds": None if seconds is None or math.isinf(seconds) else round(seconds, 1),
            "words": duration(seconds),
        },
        "blockers": list(plan.blockers),
        "notes": list(plan.notes),
        "topics": [_topic(one) for one in plan.topics],
        "groups": [{**asdict(one.group), "moves": one.moves, "reason": one.reason} for one in plan.groups],
        "not_carried_over": {
            "acls": list(inventory.acls),
            "transactional_ids": list(inventory.transactional_ids),
            "configs": {one.topic.name: list(one.left_behind) for one in plan.topics if one.left_behind},
            "not_looked_at": [
                "rights on the target's groups, and on the gateway's own topics",
                "client quotas",
                "SCRAM credentials",
                "schema registries",
                "connectors",
            ],
        },
        "untold": list(inventory.untold),
    }


def _topic(one: TopicPlan) -> dict[str, Any]:
    topic = one.topic
    return {
        "name": topic.name,
        "fate": str(one.fate),
        "reasons": list(one.reasons),
        "notes": list(one.notes),
        "blockers": list(one.blockers),
        "partitions": topic.partitions,
        "replication_factor": topic.replication_factor,
        "bytes": topic.bytes,
        "bytes_of_largest_partition": topic.largest_bytes,
        "offsets": topic.offsets,
        "offsets_per_s": round(topic.offsets_per_s, 3),
        "bytes_per_s": round(topic.bytes_per_s),
        "left_behind": list(one.left_behind),
        "sample": {**asdict(topic.sample), "codecs": sorted(topic.sample.codecs)},
    }
