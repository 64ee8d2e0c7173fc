"""What one partition's mirror asks its shell to do. The shell does it and reports back by the input named.

`delay_s` is how long to wait first, in seconds. Appends are not commands: the shell pulls them with
`PartitionMirror.take`, so that it can put one batch of each of several partitions into one request.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gateway.mirror.partition.rules.opened import Opened, OpeningTerms
from gateway.mirror.partition.rules.translator import PlannedBreakpoints
from gateway.state.records import MirrorError


@dataclass(frozen=True, slots=True)
class ReadTargetLog:
    """Read log start and end of the target partition (ListOffsets -2 and -1) → `target_log`."""

    delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ReadSourceLog:
    """Read log start and end of the source partition → `source_log`, or `source_log_unknown`."""

    delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class PlanStart:
    """Find the start of the source log anew, with the batch that holds it → `start_planned`."""


@dataclass(frozen=True, slots=True)
class DeleteRecords:
    """Move the target's log start to `offset` → `records_deleted`, or `delete_failed`."""

    offset: int
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class RefreshSource:
    """The source's metadata is stale, or tells more than the error did: refresh it soon."""


@dataclass(frozen=True, slots=True)
class Readable:
    """The partition is padded and trimmed: it may be read."""


@dataclass(frozen=True, slots=True)
class DecideBreakpoints:
    """Bring the ledger up to the target's log end `log_end` (`mirror/offset_map/topic.py`) → `breakpoints_decided`.

    `lost`: the target has lost what was beyond `log_end`, and the map must say so first.
    """

    log_end: int
    run: int
    lost: bool = False


@dataclass(frozen=True, slots=True)
class WriteBreakpoints:
    """Make breakpoints durable → `breakpoints_written`. The shell goes on trying until they are."""

    planned: PlannedBreakpoints


@dataclass(frozen=True, slots=True)
class LookAhead:
    """Find out where the source's next batch from `offset` on is → `looked_ahead`. Its log goes up to `bound`."""

    offset: int
    bound: int


@dataclass(frozen=True, slots=True)
class WorkBeside:
    """Do `work` in a thread → `worked`. It is about the rest of a fetch answer. `at`: where reading stands."""

    work: Callable[[OpeningTerms], Opened]
    at: tuple[int, int]
    again: Callable[[float], Commands]  # take that answer once more; called with the time


@dataclass(frozen=True, slots=True)
class RecordsLost:
    """The source deleted what it had at source offsets `first` .. `following`-1; the mirror goes on behind it."""

    first: int
    following: int


@dataclass(frozen=True, slots=True)
class Fail:
    """The partition cannot be mirrored exactly and has stopped for good."""

    error: MirrorError
    message: str


Command = (
    ReadTargetLog
    | ReadSourceLog
    | PlanStart
    | DeleteRecords
    | RefreshSource
    | Readable
    | DecideBreakpoints
    | WriteBreakpoints
    | LookAhead
    | WorkBeside
    | RecordsLost
    | Fail
)
Commands = tuple[Command, ...]

NOTHING: Commands = ()
