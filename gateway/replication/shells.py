"""What a partition's runner needs of its topic and link. Answers come back as the runner's inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from gateway.domain.records import MirrorError
from gateway.domain.translator import Planned

if TYPE_CHECKING:
    from gateway.replication.runner import PartitionRunner


class Shell(Protocol):
    """What a partition needs of its topic and link. Answers come back as the runner's inputs."""

    def read_target_log(self, runner: PartitionRunner, delay_s: float) -> None:
        """→ `target_bounds`."""

    def read_source_log(self, runner: PartitionRunner, delay_s: float) -> None:
        """→ `source_bounds`."""

    def plan_start(self, runner: PartitionRunner) -> None:
        """→ `start_planned`."""

    def delete_records(self, runner: PartitionRunner, offset: int, delay_s: float) -> None:
        """→ `deleted`."""

    def refresh_source(self) -> None:
        """The source's metadata is stale."""

    def settled(self, runner: PartitionRunner) -> None:
        """The partition may be read."""

    def failed(self, runner: PartitionRunner, error: MirrorError, message: str) -> None:
        """The partition has stopped for good."""

    def records_lost(self, runner: PartitionRunner, first: int, following: int) -> None:
        """The source deleted its offsets `first` .. `following`-1 before they were mirrored; the mirror goes on."""

    def advanced(self, runner: PartitionRunner, position: int) -> None:
        """Everything below `position` (source offset) is on the target."""


class OffsetShell(Protocol):
    """What a partition with an offset map needs besides. Each goes on trying until it has an answer."""

    def decide_breakpoints(self, runner: PartitionRunner, log_end: int, run: int) -> None:
        """→ `breakpoints_decided`; `map_delayed` with each failure."""

    def write_breakpoints(self, runner: PartitionRunner, planned: Planned) -> None:
        """→ `breakpoints_written`; `map_delayed` with each failure."""

    def look_ahead(self, runner: PartitionRunner, offset: int, bound: int) -> None:
        """→ `looked_ahead`, or nothing when it cannot be told now."""
