"""The history of a run: what producers know of their records, and the judgement of `tests.checker`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from tests.checker.clusters import judge_clusters
from tests.checker.collect import Collector
from tests.checker.model import HistoryError, Model
from tests.checker.reads import judge_polls
from tests.checker.verdict import Findings as CheckerFindings
from tests.checker.writes import judge_sends, judge_writes
from tests.simulation.judge.findings import OF_CHECKER, Findings
from tests.simulation.recorder import Op

_JUDGES: Final[Sequence[Callable[[Model, CheckerFindings], None]]] = (
    judge_writes,
    judge_sends,
    judge_polls,
    judge_clusters,
)
_LINE: Final = re.compile(r"\bline (\d+)")


class Write(NamedTuple):
    """A record as its producer knows it. Seconds; `told`: the offset of its acknowledgement."""

    invoked: float
    end: str = "unknown"
    told: int | None = None


def writes_of(ops: Iterable[Op], key: str) -> dict[str, Write]:
    """Every record that was sent to a partition."""
    found: dict[str, Write] = {}
    for op in ops:
        if op["f"] not in ("send", "txn"):
            continue
        for part in op["value"]:
            if part[0] != "send" or part[1] != key:
                continue
            if op["type"] == "invoke":
                found[part[2]] = Write(op["time"] / 1e9)
            elif op["type"] == "ok":
                offset, value = part[2]
                found[value] = found[value]._replace(end="ok", told=offset)
            else:
                found[part[2]] = found[part[2]]._replace(end=op["type"])
    return found


def judge_history(ops: Sequence[Op], findings: Findings, now: float) -> tuple[Mapping[str, int], int]:
    """Have the checker judge it. Returns its operations by outcome, and how many records were sent."""
    found = CheckerFindings()
    collector = Collector(found)
    line = 0
    try:
        for line, op in enumerate(ops, 1):
            collector.feed(op, line)
        collector.finish()
    except (HistoryError, KeyError, ValueError, TypeError, IndexError) as error:
        findings.add("broken", f"history, line {line}", repr(error), now)
        return {}, 0
    model = collector.model
    for judge in _JUDGES:
        judge(model, found)
    for name, count in found.counts.items():
        if count:
            findings.count(OF_CHECKER[name], count, f"{name}: {_with_times(found.examples[name][0], ops)}")
    return model.operations, sum(map(len, model.writes.values()))


def _with_times(example: str, ops: Sequence[Op]) -> str:
    """Line numbers with the virtual time at which they were written."""

    def dated(found: re.Match[str]) -> str:
        number = int(found[1])
        time = ops[number - 1]["time"] / 1e9 if 0 < number <= len(ops) else 0.0
        return f"{found[0]} [t={time:.3f}]"

    return _LINE.sub(dated, example)
