"""What an audit is asked to account for in one partition: which offsets of which log. Pure: logs in, ranges out.

Records may be gone from one log because of its retention. A broker deletes whole segments: by `retention.ms` when the
highest timestamp in one is older, by `retention.bytes` as long as what is left is that much at least.

A copy has no retention while it is filled: a mirror lifts it, and its front moves with the front of where it is filled
from. So what retention took of a copy was there before its mirror period began; in the first period that is nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Self

from gateway.jobs.audit import asked_periods
from gateway.jobs.audit.kinds import DifferenceKind
from gateway.jobs.audit.pieces import AuditPiece, Rules, Span, cuts, sample, whole
from gateway.jobs.audit.relation import Point, Relation
from gateway.kafka.rules.topic_configs import OWN
from gateway.mirror.offset_map.rules.offset_map import OffsetMap
from gateway.state.records import MirrorRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What deletes records of a topic. `retention_ms`, `retention_bytes`: -1 for no limit. `log_bytes`: of a
    partition, 0 when it is not known."""

    deletes: bool
    compacts: bool
    retention_ms: int
    retention_bytes: int
    log_bytes: int = 0

    @classmethod
    def of(cls, configs: Mapping[str, str | None], lifted: Mapping[str, str] = {}) -> Self:
        """From a topic's configs.

        Args:
            lifted: those that were taken off while it is a copy, and did their work before.
        """
        known = {name: value for name, value in lifted.items() if value != OWN}
        both = {name: value or "" for name, value in configs.items()} | known
        policies = (both.get("cleanup.policy", "") + "," + (configs.get("cleanup.policy") or "")).split(",")
        return cls(
            deletes="delete" in policies,
            compacts="compact" in policies,
            retention_ms=_number(both.get("retention.ms")),
            retention_bytes=_number(both.get("retention.bytes")),
        )


def _number(text: str | None) -> int:
    return int(text) if text and text.lstrip("-").isdecimal() else -1


def why_not(policy: Policy | None, newest_ms: int, now_ms: int, *, start: int = 0, began: int | None = None) -> str:
    """Why retention does not explain that records up to this timestamp are gone; "" when it does.

    Args:
        newest_ms: the highest timestamp of the records that are gone, -1 when they have none.
        now_ms: when the audit began.
        start: where the log starts.
        began: of a copy that is filled now, where in its log that began; None of another log.
    """
    if policy is None:
        return "its configs could not be read"
    if not policy.deletes or (policy.retention_ms < 0 and policy.retention_bytes < 0):
        return "it has no retention"
    is_old = policy.retention_ms >= 0 and 0 <= newest_ms < now_ms - policy.retention_ms
    if not is_old and not (policy.log_bytes and 0 <= policy.retention_bytes <= policy.log_bytes):
        return "its retention would have kept them"
    if began is not None and start > began:
        return f"a copy has no retention while it is filled, as this one from {began} on"
    return ""


_FAR: Final = (1 << 63) - 1
_BELOW, _ABOVE = Point(0, 0), Point(_FAR, _FAR)


@dataclass(frozen=True, slots=True)
class LogState:
    """A partition's log. `end`: its last stable offset; `before`: the same, asked before the other log's `end` was."""

    start: int
    end: int
    before: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    """What is known of one partition when an audit begins.

    source, target: None where the cluster has no such partition. `source_policy`, `target_policy`: None when the
    configs may not be read. `source_id`, `target_id`: of the topics, "" where brokers have none. `record`: of the
    mirror, None without a link; `maps`: of its ways, in mode translate, or why they cannot be read. `given`: the map
    from a file, or what is wrong with it; `is_mapped`: there is such a file. `problem`: what stands in the way.
    """

    topic: str
    target_topic: str
    partition: int
    source: LogState | None
    target: LogState | None
    source_policy: Policy | None = None
    target_policy: Policy | None = None
    record: MirrorRecord | None = None
    maps: Sequence[OffsetMap] | str = ()
    given: Relation | str | None = None
    is_mapped: bool = False
    source_id: str = ""
    target_id: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditScope:
    """The offsets of one partition that must be accounted for.

    before_start: source offsets that the mirror was never to copy. since_cutover: target offsets behind the cutover,
    which are the target's own. problems: why it cannot be whole. through_ids: where in its records schema ids are
    written anew by the mirror, and compared through the id map. source_began, target_began: of the side that is the
    copy now, where its mirror period began; None of the other one. is_linked: the mirror's record is known. is_mapped:
    an offset map was given.
    """

    topic: str
    target_topic: str
    partition: int
    source_log: Span
    target_log: Span
    source: Span
    target: Span
    relation: Relation
    rules: Rules
    source_policy: Policy | None = None
    target_policy: Policy | None = None
    through_ids: tuple[str, ...] = ()
    source_began: int | None = None
    target_began: int | None = None
    is_linked: bool = False
    is_mapped: bool = False
    before_start: int = 0
    since_cutover: int = 0
    problems: tuple[str, ...] = field(default=())

    def pieces(self, parts: int, fraction: float = 1.0, seed: int = 0) -> list[AuditPiece]:
        """What to compare, in about so many pieces; of a sample, those that it draws."""
        if fraction < 1:
            draw = f"{seed}/{self.topic}/{self.partition}"
            pairs = sample(self.source, self.target, self.relation, fraction, draw)
        else:
            pairs = cuts(self.source, self.target, self.relation, parts)
        ends = whole(self.source, self.target)
        return [
            AuditPiece(
                topic=self.topic,
                target_topic=self.target_topic,
                partition=self.partition,
                number=number,
                source=Span(low.source, high.source),
                target=Span(low.target, high.target),
                relation=self.relation.part(_BELOW if low == ends[0] else low, _ABOVE if high == ends[1] else high),
                rules=self.rules,
            )
            for number, (low, high) in enumerate(pairs)
        ]


def partitions(record: MirrorRecord | None, told: Iterable[int]) -> range:
    """Those that must be accounted for: all that the mirror has, and up to the last one that a cluster told of.

    One that is not `told` may be there all the same, since a broker may be behind. A topic does not lose partitions.
    """
    return range(max(0 if record is None else len(record.starts), *(index + 1 for index in told), 0))


def ask(facts: PartitionFacts) -> AuditScope:
    """What is to be accounted for, as far as it can be."""
    source, target, record = facts.source, facts.target, facts.record
    problem = facts.problem or _in_the_way(facts)
    if problem or source is None or target is None:
        return _nothing(facts, problem)
    try:
        found = _without_record(facts, source, target) if record is None else _mirror(facts, record, source, target)
    except ValueError as exc:
        return _nothing(facts, str(exc))
    return replace(found, rules=_compacted(facts, found.rules))


def _in_the_way(facts: PartitionFacts) -> str:
    """Why nothing can be compared; "" where it can."""
    record = facts.record
    if facts.source is None:
        return "the source has no such partition"
    if facts.target is None:
        return "the target has no such partition"
    if facts.is_mapped and facts.given is None:
        return "it is not in the offset map"
    if isinstance(facts.given, str):
        return facts.given
    if isinstance(facts.maps, str):
        return facts.maps
    if record is None:
        return ""
    if facts.partition >= len(record.starts):
        return "the mirror's record has no such partition"
    return other_topics(record, facts.source_id, facts.target_id)


def other_topics(record: MirrorRecord, source_id: str, target_id: str) -> str:
    """Which side has another topic than the mirror's; '' where none has, or brokers tell no ids."""
    return _other_topic("source", source_id, record.source_topic_id) or _other_topic(
        "target", target_id, record.mirror_topic_id
    )


def _other_topic(side: str, found: str, known: str) -> str:
    """A topic of the same name that is not the one that is mirrored."""
    if not known or not found or found == known:
        return ""
    return f"the topic on the {side} was created anew: its id is {found}, the mirror's is {known}"


def _compacted(facts: PartitionFacts, rules: Rules) -> Rules:
    """The mirror's record remembers what the topic's configs may not say any more."""
    recorded = facts.record is not None and facts.record.compacted
    source, target = facts.source_policy, facts.target_policy
    return replace(
        rules,
        source_compacted=recorded or (source is not None and source.compacts),
        target_compacted=target is not None and target.compacts,
    )


def _asked(facts: PartitionFacts, source: Span, target: Span, relation: Relation, rules: Rules) -> AuditScope:
    here, there = facts.source or LogState(0, 0, 0), facts.target or LogState(0, 0, 0)
    return AuditScope(
        topic=facts.topic,
        target_topic=facts.target_topic,
        partition=facts.partition,
        source_log=Span(here.start, here.end),
        target_log=Span(there.start, there.end),
        source=source,
        target=target,
        relation=relation,
        rules=replace(rules, source_start=here.start, target_start=there.start),
        source_policy=facts.source_policy,
        target_policy=facts.target_policy,
        through_ids=() if facts.record is None else facts.record.translates_ids,
        is_linked=facts.record is not None,
        is_mapped=facts.is_mapped,
    )


def _nothing(facts: PartitionFacts, problem: str) -> AuditScope:
    here, there = facts.source or LogState(0, 0, 0), facts.target or LogState(0, 0, 0)
    found = _asked(facts, Span(here.start, here.start), Span(there.start, there.start), Relation(()), Rules())
    return replace(found, problems=(problem,))


def _without_record(facts: PartitionFacts, source: LogState, target: LogState) -> AuditScope:
    """Two clusters; the target is filled from the source."""
    given = facts.given
    known = given if isinstance(given, Relation) else Relation.identity(0, max(source.end, target.end))
    rules = Rules()
    if known.end.source < source.end:  # of what is behind its end a map tells nothing
        rules = Rules(source_beyond=DifferenceKind.NOT_IN_MAP, target_beyond=DifferenceKind.NOT_IN_MAP)
    return _filled(facts, source, target, known, rules, 0)


def _mirror(facts: PartitionFacts, record: MirrorRecord, source: LogState, target: LogState) -> AuditScope:
    first = asked_periods.begin(record, facts.partition)
    maps = () if isinstance(facts.maps, str) else facts.maps
    known = asked_periods.relation(record, facts.partition, maps, Point(source.end, target.end))
    rules, begin = Rules(), 0
    if first is not None and asked_periods.periods(record)[0].is_reverse:
        rules = Rules(source_before=DifferenceKind.BEFORE_START)
    elif first is not None:
        rules, begin = Rules(target_before=DifferenceKind.BEFORE_START), first.source
    if not asked_periods.is_live(record):
        return _stopped(facts, record, source, target, known, rules, begin)
    began = asked_periods.copy_began(record, facts.partition)
    if record.is_reverse:
        return replace(_filled_back(facts, source, target, known, rules, begin), source_began=began)
    return replace(_filled(facts, source, target, known, rules, begin), target_began=began)


def _filled(
    facts: PartitionFacts, source: LogState, target: LogState, known: Relation, rules: Rules, begin: int
) -> AuditScope:
    """The target is the copy: up to the source's end, and whatever the target had beyond that before."""
    known = known.limited(Point(_FAR, target.end))
    level = known.cut(source.end).target
    low = min(max(source.start, begin), source.end)
    high = max(target.before, min(target.end, level))
    limited = known.limited(Point(source.end, level))
    found = _asked(facts, Span(low, source.end), Span(min(target.start, high), high), limited, rules)
    return replace(found, before_start=low - source.start, problems=_beyond("target", target, level))


def _filled_back(
    facts: PartitionFacts, source: LogState, target: LogState, known: Relation, rules: Rules, begin: int
) -> AuditScope:
    """The source is the copy."""
    rules = replace(rules, source_beyond=DifferenceKind.BEYOND_END, target_beyond=DifferenceKind.BEHIND)
    known = known.limited(Point(source.end, _FAR))
    level = known.cut_at_target(target.end).source
    high = max(source.before, min(source.end, level))
    low = min(max(source.start, begin), high)
    limited = known.limited(Point(level, target.end))
    found = _asked(facts, Span(low, high), Span(target.start, target.end), limited, rules)
    return replace(found, before_start=low - source.start, problems=_beyond("source", source, level))


def _beyond(name: str, log: LogState, level: int) -> tuple[str, ...]:
    """A copy whose log begins behind all that there is to copy had something of its own."""
    if log.start <= level:
        return ()
    return (f"the {name}'s log begins at {log.start}, beyond {level}, which is all that there is to copy",)


def _stopped(
    facts: PartitionFacts,
    record: MirrorRecord,
    source: LogState,
    target: LogState,
    known: Relation,
    rules: Rules,
    begin: int,
) -> AuditScope:
    """Up to the cutover on the target; what is behind it is the target's own. On the source nothing is to be there."""
    cut = asked_periods.cutover(record, facts.partition)
    rules = replace(
        rules,
        source_beyond=DifferenceKind.LEFT_BEHIND if record.cutover.not_mirrored else DifferenceKind.AFTER_CUTOVER,
        written_since=target.end > cut.target,
    )
    low = min(max(source.start, begin), source.end)
    high = max(target.start, min(target.end, cut.target))
    found = _asked(facts, Span(low, source.end), Span(target.start, high), known, rules)
    problems = [
        f"the {name}'s log ends at {log.end}, before the cutover at {at}"
        for name, log, at in (("target", target, cut.target), ("source", source, cut.source))
        if log.end < at
    ]
    return replace(
        found, before_start=low - source.start, since_cutover=max(0, target.end - high), problems=tuple(problems)
    )
