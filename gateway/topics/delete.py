"""Deleting one mirror topic: the record, with the topic or without. `rules/delete.py` says when it may be.

The intent is stored first (`deletion` in the record), and whoever leads goes on from there::

    stored        every gateway's engine leaves the topic; clients' writes go where they went
    read by all   no gateway that may still write has missed it
    topic gone    if that was asked for: the very topic, by its id, never by its name
    record gone   routes, gates and engines follow the records; who remembers something of the mirror forgets it

A target that refuses for good to delete the topic ends the deletion: the mirror is as it was. Any other trouble is
tried again until it is over. Offset maps of the mirror stay where they are: they belong to its id, which is never
given out again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace

import structlog

from gateway.cutover.write_pause.publisher import RoutingPublisher
from gateway.errors import Conflict, ControlError, NotFound, SourceUnreachable, TargetUnreachable
from gateway.groups.mirror_groups import promoted_readers
from gateway.mirror.interface import MirrorEngine
from gateway.mirror.rules.progress import MirrorProgress
from gateway.operations.cluster_access import ClusterAccess
from gateway.operations.cluster_errors import knows_no_topic, source_errors, target_errors
from gateway.operations.deleted_mirrors import DeletedMirrors
from gateway.operations.door import Door
from gateway.operations.fleet_wide import FleetWide
from gateway.operations.records import Records
from gateway.operations.running_mirrors import runs
from gateway.operations.sources import Sources
from gateway.state.link_config import parse
from gateway.state.records import Deletion, GroupState, LinkRecord, MirrorRecord, MirrorState
from gateway.state.store import ProducerFenced, StoreConflict, StoreError, until_known
from gateway.state.transition_errors import code_of, with_error
from gateway.topics.catch_up import CatchUps
from gateway.topics.rules.auto_create import why_created_again
from gateway.topics.rules.delete import BEING_PROMOTED, DeletionFacts, why_not_changed, why_not_deleted
from gateway.transport.background import Background
from gateway.transport.locks import KeyedLocks

_ASK_S = 10.0
_AGAIN_S = 2.0
_log = structlog.get_logger("lockgate.control")

Readers = Callable[[LinkRecord, Sequence[str]], Awaitable[list[str]]]
"""(link, source topics) -> the groups of its source that read one of them there and are not promoted."""


WithoutPromote = Callable[[str, str], AbstractAsyncContextManager[None]]
"""(link, mirror topic) -> a block for whose time no promote and no failover of the topic runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionPlan:
    """What a deletion would do. `refused`: why it would not, '' when it would."""

    record: MirrorRecord
    topic_too: bool
    refused: str
    facts: DeletionFacts


class MirrorDeletion:
    """`readers`: asked of the source. `promoting`: (link, mirror topic) -> a promote of it has been asked for."""

    def __init__(
        self,
        *,
        records: Records,
        sources: Sources,
        target: ClusterAccess,
        engine: MirrorEngine,
        publisher: RoutingPublisher,
        progress: MirrorProgress,
        catch_ups: CatchUps,
        readers: Readers,
        promoting: Callable[[str, str], bool],
        without_promote: WithoutPromote,
        fleet: FleetWide,
        locks: KeyedLocks,
        door: Door,
        background: Background,
        deleted: DeletedMirrors,
    ) -> None:
        self._records = records
        self._store = records.store
        self._sources = sources
        self._target = target
        self._engine = engine
        self._publisher = publisher
        self._progress = progress
        self._catch_ups = catch_ups
        self._readers = readers
        self._promoting = promoting
        self._without_promote = without_promote
        self._fleet = fleet
        self._locks = locks
        self._door = door
        self._background = background
        self._deleted = deleted

    async def plan(self, link: str, topic: str, *, topic_too: bool = False, force: bool = False) -> DeletionPlan:
        """What it would do now; NotFound if there is no such mirror. Nothing is changed."""
        record = self._records.mirror(link, topic)
        facts = await self._facts(record)
        refused = why_not_deleted(record, facts, topic_too=topic_too, force=force)
        return DeletionPlan(
            record=record, topic_too=topic_too, facts=facts, refused=refused and f"mirror topic '{topic}' {refused}"
        )

    async def delete(self, link: str, topic: str, *, topic_too: bool = False, force: bool = False) -> None:
        """Delete a mirror topic's record, and with `topic_too` the topic on the target. It is gone when this returns.

        One that was begun before is gone on with. One that is begun here and meets trouble goes on in the background.

        Raises:
            NotFound: no such link, or mirror.
            Conflict: with the reason; nothing was changed, unless it says that a gateway is waited for.
            TargetUnreachable, StoreError: it goes on when that is over.
        """
        asked = Deletion.TOPIC if topic_too else Deletion.RECORD
        state = self._records.mirror(link, topic).state
        begins = self._promoting(link, topic) and state is not MirrorState.STOPPED
        if begins or state is MirrorState.PENDING_STOPPED:  # the block below would end it
            raise Conflict(f"mirror topic '{topic}' {BEING_PROMOTED}")
        async with self._without_promote(link, topic), self._locks.hold(f"mirror/{topic}"):
            record = self._records.mirror(link, topic)
            facts = await self._facts(record)

            def still_allowed() -> None:
                current = self._store.mirrors.get((link, topic))
                if current != record:
                    raise Conflict(f"mirror topic '{topic}' was changed meanwhile; try again")
                retried = replace(facts, retried_s=self._publisher.retried_s(topic))
                reason = why_not_deleted(record, retried, topic_too=topic_too, force=force) or why_not_changed(
                    record.deletion, asked
                )
                if reason:
                    raise Conflict(f"mirror topic '{topic}' {reason}")

            still_allowed()
            intent = replace(record, deletion=asked)
            try:
                await self._store.put(intent, guard=still_allowed)
                await self._carry_out(intent)
            except ProducerFenced:
                raise  # the next leader goes on
            except BaseException:
                self._background.spawn(self.finish(link, topic), f"finish delete {topic}")
                raise
        _log.info("mirror deleted", link=link, topic=topic, topic_too=topic_too, force=force)

    async def finish(self, link: str, topic: str) -> None:
        """Go on with a deletion that was begun, until it is done, or refused by the target; at once when none is."""
        while await until_known(self._store):  # else another gateway leads
            try:
                async with self._locks.hold(f"mirror/{topic}"):
                    intent = self._store.mirrors.get((link, topic))
                    if intent is None or intent.deletion is Deletion.NONE:
                        return
                    await self._carry_out(intent)
                return
            except ProducerFenced:
                return
            except (ControlError, StoreError) as exc:
                _log.warning("delete not finished yet", topic=topic, error=str(exc))
                await asyncio.sleep(_AGAIN_S)

    async def _carry_out(self, intent: MirrorRecord) -> None:
        link, topic = intent.link, intent.mirror_topic
        await self._engine.stop_mirror(link, topic)
        await self._fleet.read_by_all()
        if intent.deletion is Deletion.TOPIC:
            try:
                await self._delete_topic(intent)
            except Conflict as exc:
                await self._take_back(intent, exc)
                raise
        await self._store.delete(intent)
        self._publisher.forget(topic)
        self._progress.forget(topic)
        self._deleted.tell(intent)

    async def _delete_topic(self, intent: MirrorRecord) -> None:
        """By its id: one that was created since under this name stays. Raises TargetUnreachable, Conflict."""
        try:
            with target_errors(), self._door.permit(intent):
                await self._target.delete_topic(intent.mirror_topic, intent.mirror_topic_id)
        except Conflict as exc:
            if not knows_no_topic(exc):
                raise

    async def _take_back(self, intent: MirrorRecord, reason: Conflict) -> None:
        kept = replace(intent, deletion=Deletion.NONE)
        kept = with_error(kept, "delete", str(reason), self._records.now_ms(), code_of(reason))
        try:
            await self._store.replace(intent, kept)
        except StoreConflict:
            return  # it was changed: looked at anew
        if runs(kept):
            self._engine.start_mirror(kept)

    # -- what is known ---------------------------------------------------------------------------------------------

    async def _facts(self, record: MirrorRecord) -> DeletionFacts:
        readers, unknown = await self._unpromoted(record)
        job = self._catch_ups.of(record.link, record.mirror_topic)
        return DeletionFacts(
            retried_s=self._publisher.retried_s(record.mirror_topic),
            readers=readers,
            unknown=unknown,
            promoted_readers=await self._promoted(record),
            source_is_gone=await self._source_is_gone(record),
            job="" if job is None else job.job,
            again=why_created_again(parse(self._records.link(record.link).configs), record.source_topic),
        )

    async def _promoted(self, record: MirrorRecord) -> Sequence[str]:
        """By what their records and the target say: a source that is gone is a reason to delete, and tells nothing.

        Raises:
            TargetUnreachable, Conflict: the target does not tell.
        """
        found = await promoted_readers(self._records, self._target, None, record)
        return sorted(one.group for one in found)

    async def _unpromoted(self, record: MirrorRecord) -> tuple[Sequence[str] | None, str]:
        """None, and why, when the source did not tell and a group of the link may read the topic."""
        gated = [
            group.source_name
            for (link, _), group in self._store.groups.items()
            if link == record.link and group.state is not GroupState.PROMOTED
        ]
        if not gated:
            return (), ""
        try:
            async with asyncio.timeout(_ASK_S):
                reading = await self._readers(self._records.link(record.link), [record.source_topic])
        except (ControlError, TimeoutError) as exc:
            return None, str(exc) or "the source did not answer in time"
        return [group for group in reading if group in gated], ""

    async def _source_is_gone(self, record: MirrorRecord) -> bool:
        """The topic that was mirrored is certainly not there: its controller says so, or it has another id by now."""
        name = record.source_topic
        try:
            async with asyncio.timeout(_ASK_S):
                access = await self._sources.reach(self._records.link(record.link))
                with source_errors(record.link):
                    found = (await access.topics([name])).get(name)
                    if found is None:
                        return await access.is_absent(name)
        except (SourceUnreachable, TargetUnreachable, Conflict, NotFound, TimeoutError):
            return False
        return False
