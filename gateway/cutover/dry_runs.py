"""Whether an operation on mirror topics would begin now, and what it would lose. Nothing is changed.

A dry run asks what the operation itself asks before its first change: the table of states, then what both clusters say.
What is found out under way only, such as a drain that takes too long, no dry run can tell. Nor is anything kept until
the operation is asked for: what it says is so at that moment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gateway.cutover.failback.operations import Failbacks
from gateway.errors import ControlError
from gateway.operations.partners import TopicPromoter
from gateway.operations.records import Records, require_created
from gateway.state.mirror_states import MirrorOperation, WrongState, require
from gateway.state.per_partition import WrongLength
from gateway.state.records import MirrorState
from gateway.topics.catch_up import CatchUps

REFUSALS = (ControlError, WrongState, WrongLength)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What an operation would do with one topic.

    `refused`: why it would not begin; None when it would. `lost`: partition -> records that a truncate-and-restore
    would throw away; `cut_at`: partition -> the offset from which on. `left_behind`: partition -> records that a
    failover would leave on the source, -1 where nobody knows.
    """

    topic: str
    refused: Exception | None = None
    lost: Mapping[int, int] = field(default_factory=dict)
    cut_at: Mapping[int, int] = field(default_factory=dict)
    left_behind: Mapping[int, int] = field(default_factory=dict)


class DryRuns:
    """Of operations on mirror topics."""

    def __init__(self, *, records: Records, catch_ups: CatchUps, promoter: TopicPromoter, failbacks: Failbacks) -> None:
        self._records = records
        self._catch_ups = catch_ups
        self._promoter = promoter
        self._failbacks = failbacks

    async def of(self, operation: MirrorOperation, link: str, topics: Sequence[str]) -> list[Outlook]:
        """Each topic, in order.

        Topics that are promoted are one set: what refuses the set is told of every one that could be of it.

        Raises:
            NotFound: no such link. Of a topic that does not exist its own outlook says so.
        """
        self._records.link(link)
        found = [await self._one(operation, link, topic) for topic in dict.fromkeys(topics)]
        if operation in (MirrorOperation.PROMOTE, MirrorOperation.FORCE_PROMOTE):
            return await self._as_a_set(link, found, force=operation is MirrorOperation.FORCE_PROMOTE)
        if operation is MirrorOperation.REVERSE:
            promoted = [each for each in found if each.refused is None and self._is_promoted_first(link, each.topic)]
            checked = {each.topic: each for each in await self._as_a_set(link, promoted, force=False)}
            return [checked.get(each.topic, each) for each in found]
        return found

    def _is_promoted_first(self, link: str, topic: str) -> bool:
        """A reverse of a topic that is mirrored to the target begins with its promote."""
        mirror = self._records.mirror(link, topic)
        return mirror.state is not MirrorState.STOPPED and not mirror.is_reverse

    async def _one(self, operation: MirrorOperation, link: str, topic: str) -> Outlook:
        try:
            mirror = self._records.mirror(link, topic)
            require_created(mirror)
            if operation is MirrorOperation.REVERSE and self._is_promoted_first(link, topic):
                operation = MirrorOperation.PROMOTE
            require(operation, mirror)
            if operation is MirrorOperation.FAILOVER:
                plan = await self._failbacks.failover_plan(link, topic)
                left = {partition: count for partition, count in enumerate(plan.not_mirrored) if count}
                return Outlook(topic=topic, left_behind=left)
            if operation is MirrorOperation.RESTORE:
                restore = await self._failbacks.restore_plan(link, topic)
                ends = mirror.cutover.stopped_at
                at = {partition: ends[partition] if partition < len(ends) else 0 for partition in restore.divergent}
                return Outlook(topic=topic, lost=restore.divergent, cut_at=at)
            if operation in (MirrorOperation.PROMOTE, MirrorOperation.FORCE_PROMOTE):
                self._catch_ups.require_none(link, [topic])
        except REFUSALS as exc:
            return Outlook(topic=topic, refused=exc)
        return Outlook(topic=topic)

    async def _as_a_set(self, link: str, found: Sequence[Outlook], *, force: bool) -> list[Outlook]:
        fit = [outlook.topic for outlook in found if outlook.refused is None]
        try:
            if fit:
                await self._promoter.check(link, fit, force=force)
        except REFUSALS as exc:
            return [outlook if outlook.refused else Outlook(topic=outlook.topic, refused=exc) for outlook in found]
        return list(found)
