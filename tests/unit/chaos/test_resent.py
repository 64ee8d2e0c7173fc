"""What a log has twice: a record that its producer sent again under a new epoch, or a duplicate."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.chaos.resent import as_line, resent
from tests.checker.check import check
from tests.support.mirror.batches import make_batch

AGAIN = [[0, "a"], [1, "b"], [2, "a"]]


def line(f: str, value: object, kind: str = "ok", process: str = "control") -> str:
    return json.dumps({"type": kind, "process": process, "f": f, "time": 0, "value": value}) + "\n"


def history() -> list[str]:
    sent = [["send", "t/0", "a"]]
    return [
        line("setup", {"topics": {"t": {}}}),
        line("open", {"side": "source"}, "ok", "p"),
        line("send", sent, "invoke", "p"),
        line("send", [["send", "t/0", [2, "a"]]], "ok", "p"),
        line("send", [["send", "t/0", "b"]], "invoke", "q"),
        line("log", {"side": "source", "key": "t/0", "start": 0, "end": 3, "records": AGAIN}),
    ]


def segment(folder: Path, stamps: list[tuple[int, int]]) -> Path:
    partition = folder / "t-0"
    partition.mkdir()
    batches = [make_batch(at, 1, producer_id=pid, epoch=epoch, sequence=0) for at, (pid, epoch) in enumerate(stamps)]
    (partition / "00000000000000000000.log").write_bytes(b"".join(batches))
    return folder


@pytest.mark.parametrize(
    ("stamps", "found"),
    [
        ([(7, 0), (8, 0), (7, 1)], {"t/0": ["a"]}),
        ([(7, 0), (8, 0), (7, 0)], {}),  # appended twice
        ([(7, 1), (8, 0), (7, 0)], {}),
        ([(7, 0), (8, 0), (9, 1)], {}),
        ([(-1, -1), (8, 0), (-1, -1)], {}),
    ],
)
def test_only_a_new_epoch_of_one_producer_makes_it_a_resend(tmp_path, stamps, found) -> None:
    assert resent(history(), {"source": segment(tmp_path, stamps)}) == found


def test_the_checker_lets_a_resend_pass_and_nothing_else() -> None:
    lines = history()
    assert list(check(lines).faults()) == ["duplicate", "inconsistent-offsets"]
    lines[1:1] = [as_line({"t/0": ["a"]})]
    assert not check(lines).faults()
    lines[1:2] = [as_line({"t/0": ["b"]})]
    assert list(check(lines).faults()) == ["duplicate", "inconsistent-offsets"]
