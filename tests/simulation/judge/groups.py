"""The committed offsets of promoted groups: each points at the first record that the group had not consumed."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Final

from gateway.groups.promote import MARK_S
from gateway.state.records import CarriedOffset, GroupRecord, GroupState, MirrorRecord, MirrorState
from tests.simulation.fleet.looks import Look
from tests.simulation.judge.findings import Findings
from tests.simulation.judge.logs import Pair, data, identity, places
from tests.simulation.judge.state import LogRecord, Logs
from tests.simulation.recorder import SOURCE, Op

Pairs = Mapping[tuple[str, int], Pair]
"""By mirror topic and partition."""
Committed = Mapping[tuple[str, int], int]
"""What a group has committed on the source, by the source's topic and partition."""
_AS_OF: Final = re.compile(r"offsets as the source had them (\d+) s before")
_ROUNDED_S: Final = 1.0
_UNSEEN_S: Final = 0.15
"""From the last look at the members to when the record may have been stored (its move's `invoke`), where nobody tells
of that look: a commit.
"""


def last_look(since: float, told: Look | None) -> float:
    """Behind which nobody who came could be seen by a promote, in seconds.

    When its record can be read says nothing: while a replica of the state topic is gone that is seconds after it was
    stored.

    Args:
        since: when the promote's record was not stored yet.
        told: by the promote. One that ended more than MARK_S before may not be gone by any more.
    """
    if told is None:
        return since - _UNSEEN_S
    return told.began if told.ended >= since - MARK_S else since - MARK_S


def judge_carried(group: GroupRecord, pairs: Pairs, findings: Findings, now: float) -> None:
    """What a promote carried over, by the records that are there."""
    for carried in group.offsets:
        pair = pairs.get((carried.topic, carried.partition))
        if pair is not None and not pair.mirror.compacted:
            _judge_one(group.group, carried, pair, findings, now)


def judge_source(
    group: GroupRecord, pairs: Pairs, committed: Committed, unseen: Committed | None, findings: Findings, now: float
) -> None:
    """At the moment of a promote: what was carried is what the group had committed on the source, all of it.

    Args:
        unseen: what it had committed before a member came that the promote could not see (`came_unseen`), if one did.
            What that one commits is its owner's affair, as what it reads (`members_after_promote`).
    """
    carried = {(each.topic, each.partition): each.source_offset for each in group.offsets}
    for key, pair in sorted(pairs.items()):
        place = pair.mirror.source_topic, pair.partition
        on_source = committed.get(place)
        if unseen is not None and carried.get(key) == unseen.get(place):
            continue
        if on_source is not None and carried.get(key) != on_source:
            what = f"the group committed {on_source} on the source, {carried.get(key, 'nothing')} was carried over"
            findings.add("wrong_offsets", f"group {group.group}, {pair.where}", what, now)


def judge_failed_over(
    group: GroupRecord, mirrors: Iterable[MirrorRecord], target: Logs, findings: Findings, now: float
) -> None:
    """Of topics that were failed over: what clients have written since, the group has not read."""
    stopped = {
        each.mirror_topic: each for each in mirrors if each.state is MirrorState.STOPPED and each.cutover.not_mirrored
    }
    for carried in group.offsets:
        mirror = stopped.get(carried.topic)
        if mirror is None:
            continue
        end = (mirror.cutover.stopped_copy_at or mirror.cutover.stopped_at)[carried.partition]
        since = [
            record
            for record in data(target, carried.topic, carried.partition)
            if end <= record.offset < carried.target_offset
        ]
        if since:
            what = f"carried over to {carried.target_offset}, the copy ended at {end}"
            where = f"group {group.group}, {carried.topic}/{carried.partition}"
            findings.add("wrong_offsets", where, f"{what}: {len(since)} records left out, from {_shown(since[0])}", now)


def failed_over(group: GroupRecord) -> bool:
    """It goes on from what was known of it: what it has read since, it reads again."""
    return group.state is GroupState.PROMOTED and group.note.startswith("failed over:")


def goes_on_at(group: GroupRecord, mirrors: Iterable[MirrorRecord], target: Logs) -> dict[str, int]:
    """Key -> where a group that was failed over goes on: where it is told to, at the beginning where it is not."""
    known = {(each.topic, each.partition): each.target_offset for each in group.offsets}
    return {
        f"{mirror.mirror_topic}/{index}": known.get(
            (mirror.mirror_topic, index), target.log_range(mirror.mirror_topic, index)[0]
        )
        for mirror in mirrors
        if mirror.link == group.link and mirror.mirror_topic in target.topic_names()
        for index in range(len(mirror.starts))
    }


def judge_known(
    group: GroupRecord, ops: Iterable[Op], sides: Mapping[str, str], findings: Findings, now: float
) -> None:
    """What a failover says that it knew of a group is as new as it says, in its note.

    A demote sets the source's offsets to the target's: what was committed on the source before it is gone.
    """
    said = _AS_OF.search(group.note)
    if said is None:
        return
    until = now - int(said.group(1)) - _ROUNDED_S
    groups: dict[str, str] = {}
    committed: dict[str, int] = {}
    for op in ops:
        if op["f"] == "open":
            groups[op["process"]] = op["value"].get("group") or ""
            continue
        if op["f"] == "move" and op["value"]["group"] == group.group and op["value"]["to"] == SOURCE:
            committed.clear()
        ours = groups.get(op["process"]) == group.source_name and sides.get(op["process"]) == SOURCE
        if ours and op["f"] == "commit" and op["type"] == "ok" and op["time"] / 1e9 <= until:
            committed.update(op["value"])
    for each in group.offsets:
        key = f"{each.topic}/{each.partition}"
        if each.source_offset < committed.get(key, 0):
            what = f"failed over with {each.source_offset}, {committed[key]} was committed long before: {group.note}"
            findings.add("wrong_offsets", f"group {group.group}, {key}", what, now)


def members_after_promote(
    ops: Iterable[Op], sides: Mapping[str, str], last_looks: Mapping[str, float]
) -> dict[str, float]:
    """Processes that joined a group on the source when it was promoted already, or behind the last look at it; until
    when each of them is one, in seconds.

    Nobody can keep them from that; the product tells of them, and what they read there is their owner's affair.

    Args:
        last_looks: by the process of the promote's move, see `last_look`.
    """
    groups: dict[str, str] = {}
    promoted: dict[str, float] = {}  # group -> since when, where it reads on the target
    joined: dict[str, tuple[str, float]] = {}  # process -> its group, and when, on the source
    late = dict[str, float]()
    for op in ops:
        who, now = op["process"], op["time"] / 1e9
        if op["f"] == "open":
            groups[who] = op["value"].get("group") or ""
        elif op["f"] == "move":
            group = op["value"]["group"]
            if op["value"]["to"] == SOURCE:
                promoted.pop(group, None)  # whoever comes once it may be given back is none
                if op["type"] != "ok":
                    continue
                theirs = (each for each, (its, _) in joined.items() if its == group and late.get(each) == inf)
                late.update(dict.fromkeys(theirs, now))  # from now on the group is theirs
                continue
            if op["type"] != "ok":
                continue
            promoted[group] = now
            looked = last_looks.get(who, now)
            just_now = (each for each, (its, at) in joined.items() if its == group and at > looked)
            late.update(dict.fromkeys(just_now, inf))
        elif op["f"] == "assign" and sides.get(who) == SOURCE and who not in joined:
            joined[who] = groups.get(who, ""), now
            if groups.get(who) in promoted:
                late[who] = inf
    return late


def came_unseen(group: str, ops: Iterable[Op], sides: Mapping[str, str], looked: float) -> float:
    """When the first member of those came to a group on the source that a promote had no look at any more.

    Seconds; inf when none did. `looked`: see `last_look`.
    """
    joined: dict[str, float] = {}  # process -> when; inf while it has not
    for op in ops:
        who = op["process"]
        if op["f"] == "open" and op["value"].get("group") == group and sides.get(who) == SOURCE:
            joined[who] = inf
        elif op["f"] == "assign" and joined.get(who) == inf:
            joined[who] = op["time"] / 1e9
    return min((at for at in joined.values() if at > looked), default=inf)


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
