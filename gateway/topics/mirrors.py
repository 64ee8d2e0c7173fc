"""Operations on mirror topics, beside create (`create.py`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import structlog

from gateway.errors import BadRequest, Conflict, ControlError
from gateway.links.rules.update import require_running
from gateway.mirror.interface import MirrorEngine, PartitionStatus
from gateway.mirror.offset_map.rules.offset_map import Translation, TranslationRule
from gateway.operations.cluster_access import ClusterAccess
from gateway.operations.deleted_mirrors import DeletedMirrors
from gateway.operations.offset_translation import OffsetMaps
from gateway.operations.partners import TopicPromoter
from gateway.operations.records import Records, require_created
from gateway.state.link_config import parse
from gateway.state.mirror_states import MirrorOperation, WrongState, is_mirroring, shown, transition
from gateway.state.per_partition import WrongLength
from gateway.state.provenance import Provenance, provenance_of
from gateway.state.records import MirrorDirection, MirrorRecord, MirrorState, ThenReverse, TransitionError
from gateway.state.transition_errors import MESSAGE_AT_MOST, code_of
from gateway.topics.catch_up import CatchUp, CatchUps
from gateway.topics.clients_not_migrated import ClientsNotMigrated, SourceReaders
from gateway.topics.config_drift import ConfigDrift, SetBack
from gateway.topics.copy_differences import CopyDifferences
from gateway.topics.create import MirrorCreator
from gateway.topics.plan import AS_THE_LINK_SAYS, MirrorPlan, Wanted
from gateway.topics.rules.direction import why_not_this_way
from gateway.topics.status import Measure
from gateway.topics.topic_configs import TargetConfigs
from gateway.transport.background import Background
from gateway.transport.locks import KeyedLocks

_BEING_CREATED = "it is being created"
_BEING_DELETED = "it is being deleted"
_ON_ITS_WAY = (MirrorState.PENDING_SYNCHRONIZE, MirrorState.PENDING_MIRROR)
_BEGUN = (MirrorState.PENDING_STOPPED, MirrorState.STOPPED, MirrorState.PENDING_MIRROR)
_log = structlog.get_logger("lockgate.control")


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorView:
    """A mirror topic as shown. `clients_not_migrated` only in describe.

    `promote_error`: why the last promote did not end in STOPPED, '' if it did or none was tried since this
    process started. `waiting_for`: what a running promote waits for, or the mirror. `records_after_cutover`: by
    partition, what came to the source after the cutover; None: not measured. `catch_up`: the job that copies it now.
    `paused_by_link`: its link is paused, and so it is, whatever its own state. `provenance`: from where its records
    are; None for a mirror whose link is gone. `transition_errors`: those that its record keeps, and what its failback
    meets just now. `set_back`: configs that somebody changed on the copy. `configs_on_target`: what is set on the topic
    itself beside what is synced or lifted; only in describe, None where the target did not tell.
    `unresolved_schema_ids`: that records have, and the source's schema registry knows, but not the target's; of a topic
    whose ids are written anew those that are waited for. `warnings`: in what the copy differs from its origin that
    nobody mends by itself, and what is to be done; a line each. `not_durable`: a promote would be refused, since the
    copy keeps less safely what clients write.
    """

    record: MirrorRecord
    partitions: Sequence[PartitionStatus]
    paused_by_link: bool = False
    promote_error: str = ""
    waiting_for: str = ""
    records_after_cutover: Mapping[int, int] | None = field(default_factory=dict)
    clients_not_migrated: ClientsNotMigrated | None = None
    catch_up: CatchUp | None = None
    transition_errors: Sequence[TransitionError] = ()
    set_back: Sequence[SetBack] = ()
    configs_on_target: Mapping[str, str] | None = None
    provenance: Provenance | None = None
    unresolved_schema_ids: Sequence[int] = ()
    warnings: Sequence[str] = ()
    not_durable: str = ""

    @property
    def late_records(self) -> int | None:
        """Of all partitions, what came to the source after the cutover; None: not measured."""
        found = self.records_after_cutover
        return None if found is None else sum(found.values())

    @property
    def state(self) -> MirrorState:
        """As it is shown."""
        return shown(self.record, link_paused=self.paused_by_link)


class Mirrors:
    """Create, list, describe, pause, resume, promote."""

    def __init__(
        self,
        *,
        records: Records,
        engine: MirrorEngine,
        target: ClusterAccess,
        maps: OffsetMaps,
        measure: Measure,
        catch_ups: CatchUps,
        creator: MirrorCreator,
        readers: SourceReaders,
        promoter: TopicPromoter,
        failback_waits: Callable[[str, str], str],
        locks: KeyedLocks,
        background: Background,
        deleted: DeletedMirrors,
        drift: ConfigDrift,
        differences: CopyDifferences,
        configs: TargetConfigs,
        trouble: Callable[[str, str], Exception | None] = lambda link, topic: None,
        schema_ids: Callable[[str, str], Sequence[int]] = lambda link, topic: (),
    ) -> None:
        """`failback_waits`: (link, mirror topic) -> what a failback or a failover of the topic waits for, or ''.

        `trouble`: what a failback of the topic meets just now. `schema_ids`: those of its records that do not resolve.
        """
        self._records = records
        self._store = records.store
        self._engine = engine
        self._target = target
        self._maps = maps
        self._measure = measure
        self._catch_ups = catch_ups
        self._creator = creator
        self._readers = readers
        self._promoter = promoter
        self._failback_waits = failback_waits
        self._locks = locks
        self._background = background
        self._drift = drift
        self._differences = differences
        self._configs = configs
        self._trouble = trouble
        self._schema_ids = schema_ids
        self._promoting: set[tuple[str, str]] = set()
        self._promote_errors: dict[tuple[str, str], str] = {}
        deleted.subscribe(lambda mirror: self._promote_errors.pop((mirror.link, mirror.mirror_topic), None))

    async def create(
        self, link: str, source_topic: str = "", mirror_topic: str = "", wanted: Wanted = AS_THE_LINK_SAYS
    ) -> MirrorView:
        """Create a mirror topic; see `MirrorCreator.create` for what it refuses."""
        return self.view(await self._creator.create(link, source_topic, mirror_topic, wanted))

    async def create_plan(
        self, link: str, source_topic: str = "", mirror_topic: str = "", wanted: Wanted = AS_THE_LINK_SAYS
    ) -> MirrorPlan:
        """What `create` would do; see `MirrorCreator.plan`."""
        return await self._creator.plan(link, source_topic, mirror_topic, wanted)

    async def finish_create(self, link: str, topic: str) -> None:
        """Go on with it until it is done or dropped; see `MirrorCreator.finish`."""
        await self._creator.finish(link, topic)

    def record(self, link: str, topic: str) -> MirrorRecord:
        """The record of one mirror; NotFound if there is no such link, or mirror."""
        return self._records.mirror(link, topic)

    def list(self, link: str, state: MirrorState | None = None) -> Sequence[MirrorView]:
        """The link's mirrors by name, all or those in one state; NotFound if there is no such link."""
        return [self.view(mirror) for mirror in sorted(self.records(link, state), key=lambda one: one.mirror_topic)]

    def records(self, link: str, state: MirrorState | None = None) -> Iterable[MirrorRecord]:
        """The records of the link's mirrors, all or those in one state, in no order; NotFound likewise.

        A view costs as much as its topic has partitions: who shows some takes them of the records.
        """
        self._records.link(link)
        found = [mirror for key, mirror in self._store.mirrors.items() if key[0] == link]
        return found if state is None else [mirror for mirror in found if self.state_of(mirror) is state]

    def state_of(self, mirror: MirrorRecord) -> MirrorState:
        """As its view shows it."""
        return shown(mirror, link_paused=self._is_paused(mirror))

    async def describe(self, link: str, topic: str) -> MirrorView:
        """One mirror, with who has not migrated yet. A source that does not answer makes that part unknown."""
        mirror = self._records.mirror(link, topic)
        try:
            partitions = await self._measure.now(mirror)
        except WrongLength:
            partitions = ()
        clients_not_migrated = await self._readers.clients_not_migrated(mirror, partitions)
        on_target = await self._configs.of(mirror)
        return replace(
            self.view(self._records.mirror(link, topic)),
            partitions=partitions,
            clients_not_migrated=clients_not_migrated,
            configs_on_target=on_target,
        )

    async def translate_offset(
        self, link: str, topic: str, partition: int, offset: int, *, reverse: bool = False
    ) -> Translation:
        """Where an offset of the source is on the target, or the other way round, and how it was found.

        Raises:
            NotFound: no such mirror topic.
            BadRequest: no such partition, or a negative offset.
            ControlError: the offset map cannot be read now.
        """
        mirror = self._records.mirror(link, topic)
        if not 0 <= partition < len(mirror.starts) or offset < 0:
            raise BadRequest(f"mirror topic '{topic}' has no offset {offset} in partition {partition}")
        maps = await self._maps.between(link).maps_for((((topic, partition), offset),), on_target=reverse)
        if topic not in maps:
            return Translation(offset, TranslationRule.EXACT)
        one = maps[topic]
        return one.to_source(partition, offset) if reverse else one.to_target(partition, offset)

    async def pause(self, link: str, topic: str) -> MirrorView:
        """Stop mirroring until `resume`; writes of the gateway's clients go on where they go.

        A mirror that is being reversed is not stopped: it will be PAUSED when it begins.
        """
        async with self._locks.hold(f"mirror/{topic}"):
            mirror = await self._records.change(link, topic, MirrorOperation.PAUSE, _begins_paused)
            if mirror.state is MirrorState.PAUSED:
                await self._measure.stop(mirror)
        return self.view(mirror)

    async def resume(self, link: str, topic: str) -> MirrorView:
        """Go on mirroring from where the target's logs end."""
        async with self._locks.hold(f"mirror/{topic}"):
            mirror = await self._records.change(link, topic, MirrorOperation.RESUME, _begins_active, error_message="")
            if is_mirroring(mirror.state):
                self._engine.start_mirror(mirror)
        return self.view(mirror)

    async def pause_all(self, link: str, topics: Sequence[str], *, validate_only: bool = False) -> Sequence[MirrorView]:
        """Pause each; those that are PAUSED already stay so. `validate_only`: nothing is changed, all is checked.

        Raises:
            BadRequest: no topic.
            NotFound, WrongState: for any of them, before one is changed.
        """
        return await self._switch_all(link, topics, MirrorOperation.PAUSE, validate_only=validate_only)

    async def resume_all(
        self, link: str, topics: Sequence[str], *, validate_only: bool = False
    ) -> Sequence[MirrorView]:
        """Resume each; those that are ACTIVE already stay so. Raises as `pause_all`."""
        return await self._switch_all(link, topics, MirrorOperation.RESUME, validate_only=validate_only)

    async def _switch_all(
        self, link: str, topics: Sequence[str], operation: MirrorOperation, *, validate_only: bool
    ) -> Sequence[MirrorView]:
        if not topics:
            raise BadRequest("mirror_topic_names: no topic was named")
        pauses = operation is MirrorOperation.PAUSE
        done, change = (MirrorState.PAUSED, self.pause) if pauses else (MirrorState.ACTIVE, self.resume)
        wanted = [self._records.mirror(link, name) for name in dict.fromkeys(topics)]
        left = [mirror for mirror in wanted if mirror.state is not done]
        for mirror in left:
            self._require(operation, mirror)
        for mirror in () if validate_only else left:
            await change(link, mirror.mirror_topic)
        return [self.view(self._records.mirror(link, mirror.mirror_topic)) for mirror in wanted]

    async def promote(
        self,
        link: str,
        topics: Sequence[str],
        *,
        groups: Sequence[str] = (),
        force: bool = False,
        direction: MirrorDirection = MirrorDirection.FORWARD,
        then_reverse: ThenReverse = ThenReverse.NO,
        keep_late: bool = False,
    ) -> Sequence[MirrorView]:
        """Start to promote the topics as one set, all or none; it goes on after this returns.

        `groups`: mirror groups that change sides with them. `direction`: REVERSE takes topics home that are mirrored
        back. `then_reverse`: kept with the first step of it. `keep_late`: see `TopicPromoter.promote`.

        Returns once the promote was refused (raises), has ended, or all topics are PENDING_STOPPED. How it ends
        is in the mirrors' state: STOPPED, or back in the state before with `promote_error`.

        Raises:
            BadRequest: no topic.
            NotFound, WrongState, Conflict: for any of the topics; nothing was changed.
        """
        if not topics:
            raise BadRequest("no topic to promote was named")
        names = list(dict.fromkeys(topics))
        for name in names:
            self.require_promotable(link, name, force=force, direction=direction)
        self._promoting.update((link, name) for name in names)
        run = asyncio.create_task(
            self._run_promote(link, names, groups, force, then_reverse, keep_late),
            name=f"promote {link} {','.join(names)}",
        )
        self._background.keep(run)
        begun = asyncio.create_task(self._begun(link, names))
        await asyncio.wait((run, begun), return_when=asyncio.FIRST_COMPLETED)
        begun.cancel()
        if run.done():
            run.result()
        return [self.view(self._records.mirror(link, name)) for name in names]

    async def call_off(self, link: str, topics: Sequence[str], *, validate_only: bool = False) -> Sequence[MirrorView]:
        """Call off the promotes of these topics, with all of their sets; see `TopicPromoter.call_off`.

        Returns all that go back.
        """
        names = await self._promoter.call_off(link, topics, validate_only=validate_only)
        return [self.view(self._records.mirror(link, name)) for name in names]

    def promote_failed(self, link: str, topic: str) -> bool:
        """Whether the last promote did not end in STOPPED, as far as this process knows."""
        return (link, topic) in self._promote_errors

    def find(self, link: str, topic: str) -> MirrorRecord | None:
        """The record of a mirror topic, if there is one."""
        return self._store.mirrors.get((link, topic))

    def late_writes_known(self, link: str, topic: str) -> bool:
        """Whether the topic's `records_after_cutover` were measured since this process leads."""
        return self._promoter.late_writes_known(link, topic)

    def view(self, mirror: MirrorRecord) -> MirrorView:
        """The mirror as shown; of one whose record does not say where its partitions ended, that."""
        broken, link, paused = "", self._store.links.get(mirror.link), self._is_paused(mirror)
        partitions: Sequence[PartitionStatus] = ()
        try:
            partitions = self._measure.known(mirror)
        except WrongLength as exc:
            broken = str(exc)
        return MirrorView(
            record=mirror,
            partitions=partitions,
            paused_by_link=paused,
            promote_error=self._promote_errors.get((mirror.link, mirror.mirror_topic), ""),
            waiting_for=broken
            or (_BEING_DELETED if mirror.deletion else "")
            or ("" if mirror.created else _BEING_CREATED)
            or (f"its link is paused; lockgate link resume {mirror.link}" if paused else "")
            or self._promoter.waiting_for(mirror.link, mirror.mirror_topic)
            or self._failback_waits(mirror.link, mirror.mirror_topic)
            or self._target_waits(mirror),
            records_after_cutover=self._promoter.records_after_cutover(mirror.link, mirror.mirror_topic),
            catch_up=self._catch_ups.of(mirror.link, mirror.mirror_topic),
            transition_errors=self.transition_errors(mirror),
            set_back=self._drift.of(mirror),
            warnings=self._differences.of(mirror),
            not_durable=self._differences.why_not_promoted(mirror, accepted=self._may_be_less_durable(mirror)),
            provenance=None if link is None else provenance_of(mirror, link),
            unresolved_schema_ids=self._schema_ids(mirror.link, mirror.mirror_topic),
        )

    def transition_errors(self, mirror: MirrorRecord) -> Sequence[TransitionError]:
        """What kept it from a state that it was to go to: as its record keeps it, and what it meets just now."""
        trouble = self._trouble(mirror.link, mirror.mirror_topic)
        if trouble is None:
            return mirror.transition_errors
        text = " ".join((str(trouble) or "no answer in time").split())[:MESSAGE_AT_MOST]
        now = TransitionError(code_of(trouble).value, text, mirror.state.value, self._records.now_ms())
        return (*mirror.transition_errors, now)

    def _is_paused(self, mirror: MirrorRecord) -> bool:
        link = self._store.links.get(mirror.link)
        return link is not None and parse(link.configs).paused and is_mirroring(mirror.state)

    def _may_be_less_durable(self, mirror: MirrorRecord) -> bool:
        link = self._store.links.get(mirror.link)
        return link is not None and parse(link.configs).less_durable.passes(mirror.source_topic)

    def _target_waits(self, mirror: MirrorRecord) -> str:
        """A mirror cannot go on without the target; clients' writes can."""
        trouble = self._target.trouble() if is_mirroring(mirror.state) else ""
        return f"the target does not answer; the mirror goes on afterwards: {trouble}" if trouble else ""

    def promoting(self, link: str, topic: str) -> bool:
        """A promote of the topic was asked for here, and has not ended."""
        return (link, topic) in self._promoting

    @contextmanager
    def promoting_now(self, link: str, topics: Sequence[str]) -> Iterator[None]:
        """In the block the topics count as being promoted: by a rehearsal."""
        names = {(link, topic) for topic in topics}
        self._promoting |= names
        try:
            yield
        finally:
            self._promoting -= names

    def require_promotable(
        self, link: str, topic: str, *, force: bool = False, direction: MirrorDirection | None
    ) -> None:
        """What is known here of a promote of the topic: without an answer of a cluster, and of other topics.

        `direction`: which way it is to go; None: the one that it has.

        Raises:
            NotFound, WrongState, Conflict: it would not begin.
        """
        operation = MirrorOperation.FORCE_PROMOTE if force else MirrorOperation.PROMOTE
        mirror = self._records.mirror(link, topic)
        require_running(self._records.link(link), [topic])
        require_created(mirror)
        if direction is not None and (why_not := why_not_this_way(mirror, direction)):
            raise WrongState(f"mirror topic '{topic}' {why_not}")
        self._require(operation, mirror)
        if (link, topic) in self._promoting:
            raise Conflict(f"mirror topic '{topic}' is being promoted already")
        self._catch_ups.require_none(link, [topic])

    def _require(self, operation: MirrorOperation, mirror: MirrorRecord) -> None:
        require_created(mirror)
        try:
            transition(operation, mirror.state)
        except WrongState as exc:
            raise WrongState(f"mirror topic '{mirror.mirror_topic}' {exc}") from None

    async def _begun(self, link: str, topics: Sequence[str]) -> None:
        """Ends when all topics are past the state in which the promote found them."""
        changed = asyncio.Event()
        self._store.subscribe(changed.set)
        try:
            while any(
                (mirror := self._store.mirrors.get((link, topic))) is not None and mirror.state not in _BEGUN
                for topic in topics
            ):
                changed.clear()
                await changed.wait()
        finally:
            self._store.unsubscribe(changed.set)

    async def _run_promote(
        self,
        link: str,
        topics: Sequence[str],
        groups: Sequence[str],
        force: bool,
        then_reverse: ThenReverse,
        keep_late: bool,
    ) -> None:
        for topic in topics:
            self._promote_errors.pop((link, topic), None)
        try:
            await self._promoter.promote(
                link, topics, groups=groups, force=force, then_reverse=then_reverse, keep_late=keep_late
            )
        except Exception as exc:
            for topic in topics:
                self._promote_errors[link, topic] = str(exc) or type(exc).__name__
            expected = isinstance(exc, ControlError | WrongState)
            log = _log.info if expected else _log.exception
            log("the promote was refused or given up: nothing was cut over", link=link, topics=topics, reason=str(exc))
            raise
        finally:
            self._promoting.difference_update((link, topic) for topic in topics)


def _begins_paused(mirror: MirrorRecord) -> MirrorRecord:
    return replace(mirror, failback=replace(mirror.failback, then_pause=mirror.state in _ON_ITS_WAY))


def _begins_active(mirror: MirrorRecord) -> MirrorRecord:
    return replace(mirror, failback=replace(mirror.failback, then_pause=False))
