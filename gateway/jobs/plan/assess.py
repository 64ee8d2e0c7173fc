"""What becomes of each topic and group in a migration. Pure: an inventory in, a plan out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gateway.doctor.rules.rights import ALTER, DESCRIBE, NOT_TOLD, may, missing
from gateway.jobs.plan.facts import CopyRates, GroupFacts, Inventory, PlanFacts, TargetFacts
from gateway.kafka.groups import SHARE, STREAMS
from gateway.kafka.rules.topic_configs import ALWAYS_SYNCED, DEFAULT_SYNCED, OPTIONALLY_SYNCED, unmirrorable
from gateway.state.records import MirrorMode

POSSIBLE_TODAY: Final = frozenset({MirrorMode.PRESERVE, MirrorMode.TRANSLATE})
"""Modes that this version can mirror in."""

_SYNCED: Final = frozenset((*ALWAYS_SYNCED, *DEFAULT_SYNCED, *OPTIONALLY_SYNCED))
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400


class Fate(StrEnum):
    """PRESERVED: offsets stay equal. TRANSLATED: offsets change, through an exact map. REFUSED: not by this version."""

    PRESERVED = "preserved"
    TRANSLATED = "translated"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    """`reasons`: why not preserved. `notes`: what is changed on the way. `blockers`: what must be changed first.
    `left_behind`: own configs not copied."""

    topic: PlanFacts
    fate: Fate
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    blockers: tuple[str, ...] = ()
    left_behind: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAssessment:
    """`moves`: its offsets are carried over. `reason`: why not."""

    group: GroupFacts
    moves: bool
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationAssessment:
    """The outcome. `catch_up_s`: seconds until the copy reaches the tail at `rate` bytes a second, inf when it never
    does, None when the sizes or the rate are not known."""

    inventory: Inventory
    topics: tuple[TopicPlan, ...]
    groups: tuple[GroupAssessment, ...]
    rates: CopyRates
    catch_up_s: float | None

    @property
    def rate(self) -> float:
        """Bytes a second of all partitions together, 0 for not known."""
        return self.rates.total

    @property
    def blockers(self) -> tuple[str, ...]:
        """All of them, each with its topic."""
        found = [f"{one.topic.name}: {text}" for one in self.topics for text in one.blockers]
        if self._never and self.rates.asked_for:
            found.append("records are written faster than they can be copied: catch-up would never end")
        return tuple(found)

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know of the time, and of the room that the copy takes."""
        found = []
        moving = [one.topic for one in self.topics if one.fate is not Fate.REFUSED]
        written = sum(topic.bytes_per_s for topic in moving)
        if self._never and not self.rates.asked_for:
            found.append(
                f"{written / 1e6:.1f} MB/s are written, more than the {self.rate / 1e6:.1f} MB/s that were measured "
                "with so few readers: measure with more --streams, or give --rate"
            )
        found.extend(_on_rates(self.rates))
        target = self.inventory.target
        if target is not None and all(topic.bytes >= 0 for topic in moving):
            copied = sum(topic.bytes * min(topic.replication_factor, target.brokers) for topic in moving)
            found.append(f"the copy takes {copied / 1e9:.1f} GB on the target, with its replicas")
        if target is not None and target.on_cluster != NOT_TOLD and not may(target.on_cluster, DESCRIBE):
            found.append(f"this user lacks {DESCRIBE.name} on the target's cluster: {DESCRIBE.why}")
        return tuple(found)

    @property
    def _never(self) -> bool:
        return self.catch_up_s is not None and math.isinf(self.catch_up_s)


def _on_rates(rates: CopyRates) -> list[str]:
    if rates.asked_for or not rates.total:
        return []
    if not rates.written:
        unknown = "the rate is what one reader got from the source; how fast the target is written is not known: "
        return [unknown + "--measure-writes finds out, by a topic that it creates there and deletes again"]
    return [f"read at {rates.read / 1e6:.1f} MB/s, written at {rates.written / 1e6:.1f} MB/s: the slower one counts"]


def make_plan(inventory: Inventory, rates: CopyRates) -> MigrationAssessment:
    """The plan."""
    topics = tuple(plan_topic(topic, inventory.target) for topic in inventory.topics)
    moving = [one.topic for one in topics if one.fate is not Fate.REFUSED]
    names = {topic.name for topic in moving}
    return MigrationAssessment(
        inventory=inventory,
        topics=topics,
        groups=tuple(plan_group(group, names) for group in inventory.groups),
        rates=rates,
        catch_up_s=catch_up_s(moving, rates),
    )


def plan_topic(topic: PlanFacts, target: TargetFacts | None) -> TopicPlan:
    """What becomes of one topic."""
    reasons = _why_not_preserved(topic)
    mode = MirrorMode.TRANSLATE if reasons else MirrorMode.PRESERVE
    blockers = _on_target(topic, target) if target else []
    fate = Fate.TRANSLATED if reasons else Fate.PRESERVED
    if mode not in POSSIBLE_TODAY:
        fate = Fate.REFUSED
        blockers.append(f"this version cannot mirror it: {reasons[0]}")
    known = target.config_names if target else _SYNCED
    if topic.sample.unread:
        fate = Fate.REFUSED
        blockers.append(f"it cannot be read, so nothing is known of its records: {topic.sample.unread}")
    left = sorted(name for name in topic.own if name not in _SYNCED or name not in known)
    return TopicPlan(
        topic=topic,
        fate=fate,
        reasons=tuple(reasons),
        notes=(*_notes(topic), *_on_growth(topic, target)),
        blockers=tuple(blockers),
        left_behind=tuple(left),
    )


_OF_TYPE: Final[Mapping[str, tuple[str, ...]]] = {
    SHARE: ("records that it acknowledged out of order are delivered again",),
    STREAMS: ("when its repartition and changelog topics are mirrored, too",),
}


def plan_group(group: GroupFacts, moving: set[str]) -> GroupAssessment:
    """What becomes of one group."""
    if group.protocol_type not in ("consumer", "", SHARE, STREAMS):
        reason = f"its members speak the protocol {group.protocol_type!r}, not the consumers' own"
        return GroupAssessment(group=group, moves=False, reason=reason)
    if group.topics and not moving.intersection(group.topics):
        return GroupAssessment(group=group, moves=False, reason="none of its topics can be mirrored")
    left = sorted(set(group.topics) - moving)
    reasons = [f"offsets stay behind of: {', '.join(left)}"] if left else []
    return GroupAssessment(group=group, moves=True, reason="; ".join([*_OF_TYPE.get(group.type, ()), *reasons]))


def catch_up_s(topics: list[PlanFacts], rates: CopyRates) -> float | None:
    """Seconds to copy what is there and what is written meanwhile.

    A partition is copied in order, by one reader: the largest one takes its time however many there are.
    """
    rate = rates.total
    if rate <= 0 or any(topic.bytes < 0 for topic in topics):
        return None
    left = rate - sum(topic.bytes_per_s for topic in topics)
    total = sum(topic.bytes for topic in topics)
    if left <= 0 < total:
        return math.inf
    largest = max((topic.largest_bytes for topic in topics), default=0)
    alone = largest / rates.one if rates.one > 0 else 0.0
    return max(total / left, alone) if total else 0.0


def duration(seconds: float | None) -> str:
    """For people."""
    if seconds is None:
        return "not known"
    if math.isinf(seconds):
        return "never"
    for unit, size in (("d", _DAY_S), ("h", _HOUR_S), ("min", _MINUTE_S)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


def _why_not_preserved(topic: PlanFacts) -> list[str]:
    sample, reasons = topic.sample, []
    by_configs = unmirrorable(topic.configs)
    if by_configs:
        reasons.append(by_configs)
    if sample.transactional or sample.control:
        reasons.append("it is written by transactional producers: its log has markers, which leave gaps")
    if sample.with_gaps:
        reasons.append("its log has batches with gaps, as compaction leaves them")
    return reasons


def _notes(topic: PlanFacts) -> list[str]:
    found = _on_timestamps(topic)
    if topic.sample.old_format:
        found.append("records of format v0 or v1: the gateway writes them anew; Spark jobs do not read them")
    if topic.configs.get("remote.storage.enable") == "true":
        found.append(
            "remote.storage.enable: older records are in the source's tiered storage, which is read more slowly; "
            "a read that times out there is tried again, and never taken for the end of the log"
        )
    return found


def _on_timestamps(topic: PlanFacts) -> list[str]:
    if topic.configs.get("message.timestamp.type") == "LogAppendTime":
        return ["LogAppendTime: records keep the source's timestamps; the target stamps its own after the promote"]
    return []


def _on_growth(topic: PlanFacts, target: TargetFacts | None) -> list[str]:
    if target is None or may(target.operations.get(topic.name, -1), ALTER):
        return []
    return [f"this user lacks {ALTER.name} on the target's topic {target.prefix}{topic.name}: {ALTER.why}"]


def _on_target(topic: PlanFacts, target: TargetFacts) -> list[str]:
    blockers = []
    if target.topics.get(topic.name):
        records = target.topics[topic.name]
        blockers.append(f"the target has a topic {target.prefix}{topic.name} with {records} records")
    if topic.name in target.refused:
        blockers.append(f"the target's topic {target.prefix}{topic.name}: {target.refused[topic.name]}")
    if topic.name in target.operations:
        lacking = missing(target.operations[topic.name], topic.configs)
        blockers.extend(
            f"the target's topic {target.prefix}{topic.name}: this user lacks {right.name} on it: {right.why}"
            for right in lacking
        )
    in_sync = int(topic.configs.get("min.insync.replicas", "1"))
    if in_sync > target.brokers:
        blockers.append(f"min.insync.replicas is {in_sync}, the target has {target.brokers} broker(s)")
    return blockers
