"""What can be done for a mirror topic that has FAILED: from its record, and what both clusters say, to the ways out.

Pure. Three repairs, in the order in which they are to be preferred:

RESUME
    The cause is gone: mirror on from where the copy ends. The engine looks at both logs before it appends (the copy's
    last batch must be the origin's), so one that comes too early FAILs again, and loses nothing.
TRANSLATE
    The origin has not all of what comes next: records were deleted there before they were mirrored, or cannot be
    written at equal offsets. Go on behind them; offsets are translated from there on.
RECREATE
    Nothing can be added to this copy: delete the target's topic, by its id, create it anew and fill it from the source.

A mirror back to the source has RECREATE under another name, `mirror truncate-and-restore`. Where no repair is
possible, `mirror failover` and `mirror delete` are what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gateway.state.records import MirrorError, MirrorMode, MirrorRecord, MirrorState


class RepairAction(StrEnum):
    """What a repair does."""

    RESUME = "resume"
    TRANSLATE = "translate"
    RECREATE = "recreate"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """A topic as its cluster tells it now. `unknown`: why it does not tell, '' when it does.

    `ranges`: (log start, log end) of each partition.
    """

    unknown: str = ""
    present: bool = False
    topic_id: str = ""
    ranges: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairFacts:
    """What is known when a repair is asked for.

    `translates`: the link lets offsets be translated (`mirror.offsets=auto`). `recreate_refused`: why the topic could
    not be created anew, '' when it could.
    """

    origin: TopicFacts
    copy: TopicFacts
    translates: bool = True
    recreate_refused: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """One way out. `refused`: why it is not possible, '' when it is. `effect`: what it does, and what is lost by it."""

    action: RepairAction
    refused: str
    effect: str

    @property
    def possible(self) -> bool:
        """It can be asked for."""
        return not self.refused


_E = MirrorError
_TRANSLATABLE: Final = frozenset({_E.SOURCE_RECORDS_DELETED, _E.OFFSET_GAP, _E.UNSUPPORTED_MESSAGE_FORMAT})
_ELSE: Final = "`mirror failover` makes it a topic of the target's own, `mirror delete` ends it"


def repairs_of(record: MirrorRecord, facts: RepairFacts) -> tuple[Repair, ...]:
    """The three repairs in order of preference, each possible or with the reason why not."""
    if record.state is not MirrorState.FAILED:
        refused = f"it is {record.state}: there is nothing to repair"
        return tuple(Repair(action=action, refused=refused, effect="") for action in RepairAction)
    return (
        Repair(action=RepairAction.RESUME, refused=_why_not_resumed(record, facts), effect=_resumed(record)),
        Repair(action=RepairAction.TRANSLATE, refused=_why_not_translated(record, facts), effect=_translated(record)),
        Repair(action=RepairAction.RECREATE, refused=_why_not_recreated(record, facts), effect=_recreated(facts)),
    )


def way_out(repairs: Sequence[Repair]) -> str:
    """One line for people: what to ask for."""
    possible = [repair.action.value for repair in repairs if repair.possible]
    if possible:
        return f"`mirror repair` can: {', '.join(possible)}"
    return f"no repair is possible now; {_ELSE}"


# -- both topics are what the record says ------------------------------------------------------------------------


def _why_not_itself(record: MirrorRecord, facts: RepairFacts) -> str:
    """Why mirroring cannot go on between these two topics at all; '' when it can."""
    origin_id, copy_id = record.source_topic_id, record.mirror_topic_id
    origin_name, copy_name = record.source_topic, record.mirror_topic
    if record.is_reverse:
        origin_id, copy_id, origin_name, copy_name = copy_id, origin_id, copy_name, origin_name
    origin, copy = ("target", "source") if record.is_reverse else ("source", "target")
    return (
        _why_not_same(facts.origin, origin_name, origin, origin_id)
        or _too_few(facts.origin, origin_name, origin, len(record.starts))
        or _why_not_same(facts.copy, copy_name, copy, copy_id)
        or _too_few(facts.copy, copy_name, copy, len(record.starts))
    )


def _why_not_same(topic: TopicFacts, name: str, cluster: str, topic_id: str) -> str:
    if topic.unknown:
        return f"the {cluster} does not say how topic '{name}' is: {topic.unknown}"
    if not topic.present:
        return f"topic '{name}' is not there on the {cluster}"
    if topic_id and topic.topic_id and topic.topic_id != topic_id:
        return (
            f"topic '{name}' on the {cluster} is another one than was mirrored: its id is {topic.topic_id}, not "
            f"{topic_id}"
        )
    return ""


def _too_few(topic: TopicFacts, name: str, cluster: str, partitions: int) -> str:
    if len(topic.ranges) >= partitions:
        return ""
    return f"topic '{name}' has {len(topic.ranges)} partitions on the {cluster}, its mirror has {partitions}"


# -- resume ------------------------------------------------------------------------------------------------------


def _why_not_resumed(record: MirrorRecord, facts: RepairFacts) -> str:
    if reason := _why_not_itself(record, facts):
        return reason
    check = _STILL.get(record.error)
    return "" if check is None else check(record, facts)


def _still_truncated(record: MirrorRecord, facts: RepairFacts) -> str:
    """In mode preserve the two ends say it; in mode translate the engine compares when it begins."""
    if record.mode is not MirrorMode.PRESERVE:
        return ""
    for partition, ((_, end), (_, copied)) in enumerate(zip(facts.origin.ranges, facts.copy.ranges, strict=False)):
        if end < copied:
            return (
                f"the origin's log of partition {partition} ends at {end}, its copy at {copied}: what was copied is "
                "not there any more"
            )
    return ""


def _still_diverged(record: MirrorRecord, facts: RepairFacts) -> str:
    return "the copy holds records that are not the origin's, and they stay in its log"


def _still_deleted(record: MirrorRecord, facts: RepairFacts) -> str:
    return "the records that were not mirrored are deleted; going on without them is `translate`"


def _still_a_gap(record: MirrorRecord, facts: RepairFacts) -> str:
    return "what comes next cannot be written at equal offsets; going on with other ones is `translate`"


_STILL: Final[Mapping[MirrorError, Callable[[MirrorRecord, RepairFacts], str]]] = {
    _E.UNEXPECTED_TRUNCATION: _still_truncated,
    _E.TARGET_DIVERGED: _still_diverged,
    _E.SOURCE_RECORDS_DELETED: _still_deleted,
    _E.OFFSET_GAP: _still_a_gap,
}
"""Error -> why the cause is still there, though both topics are themselves; an error that is not in here has gone
with that, or shows again at the first append."""


def _resumed(record: MirrorRecord) -> str:
    if record.error in (_E.TARGET_REJECTED, _E.UNSUPPORTED_MESSAGE_FORMAT, _E.INTERNAL_ERROR):
        return "goes on where the copy ends; it FAILs again if the cause is still there"
    return "goes on where the copy ends; nothing is lost"


# -- translate ---------------------------------------------------------------------------------------------------


def _why_not_translated(record: MirrorRecord, facts: RepairFacts) -> str:
    if record.error not in _TRANSLATABLE:
        return f"it helps against {', '.join(sorted(_TRANSLATABLE))}, not against {record.error}"
    if reason := _why_not_itself(record, facts):
        return reason
    if not facts.translates:
        return "the link says mirror.offsets=preserve; set it to auto first"
    if record.error is _E.UNSUPPORTED_MESSAGE_FORMAT and record.mode is MirrorMode.TRANSLATE:
        return "its offsets are translated already, and it met records that cannot be copied at all"
    return ""


def _translated(record: MirrorRecord) -> str:
    lost = "without the records that were deleted; " if record.error is _E.SOURCE_RECORDS_DELETED else ""
    return f"goes on behind what cannot be copied, {lost}offsets are translated from there on"


# -- recreate ----------------------------------------------------------------------------------------------------


def _why_not_recreated(record: MirrorRecord, facts: RepairFacts) -> str:
    if record.is_reverse:
        return "it is a mirror back to the source; `mirror truncate-and-restore` creates its copy anew"
    if facts.origin.unknown:
        return f"the source does not say how topic '{record.source_topic}' is: {facts.origin.unknown}"
    if not facts.origin.present:
        return f"topic '{record.source_topic}' is not there on the source; {_ELSE}"
    if facts.copy.unknown:
        return f"the target does not say how topic '{record.mirror_topic}' is: {facts.copy.unknown}"
    if facts.copy.present and not facts.copy.topic_id:
        return "the target has no topic ids, and a topic is deleted by its id only"
    return facts.recreate_refused


def _recreated(facts: RepairFacts) -> str:
    old, new = _records(facts.copy), _records(facts.origin)
    return f"deletes the target's topic with {old} offsets, creates it anew and fills it with {new} from the source"


def _records(topic: TopicFacts) -> int:
    return sum(end - start for start, end in topic.ranges)
