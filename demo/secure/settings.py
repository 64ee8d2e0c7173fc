"""What takes part in the demo with everything on, and how much of it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from demo.settings import ROOT, Settings

BROKERS: Final = 3
FOLDER: Final = ROOT / "build" / "demo-secure"
REPORT: Final = ROOT / "build" / "demo-secure.json"


def secure_settings(*, folder: Path = FOLDER, report: Path = REPORT, keep_data: bool = False) -> Settings:
    """Three copies of each partition, two of them in sync, clients with certificates. Six brokers with TLS share the
    machine with everybody else, so there are few records."""
    return Settings(
        backlog=5_000,
        rate=60.0,
        partitions=6,
        replicas=BROKERS,
        tls=folder / "pki",
        folder=folder,
        report=report,
        keep_data=keep_data,
    )
