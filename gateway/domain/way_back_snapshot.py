"""What a way back is decided on, and the steps there are. Values only; `domain/way_back.py` decides."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from gateway.domain.records import MirrorRecord, MirrorState
from gateway.domain.routing import Phase

UNDER_WAY = (
    MirrorState.PENDING_SYNCHRONIZE,
    MirrorState.PENDING_MIRROR,
    MirrorState.PENDING_SETUP_FOR_RESTORE,
    MirrorState.PENDING_RESTORE_MIRROR,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OldSource:
    """The topic on the link's source, as it was read. `present` is False when there is none; `topic_id` may be "".

    `ends`: high watermarks. `tops`: the leaders' log ends, the high watermarks where these are not told. `ours[p]`: the
    partition's last batch was written by the mirror back. `unlike`: partitions in which the last batch from before the
    flip is another one than on the target; only looked for when a reverse asks.
    """

    present: bool = True
    topic_id: str = ""
    ends: tuple[int, ...] = ()
    tops: tuple[int, ...] = ()
    ours: tuple[bool, ...] = ()
    unlike: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WayBackSnapshot:
    """What one run knows. `source` is None before it was read, and after a step that changed it.

    `unreachable_s`: for how long the source has not answered. `prepared`: this run set the copy's configs.
    `running`: the engine has the mirror. `copying`: all its partitions are past padding. `gave_up`: why.
    """

    record: MirrorRecord
    phase: Phase
    source: OldSource | None = None
    unreachable_s: float = 0.0
    source_error: str = ""
    prepared: bool = False
    running: bool = False
    copying: bool = False
    gave_up: str = ""


class WayBackStepKind(StrEnum):
    """What to do next. WAIT and DONE do nothing."""

    WAIT = "wait"
    READ_SOURCE = "read_source"
    PREPARE = "prepare"
    RESTORE_CONFIGS = "restore_configs"
    SYNCHRONIZED = "synchronized"
    ABORT = "abort"
    KEEP = "keep"
    DELETE = "delete"
    CREATE = "create"
    RECREATED = "recreated"
    FAIL = "fail"
    START = "start"
    BEGIN = "begin"
    DONE = "done"


class WayBackStep(NamedTuple):
    """The next step; `reason` is for people: what is waited for, or why the way back ends."""

    kind: WayBackStepKind
    reason: str = ""


class WayBackViolated(Exception):
    """A way back is about to do what could lose records. Never expected."""
