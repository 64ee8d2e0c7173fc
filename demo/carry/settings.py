"""What takes part in the demo of what comes along with clients, and how much of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from demo.settings import ROOT

TOPIC: Final = "orders"
GROUP: Final = "billing"
SHARE_GROUP: Final = "packing"
AUDIT_GROUP: Final = "audit"
"""Of a reader that assigns partitions itself and commits nothing. It is let in once the source says that it has nothing
of the group, so the link needs DESCRIBE on it there."""
LINK: Final = "old"

STATES_S: Final = 180.0  # until what a command asked for shows
REGISTRY_UP_S: Final = 420.0
REGISTRY_FETCHED_S: Final = 560.0  # by Maven, once
SHARED_S: Final = 180.0  # a share group's partitions change hands slowly


@dataclass(frozen=True, slots=True, kw_only=True)
class CarrySettings:
    """One run. `rate` is records per second and producer, `traffic_s` seconds of traffic before and after the cut."""

    partitions: int = 3
    rate: float = 50.0
    traffic_s: float = 4.0
    kafka: str = "4.3.1"
    keep_data: bool = False
    folder: Path = ROOT / "build" / "demo-carry"
    report: Path = ROOT / "build" / "demo-carry.json"
