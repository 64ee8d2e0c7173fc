"""What one run of a failover has learnt and done so far. No I/O; it is lost with the process.

Separate from the runner, so that the exhaustive tests exercise the very object that the runner uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gateway.cutover.failover.rules.snapshot import CopyEnd, FailoverSnapshot, KnownProducers, SourceReading
from gateway.cutover.write_pause.rules.routing import WritePhase
from gateway.cutover.write_pause.rules.routing_build import written_on_target
from gateway.state.records import MirrorRecord


class FailoverMemory:
    """The memory of one run over one topic; `began`: its first record. Attributes are as in FailoverSnapshot."""

    def __init__(self, began: MirrorRecord) -> None:
        self.on_target = written_on_target(began)
        self.source: SourceReading | None = None
        self.last: SourceReading | None = None
        self.warming_since: float | None = None
        self.paused_since: float | None = None
        self.stopped = False
        self.producers: KnownProducers | None = None
        self.copy: tuple[CopyEnd | None, ...] | None = None
        self.reading_since: float | None = None
        self.copy_error = ""
        self.storing_since: float | None = None
        self.committing = False
        self.gave_up = ""
        self.taken_back = self.released = self.restored = self.told = False
        self._paused: frozenset[str] = frozenset()
        self._drained: frozenset[str] = frozenset()

    def source_read(self, reading: SourceReading, now: float) -> None:
        """The source's ends were read, before the pause or under it."""
        if self.paused_since is not None:
            self.last = reading
            return
        self.source = reading
        self.warming_since = now

    def pause_began(self, now: float) -> None:
        """This gateway's writes pause."""
        if self.paused_since is None:
            self.paused_since = now

    def paused(self, gateways: Iterable[str]) -> None:
        """These gateways have confirmed that their writes pause."""
        self._paused |= frozenset(gateways)

    def drained(self, gateways: Iterable[str]) -> None:
        """These gateways have no write in flight any more, or drop its answer."""
        self._drained |= frozenset(gateways)

    def mirror_stopped(self, producers: KnownProducers | None) -> None:
        """Nothing appends to the copy any more. `producers`: the mirror's, right before."""
        self.stopped, self.producers = True, producers

    def copy_read(self, found: Sequence[CopyEnd | None] | None, error: str, now: float) -> None:
        """The copy's ends were read; None: it did not answer, because of `error`."""
        if self.reading_since is None:
            self.reading_since = now
        self.copy, self.copy_error = None if found is None else tuple(found), error

    def storing(self, now: float) -> None:
        """The cutover is being stored; until the outcome is known, nothing may rely on it."""
        if self.storing_since is None:
            self.storing_since = now
        self.committing = True

    def known(self) -> None:
        """The outcome is known: the present record is the stored one."""
        self.committing = False

    def give_up(self, reason: str) -> None:
        """Remember the first reason; from now on the run only takes back."""
        self.gave_up = self.gave_up or reason

    def reading(self) -> SourceReading:
        """The source's log ends by which the cutover's record counts: the highest ever seen.

        `answered`: under the pause, so that no acknowledged record is beyond them.
        """
        readings = [each.ends for each in (self.source, self.last) if each is not None]
        highest = (max((end for end in ends if end is not None), default=None) for ends in zip(*readings, strict=True))
        return SourceReading(tuple(highest), self.last is not None and self.last.answered)

    def snapshot(
        self,
        now: float,
        record: MirrorRecord,
        phase: WritePhase,
        gateways: frozenset[str],
        cold: tuple[int, ...] = (),
        earliest_stop: float = 0.0,
    ) -> FailoverSnapshot:
        """The present snapshot."""
        return FailoverSnapshot(
            now=now,
            record=record,
            phase=phase,
            gateways=gateways,
            on_target=self.on_target,
            source=self.source,
            last=self.last,
            cold=cold,
            warming_since=self.warming_since,
            paused_since=self.paused_since,
            paused=self._paused,
            drained=self._drained,
            stopped=self.stopped,
            producers=self.producers,
            copy=self.copy,
            reading_since=self.reading_since,
            copy_error=self.copy_error,
            storing_since=self.storing_since,
            committing=self.committing,
            earliest_stop=earliest_stop,
            gave_up=self.gave_up,
            taken_back=self.taken_back,
            released=self.released,
            restored=self.restored,
            told=self.told,
        )
