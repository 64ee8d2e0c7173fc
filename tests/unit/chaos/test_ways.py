"""The judge of topologies: nothing is said of what is well, and of each fault one thing."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.chaos.ways import Place, Way, judge_ways
from tests.support.brokers.logs import Log, Record

HERE: Place = ("source", "t")
THERE: Place = ("target", "t")
FAR: Place = ("third", "t")
CHAIN = Way((HERE, THERE, FAR))
COPY = Way((HERE, FAR), to_the_end=False)


def log(*values: str) -> Log:
    return [Record(at, None, value.encode(), (1, 1), ()) for at, value in enumerate(values)]


def acknowledged(*values: str, at: int = 0) -> list[str]:
    sends = [
        {"type": "ok", "process": value.partition(":")[0], "f": "send", "value": [["send", "t/0", [at + i, value]]]}
        for i, value in enumerate(values)
    ]
    return [json.dumps(op) for op in ({"type": "invoke", "process": "w", "f": "send", "value": []}, *sends)]


def whole() -> dict[Place, Log]:
    return {HERE: log("w:0"), THERE: log("w:0", "w:1"), FAR: log("w:0", "w:1", "w:2")}


def test_all_is_well() -> None:
    assert judge_ways([CHAIN], acknowledged("w:0", "w:1", "w:2"), whole()) == []
    assert judge_ways([COPY], [], {HERE: log("w:0"), FAR: log("w:0")}) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda logs: logs[THERE].pop(), "lost: w:2"),
        (lambda logs: logs[HERE].append(log("x:0", "x:0")[1]), "t on source is not the beginning of t on target"),
        (lambda logs: logs[FAR].append(Record(3, None, b"w:0", (1, 1), ())), "duplicated: w:0"),
        (lambda logs: logs[FAR].append(Record(3, None, b"w:1", (1, 1), ())), "reordered: records of w"),
        (lambda logs: logs[FAR].insert(2, Record(2, None, b"v:9", (1, 1), ())), ""),
    ],
)
def test_what_is_wrong_is_told(change: Callable[[dict[Place, Log]], object], said: str) -> None:
    logs = whole()
    change(logs)
    found = judge_ways([CHAIN], acknowledged("w:0", "w:1", "w:2"), logs)
    if said.startswith("lost"):
        logs[FAR].pop()
        found = judge_ways([CHAIN], acknowledged("w:0", "w:1", "w:2"), logs)
    assert any(said in each for each in found) == bool(said), found


def test_an_offset_that_was_told_and_is_another_one() -> None:
    found = judge_ways([CHAIN], acknowledged("w:1", at=7), whole())
    assert found == ["moved: w:1 was acknowledged at 7, and is at (('third', 't'), 1)"]


def test_a_copy_that_is_not_whole() -> None:
    (found,) = judge_ways([COPY], [], {HERE: log("w:0", "w:1"), FAR: log("w:0")})
    assert "lengths 2 and 1" in found
