"""One round of ACL sync of one link: both clusters are asked, and the target's ACLs are made what they are to be.

What is to be done is decided in `rules/transform.py` and `rules/changes.py`, and in which order in `rules/order.py`.
Here it is carried out, in requests of a bounded size, each of which stands for itself: a round that breaks off
anywhere, or whose leader is killed, is gone on with by the next one, of whoever leads then.

Where the source cannot be asked, what is remembered stands in for it: nobody loses a right for that, and a topic that
has failed over gets the rights that were held back, in the place of what stood in for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from gateway.access.rules.changes import (
    FORGET_S,
    Changes,
    Resource,
    TooManyOfOne,
    after_delete,
    changes,
    records_after,
    records_settled,
    remembered_of,
    resource_of,
    settled_of,
)
from gateway.access.rules.order import BlockedAcl, allows_to_delete, allows_to_make, denies, denies_to_delete
from gateway.access.rules.transform import (
    DesiredAcls,
    LeftOutAcl,
    Patterns,
    TooManyAcls,
    Topics,
    desired_acls,
    granted,
    passing,
    stand_in,
)
from gateway.cutover.write_pause.rules.routing_build import written_on_target
from gateway.errors import Conflict, ControlError
from gateway.kafka.access.acls import IN_A_REQUEST
from gateway.kafka.connection.errors import BrokerError, NetError
from gateway.kafka.rules.acl import Acl, PatternType, ResourceType
from gateway.operations.cluster_access import ClusterAccess
from gateway.operations.cluster_errors import source_errors, target_errors
from gateway.operations.door import Door
from gateway.operations.link_tasks import TaskErrorCode, code_of
from gateway.operations.rules.refusals import Refusals
from gateway.operations.sources import Sources, SourcesForViews
from gateway.state.acls.acl_records import AclRecord, AclState
from gateway.state.link_config import ACL_SYNC, parse
from gateway.state.records import LinkRecord
from gateway.state.store import StateStore, StoreConflict
from protocol.errors import ErrorCode, is_retriable


class AclError(NamedTuple):
    """An ACL that a cluster refused to make or to delete. `at_ms`: wall clock, when it was refused last."""

    acl: Acl
    code: TaskErrorCode
    message: str
    at_ms: int


@dataclass(slots=True)
class AclMemory:
    """What the leader knows of a link beside what is stored. Times: monotonic seconds.

    `refused`: ACLs that a cluster refused. `missing`: since when an ACL that was about to be made, and is not wanted
    any more, was not there. `behind`: changes that the last round left to a later one, since another entry is not made
    or deleted yet. `at_rest`: of the last round, when there was nothing to do. `created`, `deleted`: since this gateway
    leads.
    """

    at_rest: AtRest | None = None
    refused: Refusals[Acl, AclError] = field(default_factory=Refusals)
    missing: dict[Acl, float] = field(default_factory=dict)
    behind: Sequence[BlockedAcl] = ()
    created: int = 0
    deleted: int = 0

    def due(self, acls: Sequence[Acl], now: float) -> list[Acl]:
        """Those that are to be asked for now."""
        return [acl for acl in acls if self.refused.are_due(acl, now)]

    def errors(self) -> list[AclError]:
        """The youngest ones, by ACL."""
        return sorted(self.refused.youngest())

    def over(self, now: float) -> frozenset[Acl]:
        """What was not there for so long that it does not come any more."""
        return frozenset(acl for acl, since in self.missing.items() if now - since >= FORGET_S)

    def waits(self, acls: Collection[Acl], now: float) -> None:
        """These were not there."""
        self.missing = {acl: self.missing.get(acl, now) for acl in acls}


@dataclass(frozen=True, slots=True)
class MirrorTopics:
    """Names of mirror topics, as the records say. `mirrored`: of all links; `promoted`: of one."""

    mirrored: frozenset[str]
    promoted: frozenset[str]

    @classmethod
    def of(cls, store: StateStore, link: str) -> MirrorTopics:
        """As of now."""
        mirrors = store.mirrors.items()
        return cls(
            frozenset(topic for (_, topic), mirror in mirrors if not written_on_target(mirror)),
            frozenset(topic for (owner, topic), mirror in mirrors if owner == link and written_on_target(mirror)),
        )


@dataclass(frozen=True, slots=True)
class AclScene:
    """All that a round is decided on, and what it is to do.

    `settle`: resources that are left alone once they are as they are to be; `follow`: that are followed again.
    `source_error`: why the source's ACLs are not known; then what is remembered stood in for them.
    """

    topics: MirrorTopics
    left_out: Sequence[LeftOutAcl]
    wanted: DesiredAcls
    remembered: Mapping[Acl, AclState]
    changes: Changes
    settle: frozenset[Resource] = frozenset()
    follow: frozenset[Resource] = frozenset()
    source_error: Exception | None = None

    @property
    def is_nothing(self) -> bool:
        """There is nothing to do, nor to wait for."""
        return self.changes.is_nothing and not (self.changes.waiting or self.settle or self.follow)


@dataclass(frozen=True, slots=True)
class AtRest:
    """A round with nothing to do, and what it was decided on: what lies still is compared, and not thought about."""

    link: LinkRecord
    source: frozenset[Acl]
    present: frozenset[Acl]
    topics: MirrorTopics
    scene: AclScene

    def is_still_so(
        self, link: LinkRecord, source: frozenset[Acl] | None, present: frozenset[Acl], topics: MirrorTopics
    ) -> bool:
        """Whether nothing has changed since. What is remembered changes by rounds that have something to do."""
        return (self.link, self.topics, self.source, self.present) == (link, topics, source, present)


class AclRound:
    """Of one link, as its record stands."""

    def __init__(
        self,
        link: LinkRecord,
        memory: AclMemory,
        *,
        store: StateStore,
        target: ClusterAccess,
        door: Door,
        clock: Callable[[], float],
        now_ms: Callable[[], int],
    ) -> None:
        """`clock`: monotonic seconds."""
        self._link = link
        self._config = parse(link.configs)
        self._memory = memory
        self._store = store
        self._target = target
        self._door = door
        self._clock = clock
        self._now_ms = now_ms

    async def look(self, sources: Sources | SourcesForViews, *, or_remembered: bool = True) -> AclScene:
        """Ask both clusters; nothing is changed.

        Args:
            or_remembered: where the source does not answer, go by what is remembered.

        Raises:
            ControlError: a cluster does not answer, or refuses, or has too many ACLs.
        """
        error: Exception | None = None
        source: frozenset[Acl] | None = None
        try:
            source = await self._source_acls(sources)
        except (ControlError, NetError, TimeoutError, OSError) as exc:
            if not or_remembered:
                raise
            error = exc
        with target_errors():
            present = await acls_of(self._target, frozenset(ResourceType), "the target")
        topics, rest = MirrorTopics.of(self._store, self._link.name), self._memory.at_rest
        if rest is not None and rest.is_still_so(self._link, source, present, topics):
            return rest.scene
        try:
            # In a thread: tens of thousands of ACLs and topics take a tenth of a second. The door asks for what changes
            # meanwhile, as for what changed while the clusters were asked.
            records, over = dict(self._store.acls.get(self._link.name, {})), self._memory.over(self._clock())
            scene = await asyncio.to_thread(self._scene, source, present, topics, records, over, error)
        except TooManyAcls as exc:
            raise Conflict(f"link '{self._link.name}': {exc}") from exc
        self._memory.at_rest = None
        if source is not None and scene.is_nothing:
            self._memory.at_rest = AtRest(self._link, source, present, topics, scene)
        return scene

    async def _source_acls(self, sources: Sources | SourcesForViews) -> frozenset[Acl]:
        access = await sources.reach(self._link)
        kinds = self._config.acl_filters.resource_types()
        with source_errors(self._link.name):
            return await acls_of(access, kinds, f"the source of link '{self._link.name}'")

    def _scene(
        self,
        source: frozenset[Acl] | None,
        present: Collection[Acl],
        topics: MirrorTopics,
        records: Mapping[tuple[str, str, str], AclRecord],
        over: frozenset[Acl],
        error: Exception | None,
    ) -> AclScene:
        """Pure. `records`: of the link; `over`: what does not come any more."""
        grants = None if source is None else granted(passing(source, self._config), self._config)
        names = Topics(topics.mirrored, topics.promoted)
        settled = settled_of(records, self._link.link_id)
        follow = frozenset(resource for resource in settled if names.are_mirrored(*resource))
        left = settled - follow
        remembered = remembered_of(records, self._link.link_id)
        if grants is None:
            held = [acl for acl, state in remembered.items() if state is AclState.HELD]
            grants = stand_in(remembered, held, names, self._config.acl_write_hosts)
        followed = [acl for acl in grants.acls if resource_of(acl) not in left]
        goal = desired_acls(followed, names, self._config.acl_write_hosts)
        goal = replace(goal, acls=frozenset(acl for acl in goal.acls if resource_of(acl) not in left))
        stay = goal.acls.union(acl for acl in remembered if resource_of(acl) in left)
        patterns = Patterns(stay.intersection(present))
        ours = {
            acl: state
            for acl, state in remembered.items()
            if resource_of(acl) not in left or (acl not in grants.acls and patterns.say(acl))
        }
        found = changes(goal, present, ours, over)
        settle = {resource_of(acl) for acl in {*goal.acls, *ours} if _is_topic(acl) and names.are_free(acl)}
        settle |= {(ResourceType.TOPIC.value, PatternType.LITERAL.value, topic) for topic in topics.promoted}
        return AclScene(topics, grants.left_out, goal, ours, found, frozenset(settle - left), follow, error)

    async def carry_out(self, scene: AclScene) -> None:
        """Make the changes.

        Raises:
            Conflict: a resource has too many ACLs.
            TargetUnreachable: the target does not answer; the rest is left undone.
            StoreError: it could not be stored, or the link or a mirror topic was changed meanwhile.
        """
        memory, now = self._memory, self._clock()
        memory.waits(scene.changes.waiting, now)
        memory.refused.only({*scene.changes.create, *scene.changes.delete})
        await self._settle(scene.follow, scene, settled=False)
        known = list(scene.changes.remember.items())
        for first in range(0, len(known), IN_A_REQUEST):
            await self._remember(dict(known[first : first + IN_A_REQUEST]), scene)
        memory.behind = await self._in_order(scene, now)
        behind = [one.acl for one in memory.behind]
        unfinished = {resource_of(acl) for acl in (*memory.refused.keys(), *scene.changes.waiting, *behind)}
        await self._settle(scene.settle - unfinished, scene, settled=True)

    async def _in_order(self, scene: AclScene, now: float) -> list[BlockedAcl]:
        """Make and delete, each step by what became of the ones before it (`rules/order.py`). Returns what waits."""
        create, delete = scene.changes.create, scene.changes.delete
        not_made, not_deleted = set(create), set(delete)
        not_made -= await self._create_due(denies(create), scene, now)
        made = allows_to_make(create, not_made)
        not_made -= await self._create_due(made.go, scene, now)
        first = allows_to_delete(delete, not_made)
        not_deleted -= await self._delete_due(first.go, scene, now)
        last = denies_to_delete(delete, not_made, not_deleted)
        await self._delete_due(last.go, scene, now)
        return [*made.waiting, *first.waiting, *last.waiting]

    async def _create_due(self, acls: Sequence[Acl], scene: AclScene, now: float) -> set[Acl]:
        """Returns those that are there now."""
        made: set[Acl] = set()
        for some in _in_requests(self._memory.due(acls, now)):
            made |= await self._create(some, scene)
        return made

    async def _delete_due(self, acls: Sequence[Acl], scene: AclScene, now: float) -> set[Acl]:
        """Returns those that are gone now."""
        gone: set[Acl] = set()
        for some in _in_requests(self._memory.due(acls, now)):
            gone |= await self._delete(some, scene)
        return gone

    async def _settle(self, resources: Collection[Resource], scene: AclScene, *, settled: bool) -> None:
        all_of_them = sorted(resources)
        for first in range(0, len(all_of_them), IN_A_REQUEST):
            some, old = all_of_them[first : first + IN_A_REQUEST], self._records()
            after = records_settled(self._link.name, self._link.link_id, old, some, settled=settled)
            await self._write(old, after, scene)

    async def _create(self, acls: Sequence[Acl], scene: AclScene) -> set[Acl]:
        """The claim is stored first: a kill in between leaves nothing behind that nobody remembers.

        Returns those that the target has made.
        """
        claims = {acl: AclState.MAKING for acl in acls if scene.remembered.get(acl) not in _CLAIMED}
        await self._remember(claims, scene)
        with target_errors(), self._permit(scene):
            refused = await self._target.create_acls(acls)
        made: dict[Acl, AclState | None] = {acl: AclState.MADE for acl in acls if acl not in refused}
        self._memory.created += len(made)
        for acl, exc in refused.items():
            self._refused(acl, exc)
            if not is_retriable(exc.code):  # else it may have been made
                made[acl] = None
        for acl in acls:
            if acl not in refused:
                self._memory.refused.forgive(acl)
        await self._remember(made)
        return {acl for acl in acls if acl not in refused}

    async def _delete(self, acls: Sequence[Acl], scene: AclScene) -> set[Acl]:
        """Returns those that are gone."""
        with target_errors(), self._permit(scene):
            refused = await self._target.delete_acls(acls)
        for acl, exc in refused.items():
            self._refused(acl, exc)
        gone = [acl for acl in acls if acl not in refused]
        self._memory.deleted += len(gone)
        await self._remember({acl: after_delete(acl, scene.wanted) for acl in gone})
        return set(gone)

    def _refused(self, acl: Acl, exc: BrokerError) -> None:
        error = AclError(acl, code_of(exc), str(exc), self._now_ms())
        self._memory.refused.add(acl, error, self._clock(), self._config.acl_sync_ms / 1000)

    async def _remember(self, updates: Mapping[Acl, AclState | None], scene: AclScene | None = None) -> None:
        """Store it; with `scene` only while all is as it was decided on."""
        if not updates:
            return
        name, old = self._link.name, self._records()
        try:
            after = records_after(name, self._link.link_id, old, updates)
        except TooManyOfOne as exc:
            raise Conflict(f"link '{name}': {exc}; name fewer in acl.filters") from exc
        await self._write(old, after, scene)

    def _records(self) -> Mapping[Resource, AclRecord]:
        return dict(self._store.acls.get(self._link.name, {}))

    async def _write(
        self, old: Mapping[Resource, AclRecord], after: Mapping[Resource, AclRecord | None], scene: AclScene | None
    ) -> None:
        name, link_id = self._link.name, self._link.link_id

        def unchanged() -> None:
            if scene is not None:
                self._require_unchanged(scene)
            stored, link = self._store.acls.get(name, {}), self._store.links.get(name)
            if link is None or link.link_id != link_id or any(stored.get(key) != old.get(key) for key in after):
                raise StoreConflict(f"the ACLs of link '{name}' were changed by another operation meanwhile")

        await self._store.write([(f"acl/{name}/{'/'.join(key)}", record) for key, record in after.items()], unchanged)

    def _permit(self, scene: AclScene) -> AbstractContextManager[None]:
        """For changes that were decided from this scene."""
        return self._door.permit(self._link, also=lambda: self._require_unchanged(scene))

    def _require_unchanged(self, scene: AclScene) -> None:
        """What has been decided stands on the link's record, and on which topics are promoted."""
        now = self._store.links.get(self._link.name)
        if now != self._link:
            raise StoreConflict(f"link '{self._link.name}' was changed by another operation meanwhile")
        if MirrorTopics.of(self._store, self._link.name) != scene.topics:
            raise StoreConflict(f"a mirror topic of link '{self._link.name}' came, went or was promoted meanwhile")


_CLAIMED: Final = (AclState.MAKING, AclState.MADE)


def _is_topic(acl: Acl) -> bool:
    return acl.resource_type is ResourceType.TOPIC


async def acls_of(access: ClusterAccess, kinds: Collection[ResourceType], which: str) -> frozenset[Acl]:
    """The ACLs of a cluster. Raises Conflict for one that has no authorizer, and the client's errors."""
    try:
        return await access.acls(kinds)
    except BrokerError as exc:
        if exc.code != ErrorCode.SECURITY_DISABLED:
            raise
        raise Conflict(f"{which} has no authorizer, so it has no ACLs; set {ACL_SYNC}=false") from exc


def no_authorizer(exc: BaseException) -> bool:
    """What `acls_of` has raised is no answer that failed: there are no ACLs."""
    return isinstance(exc.__cause__, BrokerError) and exc.__cause__.code == ErrorCode.SECURITY_DISABLED


def _in_requests(acls: Sequence[Acl]) -> list[Sequence[Acl]]:
    return [acls[first : first + IN_A_REQUEST] for first in range(0, len(acls), IN_A_REQUEST)]


def for_all(link: LinkRecord) -> LinkRecord:
    """The link as if it copied every ACL."""
    every = '{"aclFilters":[{"resourceFilter":{"resourceType":"any"}}]}'
    return replace(link, configs={**link.configs, ACL_SYNC: "true", "acl.filters": every})
