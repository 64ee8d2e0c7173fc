"""The commands of one partition's mirror to its shell. The shell reports each result by the input named after →.

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
    """Find the present start of the source log and the batch that holds it → `start_planned`."""


@dataclass(frozen=True, slots=True)
class DeleteRecords:
    """Move the target's log start to `offset` → `records_deleted`, or `delete_failed`."""

    offset: int
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class RefreshSource:
    """Refresh the source's metadata soon: it is stale, or will tell more than the error did."""


@dataclass(frozen=True, slots=True)
class Readable:
    """The partition is padded and trimmed: clients may read it."""


@dataclass(frozen=True, slots=True)
class DecideBreakpoints:
    """Bring the ledger up to the target's log end `log_end` (`mirror/offset_map/topic.py`) → `breakpoints_decided`.

    `lost`: the target has lost the records beyond `log_end`, and the map must say so first.
    """

    log_end: int
    run: int
    lost: bool = False


@dataclass(frozen=True, slots=True)
class WriteBreakpoints:
    """Make breakpoints durable → `breakpoints_written`. The shell retries until they are."""

    planned: PlannedBreakpoints


@dataclass(frozen=True, slots=True)
class LookAhead:
    """Find the source's next batch at or beyond `offset` → `looked_ahead`. The source's log ends at `bound`."""

    offset: int
    bound: int


@dataclass(frozen=True, slots=True)
class WorkBeside:
    """Do `work`, the rest of a fetch answer, in a thread → `worked`. `at`: (position, fetch offset) of the cursor."""

    work: Callable[[OpeningTerms], Opened]
    at: tuple[int, int]
    again: Callable[[float], Commands]  # reads that answer again; called with the time


@dataclass(frozen=True, slots=True)
class RecordsLost:
    """The source deleted its offsets `first` .. `following`-1 before they were mirrored; the mirror skips them."""

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
