"""The sizes of a run, and how long it waits for anything."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.process import ROOT

PARTITIONS: Final = 6
LINK: Final = "bench-spark"
SMALL: Final = "jobs-small"
"""A topic with next to nothing in it: what a job costs that has nothing to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One run. `size_mb`: megabytes of record values per round; `big_rounds`: rounds with batches of 1 MB.

    `master`: one slot, since both brokers are on the machine too. On two cores a second task only takes from them, and
    halves the batches that a Produce request carries.
    """

    size_mb: int = 4000
    rounds: int = 3
    big_rounds: int = 1
    master: str = "local[1]"
    folder: Path = ROOT / "build" / "bench-spark"
    report: Path = ROOT / "build" / "bench-spark.json"


COPIED_S: Final = 900.0
FIRST_S: Final = 180.0
JOB_S: Final = 900.0
