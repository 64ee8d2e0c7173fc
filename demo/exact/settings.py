"""What takes part in the exact demo, and how much of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from demo.settings import ROOT

ORDERS, PAYMENTS, PROFILES = "orders", "payments", "profiles"
TOPICS = (ORDERS, PAYMENTS, PROFILES)
"""A plain topic, one that is written in transactions, a compacted one."""

COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": str(1024 * 1024),
    "min.cleanable.dirty.ratio": "0.01",
    "segment.ms": "60000",
}
BROKER_PROPERTIES = {"log.cleaner.backoff.ms": "1000"}

STATES_S = 180.0  # until a mirror topic is in the state that a command asked for
COMPACTED_S = 240.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactSettings:
    """One run. `backlog` is records per topic, `rate` records per second and producer, `traffic_s` seconds of traffic
    on each side of each cut."""

    link: str = "old"
    partitions: int = 3
    backlog: int = 20_000
    rate: float = 200.0
    traffic_s: float = 5.0
    source_kafka: str = "3.9.1"
    target_kafka: str = "4.3.1"
    keep_data: bool = False
    folder: Path = ROOT / "build" / "demo-exact"
    report: Path = ROOT / "build" / "demo-exact.json"
