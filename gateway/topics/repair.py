"""Repairing a mirror topic that has FAILED: what is known of both clusters, the ways out, and the one asked for.

`rules/repair.py` says which ways there are. Each is one write of the record, from which any leader goes on: ACTIVE
again, or an intent to create the topic anew (`create.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

import structlog

from gateway.errors import BadRequest, Conflict, ControlError
from gateway.mirror.interface import MirrorEngine
from gateway.operations.cluster_access import ClusterAccess
from gateway.operations.cluster_errors import source_errors, target_errors
from gateway.operations.records import Records, require_created
from gateway.operations.sources import Sources
from gateway.state import link_config
from gateway.state.link_config import Offsets
from gateway.state.mirror_states import MirrorOperation, apply, require
from gateway.state.records import MirrorError, MirrorRecord
from gateway.topics.create import MirrorCreator
from gateway.topics.rules.repair import Repair, RepairAction, RepairFacts, TopicFacts, repairs_of, way_out
from gateway.transport.locks import KeyedLocks

_ASK_S = 10.0
_log = structlog.get_logger("lockgate.control")


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairPlan:
    """What can be done for a mirror. `way_out`: one line."""

    record: MirrorRecord
    repairs: Sequence[Repair]
    way_out: str
    facts: RepairFacts

    def find(self, action: RepairAction) -> Repair:
        """The repair of this name."""
        return next(repair for repair in self.repairs if repair.action is action)


class MirrorRepair:
    """Plans and carries out."""

    def __init__(
        self,
        *,
        records: Records,
        sources: Sources,
        target: ClusterAccess,
        engine: MirrorEngine,
        creator: MirrorCreator,
        locks: KeyedLocks,
    ) -> None:
        self._records = records
        self._sources = sources
        self._target = target
        self._engine = engine
        self._creator = creator
        self._locks = locks

    async def plan(self, link: str, topic: str) -> RepairPlan:
        """The ways out, as both clusters are now. One that does not answer makes what stands on it impossible.

        Raises:
            NotFound: no such mirror.
            WrongState: it has not FAILED.
            Conflict: it is being created or deleted.
        """
        record = self._records.mirror(link, topic)
        require_created(record)
        require(MirrorOperation.REPAIR, record)
        return await self._plan(record)

    async def repair(self, link: str, topic: str, action: RepairAction | None = None) -> MirrorRecord:
        """Do it. Without an `action` the first possible one of those that delete nothing.

        Raises:
            BadRequest: it is not possible, with the reason.
            NotFound, WrongState, Conflict, SourceUnreachable, TargetUnreachable, StoreError: nothing was changed.
        """
        plan = await self.plan(link, topic)
        chosen = plan.find(action) if action else next((one for one in plan.repairs if _is_safe(one)), None)
        if chosen is None:
            raise Conflict(f"mirror topic '{topic}' cannot be repaired without deleting a topic: {plan.way_out}")
        if not chosen.possible:
            raise BadRequest(f"mirror topic '{topic}' cannot be repaired by {chosen.action}: {chosen.refused}")
        if chosen.action is RepairAction.RECREATE:
            copy = plan.facts.copy
            done = await self._creator.recreate(plan.record, copy.topic_id if copy.present else "")
        else:
            done = await self._resume(plan.record, goes_on=chosen.action is RepairAction.TRANSLATE)
        _log.warning(
            "mirror repaired", link=link, topic=topic, action=chosen.action.value, error=plan.record.error.value
        )
        return done

    async def _resume(self, record: MirrorRecord, *, goes_on: bool) -> MirrorRecord:
        async with self._locks.hold(f"mirror/{record.mirror_topic}"):
            self._records.store.unchanged([record])()  # another repair may have been faster: its mirror is not stopped
            new = apply(
                MirrorOperation.REPAIR,
                record,
                self._records.now_ms(),
                error=MirrorError.NO_ERROR,
                error_message="",
                repairs=record.repairs + 1,
                goes_on=record.goes_on or goes_on,
            )
            await self._engine.stop_mirror(record.link, record.mirror_topic)  # what has failed is not begun anew else
            await self._records.store.replace(record, new)
            self._engine.start_mirror(new)
        return new

    # -- what is known ---------------------------------------------------------------------------------------------

    async def _plan(self, record: MirrorRecord) -> RepairPlan:
        link = self._records.link(record.link)
        source, target = await asyncio.gather(self._on_source(record), self._on_target(record))
        origin, copy = (target, source) if record.is_reverse else (source, target)
        facts = RepairFacts(
            origin=origin,
            copy=copy,
            translates=link_config.parse(link.configs).offsets is Offsets.AUTO,
        )
        if not record.is_reverse and origin.present and not copy.unknown:
            facts = replace(facts, recreate_refused=await self._recreate_refused(record, copy))
        repairs = repairs_of(record, facts)
        return RepairPlan(record=record, repairs=repairs, way_out=way_out(repairs), facts=facts)

    async def _recreate_refused(self, record: MirrorRecord, copy: TopicFacts) -> str:
        try:
            async with asyncio.timeout(_ASK_S):
                await self._creator.plan_anew(record, copy.topic_id)
        except (ControlError, TimeoutError) as exc:
            return str(exc) or "no answer in time"
        return ""

    async def _on_source(self, record: MirrorRecord) -> TopicFacts:
        try:
            async with asyncio.timeout(_ASK_S):
                access = await self._sources.reach(self._records.link(record.link))
                with source_errors(record.link):
                    return await _facts(access, record.source_topic)
        except (ControlError, TimeoutError) as exc:
            return TopicFacts(unknown=str(exc) or "no answer in time")

    async def _on_target(self, record: MirrorRecord) -> TopicFacts:
        try:
            async with asyncio.timeout(_ASK_S):
                with target_errors():
                    return await _facts(self._target, record.mirror_topic)
        except (ControlError, TimeoutError) as exc:
            return TopicFacts(unknown=str(exc) or "no answer in time")


async def _facts(cluster: ClusterAccess, name: str) -> TopicFacts:
    found = (await cluster.topics([name])).get(name)
    if found is None:
        return TopicFacts()
    ranges = await cluster.log_ranges(name, found.partitions)
    return TopicFacts(present=True, topic_id=found.topic_id, ranges=tuple(ranges))


def _is_safe(repair: Repair) -> bool:
    """Possible, and nothing is deleted by it."""
    return repair.possible and repair.action is not RepairAction.RECREATE
