"""What takes part in the demo with everything on, and how much of it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from demo.checker import Limits
from demo.settings import ROOT, Settings

BROKERS: Final = 3
FOLDER: Final = ROOT / "build" / "demo-secure"
REPORT: Final = ROOT / "build" / "demo-secure.json"
LIMITS: Final = Limits(promote_gap_ms=10_000, group_switch_ms=60_000)
"""Six brokers with TLS share the machine with everybody else: this demo is about who may do what, the plain one about
time. For the same reason there are few records."""


def secure_settings(*, folder: Path = FOLDER, report: Path = REPORT, keep_data: bool = False) -> Settings:
    """Three copies of each partition, two of them in sync, clients with certificates."""
    return Settings(
        backlog=5_000,
        rate=60.0,
        partitions=6,
        replicas=BROKERS,
        tls=folder / "pki",
        limits=LIMITS,
        folder=folder,
        report=report,
        keep_data=keep_data,
    )
