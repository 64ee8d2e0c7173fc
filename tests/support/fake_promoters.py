"""Promoters that change the records, and carry nothing over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gateway.control.service import ControlService
from gateway.domain.mirror_states import MirrorOperation
from gateway.domain.records import GroupRecord, GroupState, MirrorRecord


@dataclass
class FakePromoters:
    """Both promoters. `gate`: awaited between PENDING_STOPPED and the end. `refusal`: raised instead."""

    service: ControlService | None = None
    gate: Any = None
    refusal: Exception | None = None
    waits: str = ""
    asked: list[tuple[str, tuple[str, ...], bool]] = field(default_factory=list)

    async def promote_topics(self, link: str, topics: Sequence[str], force: bool) -> Sequence[MirrorRecord]:
        assert self.service is not None
        self.asked.append((link, tuple(topics), force))
        if self.refusal is not None and self.gate is None:
            raise self.refusal
        context = self.service.context
        operation = MirrorOperation.FORCE_PROMOTE if force else MirrorOperation.PROMOTE
        for topic in topics:
            await context.change(link, topic, operation)
        if self.gate is not None:
            await self.gate.wait()
        end = MirrorOperation.ABORT_PROMOTE if self.refusal else MirrorOperation.COMPLETE_PROMOTE
        done = [
            await context.change(link, topic, end, stopped_at=(7, 8, 9), stopped_copy_at=(7, 8, 9)) for topic in topics
        ]
        if self.refusal is not None:
            raise self.refusal
        return done


@dataclass
class FakeTopicPromoter:
    shared: FakePromoters

    async def promote(self, link: str, topics: Sequence[str], *, force: bool = False) -> Sequence[MirrorRecord]:
        return await self.shared.promote_topics(link, topics, force)

    def waiting_for(self, link: str, topic: str) -> str:
        return self.shared.waits


@dataclass
class FakeGroupPromoter:
    shared: FakePromoters

    async def promote(self, link: str, group: str, *, force: bool = False) -> GroupRecord:
        return await self._to(link, group, GroupState.PROMOTED)

    async def demote(self, link: str, group: str, *, force: bool = False) -> GroupRecord:
        return await self._to(link, group, GroupState.ACTIVE)

    def waits_for(self, link: str, group: str) -> str:
        return self.shared.waits

    async def _to(self, link: str, group: str, state: GroupState) -> GroupRecord:
        assert self.shared.service is not None
        if self.shared.refusal is not None:
            raise self.shared.refusal
        store = self.shared.service.context.store
        changed = replace(store.groups[link, group], state=state)
        await store.put(changed)
        return changed
