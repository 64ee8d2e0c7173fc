"""Offsets of a link's mirror topics by the gateway's own rules: ways, cutovers, cuts and refusals. Pure.

The rules are `mirror/offset_map/rules/translation.py`; what is known of the topics goes in as the gateway's records
and maps. It is sent to the executors as it is: 8 bytes a breakpoint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from gateway.jobs.audit.asked import other_topics
from gateway.kafka.topic_partition import TopicPartition
from gateway.mirror.offset_map.rules import translation as offsets_between
from gateway.mirror.offset_map.rules.offset_map import OffsetMap, TranslationRule
from gateway.mirror.offset_map.rules.translation import CannotTranslate, PeriodMaps, TranslationMaps
from gateway.state.per_partition import WrongLength
from gateway.state.records import MirrorMode, MirrorRecord, MirrorState

REFUSED: Final = "refused"
"""The rule of an offset that the gateway would not translate; there is no target offset."""

EXACT: Final = (TranslationRule.EXACT, TranslationRule.NEXT_RECORD)
"""The next record read on the target is the one that would be next on the source."""


class TargetOffset(NamedTuple):
    """An offset on the target; None and the reason where there is none."""

    target_offset: int | None
    rule: str
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkOffsets:
    """What is known of a link's topics, by source topic.

    Attributes:
        records: of the mirrors, as the gateway keeps them.
        maps: per partition those of `asked_periods.periods(record)`, the present one last; or why they cannot be read.
            Nothing in mode preserve.
        target_ends: log ends on the target. A partition without one is not mirrored.
        barred: why nothing of a topic is translated (`why_not`); topics without a reason are not in it.
    """

    records: Mapping[str, MirrorRecord]
    maps: Mapping[TopicPartition, tuple[OffsetMap, ...] | str]
    target_ends: Mapping[TopicPartition, int]
    chains: Mapping[str, Sequence[MirrorRecord]]
    barred: Mapping[str, str] = field(default_factory=dict)

    def find(self, topic: str, partition: int, source_offset: int) -> TargetOffset:
        """Where a group that stands at `source_offset` is to go on."""
        record = self.records.get(topic)
        if record is None or (topic, partition) not in self.target_ends:
            return TargetOffset(None, "not_mirrored")
        known = self.barred.get(topic) or self.maps.get((topic, partition), ())
        if isinstance(known, str):
            return TargetOffset(None, REFUSED, known)
        try:
            return self._find(record, partition, source_offset, known)
        except (CannotTranslate, WrongLength) as exc:
            return TargetOffset(None, REFUSED, str(exc))

    def _find(
        self, record: MirrorRecord, partition: int, source_offset: int, known: tuple[OffsetMap, ...]
    ) -> TargetOffset:
        maps = {}
        if record.mode is MirrorMode.TRANSLATE:
            chain = reversed(self.chains[record.source_topic])
            maps[record.mirror_topic] = TranslationMaps(
                [PeriodMaps(period, _Only(partition, one)) for period, one in zip(chain, reversed(known), strict=True)]
            )
        found = offsets_between.carried(record, maps, partition, source_offset)
        end = self.target_ends[record.source_topic, partition]
        mirrored = offsets_between.mirrored(record, record.mirror_topic, maps, partition, source_offset, end)
        if found.rule in EXACT and mirrored is not None and source_offset > mirrored:
            # The gateway would wait for the mirror; what is written there meanwhile may be another record.
            return TargetOffset(
                offsets_between.carried(record, maps, partition, mirrored).offset, str(TranslationRule.BEYOND_END)
            )
        return TargetOffset(found.offset, str(found.rule))


def why_not(record: MirrorRecord, source_id: str, target_id: str) -> str:
    """Why no offset of a mirror topic is translated; '' when they are. Args: the ids that both topics have now."""
    if record.state is MirrorState.FAILED:
        return (
            f"mirror topic '{record.mirror_topic}' has FAILED, so its copy may not go with the source; `mirror "
            "describe` says why, and `mirror repair` what can be done"
        )
    return other_topics(record, source_id, target_id)


class _Only(Sequence[OffsetMap]):
    """The maps of a topic of which one partition's alone is at hand."""

    def __init__(self, partition: int, known: OffsetMap) -> None:
        self._partition, self._known = partition, known

    def __len__(self) -> int:
        return self._partition + 1

    def __getitem__(self, index: int) -> OffsetMap:  # type: ignore[override]
        if index != self._partition:
            raise IndexError(index)
        return self._known
