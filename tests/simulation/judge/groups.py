"""The committed offsets of promoted groups: each points at the first record that the group had not consumed."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from gateway.domain.records import CarriedOffset, GroupRecord
from tests.simulation.judge.findings import Findings
from tests.simulation.judge.logs import Pair, identity, places
from tests.simulation.judge.state import LogRecord

Pairs = Mapping[tuple[str, int], Pair]
"""By mirror topic and partition."""


def judge_carried(group: GroupRecord, pairs: Pairs, findings: Findings, now: float) -> None:
    """What a promote carried over, by the records that are there."""
    for carried in group.offsets:
        pair = pairs.get((carried.topic, carried.partition))
        if pair is not None and not pair.mirror.compacted:
            _judge_one(group.group, carried, pair, findings, now)


def judge_source(
    group: GroupRecord, pairs: Pairs, committed: Mapping[tuple[str, int], int], findings: Findings, now: float
) -> None:
    """At the moment of a promote: what was carried is what the group had committed on the source, all of it."""
    carried = {(each.topic, each.partition): each.source_offset for each in group.offsets}
    for key, pair in sorted(pairs.items()):
        on_source = committed.get((pair.mirror.source_topic, pair.partition))
        if on_source is not None and carried.get(key) != on_source:
            what = f"the group committed {on_source} on the source, {carried.get(key, 'nothing')} was carried over"
            findings.add("wrong_offsets", f"group {group.group}, {pair.where}", what, now)


def _judge_one(group: str, carried: CarriedOffset, pair: Pair, findings: Findings, now: float) -> None:
    where = f"group {group}, {pair.where}"
    if carried.target_offset < pair.target_start or carried.source_offset < pair.source_start:
        return  # retention has taken what it pointed at
    source, target = pair.source, pair.target
    next_source = bisect_left([record.offset for record in source], carried.source_offset)
    at = places(target)
    offsets = [record.offset for record in target]
    begins = bisect_left(offsets, carried.target_offset)
    expected = at.get(identity(source[next_source])) if next_source < len(source) else None
    if expected is None:  # everything that both have was consumed
        consumed = [at[identity(record)] for record in source[:next_source] if identity(record) in at]
        expected_least, expected_most = max(consumed, default=-1) + 1, _first_alone(source, target, next_source)
    else:
        expected_least = expected_most = expected
    what = f"offset {carried.source_offset} was carried over as {carried.target_offset}"
    if begins < expected_least:
        again = _shown(target[begins])
        findings.add("wrong_offsets", where, f"{what}: {expected_least - begins} records again, from {again} on", now)
    elif begins > expected_most:
        left_out = _shown(target[expected_most])
        findings.add(
            "wrong_offsets", where, f"{what}: {begins - expected_most} records left out, from {left_out} on", now
        )


def _first_alone(source: Sequence[LogRecord], target: Sequence[LogRecord], consumed: int) -> int:
    """The first index on the target of a record that is not among the consumed ones."""
    known = {identity(record) for record in source[:consumed]}
    return next((i for i, record in enumerate(target) if identity(record) not in known), len(target))


def _shown(record: LogRecord) -> str:
    value = "a tombstone" if record.value is None else repr(record.value.decode(errors="replace"))
    return f"{value} at {record.offset}"
