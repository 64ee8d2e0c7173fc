"""Promoters that change the records, and carry nothing over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from gateway.cutover.promote.rehearsal import PauseRehearsed, Rehearsal
from gateway.cutover.promote.rules.call_off import goes_back
from gateway.cutover.write_pause.interface import Stall
from gateway.errors import Conflict
from gateway.operations.partners import GroupPlan
from gateway.operations.records import Records
from gateway.state.mirror_states import MirrorOperation
from gateway.state.records import GroupRecord, GroupState, MirrorRecord, ThenReverse
from tests.support.control.mirror_records import changed


@dataclass
class FakePromoters:
    """Both promoters. `gate`: awaited between PENDING_STOPPED and the end. `refusal`: raised instead.
    `late_writes`: what refuses a way home; `kept_late`: the last promote was to keep
    them."""

    records: Records
    gate: Any = None
    refusal: Exception | None = None
    waits: str = ""
    late_writes: str = ""
    kept_late: bool = False
    measured: bool = True
    after_cutover: Mapping[int, int] = field(default_factory=dict)
    cutover: tuple[int, ...] = (7, 8, 9)
    asked: list[tuple[str, tuple[str, ...], bool]] = field(default_factory=list)
    along: list[tuple[tuple[str, ...], tuple[str, ...]]] = field(default_factory=list)
    rehearsed: list[tuple[str, tuple[str, ...], float]] = field(default_factory=list)

    async def promote_topics(
        self, link: str, topics: Sequence[str], force: bool, then_reverse: ThenReverse = ThenReverse.NO
    ) -> Sequence[MirrorRecord]:
        self.asked.append((link, tuple(topics), force))
        if self.refusal is not None and self.gate is None:
            raise self.refusal
        operation = MirrorOperation.FORCE_PROMOTE if force else MirrorOperation.PROMOTE
        for topic in topics:
            await self.records.change(link, topic, operation, partial(changed, then_reverse=then_reverse))
        if self.gate is not None:
            await self.gate.wait()
        end = MirrorOperation.ABORT_PROMOTE if self.refusal else MirrorOperation.COMPLETE_PROMOTE
        cutover = partial(changed, stopped_at=self.cutover)
        done = [await self.records.change(link, topic, end, cutover) for topic in topics]
        if self.refusal is not None:
            raise self.refusal
        return done


@dataclass
class FakeTopicPromoter:
    shared: FakePromoters

    async def promote(
        self,
        link: str,
        topics: Sequence[str],
        *,
        groups: Sequence[str] = (),
        force: bool = False,
        then_reverse: ThenReverse = ThenReverse.NO,
        keep_late: bool = False,
    ) -> Sequence[MirrorRecord]:
        self.shared.kept_late = keep_late
        self.shared.along += [(tuple(topics), tuple(groups))] if groups else []
        then = (then_reverse,) if then_reverse else ()
        done = await self.shared.promote_topics(link, topics, force, *then)
        for group in groups:
            if (link, group) in self.shared.records.store.groups:
                await FakeGroupPromoter(self.shared).promote(link, group)
        return done

    async def check(
        self,
        link: str,
        topics: Sequence[str],
        *,
        groups: Sequence[str] = (),
        force: bool = False,
        keep_late: bool = False,
    ) -> None:
        if self.shared.refusal is not None:
            raise self.shared.refusal

    async def rehearse(self, link: str, topics: Sequence[str], bound_s: float = 0.0) -> Rehearsal:
        await self.check_rehearsal(link, topics)
        self.shared.rehearsed.append((link, tuple(topics), bound_s))
        pause = PauseRehearsed(0.05, (Stall("app", "10.0.0.7", 0.04),), 1, ())
        return Rehearsal(topics=topics, given_up="", bound_s=bound_s or 5.0, pause=pause)

    async def check_rehearsal(self, link: str, topics: Sequence[str]) -> None:
        if self.shared.refusal is not None:
            raise self.shared.refusal

    async def call_off(self, link: str, topics: Sequence[str], *, validate_only: bool = False) -> Sequence[str]:
        mirrors = [self.shared.records.mirror(link, name) for name in topics]
        names = goes_back(mirrors, self.shared.records.store.mirrors.values(), {})
        for name in () if validate_only else names:
            await self.shared.records.change(link, name, MirrorOperation.ABORT_PROMOTE)
        return names

    def waiting_for(self, link: str, topic: str) -> str:
        return self.shared.waits

    def late_writes_known(self, link: str, topic: str) -> bool:
        return self.shared.measured

    def records_after_cutover(self, link: str, topic: str) -> Mapping[int, int] | None:
        return self.shared.after_cutover if self.shared.measured else None

    async def require_no_late_writes(self, link: str, topics: Sequence[str], *, keep: bool = False) -> None:
        if self.shared.late_writes and not keep:
            raise Conflict(self.shared.late_writes)


@dataclass
class FakeGroupPromoter:
    shared: FakePromoters

    async def promote(self, link: str, group: str, *, force: bool = False) -> GroupRecord:
        return await self._to(link, group, GroupState.PROMOTED)

    async def demote(self, link: str, group: str, *, force: bool = False) -> GroupRecord:
        return await self._to(link, group, GroupState.ACTIVE)

    async def promote_plan(self, link: str, group: str, *, force: bool = False) -> GroupPlan:
        return self._plan(link, group)

    async def demote_plan(self, link: str, group: str) -> GroupPlan:
        return self._plan(link, group)

    def waits_for(self, link: str, group: str) -> str:
        return self.shared.waits

    def _plan(self, link: str, group: str) -> GroupPlan:
        record, refusal = self.shared.records.store.groups[link, group], self.shared.refusal
        return GroupPlan(record=record, blocker="" if refusal is None else str(refusal), waits_for=self.shared.waits)

    async def _to(self, link: str, group: str, state: GroupState) -> GroupRecord:
        if self.shared.refusal is not None:
            raise self.shared.refusal
        store = self.shared.records.store
        changed = replace(store.groups[link, group], state=state)
        await store.put(changed)
        return changed
