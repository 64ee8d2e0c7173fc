"""What takes part in the demo of applications, and how much of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from demo.settings import ROOT

LINK: Final = "old"
MIGRATION: Final = "shop"

COUNTER, BOOKING, BILLING = "counter", "booking", "billing"
"""The groups, which are the applications' names."""
WORDS, COUNTS = "words", "counts"
CHANGELOG: Final = f"{COUNTER}-counts-changelog"
REPARTITION: Final = f"{COUNTER}-buckets-repartition"
PAYMENTS, BOOKED = "payments", "booked"
ORDERS, CLICKS = "orders", "clicks"

MADE: Final = (WORDS, COUNTS, PAYMENTS, BOOKED, ORDERS, CLICKS)
"""Topics that an operator creates; Streams makes its own two."""
JUDGED: Final = (*MADE, CHANGELOG)
"""A repartition topic is emptied by Streams as it goes, so nothing can be counted in it."""


class FoundSet(NamedTuple):
    """A set as discovery must find it."""

    topics: frozenset[str]
    groups: frozenset[str]
    together: bool


SETS: Final = (
    FoundSet(frozenset({WORDS, COUNTS, CHANGELOG, REPARTITION}), frozenset({COUNTER}), True),
    FoundSet(frozenset({PAYMENTS, BOOKED}), frozenset({BOOKING}), True),
    FoundSet(frozenset({ORDERS}), frozenset({BILLING}), False),
    FoundSet(frozenset({CLICKS}), frozenset(), False),
)
SINK_OF: Final[Mapping[str, str]] = {COUNTER: COUNTS, BOOKING: BOOKED}
"""What the applications write that change sides as one."""

CLUSTERS_S: Final = 240.0
STARTED_S: Final = 120.0  # a JVM on a busy machine
STOPPED_S: Final = 120.0
SILENT_S: Final = 90.0  # over a write pause, a restart of nobody, and a busy machine
STATES_S: Final = 180.0  # until what a command asked for shows
MOVED_S: Final = 300.0  # until a whole migration is where its file says
JARS_S: Final = 560.0  # Kafka Streams, by Maven, once


@dataclass(frozen=True, slots=True, kw_only=True)
class AppSettings:
    """One run. `rate` is records per second and producer, `traffic_s` seconds of traffic on each side of each cut."""

    partitions: int = 2
    rate: float = 50.0
    traffic_s: float = 5.0
    kafka: str = "4.3.1"
    keep_data: bool = False
    folder: Path = ROOT / "build" / "demo-app"
    report: Path = ROOT / "build" / "demo-app.json"
