"""What becomes of each topic and group in a migration. Pure: an inventory in, a plan out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gateway.domain.records import MirrorMode
from gateway.domain.topic_configs import ALWAYS_SYNCED, DEFAULT_SYNCED, OPTIONALLY_SYNCED, unmirrorable
from gateway.jobs.plan.facts import GroupFacts, Inventory, TargetFacts, TopicFacts

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

    topic: TopicFacts
    fate: Fate
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    blockers: tuple[str, ...] = ()
    left_behind: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """`moves`: its offsets are carried over. `reason`: why not."""

    group: GroupFacts
    moves: bool
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The outcome. `catch_up_s`: seconds until the copy reaches the tail at `rate` bytes a second, inf when it never
    does, None when the sizes or the rate are not known."""

    inventory: Inventory
    topics: tuple[TopicPlan, ...]
    groups: tuple[GroupPlan, ...]
    rate: float
    catch_up_s: float | None

    @property
    def blockers(self) -> tuple[str, ...]:
        """All of them, each with its topic."""
        found = [f"{one.topic.name}: {text}" for one in self.topics for text in one.blockers]
        if self.catch_up_s is not None and math.isinf(self.catch_up_s):
            found.append("records are written faster than they can be copied: catch-up would never end")
        return tuple(found)


def make_plan(inventory: Inventory, rate: float) -> Plan:
    """The plan.

    Args:
        rate: bytes a second that a catch-up copies, as measured; 0 for not known.
    """
    topics = tuple(plan_topic(topic, inventory.target) for topic in inventory.topics)
    moving = [one.topic for one in topics if one.fate is not Fate.REFUSED]
    names = {topic.name for topic in moving}
    return Plan(
        inventory=inventory,
        topics=topics,
        groups=tuple(plan_group(group, names) for group in inventory.groups),
        rate=rate,
        catch_up_s=catch_up_s(moving, rate),
    )


def plan_topic(topic: TopicFacts, target: TargetFacts | None) -> TopicPlan:
    """What becomes of one topic."""
    reasons = _why_not_preserved(topic)
    mode = MirrorMode.TRANSLATE if reasons else MirrorMode.PRESERVE
    blockers = _on_target(topic, target) if target else []
    fate = Fate.TRANSLATED if reasons else Fate.PRESERVED
    if mode not in POSSIBLE_TODAY:
        fate = Fate.REFUSED
        blockers.append(f"this version cannot mirror it: {reasons[0]}")
    known = target.config_names if target else _SYNCED
    left = sorted(name for name in topic.own if name not in _SYNCED or name not in known)
    return TopicPlan(
        topic=topic,
        fate=fate,
        reasons=tuple(reasons),
        notes=tuple(_notes(topic)),
        blockers=tuple(blockers),
        left_behind=tuple(left),
    )


def plan_group(group: GroupFacts, moving: set[str]) -> GroupPlan:
    """What becomes of one group."""
    if group.type == "share":
        return GroupPlan(group=group, moves=False, reason="share groups are not supported")
    if group.protocol_type not in ("consumer", ""):
        reason = f"its members speak the protocol {group.protocol_type!r}, not the consumers' own"
        return GroupPlan(group=group, moves=False, reason=reason)
    if group.topics and not moving.intersection(group.topics):
        return GroupPlan(group=group, moves=False, reason="none of its topics can be mirrored")
    left = sorted(set(group.topics) - moving)
    return GroupPlan(group=group, moves=True, reason=f"offsets stay behind of: {', '.join(left)}" if left else "")


def catch_up_s(topics: list[TopicFacts], rate: float) -> float | None:
    """Seconds to copy what is there and what is written meanwhile."""
    if rate <= 0 or any(topic.bytes < 0 for topic in topics):
        return None
    left = rate - sum(topic.bytes_per_s for topic in topics)
    total = sum(topic.bytes for topic in topics)
    return math.inf if left <= 0 < total else (total / left if total else 0.0)


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


def _why_not_preserved(topic: TopicFacts) -> list[str]:
    sample, reasons = topic.sample, []
    by_configs = unmirrorable(topic.configs)
    if by_configs:
        reasons.append(by_configs)
    if sample.transactional or sample.control:
        reasons.append("it is written by transactional producers: its log has markers, which leave holes")
    if sample.with_holes:
        reasons.append("its log has batches with holes, as compaction leaves them")
    return reasons


def _notes(topic: TopicFacts) -> list[str]:
    if topic.configs.get("message.timestamp.type") == "LogAppendTime":
        return ["LogAppendTime: records keep the source's timestamps; the target stamps its own after the promote"]
    return []


def _on_target(topic: TopicFacts, target: TargetFacts) -> list[str]:
    blockers = []
    if target.topics.get(topic.name):
        blockers.append(f"the target has a topic of this name with {target.topics[topic.name]} records")
    in_sync = int(topic.configs.get("min.insync.replicas", "1"))
    if in_sync > target.brokers:
        blockers.append(f"min.insync.replicas is {in_sync}, the target has {target.brokers} broker(s)")
    return blockers
