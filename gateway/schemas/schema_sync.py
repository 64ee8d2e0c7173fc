"""Copies the schemas of links with `schema.sync.enable`, round after round; and hands them to the target's clients.

A round comes every `schema.sync.ms`, at once when the link's options change, when the round before left something, and
when an id was seen that the target does not know (`wanted`). Rounds of a link never overlap. How long one takes is the
registries' affair, so it gives way to whoever waits for the link's schemas, and comes again behind that. Every
`THOROUGH_S` a round looks at all that hardly ever changes: levels, modes, and whether the target still has what it had.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Final

import structlog

from gateway.errors import BadRequest, Conflict, ControlError
from gateway.operations.door import Door
from gateway.operations.link_rounds import LinkRounds
from gateway.operations.link_tasks import LinkTask, LinkTasks, TaskErrorCode, TaskStatus
from gateway.operations.records import Records
from gateway.operations.secrets.link_secrets import LinkSecrets
from gateway.schemas.look import RegistryQuery
from gateway.schemas.registry import Registry, RegistryError, as_control_error, task_code
from gateway.schemas.rules.model import VersionKey
from gateway.schemas.rules.remember import of_link
from gateway.schemas.rules.scene import Change, LeftOutSchema, SchemaPlanOptions, SchemaRoundPlan
from gateway.schemas.schema_round import SchemaError, SchemaMemory, SchemaOutlook, SchemaRound
from gateway.state.link_config import LinkConfig, parse
from gateway.state.records import LinkRecord
from gateway.state.schemas.id_map import id_map
from gateway.state.schemas.registry_properties import RegistryConfig, RegistrySide
from gateway.state.schemas.schema_records import SchemaRecord
from gateway.state.store import ProducerFenced, StoreError
from gateway.transport.background import Background
from gateway.transport.locks import KeyedLocks

THOROUGH_S: Final = 900.0
MAX_WANTED: Final = 1_000
"""Ids that wait to be looked for; more are looked for when they are seen again."""

_ROUNDS_OF_A_PROMOTE: Final = 1_000
_log = structlog.get_logger("lockgate.control")


@dataclass(slots=True)
class _SchemaLinkState:
    """`counts`: of the last round. Times: monotonic seconds."""

    link: LinkRecord
    last: float
    thorough_at: float
    running: bool = False
    left: int = 0
    wanted: set[int] = field(default_factory=set)
    memory: SchemaMemory = field(default_factory=SchemaMemory)
    counts: tuple[int, int, int] = (0, 0, 0)


@dataclass(frozen=True, slots=True)
class SchemaCounts:
    """Of one link. `subjects`: that it copies; `versions`: on the target; `left_out`: that cannot be copied; all of the
    last round. `refused`: by the target. `registered`, `deleted`, `levels`: changes since this gateway leads.
    `unresolved`: ids of mirrored records that only the source's registry knows (`gate.py`)."""

    subjects: int
    versions: int
    left_out: int
    refused: int
    registered: int
    deleted: int
    levels: int
    unresolved: int = 0


@dataclass(frozen=True, slots=True)
class SchemaPlan:
    """What the next round would do. `enabled`: whether one comes. `ids`: how many ids the id map has."""

    enabled: bool
    plan: SchemaRoundPlan
    subjects: int
    promoted: int
    ids: int
    errors: Sequence[SchemaError]
    task: TaskStatus

    @property
    def changes(self) -> Sequence[Change]:
        """In the order in which they would go."""
        return self.plan.changes

    @property
    def left_out(self) -> Sequence[LeftOutSchema]:
        """What of the source would not be on the target, with the reason."""
        return self.plan.left_out


class _GivesWay(Exception):
    """Somebody waits for what the round holds."""


class SchemaSync:
    """Of all links, while this gateway leads."""

    def __init__(
        self,
        *,
        records: Records,
        secrets: LinkSecrets,
        background: Background,
        tasks: LinkTasks,
        locks: KeyedLocks,
        door: Door,
        clock: Callable[[], float],
        open_registry: Callable[[RegistrySide, RegistryConfig], Registry] = Registry,
    ) -> None:
        """`clock`: monotonic seconds."""
        self.open_registry = open_registry
        self._records = records
        self._store = records.store
        self._secrets = secrets
        self._tasks = tasks
        self._locks = locks
        self._door = door
        self._clock = clock
        self._rounds: LinkRounds[_SchemaLinkState] = LinkRounds(
            LinkTask.SCHEMA_SYNC,
            store=records.store,
            tasks=tasks,
            background=background,
            is_on=lambda config: config.schema_sync,
            begun=self._begun,
            take=self._round,
        )

    async def run_due(self) -> None:
        """Begin the rounds that are due; they go on in the background, one at a time for each link."""
        await self._rounds.run_due()

    def _begun(self, link: LinkRecord, config: LinkConfig) -> _SchemaLinkState | None:
        """Of a link whose round is due, which is noted."""
        now, known = self._clock(), self._rounds.of(link)
        if known is None:
            known = self._rounds.known[link.name] = _SchemaLinkState(link, now, now)
        elif known.running or (
            known.link == link
            and not known.left
            and not known.wanted
            and now - known.last < config.schema_sync_ms / 1000
        ):
            return None
        elif known.link != link:
            known.thorough_at = now
        known.link, known.last = link, now
        return known

    def wanted(self, name: str, ids: Iterable[int]) -> None:
        """Ids that records have and the target does not know: they are looked for at once."""
        one = self._rounds.known.get(name)
        if one is not None:
            one.wanted.update(sorted(set(ids))[: max(0, MAX_WANTED - len(one.wanted))])

    async def _round(self, one: _SchemaLinkState) -> None:
        name = one.link.name
        try:
            async with self._locks.hold(f"schemas/{name}"):
                await self._store.outcome_known()
                looked = await self._do(one, lambda: self._give_way(name))
        except ProducerFenced:
            raise
        except _GivesWay:
            return
        except RegistryError as exc:
            self._failed(name, (task_code(exc), str(exc)))
        except (ControlError, StoreError, ValueError, OSError) as exc:
            self._failed(name, exc)
        else:
            self._tell(one, looked)

    def _give_way(self, name: str) -> None:
        if self._locks.is_awaited(f"schemas/{name}"):
            raise _GivesWay

    def _failed(self, name: str, reason: BaseException | tuple[TaskErrorCode, str]) -> None:
        self._tasks.failed(name, LinkTask.SCHEMA_SYNC, reason)
        words = reason[1] if isinstance(reason, tuple) else str(reason)
        _log.warning("schema sync: the round broke off", link=name, error=words)

    async def _do(self, one: _SchemaLinkState, go_on: Callable[[], None] = lambda: None) -> SchemaOutlook:
        """One round. What it leaves is noted, so that the next one comes at once."""
        now, wanted = self._clock(), frozenset(one.wanted)
        thorough = now >= one.thorough_at
        one.left, one.wanted = 0, one.wanted - wanted
        before = (one.memory.registered, one.memory.deleted)
        async with self._open(one.link, one.memory, go_on) as this:
            try:
                looked = await this.look(_asked(parse(one.link.configs), wanted, thorough=thorough))
                one.left = await this.carry_out(looked)
            except _GivesWay:
                one.left, one.wanted = 1, one.wanted | wanted
                raise
            finally:
                registered, deleted = one.memory.registered - before[0], one.memory.deleted - before[1]
                if registered or deleted:
                    _log.info("schemas synced", link=one.link.name, registered=registered, deleted=deleted)
        if thorough and not one.left:
            one.thorough_at = now + THOROUGH_S
        records = of_link(self._store.schemas.get(one.link.name, {}), one.link.link_id)
        known = (VersionKey(name, entry.version) for name, record in records.items() for entry in record.entries)
        versions = sum(key not in this.missing for key in known)
        one.counts = (looked.seen.subjects, versions, len(looked.plan.errors))
        return looked

    def _tell(self, one: _SchemaLinkState, looked: SchemaOutlook) -> None:
        name, errors, left_out = one.link.name, one.memory.errors(), looked.plan.errors
        if errors:
            words = f"{len(one.memory.refused)} changes are refused, such as: {errors[0].message}"
            self._tasks.failed(name, LinkTask.SCHEMA_SYNC, (errors[0].code, words))
        elif left_out:
            one_of = left_out[0]
            which = f"{one_of.version} of '{one_of.subject}'"
            words = f"{len(left_out)} versions are left out, such as {which}: {one_of.detail}"
            self._tasks.failed(name, LinkTask.SCHEMA_SYNC, (TaskErrorCode.POLICY_VIOLATION_ERROR, words))
        else:
            self._tasks.succeeded(name, LinkTask.SCHEMA_SYNC)

    # -- asked for --------------------------------------------------------------------------------------------------

    async def plan(self, name: str, ids: Iterable[int] = ()) -> SchemaPlan:
        """What a round would do now, for these ids too; nothing is changed, nor remembered.

        Raises:
            NotFound: no such link.
            BadRequest: it names no registries.
            SourceUnreachable, TargetUnreachable, Conflict: a registry does not answer, or refuses.
        """
        link, one = self._records.link(name), self._rounds.known.get(name)
        memory = SchemaMemory() if one is None else SchemaMemory(keeps_no_ids=one.memory.keeps_no_ids)
        async with self._asked_for(link, memory) as this:
            looked = await this.look(_asked(parse(link.configs), frozenset(ids), thorough=True))
        return self._planned(link, looked)

    def _planned(self, link: LinkRecord, looked: SchemaOutlook) -> SchemaPlan:
        name, one = link.name, self._rounds.known.get(link.name)
        records = of_link(self._store.schemas.get(name, {}), link.link_id)
        return SchemaPlan(
            enabled=parse(link.configs).schema_sync,
            plan=looked.plan,
            subjects=looked.seen.subjects,
            promoted=sum(record.promoted for record in records.values()),
            ids=len(id_map(records.values())),
            errors=[] if one is None else one.memory.errors(),
            task=self._tasks.one(name, LinkTask.SCHEMA_SYNC),
        )

    async def known(self, name: str, ids: frozenset[int]) -> tuple[frozenset[int], Mapping[int, bool]]:
        """Which of these ids the target's registry knows; of each other one, whether the source's does. As `plan`."""
        async with self._asked_for(self._records.link(name), SchemaMemory()) as this:
            return await this.known(ids)

    async def sync(self, name: str, ids: Iterable[int] = ()) -> SchemaPlan:
        """A round now, for these ids too; what it left to do comes back. Raises as `plan`, and StoreError."""
        link = self._records.link(name)
        one = self._require_enabled(link)
        async with self._locks.hold(f"schemas/{name}"):
            one.wanted |= set(ids)
            one.thorough_at = self._clock()
            try:
                self._tell(one, await self._do(one))
            except RegistryError as exc:
                raise as_control_error(exc) from exc
        return await self.plan(name)

    async def promote(self, name: str, *, force: bool = False, validate_only: bool = False) -> SchemaPlan:
        """Hand the link's subjects to the target's clients. `validate_only`: only say what keeps them from it.

        Raises:
            NotFound, BadRequest, SourceUnreachable, TargetUnreachable: as `plan`.
            Conflict: something is not on the target yet, and `force` is not given.
            StoreError: it could not be stored.
        """
        link = self._records.link(name)
        one = self._require_enabled(link)
        async with self._locks.hold(f"schemas/{name}"), self._asked_for(link, one.memory) as this:
            asked = _asked(parse(link.configs), frozenset(), thorough=True)
            looked = await this.look(asked)
            if validate_only:
                refused = one.memory.refused.keys()
                left = tuple(change for change in looked.plan.changes if change.key in refused)
                _require_complete(name, replace(looked.plan, changes=left), force=force)
                return self._planned(link, looked)
            for _ in range(_ROUNDS_OF_A_PROMOTE):
                if not await this.carry_out(looked):
                    break
                looked = await this.look(asked)
            looked = await this.look(asked)
            _require_complete(name, looked.plan, force=force)
            count = await this.promote(looked)
        _log.info("schemas promoted", link=name, subjects=count, force=force)
        return self._planned(link, looked)

    def _require_enabled(self, link: LinkRecord) -> _SchemaLinkState:
        if not parse(link.configs).schema_sync:
            raise Conflict(f"link '{link.name}' copies no schemas: set schema.sync.enable=true")
        if parse(link.configs).paused:
            raise Conflict(f"link '{link.name}' is paused; resume it first: lockgate link resume {link.name}")
        one = self._rounds.of(link)
        if one is None:
            now = self._clock()
            one = self._rounds.known[link.name] = _SchemaLinkState(link, now, now)
        one.link = link
        return one

    @asynccontextmanager
    async def _asked_for(self, link: LinkRecord, memory: SchemaMemory) -> AsyncIterator[SchemaRound]:
        """For whoever waits for the answer: errors are the operator's."""
        try:
            async with self._open(link, memory) as this:
                yield this
        except RegistryError as exc:
            raise as_control_error(exc) from exc
        except ValueError as exc:
            raise BadRequest(f"link '{link.name}': {exc}") from exc

    @asynccontextmanager
    async def _open(
        self, link: LinkRecord, memory: SchemaMemory, go_on: Callable[[], None] = lambda: None
    ) -> AsyncIterator[SchemaRound]:
        """Raises ValueError, which names the property, for what is missing or cannot be read."""
        source, target = (self.open_registry(side, self._secrets.registry(link, side)) for side in RegistrySide)
        async with source, target:
            yield SchemaRound(
                link,
                memory,
                source,
                target,
                store=self._store,
                door=self._door,
                clock=self._clock,
                now_ms=self._records.now_ms,
                go_on=go_on,
            )

    # -- told -------------------------------------------------------------------------------------------------------

    def records(self, name: str) -> Sequence[SchemaRecord]:
        """What is remembered of a link's subjects, by subject. Raises NotFound."""
        link = self._records.link(name)
        return [record for _, record in sorted(of_link(self._store.schemas.get(name, {}), link.link_id).items())]

    def counted(self, name: str) -> SchemaCounts | None:
        """Of a link that copies schemas; None of another one, or before its first round."""
        one = self._rounds.known.get(name)
        if one is None:
            return None
        memory = one.memory
        refused = len(memory.refused)
        return SchemaCounts(*one.counts, refused, memory.registered, memory.deleted, memory.levels)


def _asked(config: LinkConfig, ids: frozenset[int], *, thorough: bool) -> RegistryQuery:
    options = SchemaPlanOptions(config.schema_ids, config.schema_versions, config.schema_deleted)
    return RegistryQuery(config.schema_subjects, options, ids, thorough, config.schema_normalize)


def _require_complete(name: str, left: SchemaRoundPlan, *, force: bool) -> None:
    if force:
        return
    if left.errors:
        one = left.errors[0]
        raise Conflict(
            f"link '{name}': {len(left.errors)} versions are not on the target, such as {one.version} of "
            f"'{one.subject}': {one.detail}; see `lockgate link schemas plan {name}`, or use force"
        )
    if left.changes:
        change = left.changes[0]
        raise Conflict(
            f"link '{name}': {len(left.changes)} changes are refused by the target, such as {change.kind} of "
            f"'{change.subject}'; see `lockgate link schemas plan {name}`, or use force"
        )
