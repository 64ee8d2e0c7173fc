"""The inputs and steps of a failback's decisions. Values only; `cutover/failback/rules/failback.py` decides."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from gateway.cutover.write_pause.rules.routing import WritePhase
from gateway.state.records import MirrorRecord
from gateway.state.step import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class FailbackDestination:
    """The topic on the link's source, as read. `present` is False when there is none; `topic_id` may be "".

    `ends`: high watermarks. `log_end_offsets`: the leaders' log ends, or high watermarks where those are not reported.
    `ours[p]`: the mirror back wrote the partition's last batch. `unlike`: partitions whose last batch before the
    cutover differs from the target's; None: not compared, so the logs may not be taken for alike.
    """

    present: bool = True
    topic_id: str = ""
    ends: tuple[int, ...] = ()
    log_end_offsets: tuple[int, ...] = ()
    ours: tuple[bool, ...] = ()
    unlike: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailbackSnapshot:
    """What one run knows. `source` is None until it is read, and after a step that changed it.

    `unreachable_s`: how long the source has not answered. `prepared`: this run set the copy's configs. `running`: the
    engine runs the mirror. `copying`: all its partitions are past padding. `gave_up`: why the run was given up, or ''.
    """

    record: MirrorRecord
    phase: WritePhase
    source: FailbackDestination | None = None
    unreachable_s: float = 0.0
    source_error: str = ""
    prepared: bool = False
    running: bool = False
    copying: bool = False
    gave_up: str = ""


class FailbackStepKind(StrEnum):
    """The next step. WAIT and DONE do nothing."""

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


FailbackStep: TypeAlias = Step[FailbackStepKind]


class FailbackViolated(Exception):
    """A failback is about to take a step that could lose records. Never expected."""
