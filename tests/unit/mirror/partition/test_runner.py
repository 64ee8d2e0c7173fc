"""The runner of one partition: every command reaches who is meant, with what it says; its troubles stay its own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, get_args

import pytest

from gateway.mirror.partition.log_reader import LogBounds
from gateway.mirror.partition.rules.commands import (
    Command,
    DecideBreakpoints,
    DeleteRecords,
    Fail,
    LookAhead,
    PlanStart,
    Readable,
    ReadSourceLog,
    ReadTargetLog,
    RecordsLost,
    RefreshSource,
    WorkBeside,
    WriteBreakpoints,
)
from gateway.mirror.partition.rules.fetch_cursor import FetchCursor
from gateway.mirror.partition.rules.opened import Opened
from gateway.mirror.partition.rules.partition import PartitionMirror
from gateway.mirror.partition.rules.translator import PlannedBreakpoints
from gateway.mirror.partition.runner import PartitionRunner, execute
from gateway.state.records import MirrorError, PartitionStart
from tests.support.mirror.batches import make_batch


class Notes:
    """A shell that notes what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[object] = []
        self.failures: list[tuple[MirrorError, str]] = []
        self.positions: list[int] = []

    def read_target_log(self, runner: PartitionRunner, delay_s: float) -> None:
        self.asked.append(("target log", delay_s))

    def read_source_log(self, runner: PartitionRunner, delay_s: float) -> None:
        self.asked.append(("source log", delay_s))

    def plan_start(self, runner: PartitionRunner) -> None:
        self.asked.append("plan")

    def delete_records(self, runner: PartitionRunner, offset: int, delay_s: float) -> None:
        self.asked.append(("delete", offset, delay_s))

    def refresh_source(self) -> None:
        self.asked.append("refresh")

    def work_beside(self, runner: PartitionRunner, command: WorkBeside) -> None:
        self.asked.append(command)

    def readable(self, runner: PartitionRunner) -> None:
        self.asked.append("readable")

    def failed(self, runner: PartitionRunner, error: MirrorError, message: str) -> None:
        self.failures.append((error, message))

    def records_lost(self, runner: PartitionRunner, first: int, following: int) -> None:
        self.asked.append(("lost", first, following))

    def touched(self, runner: PartitionRunner) -> None:
        pass

    def advanced(self, runner: PartitionRunner, position: int) -> None:
        self.positions.append(position)


def made(start: PartitionStart = PartitionStart(0, 0)) -> tuple[PartitionRunner, Notes]:  # noqa: B008 - immutable
    notes = Notes()
    mirror = PartitionMirror(start, 2**50, wall_ms=lambda: 5_000)
    runner = PartitionRunner(("t", 3), "s", None, mirror, notes, clock=lambda: 0.0, wall_ms=lambda: 5_000)
    return runner, notes


def copying() -> tuple[PartitionRunner, Notes]:
    runner, notes = made()
    runner.begin()
    runner.target_bounds(LogBounds(0, 0, None))
    runner.source_bounds(LogBounds(0, 10, None))
    assert notes.asked == [("target log", 0.0), ("source log", 0.0), "readable"]
    return runner, notes


def test_a_copy_is_told_and_measured() -> None:
    runner, notes = copying()
    runner.fetched(memoryview(make_batch(0, 4, timestamp_ms=2_000)), 10, 0.0)
    assert runner.status().lag_ms == 3_000
    append = runner.take()
    assert append is not None
    runner.append_answered(0, 0, 0, "")
    assert notes.positions == [0, 4]
    status = runner.status()
    assert (status.partition, status.phase, status.source_end, status.mirrored_to, status.lag) == (
        3,
        "copying",
        10,
        4,
        6,
    )
    assert (status.records_total, status.bytes_total) == (4, len(make_batch(0, 4)))


def test_what_nobody_has_told_is_not_a_number() -> None:
    runner, _ = made()
    runner.begin()
    nothing = runner.status()
    assert (nothing.source_end, nothing.mirrored_to, nothing.lag, nothing.lag_ms) == (None, None, None, None)
    runner.target_bounds(LogBounds(0, 0, None))
    runner.source_bounds("no answer")  # what the target holds can be served without the source
    placed = runner.status()
    assert (placed.phase, placed.source_end, placed.mirrored_to, placed.lag) == ("copying", None, 0, None)
    runner.source_bounds(LogBounds(0, 10, None))
    assert (runner.status().source_end, runner.status().lag, runner.status().lag_ms) == (10, 10, None)


def test_trimming_is_asked_for() -> None:
    runner, notes = made(PartitionStart(5, 5))
    runner.begin()
    runner.target_bounds(LogBounds(0, 5, None))
    runner.source_bounds(LogBounds(5, 5, None))
    assert notes.asked[-1] == ("delete", 5, 0.0)
    runner.deleted("not now")
    assert notes.asked[-1] == ("delete", 5, 1.0)
    runner.deleted("")
    assert "readable" in notes.asked


def test_an_exception_fails_the_partition_and_nothing_else(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner, notes = copying()

    def broken(*_: object) -> None:
        raise ZeroDivisionError("a fault of ours")

    monkeypatch.setattr(FetchCursor, "read", broken)
    runner.fetched(memoryview(make_batch(0, 4)), 10, 0.0)
    assert notes.failures == [(MirrorError.INTERNAL_ERROR, "ZeroDivisionError: a fault of ours")]
    assert runner.status().phase == "failed"
    assert "a fault of ours" in caplog.text
    assert "Traceback" in caplog.text


def test_another_leader_gets_nothing_while_the_one_before_has_not_answered() -> None:
    appender: Any = SimpleNamespace(ready=lambda runner: None, discard=lambda runner: None, pump=lambda: None)
    other: Any = SimpleNamespace(**vars(appender))
    runner, _ = copying()
    runner.assign(appender)
    runner.fetched(memoryview(b"".join(make_batch(base, 1) for base in range(4))), 4, 0.0)
    assert runner.take()
    runner.append_answered(0, 0, 0, "")
    assert runner.take()
    runner.assign(other)
    assert runner.take() is None
    runner.append_answered(1, 0, 1, "")
    assert [runner.take() is not None, runner.take() is not None] == [True, False]


def test_stopping_waits_for_what_is_in_flight() -> None:
    runner, _ = copying()
    runner.fetched(memoryview(make_batch(0, 4)), 10, 0.0)
    assert runner.take() is not None
    quiet: list[bool] = []
    runner.stop(lambda: quiet.append(True))
    assert not quiet
    runner.append_answered(0, 0, 0, "")
    assert quiet == [True]


def test_stopping_when_nothing_is_in_flight() -> None:
    runner, _ = copying()
    quiet: list[bool] = []
    runner.stop(lambda: quiet.append(True))
    assert quiet == [True]


RUNNER: Any = SimpleNamespace(key=("t", 0))
PLANNED = PlannedBreakpoints((), 7, 1)
WORK = WorkBeside(lambda _terms: Opened(), (0, 0), lambda _now: ())
OF_THE_TOPIC: list[tuple[Command, tuple[object, ...]]] = [
    (ReadTargetLog(0.5), ("read_target_log", RUNNER, 0.5)),
    (ReadSourceLog(1.0), ("read_source_log", RUNNER, 1.0)),
    (PlanStart(), ("plan_start", RUNNER)),
    (DeleteRecords(5, 1.0), ("delete_records", RUNNER, 5, 1.0)),
    (RefreshSource(), ("refresh_source",)),
    (Readable(), ("readable", RUNNER)),
    (RecordsLost(3, 9), ("records_lost", RUNNER, 3, 9)),
    (Fail(MirrorError.OFFSET_GAP, "an offset gap"), ("failed", RUNNER, MirrorError.OFFSET_GAP, "an offset gap")),
    (WORK, ("work_beside", RUNNER, WORK)),
]
OF_THE_MAP: list[tuple[Command, tuple[object, ...]]] = [
    (DecideBreakpoints(40, 2), ("decide_breakpoints", RUNNER, 40, 2, False)),
    (DecideBreakpoints(40, 2, lost=True), ("decide_breakpoints", RUNNER, 40, 2, True)),
    (WriteBreakpoints(PLANNED), ("write_breakpoints", RUNNER, PLANNED)),
    (LookAhead(10, 20), ("look_ahead", RUNNER, 10, 20)),
]


class AnyNotes:
    """A shell that notes whatever it is asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[object, ...]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *args: self.asked.append((name, *args))


@pytest.mark.parametrize(("command", "asked"), OF_THE_TOPIC)
def test_a_command_reaches_the_topic(command: Command, asked: tuple[object, ...]) -> None:
    effects: Any = AnyNotes()
    execute(command, RUNNER, effects, None)
    assert effects.asked == [asked]


@pytest.mark.parametrize(("command", "asked"), OF_THE_MAP)
def test_a_command_reaches_the_map(command: Command, asked: tuple[object, ...]) -> None:
    effects: Any = AnyNotes()
    maps: Any = AnyNotes()
    execute(command, RUNNER, effects, maps)
    assert (effects.asked, maps.asked) == ([], [asked])
    with pytest.raises(TypeError, match="nobody to carry out"):
        execute(command, RUNNER, effects, None)


def test_no_command_is_left_out() -> None:
    assert {type(command) for command, _ in (*OF_THE_TOPIC, *OF_THE_MAP)} == set(get_args(Command))
