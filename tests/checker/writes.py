"""Judges what became of the writes: lost, unseen, aborted yet read, sent in another order."""

from __future__ import annotations

from tests.checker.model import Model, Outcome, SideLog, Value, Write
from tests.checker.verdict import Findings


def judge_writes(model: Model, findings: Findings) -> None:
    """Lost writes, unseen ones, and reads of what was not written."""
    for key in sorted({*model.writes, *model.logs}):
        logs, writes = model.logs.get(key, {}), model.writes.get(key, {})
        for side, log in logs.items():
            _judge_reads(key, side, log, writes, findings)
        if not model.topic(key).compacted:
            _judge_acknowledged(model, key, logs, writes, findings)


def _judge_reads(key: str, side: str, log: SideLog, writes: dict[Value, Write], findings: Findings) -> None:
    for value, line in log.seen.items():
        write = writes.get(value)
        if write is None:
            findings.add("never-written", f"{value!r} of {key} on {side or 'the cluster'}, line {line}")
        elif write.outcome is Outcome.FAIL:
            findings.add("aborted-read", f"{value!r} of {key} was read, line {line}; it failed in line {write.ended}")
        elif line < write.invoked:
            findings.add("precommitted-read", f"{value!r} of {key} was read in line {line}, sent in {write.invoked}")


def _judge_acknowledged(
    model: Model, key: str, logs: dict[str, SideLog], writes: dict[Value, Write], findings: Findings
) -> None:
    home = model.home_of(key)
    if home is None:  # one of the two, nobody knows which: the one that was read further
        home = max(logs, key=lambda side: len(logs[side].seen), default="")
    log = logs.get(home) or SideLog()
    complete, others = log.complete, [other for side, other in logs.items() if side != home]
    top = max((log.offsets[value] for value in log.seen), default=-1)
    log_end_offsets = [max((o.offsets[v] for v in log.seen if v in o.offsets), default=-1) for o in others]
    seen, offsets, start = log.final if complete else log.seen, log.offsets, log.start
    for value, write in writes.items():
        if write.outcome is not Outcome.OK or value in seen or offsets.get(value, start) < start:
            continue
        behind = offsets.get(value, top + 1) <= top or any(
            other.offsets.get(value, highest + 1) <= highest
            for other, highest in zip(others, log_end_offsets, strict=True)
        )
        if complete or behind:
            why = "not in the final log" if complete else "records after it were read"
            where = f" of {home}" if home else ""
            findings.add("lost-write", f"{value!r} of {key}, acknowledged in line {write.ended}: {why}{where}")
        elif not any(value in other.seen for other in others):
            findings.add("unseen", f"{value!r} of {key}, acknowledged in line {write.ended}, was never read")


def judge_sends(model: Model, findings: Findings) -> None:
    """The order of each producer's records in each log, against the order in which it sent them."""
    for (process, key), values in model.sends.items():
        writes = model.writes[key]
        for log in model.logs.get(key, {}).values():
            offsets = log.offsets
            highest, last = -1, values[0]
            for value in values:
                offset = offsets.get(value, -1)
                if offset < 0:
                    continue
                if offset < highest:
                    name = (
                        "int-nonmonotonic-send"
                        if writes[value].invoked == writes[last].invoked
                        else "nonmonotonic-send"
                    )
                    findings.add(
                        name, f"{process} sent {last!r}, then {value!r} to {key}; offsets {highest}, then {offset}"
                    )
                else:
                    highest, last = offset, value
