"""Copies the ACLs of the sources of links with `acl.sync.enable`, round after round.

A round comes every `acl.sync.ms`, at once when the link's options change or a mirror topic comes, goes or is promoted,
and as a step of a promote (`follow`): so what clients need on the target is there before writes go there, and all of
it right after the cutover. Rounds of a link never overlap. What outlives the process is in the state topic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import structlog

from gateway.access.acl_round import AclError, AclMemory, AclRound, AclScene, MirrorTopics, for_all
from gateway.access.rules.order import BlockedAcl
from gateway.access.rules.transform import AclReason, LeftOutAcl
from gateway.errors import ControlError
from gateway.kafka.connection.errors import NetError
from gateway.kafka.rules.acl import Acl
from gateway.operations.cluster_access import ClusterAccess
from gateway.operations.door import Door
from gateway.operations.link_rounds import LinkRounds
from gateway.operations.link_tasks import LinkTask, LinkTasks, TaskStatus
from gateway.operations.records import Records
from gateway.operations.sources import Sources, SourcesForViews
from gateway.state.acls.acl_records import AclState
from gateway.state.link_config import LinkConfig, parse
from gateway.state.records import LinkRecord
from gateway.state.store import ProducerFenced, StoreError
from gateway.transport.background import Background
from gateway.transport.locks import KeyedLocks

_TRIES = 3
"""Rounds of a promote whose ground has changed meanwhile."""

_log = structlog.get_logger("lockgate.control")


@dataclass(slots=True)
class _AclLinkState:
    """Another record of the link begins with a round at once. `counts`: of the last round."""

    link: LinkRecord
    last: float
    topics: MirrorTopics
    running: bool = False
    memory: AclMemory = field(default_factory=AclMemory)
    counts: tuple[int, int, int, int] = (0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class AclCounts:
    """Of one link. `made`: ACLs on the target that it has made; `own`: wanted ones that the target has of its own;
    `held`: held back until a promote; `left_out`: that cannot be copied; all of the last round. `refused`: by the
    target. `created`, `deleted`: since this gateway leads."""

    made: int
    own: int
    held: int
    left_out: int
    refused: int
    created: int
    deleted: int


@dataclass(frozen=True, slots=True)
class AclPlan:
    """What the next round would do. `enabled`: whether one comes; else this is for all ACLs of the source.

    `held`: with the reason, what of `left_out` comes with a promote. `waiting`: changes that the last round left to a
    later one, behind entries that are not made or deleted yet. `errors`: of the rounds so far.
    """

    enabled: bool
    create: Sequence[Acl]
    delete: Sequence[Acl]
    own: Sequence[Acl]
    kept: int
    left_out: Sequence[LeftOutAcl]
    waiting: Sequence[BlockedAcl]
    errors: Sequence[AclError]
    task: TaskStatus


class AclSync:
    """Of all links, while this gateway leads."""

    def __init__(
        self,
        *,
        records: Records,
        sources: Sources,
        views: SourcesForViews,
        target: ClusterAccess,
        background: Background,
        tasks: LinkTasks,
        locks: KeyedLocks,
        door: Door,
        clock: Callable[[], float],
    ) -> None:
        """`clock`: monotonic seconds."""
        self._records = records
        self._store = records.store
        self._sources = sources
        self._views = views
        self._target = target
        self._tasks = tasks
        self._locks = locks
        self._door = door
        self._clock = clock
        self._rounds: LinkRounds[_AclLinkState] = LinkRounds(
            LinkTask.ACL_SYNC,
            store=records.store,
            tasks=tasks,
            background=background,
            is_on=lambda config: config.acl_sync,
            begun=self._begun,
            take=self._round,
        )

    async def run_due(self) -> None:
        """Begin the rounds that are due; they go on in the background, one at a time for each link."""
        await self._rounds.run_due()

    def _begun(self, link: LinkRecord, config: LinkConfig) -> _AclLinkState | None:
        """Of a link whose round is due, which is noted."""
        now, known, topics = self._clock(), self._rounds.of(link), MirrorTopics.of(self._store, link.name)
        if known is None:
            known = self._rounds.known[link.name] = _AclLinkState(link, now, topics)
        elif known.running or (
            known.link == link and known.topics == topics and now - known.last < config.acl_sync_ms / 1000
        ):
            return None
        known.link, known.topics, known.last = link, topics, now
        return known

    async def _round(self, one: _AclLinkState) -> None:
        try:
            await self._sync(one)
        except ProducerFenced:
            raise
        except (ControlError, NetError, StoreError, TimeoutError, OSError) as exc:
            self._tasks.failed(one.link.name, LinkTask.ACL_SYNC, exc)
            _log.warning("ACL sync: the round broke off", link=one.link.name, error=str(exc) or type(exc).__name__)

    async def _sync(self, one: _AclLinkState) -> None:
        link = one.link
        async with self._locks.hold(f"acls/{link.name}"):
            one.topics = MirrorTopics.of(self._store, link.name)
            await self._store.outcome_known()
            scene = await self._do(one)
        records = self._store.acls.get(link.name, {}).values()
        made = sum(entry.state is AclState.MADE for record in records for entry in record.entries)
        one.counts = (made, len(scene.changes.own), len(scene.wanted.held), len(scene.left_out))
        self._tell(one, scene)

    async def _do(self, one: _AclLinkState) -> AclScene:
        this = self._a_round(one.link, one.memory)
        scene = await this.look(self._sources)
        before = (one.memory.created, one.memory.deleted)
        try:
            await this.carry_out(scene)
        finally:
            created, deleted = one.memory.created - before[0], one.memory.deleted - before[1]
            if created or deleted:
                _log.info("ACLs synced", link=one.link.name, created=created, deleted=deleted)
        return scene

    def _tell(self, one: _AclLinkState, scene: AclScene) -> None:
        name, errors = one.link.name, one.memory.errors()
        if scene.source_error is not None:
            self._tasks.failed(name, LinkTask.ACL_SYNC, scene.source_error)
        elif errors:
            behind = f", {len(one.memory.behind)} wait for them" if one.memory.behind else ""
            words = f"{len(one.memory.refused)} ACLs are refused{behind}, such as: {errors[0].message}"
            self._tasks.failed(name, LinkTask.ACL_SYNC, (errors[0].code, words))
        else:
            self._tasks.succeeded(name, LinkTask.ACL_SYNC)

    def _a_round(self, link: LinkRecord, memory: AclMemory) -> AclRound:
        return AclRound(
            link,
            memory,
            store=self._store,
            target=self._target,
            door=self._door,
            clock=self._clock,
            now_ms=self._records.now_ms,
        )

    async def follow(self, name: str) -> None:
        """A round now, as a step of a promote. Nothing where the link copies no ACLs.

        Raises:
            ControlError, StoreError: the target's ACLs are not what they are to be.
        """
        for attempt in range(_TRIES):
            link = self._records.link(name)
            if not parse(link.configs).acl_sync:
                return
            one = self._rounds.of(link)
            if one is None:
                one = self._rounds.known[name] = _AclLinkState(link, self._clock(), MirrorTopics.of(self._store, name))
            one.link = link
            try:
                await self._sync(one)
            except ProducerFenced:
                raise
            except StoreError:
                if attempt == _TRIES - 1:
                    raise
            else:
                return

    async def plan(self, name: str) -> AclPlan:
        """What a round would do now; nothing is changed, nor remembered.

        Raises:
            NotFound: no such link.
            SourceUnreachable, TargetUnreachable, Conflict: a cluster does not answer, or refuses.
        """
        link, one = self._records.link(name), self._rounds.known.get(name)
        enabled = parse(link.configs).acl_sync
        this = self._a_round(link if enabled else for_all(link), AclMemory())
        scene = await this.look(self._views, or_remembered=False)
        detail = "it is given when the topics that it is about are promoted; see acl.sync.write.hosts"
        held = [LeftOutAcl(acl, AclReason.UNTIL_PROMOTED, detail) for acl in sorted(scene.wanted.held)]
        return AclPlan(
            enabled=enabled,
            create=scene.changes.create,
            delete=scene.changes.delete,
            own=sorted(scene.changes.own),
            kept=scene.changes.kept,
            left_out=[*held, *scene.left_out],
            waiting=() if one is None else one.memory.behind,
            errors=[] if one is None else one.memory.errors(),
            task=self._tasks.one(name, LinkTask.ACL_SYNC),
        )

    def counted(self, name: str) -> AclCounts | None:
        """Of a link that copies ACLs; None of another one, or before its first round."""
        one = self._rounds.known.get(name)
        if one is None:
            return None
        memory = one.memory
        return AclCounts(*one.counts, len(memory.refused), memory.created, memory.deleted)
