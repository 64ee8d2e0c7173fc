"""The records of both clusters, side by side: the same sequence, byte for byte, up to where they part.

Records are told apart by their values, which are unique; never by what the product says of offsets. What stands on one
side only must stand where that side alone is, or was, written: behind the last cutover, or not mirrored yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gateway.state.records import MirrorMode, MirrorRecord, MirrorState
from tests.simulation.judge.findings import Findings
from tests.simulation.judge.state import LogRecord, Logs, side_of
from tests.simulation.recorder import SOURCE, TARGET, Recorder

Identity = tuple[bytes | None, ...]
_SHOWN: Final = 3
_LEVEL: Final = (MirrorState.ACTIVE, MirrorState.PENDING_STOPPED)


@dataclass(frozen=True, slots=True)
class Pair:
    """One partition on both clusters: data that a reader of committed records can see."""

    mirror: MirrorRecord
    partition: int
    source: Sequence[LogRecord]
    target: Sequence[LogRecord]
    source_start: int
    target_start: int

    @property
    def where(self) -> str:
        """Its name in findings."""
        return f"{self.mirror.mirror_topic}/{self.partition}"


def pair_of(mirror: MirrorRecord, partition: int, source: Logs, target: Logs) -> Pair:
    """Both logs from where they can be compared: what one of them has deleted at its head is left out of the other."""
    here, there = data(source, mirror.source_topic, partition), data(target, mirror.mirror_topic, partition)
    source_start = source.log_range(mirror.source_topic, partition)[0]
    target_start = target.log_range(mirror.mirror_topic, partition)[0]
    if not mirror.failback.reverse_starts and partition < len(mirror.starts):
        begin = mirror.starts[partition].source_start
        here = [record for record in here if record.offset >= begin]
    if target_start:
        here = _from(here, there, target_start, mirror.mode)
    if source_start:
        there = _from(there, here, source_start, mirror.mode)
    return Pair(mirror, partition, here, there, source_start, target_start)


def data(cluster: Logs, topic: str, partition: int) -> list[LogRecord]:
    """The committed records of a partition, without markers and what was aborted."""
    found = cluster.records(topic, partition, committed_only=True)
    return [record for record in found if not record.control and not record.aborted]


def identity(record: LogRecord) -> Identity:
    """By which a record is known on the other side."""
    return (record.value,) if record.value is not None else (None, record.key, str(record.timestamp).encode())


def places(records: Sequence[LogRecord]) -> dict[Identity, int]:
    """The first index of each."""
    found: dict[Identity, int] = {}
    for index, record in enumerate(records):
        found.setdefault(identity(record), index)
    return found


def common(pair: Pair) -> int:
    """How many records both have, from the beginning on."""
    count = 0
    for one, other in zip(pair.source, pair.target, strict=False):
        if identity(one) != identity(other):
            break
        count += 1
    return count


def compare(pair: Pair, findings: Findings, now: float, *, level: bool, failed_over: bool) -> None:
    """Judge one partition. `level`: everything is at rest, so the mirror has come to the end."""
    count = common(pair)
    _compare_bytes(pair, count, findings, now)
    if pair.mirror.compacted or _is_compacted(pair.mirror):
        _compare_compacted(pair, findings, now)
        return
    if pair.mirror.state is MirrorState.FAILED or pair.mirror.state is MirrorState.LINK_FAILED:
        return
    home = side_of(pair.mirror)
    if pair.mirror.state is MirrorState.STOPPED:
        _compare_cut(pair, count, findings, now, failed_over=failed_over)
        return
    origin, copy = (pair.source, pair.target) if home == SOURCE else (pair.target, pair.source)
    names = (SOURCE, TARGET) if home == SOURCE else (TARGET, SOURCE)
    _compare_tails(pair, origin[count:], copy[count:], names, findings, now)
    mirrors = pair.mirror.state in _LEVEL
    if level and mirrors and count < len(origin) and len(copy) == count:
        behind = len(origin) - count
        what = f"the mirror is {behind} records behind at rest, from {_shown(origin[count])} on"
        findings.add("stuck", pair.where, what, now)


def _compare_bytes(pair: Pair, count: int, findings: Findings, now: float) -> None:
    preserve = pair.mirror.mode is MirrorMode.PRESERVE
    for index in range(count):
        one, other = pair.source[index], pair.target[index]
        for name in ("key", "timestamp", "headers"):
            here, there = getattr(one, name), getattr(other, name)
            if (list(here) != list(there)) if name == "headers" else (here != there):
                what = f"{_shown(one)} has {name} {here!r} on the source, {there!r} on the target"
                findings.add("diverged", pair.where, what, now)
        if preserve and one.offset != other.offset:
            what = f"{_shown(one)} is at {other.offset} on the target; the topic preserves offsets"
            findings.add("diverged", pair.where, what, now)


def _compare_tails(
    pair: Pair,
    origin: Sequence[LogRecord],
    copy: Sequence[LogRecord],
    names: tuple[str, str],
    findings: Findings,
    now: float,
) -> None:
    """What comes behind the common part, while one side is mirrored to the other: the copy has nothing of its own."""
    if not copy:
        return
    at = places(origin)
    known = at.get(identity(copy[0]))
    if known is None:
        what = f"the copy on the {names[1]} holds {_shown(copy[0])}, which the {names[0]} does not have there"
        findings.add("diverged", pair.where, f"{what} ({len(copy)} records)", now)
    elif known == 0:
        return  # cannot be: it would be in the common part
    else:
        missing = ", ".join(_shown(record) for record in origin[: min(known, _SHOWN)])
        what = f"{known} records are missing on the {names[1]} before {_shown(copy[0])}: {missing} of the {names[0]}"
        findings.add("diverged", pair.where, what, now)


def _compare_cut(pair: Pair, count: int, findings: Findings, now: float, *, failed_over: bool) -> None:
    """At the cutover both held the same; what came later is a record after the cutover on the source, a write on the
    target."""
    mirror, index = pair.mirror, pair.partition
    if index >= len(mirror.cutover.stopped_at):
        return
    copy_cut = (mirror.cutover.stopped_copy_at or mirror.cutover.stopped_at)[index]
    if not failed_over:
        _inside(pair, pair.source, mirror.cutover.stopped_at[index], count, (SOURCE, TARGET), findings, now)
    _inside(pair, pair.target, copy_cut, count, (TARGET, SOURCE), findings, now)


def judge_stopped(pair: Pair, findings: Findings, now: float) -> None:
    """What a failover says of how far its mirror had come: to no less than what the copy holds."""
    mirror, index = pair.mirror, pair.partition
    if max(len(mirror.cutover.stopped_at), len(mirror.cutover.stopped_copy_at)) <= index:
        return
    stopped, end = (
        mirror.cutover.stopped_at[index],
        (mirror.cutover.stopped_copy_at or mirror.cutover.stopped_at)[index],
    )
    both = zip(pair.source, pair.target[: common(pair)], strict=False)
    beyond = [one for one, copied in both if copied.offset < end and one.offset >= stopped]
    if beyond:
        what = f"it is said to be mirrored to {stopped}, and {len(beyond)} records behind are on the copy"
        findings.add("wrong_offsets", pair.where, f"{what}, from {_shown(beyond[0])} on", now)


def judge_account(pair: Pair, alone: Sequence[LogRecord], recorder: Recorder, findings: Findings, now: float) -> None:
    """A failover that says how many records it leaves behind, in the source's own word, leaves out none of which a
    gateway told its client. `alone`: what only the source has."""
    cutover, index = pair.mirror.cutover, pair.partition
    if not cutover.source_answered or index >= len(cutover.not_mirrored):
        return
    end = cutover.stopped_at[index] + cutover.not_mirrored[index]
    behind = {_text(record): record for record in alone if record.offset >= end}
    for op in recorder.ops if behind else ():
        if op["f"] != "send" or op["type"] != "ok" or recorder.sides.get(op["process"]) != TARGET:
            continue
        told = [behind[part[2][1]] for part in op["value"] if part[1] == pair.where and part[2][1] in behind]
        if told:
            what = (
                f"the failover says that the source ends at {end}, and the client of {_shown(told[0])} has its answer"
            )
            findings.add("lost", pair.where, what, now)


def records_after_cutover(pair: Pair) -> list[tuple[LogRecord, LogRecord | None]]:
    """What was written on the source behind a cutover to the target, each with where the target has it, if it does."""
    mirror, index = pair.mirror, pair.partition
    if mirror.state is not MirrorState.STOPPED or index >= len(mirror.cutover.stopped_at):
        return []
    count = common(pair)
    written = places(pair.target[count:])
    found: list[tuple[LogRecord, LogRecord | None]] = []
    for record in pair.source[count:]:
        if record.offset >= mirror.cutover.stopped_at[index]:
            at = written.get(identity(record))
            found.append((record, None if at is None else pair.target[count + at]))
    return found


def _inside(
    pair: Pair,
    records: Sequence[LogRecord],
    cut: int,
    count: int,
    names: tuple[str, str],
    findings: Findings,
    now: float,
) -> None:
    """Every record before the cutover must be in the common part."""
    alone = [record for record in records[count:] if record.offset < cut]
    if alone:
        what = (
            f"{len(alone)} records before the cutover at {cut} are on the {names[0]} only, or in another order on the "
            f"{names[1]}, from {_shown(alone[0])} on"
        )
        findings.add("diverged", pair.where, what, now)


def _compare_compacted(pair: Pair, findings: Findings, now: float) -> None:
    """What both have is in one order, and the same."""
    here = places(pair.source)
    last = -1
    for record in pair.target:
        index = here.get(identity(record))
        if index is None:
            continue
        if index < last:
            findings.add("diverged", pair.where, f"{_shown(record)} is in another order on the target", now)
        last = index
        one = pair.source[index]
        if (one.key, one.timestamp, list(one.headers)) != (record.key, record.timestamp, list(record.headers)):
            findings.add("diverged", pair.where, f"{_shown(record)} is not the same on both clusters", now)


def compare_latest(pair: Pair, findings: Findings, now: float) -> None:
    """Of a compacted topic at rest: the last record of each key on the written side is the last one on the other."""
    home = side_of(pair.mirror)
    if pair.mirror.state not in _LEVEL:
        return
    origin, copy = (pair.source, pair.target) if home == SOURCE else (pair.target, pair.source)
    one, other = _latest(origin), _latest(copy)
    for key in sorted(one.keys() | other.keys()):
        here, there = one.get(key), other.get(key)
        if (here and identity(here)) != (there and identity(there)) and (here or there) is not None:
            if (here is None or here.value is None) and (there is None or there.value is None):
                continue  # a tombstone may be gone already
            what = f"key {key!r} ends as {_named(here)} where it is written, as {_named(there)} on the copy"
            findings.add("diverged", pair.where, what, now)


def _latest(records: Sequence[LogRecord]) -> Mapping[bytes, LogRecord]:
    return {record.key: record for record in records if record.key is not None}


def _is_compacted(mirror: MirrorRecord) -> bool:
    return "compact" in mirror.restore_configs.get("cleanup.policy", "")


def _from(records: list[LogRecord], others: Sequence[LogRecord], start: int, mode: MirrorMode) -> list[LogRecord]:
    """From the first record on that the other log has; by its log start when it has none any more."""
    if not others:
        return [record for record in records if mode is MirrorMode.PRESERVE and record.offset >= start]
    wanted = identity(others[0])
    index = next((i for i, record in enumerate(records) if identity(record) == wanted), 0)
    return records[index:]


def _text(record: LogRecord) -> str:
    return (record.value or b"").decode(errors="replace")


def _shown(record: LogRecord) -> str:
    value = "a tombstone" if record.value is None else repr(record.value.decode(errors="replace"))
    return f"{value} at {record.offset}"


def _named(record: LogRecord | None) -> str:
    return "nothing" if record is None else _shown(record)
