"""Every command of a partition's mirror reaches the shell that is meant, with what it says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, get_args

import pytest

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
from gateway.domain.records import MirrorError
from gateway.domain.translator import Planned
from gateway.replication.carry_out import carry_out

RUNNER: Any = SimpleNamespace(key=("t", 0))
PLANNED = Planned((), 7, 1)
OF_THE_SHELL: list[tuple[Command, tuple[object, ...]]] = [
    (ReadTargetLog(0.5), ("read_target_log", RUNNER, 0.5)),
    (ReadSourceLog(1.0), ("read_source_log", RUNNER, 1.0)),
    (PlanStart(), ("plan_start", RUNNER)),
    (DeleteRecords(5, 1.0), ("delete_records", RUNNER, 5, 1.0)),
    (RefreshSource(), ("refresh_source",)),
    (Settled(), ("settled", RUNNER)),
    (RecordsLost(3, 9), ("records_lost", RUNNER, 3, 9)),
    (Fail(MirrorError.OFFSET_GAP, "a hole"), ("failed", RUNNER, MirrorError.OFFSET_GAP, "a hole")),
]
OF_THE_MAP: list[tuple[Command, tuple[object, ...]]] = [
    (DecideBreakpoints(40, 2), ("decide_breakpoints", RUNNER, 40, 2)),
    (WriteBreakpoints(PLANNED), ("write_breakpoints", RUNNER, PLANNED)),
    (LookAhead(10, 20), ("look_ahead", RUNNER, 10, 20)),
]


class Notes:
    """A shell that notes whatever it is asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[object, ...]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *args: self.asked.append((name, *args))


@pytest.mark.parametrize(("command", "asked"), OF_THE_SHELL)
def test_of_the_shell(command: Command, asked: tuple[object, ...]) -> None:
    shell: Any = Notes()
    carry_out(command, RUNNER, shell, None)
    assert shell.asked == [asked]


@pytest.mark.parametrize(("command", "asked"), OF_THE_MAP)
def test_of_the_map(command: Command, asked: tuple[object, ...]) -> None:
    shell: Any = Notes()
    maps: Any = Notes()
    carry_out(command, RUNNER, shell, maps)
    assert (shell.asked, maps.asked) == ([], [asked])
    with pytest.raises(TypeError, match="nobody to carry out"):
        carry_out(command, RUNNER, shell, None)


def test_none_is_left_out() -> None:
    assert {type(command) for command, _ in (*OF_THE_SHELL, *OF_THE_MAP)} == set(get_args(Command))
