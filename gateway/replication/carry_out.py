"""Carries out what a partition's mirror asks for: a command is a call of the partition's topic, or of its link.

Nothing here waits: reads of logs, DeleteRecords and the like run as tasks, and come back as inputs of the runner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.domain.partition_commands import (
    Command,
    DecideBreakpoints,
    DeleteRecords,
    Fail,
    LookAhead,
    PlanStart,
    ReadSourceLog,
    ReadTargetLog,
    RecordsLost,
    RefreshSource,
    Settled,
    WriteBreakpoints,
)
from gateway.replication.shells import OffsetShell, Shell

if TYPE_CHECKING:
    from gateway.replication.runner import PartitionRunner


def carry_out(command: Command, runner: PartitionRunner, shell: Shell, offsets: OffsetShell | None) -> None:
    """One command of the runner's mirror. Raises TypeError for one of an offset map when there is no such shell."""
    match command:
        case ReadTargetLog(delay_s):
            shell.read_target_log(runner, delay_s)
        case ReadSourceLog(delay_s):
            shell.read_source_log(runner, delay_s)
        case RefreshSource():
            shell.refresh_source()
        case Settled():
            shell.settled(runner)
        case DeleteRecords(offset, delay_s):
            shell.delete_records(runner, offset, delay_s)
        case RecordsLost(first, following):
            shell.records_lost(runner, first, following)
        case PlanStart():
            shell.plan_start(runner)
        case Fail(error, message):
            shell.failed(runner, error, message)
        case _:
            _carry_out_for_map(command, runner, offsets)


def _carry_out_for_map(command: Command, runner: PartitionRunner, offsets: OffsetShell | None) -> None:
    if offsets is None:
        raise TypeError(f"nobody to carry out {command}")
    match command:
        case DecideBreakpoints(log_end, run):
            offsets.decide_breakpoints(runner, log_end, run)
        case WriteBreakpoints(planned):
            offsets.write_breakpoints(runner, planned)
        case LookAhead(offset, bound):
            offsets.look_ahead(runner, offset, bound)
