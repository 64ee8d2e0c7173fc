"""The demo's numbers: what it moves, how fast, and how long it waits for anything."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from demo.checker import Limits

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One run. `rate` is records per second over all live producers; `direct` leaves the gateway out; `tls` is a folder
    with a certificate for each client, if they come by TLS."""

    topic: str = "orders"
    link: str = "old"
    partitions: int = 6
    backlog: int = 200_000
    rate: float = 2_000.0
    traffic_after_kill_s: float = 10.0
    source_kafka: str = "3.9.1"
    target_kafka: str = "4.3.1"
    direct: bool = False
    keep_data: bool = False
    limits: Limits = field(default_factory=Limits)
    replicas: int = 1
    tls: Path | None = None
    folder: Path = ROOT / "build" / "demo"
    report: Path = ROOT / "build" / "demo.json"


# Deadlines of conditions. How long something takes is told, and decides nothing: the machine does other work, too.
CLUSTER_UP_S = 180.0
BACKLOG_WRITTEN_S = 240.0
CLIENT_STARTED_S = 120.0
CLIENT_STOPPED_S = 120.0
GROUP_CAUGHT_UP_S = 180.0
GATEWAY_UP_S = 120.0
COMMAND_S = 120.0
BACKLOG_COPIED_S = 240.0
GROUP_PROMOTED_S = 180.0
TOPIC_PROMOTED_S = 180.0
READ_BACK_S = 300.0  # all records through Python, on a machine that others use too
SILENCE_S = 90.0  # a live producer without any acknowledgement for so long has failed, on a busy machine too
