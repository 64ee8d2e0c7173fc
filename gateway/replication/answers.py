"""What comes back of the commands that `carry_out` gave to a partition's topic and link: inputs of its mirror."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial

from gateway.domain.partition import PartitionMirror
from gateway.domain.partition_commands import Commands
from gateway.domain.records import PartitionStart
from gateway.domain.translator import Planned
from gateway.replication.log_reader import LogBounds


class CommandAnswers(ABC):
    """A partition's inputs that answer its commands; `shells` says which answers which."""

    __slots__ = ()
    mirror: PartitionMirror
    _clock: Callable[[], float]

    @abstractmethod
    def pump(self) -> None:
        """Send what this partition has."""

    @abstractmethod
    def _do(self, step: Callable[..., Commands], *args: object) -> None:
        """Give an input to the mirror, and carry out what it asks for."""

    def target_bounds(self, found: LogBounds | str) -> None:
        """The target's log, or why it could not be read."""
        if isinstance(found, str):
            self._do(self.mirror.target_log_unknown, found)
        else:
            self._do(self.mirror.target_log, found.start, found.end, found.tail, self._clock())
        self.pump()

    def source_bounds(self, found: LogBounds | str) -> None:
        """The source's log, or why it could not be read."""
        if isinstance(found, str):
            self._do(self.mirror.source_log_unknown, found, self._clock())
        else:
            self._do(self.mirror.source_log, found.start, found.end, found.recent)
        self.pump()

    def start_planned(self, start: PartitionStart) -> None:
        """A new start."""
        self._do(self.mirror.start_planned, start)

    def deleted(self, error: str) -> None:
        """DeleteRecords went through (error is "") or not."""
        if error:
            self._do(self.mirror.delete_failed, error)
        else:
            self._do(self.mirror.records_deleted)

    def breakpoints_decided(self, log_end: int, run: int) -> None:
        """The ledger is up to the target's log end."""
        self._do(self.mirror.breakpoints_decided, log_end, run)
        self.pump()

    def breakpoints_written(self, planned: Planned) -> None:
        """They are durable."""
        self._do(self.mirror.breakpoints_written, planned)
        self.pump()

    def map_delayed(self, message: str) -> None:
        """The offset map cannot be read or written now."""
        if not self.mirror.ended:
            self.mirror.target.last_error = message

    def looked_ahead(self, offset: int, bound: int, following: int | None) -> None:
        """Where the source's next batch from an offset on is; None when it sent none."""
        self._do(partial(self.mirror.looked_ahead, following=following), offset, bound)
