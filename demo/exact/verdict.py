"""What the exact demo must show, judged from the two clusters' logs and what the clients logged.

After the failback every record is on both clusters again, so both are judged: nothing acknowledged is missing,
nothing is there twice, the order is the same, nothing of an aborted transaction can be seen. On a compacted topic a
record may also be gone because a later one with its key is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from demo.checker import LogRecord, TopicLog
from demo.checker.logs import Finding, locate, name, show
from demo.exact.cast import group_of, topic_of
from demo.exact.settings import ORDERS, PROFILES, TOPICS
from demo.history import History
from demo.records import RecordId, key_of

Logs = Mapping[str, TopicLog]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactVerdict:
    """Counts of each fault; `examples` name the first few cases in words."""

    acknowledged: int
    aborted: int
    lost: int
    duplicated: int
    reordered: int
    aborted_seen: int
    offsets_exact: bool
    errors: tuple[str, ...]
    round_trip: bool
    examples: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """True when nothing is wrong, and something was done."""
        faults = self.lost + self.duplicated + self.reordered + self.aborted_seen + len(self.errors)
        return not faults and self.offsets_exact and self.round_trip and self.acknowledged > 0 and self.aborted > 0

    @property
    def counts(self) -> str:
        """For the last line."""
        return (
            f"lost={self.lost} duplicated={self.duplicated} reordered={self.reordered}"
            f" aborted_seen={self.aborted_seen} offsets_exact={str(self.offsets_exact).lower()}"
            f" client_errors={len(self.errors)} round_trip={str(self.round_trip).lower()}"
        )


def judge_logs(
    history: History,
    source: Logs,
    target: Logs,
    copied: Logs,
    *,
    served: Mapping[str, Mapping[str, int]],
    failed_back: bool,
) -> ExactVerdict:
    """Judge a run.

    Args:
        source, target: the logs at the end, as a consumer with read_committed sees them.
        copied: the target's logs while everything in them was the mirror's, as read_uncommitted sees them.
        served: per act, what each producer had acknowledged at its end, without a restart in between.
        failed_back: every mirror runs from source to target again.
    """
    lost, duplicated, reordered, aborted, inexact = Finding(), Finding(), Finding(), Finding(), Finding()
    for cluster, logs in (("source", source), ("target", target)):
        _find_lost(history, logs, cluster, lost)
        for topic in TOPICS:
            _, again = locate(logs[topic])
            _merge(duplicated, again)
    for topic in TOPICS:
        _find_differences(topic, source[topic], target[topic], reordered, inexact)
        _find_reads(history, topic, target[topic], inexact, duplicated)
    _find_aborted(history, [*source.values(), *target.values(), *copied.values()], aborted)
    return ExactVerdict(
        acknowledged=sum(len(acks) for acks in history.acks.values()),
        aborted=sum(len(numbers) for ranges in history.aborted.values() for numbers in ranges),
        lost=lost.count,
        duplicated=duplicated.count,
        reordered=reordered.count,
        aborted_seen=aborted.count,
        offsets_exact=inexact.count == 0,
        errors=tuple(f"{error.client}: {error.message}" for error in history.errors),
        round_trip=failed_back and _all_went_on(served),
        examples=tuple(e for f in (lost, duplicated, reordered, aborted, inexact) for e in f.examples),
    )


def _find_lost(history: History, logs: Logs, cluster: str, lost: Finding) -> None:
    """Acknowledged records that are not there; on the compacted topic: nor superseded."""
    newest = {p: {key_of(r.id.seq): r.offset for r in records} for p, records in logs[PROFILES].partitions.items()}
    found = {topic: {record.id for _, record in logs[topic].records()} for topic in TOPICS}
    for producer, acks in history.acks.items():
        topic = topic_of(producer)
        for ack in acks:
            record = RecordId(producer, ack.seq)
            if record in found[topic]:
                continue
            superseded = topic == PROFILES and key_of(ack.seq) in newest.get(ack.partition, {})
            if not superseded:
                lost.add(f"lost: {name(record)} of {topic} is not on the {cluster}")


def _find_differences(topic: str, source: TopicLog, target: TopicLog, reordered: Finding, inexact: Finding) -> None:
    """The same records in the same order with the same content, and for the plain topic at the same offsets."""
    for partition, ours in source.partitions.items():
        theirs = target.partitions.get(partition, [])
        common = {record.id for record in ours} & {record.id for record in theirs}
        pairs = zip(_of(ours, common), _of(theirs, common), strict=False)  # duplicates are counted elsewhere
        for one, other in pairs:
            if one.id != other.id:
                reordered.add(f"reordered: {topic}/{partition}: source {show(one)}, target {show(other)}")
                break
            if one.digest != other.digest or (topic == ORDERS and one.offset != other.offset):
                inexact.add(f"differs: {topic}/{partition}: source {show(one)}, target {show(other)}")
        if topic != PROFILES and len(common) != max(len(ours), len(theirs)):
            inexact.add(f"differs: {topic}/{partition}: {len(ours)} on the source, {len(theirs)} on the target")


def _find_reads(history: History, topic: str, target: TopicLog, inexact: Finding, duplicated: Finding) -> None:
    """A group's offsets were carried exactly when it read each record once, whichever cluster it read it on."""
    group = group_of(topic)
    seen: set[RecordId] = set()
    for batch in history.reads.get(group, []):
        for record in batch.ids:
            if record in seen:
                inexact.add(f"{group}: read {name(record)} again, by {batch.member}")
            seen.add(record)
    for partition, found in target.records():
        if found.id not in seen:
            inexact.add(f"{group}: never read {name(found.id)} at {partition}/{found.offset}")


def _find_aborted(history: History, logs: Iterable[TopicLog], aborted: Finding) -> None:
    """Records of aborted transactions where somebody can see them."""
    gone = {
        RecordId(producer, seq) for producer, ranges in history.aborted.items() for numbers in ranges for seq in numbers
    }
    for log in logs:
        for partition, found in log.records():
            if found.id in gone:
                aborted.add(f"aborted: {name(found.id)} at {partition}/{found.offset}")
    for group, batches in history.reads.items():
        for batch in batches:
            for record in gone.intersection(batch.ids):
                aborted.add(f"aborted: {name(record)} was read by {group}")


def _all_went_on(served: Mapping[str, Mapping[str, int]]) -> bool:
    """Every producer was acknowledged more in each act than in the one before (a restart begins at 0)."""
    acts = list(served.values())
    return len(acts) >= 4 and all(
        later[producer] > count for earlier, later in pairwise(acts) for producer, count in earlier.items()
    )


def _of(records: Iterable[LogRecord], wanted: set[RecordId]) -> Iterator[LogRecord]:
    return (record for record in records if record.id in wanted)


def _merge(into: Finding, other: Finding) -> None:
    into.count += other.count
    into.examples += other.examples
