"""Whether an operation on mirror topics would begin now, and what it would lose. Changes nothing.

A dry run makes the checks that the operation makes before its first change: the table of states, then both clusters. It
cannot predict what only shows later, such as a drain that takes too long, and its answer holds only for the moment: it
reserves nothing. `topics/promote_plan.py` lists what refuses a promote.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from gateway.cutover.failback.operations import Failbacks
from gateway.cutover.failback.reversals import require_one_kind
from gateway.errors import Conflict
from gateway.operations.records import Records, require_created
from gateway.state.mirror_states import MirrorOperation, require, require_same_bytes
from gateway.state.records import MirrorState
from gateway.topics.promote_plan import REFUSALS, PromotePlanner


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What an operation would do with one topic.

    `refused`: why it would not begin; None when it would. `lost`: partition -> records that a truncate-and-restore
    would discard; `cut_at`: partition -> the first discarded offset. `left_behind`: partition -> records that a
    failover would leave on the source, -1 if unknown. `promoted_first`: the reverse begins with a promote.
    """

    topic: str
    refused: Exception | None = None
    lost: Mapping[int, int] = field(default_factory=dict)
    cut_at: Mapping[int, int] = field(default_factory=dict)
    left_behind: Mapping[int, int] = field(default_factory=dict)
    promoted_first: bool = False


class DryRuns:
    """Dry runs of operations on mirror topics."""

    def __init__(self, *, records: Records, promotes: PromotePlanner, failbacks: Failbacks) -> None:
        self._records = records
        self._promotes = promotes
        self._failbacks = failbacks

    async def of(self, operation: MirrorOperation, link: str, topics: Sequence[str]) -> list[Outlook]:
        """The outlook of each topic, in order.

        Topics to be promoted are one set: what refuses the set is the `refused` of every topic that could belong to it.

        Raises:
            NotFound: no such link. A missing topic is reported in its outlook.
        """
        self._records.link(link)
        names = list(dict.fromkeys(topics))
        if operation in (MirrorOperation.PROMOTE, MirrorOperation.FORCE_PROMOTE):
            return await self._promoted(link, names, force=operation is MirrorOperation.FORCE_PROMOTE)
        if operation is MirrorOperation.REVERSE:
            return await self._reversed(link, names)
        return [await self._one(operation, link, name) for name in names]

    async def _promoted(self, link: str, names: Sequence[str], *, force: bool = False) -> list[Outlook]:
        refusals = await self._promotes.refusals(link, names, force=force)
        return [Outlook(topic=name, refused=refusals.get(name)) for name in names]

    async def of_reverse(self, link: str, topics: Sequence[str], *, force: bool = False) -> list[Outlook]:
        """Same as `of`, for a reverse; also compares both logs of STOPPED topics. `force`: of the promote before it.

        Raises:
            NotFound: no such link.
        """
        self._records.link(link)
        found = await self._reversed(link, list(dict.fromkeys(topics)), force=force)
        return [await self._compared(link, each) for each in found]

    async def _compared(self, link: str, outlook: Outlook) -> Outlook:
        if outlook.refused or outlook.promoted_first:
            return outlook
        try:
            await self._failbacks.check_reverse(link, outlook.topic)
        except REFUSALS as exc:
            return Outlook(topic=outlook.topic, refused=exc)
        return outlook

    async def _reversed(self, link: str, names: Sequence[str], *, force: bool = False) -> list[Outlook]:
        """The reverse of a topic that is mirrored to the target begins with its promote; the kinds are not mixed."""
        first = [name for name in names if self._is_promoted_first(link, name)]
        promoted = {
            each.topic: self._then_back(link, replace(each, promoted_first=True))
            for each in await self._promoted(link, first, force=force)
        }
        found = [promoted.get(name) or await self._one(MirrorOperation.REVERSE, link, name) for name in names]
        fit = [each.topic for each in found if each.refused is None]
        try:
            require_one_kind(self._records.mirror(link, name) for name in fit)
        except Conflict as exc:
            return [each if each.refused else Outlook(topic=each.topic, refused=exc) for each in found]
        return found

    def _then_back(self, link: str, promoted: Outlook) -> Outlook:
        """For a topic that is promoted first: whether the reverse after it would be refused."""
        try:
            require_same_bytes(self._records.mirror(link, promoted.topic))
        except REFUSALS as exc:
            return promoted if promoted.refused else replace(promoted, refused=exc)
        return promoted

    def _is_promoted_first(self, link: str, topic: str) -> bool:
        mirror = self._records.store.mirrors.get((link, topic))
        return mirror is not None and mirror.state is not MirrorState.STOPPED and not mirror.is_reverse

    async def _one(self, operation: MirrorOperation, link: str, topic: str) -> Outlook:
        try:
            mirror = self._records.mirror(link, topic)
            require_created(mirror)
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
        except REFUSALS as exc:
            return Outlook(topic=topic, refused=exc)
        return Outlook(topic=topic)
