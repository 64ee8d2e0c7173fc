"""The numbers of the Spark demo, and how long it waits for anything."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from demo.records import VALUE_BYTES
from demo.settings import ROOT

TOPIC: Final = "history"
LINK: Final = "old"
PARTITIONS: Final = 6
WORKERS: Final = 2
FAULTS: Final = ("none", "duplicate", "group")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One run.

    Attributes:
        backlog_mb: megabytes of record values that are there before the job begins.
        rate: records a second of each of the two live producers.
        groups: consumer groups whose offsets are translated.
        seed: where the groups stand.
        copy_s: about how long a whole copy is made to take, so that there is time to kill things in the middle.
        fault: spoil something on the target before the judgement, which must then be a FAIL.
    """

    backlog_mb: int = 2000
    rate: float = 300.0
    groups: int = 50
    seed: int = 1
    copy_s: float = 60.0
    fault: str = "none"
    source_kafka: str = "3.9.1"
    target_kafka: str = "4.3.1"
    folder: Path = ROOT / "build" / "demo-spark"
    report: Path = ROOT / "build" / "demo-spark.json"

    @property
    def backlog(self) -> int:
        """Records of the backlog."""
        return max(1000, self.backlog_mb * 1_000_000 // VALUE_BYTES)

    @property
    def throttle(self) -> int:
        """Bytes a second of the catch-up job."""
        return max(1_000_000, int(self.backlog_mb * 1e6 / self.copy_s))


BACKLOG_WRITTEN_S: Final = 300.0
WRITER_STOPPED_S: Final = 60.0
GATEWAY_UP_S: Final = 120.0
JOB_STARTED_S: Final = 400.0
JOB_PROGRESS_S: Final = 400.0
JOB_DONE_S: Final = 900.0
LEASE_OVER_S: Final = 120.0
LEVEL_S: Final = 180.0
READ_BACK_S: Final = 400.0
LIVE_AFTER_S: Final = 5.0
