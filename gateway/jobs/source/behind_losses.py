"""A partition's offset map in a job: no breakpoint is written while a loss is not told (`lost_records.py`)."""

from __future__ import annotations

from gateway.jobs.lost_records import Lost, TellLost
from gateway.mirror.partition.rules.translator import Planned
from gateway.mirror.partition.runner import OffsetEffects, PartitionRunner


class BehindLosses:
    """Implements `OffsetEffects` of one partition, by `offsets`. `tell`: takes the losses."""

    def __init__(self, offsets: OffsetEffects, tell: TellLost) -> None:
        self._offsets = offsets
        self._tell = tell
        self._untold = 0
        self._held: list[Planned] = []

    def lost(self, runner: PartitionRunner, lost: Lost) -> None:
        """Tell of a loss. What is to be written from now on waits until that is done."""
        self._untold += 1
        self._tell(lost, lambda: self._told(runner))

    def _told(self, runner: PartitionRunner) -> None:
        self._untold -= 1
        if self._untold:
            return
        held, self._held = self._held, []
        translator = runner.mirror.translator
        for planned in held:
            # After an unknown outcome all that was planned is planned anew: its batches were never sent.
            if translator is not None and planned.run == translator.run and not runner.mirror.ended:
                self._offsets.write_breakpoints(runner, planned)

    def write_breakpoints(self, runner: PartitionRunner, planned: Planned) -> None:
        """Once all losses are told."""
        if self._untold:
            self._held.append(planned)
        else:
            self._offsets.write_breakpoints(runner, planned)

    def decide_breakpoints(self, runner: PartitionRunner, log_end: int, run: int, lost: bool) -> None:
        """At once."""
        self._offsets.decide_breakpoints(runner, log_end, run, lost)

    def look_ahead(self, runner: PartitionRunner, offset: int, bound: int) -> None:
        """At once."""
        self._offsets.look_ahead(runner, offset, bound)
