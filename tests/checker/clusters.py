"""Judges one cluster's log against the other's: the same records in the same order, written on one side at a time."""

from __future__ import annotations

from itertools import combinations

from tests.checker.model import NEVER, Model, Outcome, SideLog, Value, Write
from tests.checker.verdict import Findings


def judge_clusters(model: Model, findings: Findings) -> None:
    """Every key, side against side."""
    for key, logs in model.logs.items():
        for one, other in combinations(sorted(logs), 2):
            _judge_order(key, (one, logs[one]), (other, logs[other]), findings)
            if model.topic(key).preserve:
                _judge_offsets(key, (one, logs[one]), (other, logs[other]), findings)
            if logs[one].complete and logs[other].complete and not model.topic(key).compacted:
                _judge_gaps(key, (one, logs[one]), (other, logs[other]), findings)
                _judge_sides(model, key, one, other, findings)
        if (periods := model.mirrored.get(key)) is not None:
            _judge_level(model, key, *periods, findings)


Side = tuple[str, SideLog]


def _judge_order(key: str, one: Side, other: Side, findings: Findings) -> None:
    """Records that both have, in the order of the one: their offsets on the other must rise."""
    offsets, values = other[1].offsets, one[1].values
    highest, last = -1, None
    for at in one[1].order:
        offset = offsets.get(values[at])
        if offset is None or one[1].offsets[values[at]] != at:  # a repeat is a duplicate, nothing else
            continue
        if offset < highest:
            order = f"{last!r} before {values[at]!r} on {one[0]}, behind it on {other[0]}"
            findings.add("divergence", f"{key}: {order} (offset {at} there, {offset} here)")
        else:
            highest, last = offset, values[at]


def _judge_offsets(key: str, one: Side, other: Side, findings: Findings) -> None:
    for value, offset in one[1].offsets.items():
        there = other[1].offsets.get(value, offset)
        if there != offset:
            where = f"at offset {offset} on {one[0]}, at {there} on {other[0]}"
            findings.add("inconsistent-offsets", f"{value!r} of {key} {where}; the topic preserves offsets")


def _judge_gaps(key: str, one: Side, other: Side, findings: Findings) -> None:
    """What one log has between two records of both, the other must have too."""
    for (here, log), (there, against) in ((one, other), (other, one)):
        waiting: list[Value] = []
        common = False
        for at in log.order:
            value = log.values[at]
            if log.offsets[value] != at:  # a repeat, which says nothing of what came between
                continue
            if value in against.final:
                for missing in waiting if common else ():
                    findings.add("divergence", f"{key}: {missing!r} is on {here}, and missing in the middle of {there}")
                common, waiting = True, []
            elif value in log.final:
                waiting.append(value)


def _judge_level(model: Model, key: str, origin: str, copy: str, findings: Findings) -> None:
    """A mirror that says at the end that it has everything: its first and its last records are there, too.

    What is missing between two records of both is a gap in any case.
    """
    logs = model.logs[key]
    if origin not in logs or copy not in logs or model.topic(key).compacted:
        return
    one, other = logs[origin], logs[copy]
    if not (one.complete and other.complete):
        return
    missing: list[Value] = []
    common = False
    for value in (one.values[at] for at in one.order if one.values[at] in one.final):
        if value not in other.final:
            missing.append(value)
        elif common or other.start > 0:  # a gap; or retention may have deleted the copy's first records
            common, missing = True, []
        else:
            common = True
            _not_there(key, (origin, copy), missing, findings)
            missing = []
    _not_there(key, (origin, copy), missing, findings)


def _not_there(key: str, period: tuple[str, str], missing: list[Value], findings: Findings) -> None:
    origin, copy = period
    for value in missing:
        where = f"is on {origin}, and missing on {copy}, which was a level mirror of it at the end"
        findings.add("divergence", f"{key}: {value!r} {where}")


def _judge_sides(model: Model, key: str, one: str, other: str, findings: Findings) -> None:
    """Where a record is on one side only, that side must be where the partition was written then."""
    logs, writes = model.logs[key], model.writes.get(key, {})
    only = {
        side: [value for value in logs[side].seen if value in logs[side].final and value not in logs[against].final]
        for side, against in ((one, other), (other, one))
    }
    stray = {
        side: [v for v in values if not _may_be_alone(model, key, side, writes.get(v))] for side, values in only.items()
    }
    if only[one] and only[other] and not any(stray.values()):
        away = other if model.home_of(key) == one else one
        stray[away] = only[away]
    for side, values in stray.items():
        for value in values:
            findings.add(
                "split-write", f"{value!r} of {key} was written on {side} only, where {key} was not written then"
            )


def _may_be_alone(model: Model, key: str, side: str, write: Write | None) -> bool:
    """True when the partition was written on `side` at some time of the write's life, as far as is known."""
    if write is None or not model.migrates:
        return True
    ended = write.ended if write.outcome is Outcome.OK else NEVER  # a write without an answer may land later
    home, since = model.home, 0
    for cutover in model.cutovers.get(key, ()):
        # Until the cutover's end the old side may be written, from its beginning on the new one may be.
        if home == side and since <= ended and write.invoked <= cutover.ended:
            return True
        home, since = cutover.to, cutover.invoked
        if cutover.ended == NEVER:
            return True
    return home == side and since <= ended
