"""Operations on mirror topics, beside create (`mirror_create.py`)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import structlog

from gateway.control.catch_up import CatchUp, CatchUps
from gateway.control.context import ControlContext, require_created
from gateway.control.errors import BadRequest, Conflict, ControlError
from gateway.control.measure import Measure
from gateway.control.mirror_create import MirrorCreator
from gateway.control.not_moved import NotMoved, SourceReaders
from gateway.control.offsets_between import OffsetsBetween
from gateway.domain.mirror_states import MirrorOperation, WrongState, is_mirroring, transition
from gateway.domain.offset_map import Rule, Translation
from gateway.domain.per_partition import WrongLength
from gateway.domain.ports import PartitionStatus
from gateway.domain.records import MirrorRecord, MirrorState

_BEING_CREATED = "it is being created"
_BEGUN = (MirrorState.PENDING_STOPPED, MirrorState.STOPPED, MirrorState.PENDING_MIRROR)
_log = structlog.get_logger("lockgate.control")


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorView:
    """A mirror topic as shown. `not_moved` only in describe.

    `promote_error`: why the last promote did not end in STOPPED, '' if it did or none was tried since this
    process started. `waiting_for`: what a running promote waits for, or the mirror. `late_records`: by partition, what
    came to the source after the flip. `catch_up`: the job that copies it now, instead of the engine.
    """

    record: MirrorRecord
    partitions: Sequence[PartitionStatus]
    promote_error: str = ""
    waiting_for: str = ""
    late_records: Mapping[int, int] = field(default_factory=dict)
    not_moved: NotMoved | None = None
    catch_up: CatchUp | None = None


class Mirrors:
    """Create, list, describe, pause, resume, promote."""

    def __init__(self, context: ControlContext, measure: Measure, catch_ups: CatchUps) -> None:
        self._context = context
        self._measure = measure
        self._catch_ups = catch_ups
        self._creator = MirrorCreator(context)
        self._readers = SourceReaders(context)
        self._promoting: set[tuple[str, str]] = set()
        self._promote_errors: dict[tuple[str, str], str] = {}
        context.on_deleted.append(lambda mirror: self._promote_errors.pop((mirror.link, mirror.mirror_topic), None))

    async def create(self, link: str, source_topic: str = "", mirror_topic: str = "") -> MirrorView:
        """Create a mirror topic; see `MirrorCreator.create` for what it refuses."""
        return self.view(await self._creator.create(link, source_topic, mirror_topic))

    async def resume_create(self, intent: MirrorRecord) -> None:
        """Go on with a create that was begun, once; see `MirrorCreator.resume`."""
        await self._creator.resume(intent)

    async def finish_create(self, link: str, topic: str) -> None:
        """Go on with it until it is done or dropped; see `MirrorCreator.finish`."""
        await self._creator.finish(link, topic)

    def list(self, link: str, state: MirrorState | None = None) -> Sequence[MirrorView]:
        """The link's mirrors by name, all or those in one state; NotFound if there is no such link."""
        self._context.link(link)
        mirrors = sorted(
            (mirror for key, mirror in self._context.store.mirrors.items() if key[0] == link),
            key=lambda mirror: mirror.mirror_topic,
        )
        return [self.view(mirror) for mirror in mirrors if state in (None, mirror.state)]

    async def describe(self, link: str, topic: str) -> MirrorView:
        """One mirror, with who has not moved yet. A source that does not answer makes that part unknown."""
        mirror = self._context.mirror(link, topic)
        try:
            partitions = await self._measure.now(mirror)
        except WrongLength:
            partitions = ()
        not_moved = await self._readers.not_moved(mirror, partitions)
        return replace(self.view(self._context.mirror(link, topic)), partitions=partitions, not_moved=not_moved)

    async def translate_offset(
        self, link: str, topic: str, partition: int, offset: int, *, reverse: bool = False
    ) -> Translation:
        """Where an offset of the source is on the target, or the other way round, and how it was found.

        Raises:
            NotFound: no such mirror topic.
            BadRequest: no such partition, or a negative offset.
            ControlError: the offset map cannot be read now.
        """
        mirror = self._context.mirror(link, topic)
        if not 0 <= partition < len(mirror.starts) or offset < 0:
            raise BadRequest(f"mirror topic '{topic}' has no offset {offset} in partition {partition}")
        maps = await OffsetsBetween(self._context, link).maps_for((((topic, partition), offset),), on_target=reverse)
        if topic not in maps:
            return Translation(offset, Rule.EXACT)
        one = maps[topic]
        return one.to_source(partition, offset) if reverse else one.to_target(partition, offset)

    async def pause(self, link: str, topic: str) -> MirrorView:
        """Stop mirroring until `resume`; writes of the gateway's clients go on to the source."""
        async with self._context.locks.hold(f"mirror/{topic}"):
            mirror = await self._context.change(link, topic, MirrorOperation.PAUSE)
            await self._measure.stop(mirror)
        return self.view(mirror)

    async def resume(self, link: str, topic: str) -> MirrorView:
        """Go on mirroring from where the target's logs end."""
        async with self._context.locks.hold(f"mirror/{topic}"):
            mirror = await self._context.change(link, topic, MirrorOperation.RESUME, error_message="")
            self._context.engine.start_mirror(mirror)
        return self.view(mirror)

    async def promote(self, link: str, topics: Sequence[str], *, force: bool = False) -> Sequence[MirrorView]:
        """Start to promote the topics as one set, all or none; it goes on after this returns.

        Returns once the promote was refused (raises), has ended, or all topics are PENDING_STOPPED. How it ends
        is in the mirrors' state: STOPPED, or back in the state before with `promote_error`.

        Raises:
            BadRequest: no topic.
            NotFound, WrongState, Conflict: for any of the topics; nothing was changed.
        """
        if not topics:
            raise BadRequest("no topic to promote was named")
        context = self._context
        names = list(dict.fromkeys(topics))
        operation = MirrorOperation.FORCE_PROMOTE if force else MirrorOperation.PROMOTE
        for name in names:
            self._require(operation, context.mirror(link, name))
            if (link, name) in self._promoting:
                raise Conflict(f"mirror topic '{name}' is being promoted already")
        self._catch_ups.require_none(link, names)
        self._promoting.update((link, name) for name in names)
        run = asyncio.create_task(self._run_promote(link, names, force), name=f"promote {link} {','.join(names)}")
        context.background.keep(run)
        begun = asyncio.create_task(self._begun(link, names))
        await asyncio.wait((run, begun), return_when=asyncio.FIRST_COMPLETED)
        begun.cancel()
        if run.done():
            run.result()
        return [self.view(context.mirror(link, name)) for name in names]

    def view(self, mirror: MirrorRecord) -> MirrorView:
        """The mirror as shown; of one whose record does not say where its partitions ended, that."""
        broken = ""
        partitions: Sequence[PartitionStatus] = ()
        try:
            partitions = self._measure.known(mirror)
        except WrongLength as exc:
            broken = str(exc)
        return MirrorView(
            record=mirror,
            partitions=partitions,
            promote_error=self._promote_errors.get((mirror.link, mirror.mirror_topic), ""),
            waiting_for=broken
            or ("" if mirror.created else _BEING_CREATED)
            or self._context.topic_promoter.waiting_for(mirror.link, mirror.mirror_topic)
            or self._context.way_back_waits(mirror.link, mirror.mirror_topic)
            or self._target_waits(mirror),
            late_records=self._context.late_records(mirror.link, mirror.mirror_topic),
            catch_up=self._catch_ups.of(mirror.link, mirror.mirror_topic),
        )

    def _target_waits(self, mirror: MirrorRecord) -> str:
        """A mirror cannot go on without the target; clients' writes can."""
        trouble = self._context.target.trouble() if is_mirroring(mirror.state) else ""
        return f"the target does not answer; the mirror goes on afterwards: {trouble}" if trouble else ""

    def _require(self, operation: MirrorOperation, mirror: MirrorRecord) -> None:
        require_created(mirror)
        try:
            transition(operation, mirror.state)
        except WrongState as exc:
            raise WrongState(f"mirror topic '{mirror.mirror_topic}' {exc}") from None

    async def _begun(self, link: str, topics: Sequence[str]) -> None:
        """Ends when all topics are past the state in which the promote found them."""
        changed = asyncio.Event()
        self._context.store.subscribe(changed.set)
        try:
            while any(
                (mirror := self._context.store.mirrors.get((link, topic))) is not None and mirror.state not in _BEGUN
                for topic in topics
            ):
                changed.clear()
                await changed.wait()
        finally:
            self._context.store.unsubscribe(changed.set)

    async def _run_promote(self, link: str, topics: Sequence[str], force: bool) -> None:
        for topic in topics:
            self._promote_errors.pop((link, topic), None)
        try:
            await self._context.topic_promoter.promote(link, topics, force=force)
        except Exception as exc:
            for topic in topics:
                self._promote_errors[link, topic] = str(exc) or type(exc).__name__
            expected = isinstance(exc, ControlError | WrongState)
            _log.warning(
                "promote ended without a flip", link=link, topics=topics, error=str(exc), exc_info=not expected
            )
            raise
        finally:
            self._promoting.difference_update((link, topic) for topic in topics)
