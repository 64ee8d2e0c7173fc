"""Transactions on each cluster: all records of a committed one, or none; nothing of an aborted one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from tests.simulation.judge.findings import Findings
from tests.simulation.recorder import Op

Held = Mapping[str, Mapping[str, Collection[str]]]
"""Side -> key -> the records that a log holds."""


def judge_transactions(ops: Iterable[Op], held: Held, whole: Callable[[str, str], bool], findings: Findings) -> None:
    """Judge a history. `whole`: of a side and a key, whether everything that belongs there should be there."""
    begun: dict[tuple[str, int | None], Op] = {}
    for op in ops:
        if op["f"] != "txn":
            continue
        who = op["process"], op.get("id")
        if op["type"] == "invoke":
            begun[who] = op
        elif (first := begun.pop(who, None)) is not None:
            _judge_one(first, op["type"], held, whole, findings)
    for first in begun.values():
        _judge_one(first, "unknown", held, whole, findings)


def _judge_one(op: Op, end: str, held: Held, whole: Callable[[str, str], bool], findings: Findings) -> None:
    sent = [(part[1], part[2]) for part in op["value"] if part[0] == "send"]
    now = op["time"] / 1e9
    for side, logs in held.items():
        sure = [(key, value) for key, value in sent if key in logs and whole(side, key)]
        there = [(key, value) for key, value in sure if value in logs[key]]
        if not there:
            continue
        key, value = there[0]
        where = f"transaction of {op['process']} on the {side}"
        if end == "fail":
            findings.add("torn", where, f"{value!r} of {key} is there, and was aborted", now)
        elif len(there) < len(sure):
            key, value = next(each for each in sure if each not in there)
            what = f"{len(there)} of {len(sure)} records are there, {value!r} of {key} is not"
            findings.add("torn", where, what, now)
