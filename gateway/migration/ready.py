"""Readiness as an operation: asks for all that `rules/readiness.py` judges by. Nothing is changed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from gateway.access.acl_round import no_authorizer
from gateway.access.acl_sync import AclSync
from gateway.access.rules.transform import AclReason
from gateway.cutover.write_pause.rules.routing_build import written_on_target
from gateway.errors import ControlError
from gateway.fleet.views import GatewayView
from gateway.groups.operations import Groups, MirrorGroupView
from gateway.kafka.connection.errors import NetError
from gateway.kafka.transactions import TransactionDescription, all_transactions
from gateway.migration.history import MirrorTrends, sample
from gateway.migration.rules.file import NAMES, Application, MigrationFile, as_text, of_text
from gateway.migration.rules.readiness import (
    GroupReady,
    LostGateway,
    OpenTransaction,
    ReaderSeen,
    Readiness,
    ReadinessScene,
    TopicReady,
    judge,
)
from gateway.migration.rules.resolve import ApplicationPlan, resolve
from gateway.migration.world_reader import WorldReader
from gateway.operations.cluster_access import ClusterAccess
from gateway.operations.cluster_errors import source_errors
from gateway.operations.records import Records
from gateway.operations.sources import VIEW_S, SourcesForViews
from gateway.state.link_config import parse
from gateway.state.migration_records import MigrationState
from gateway.state.records import Undo
from gateway.topics.mirrors import Mirrors, MirrorView

_PARALLEL: Final = 8
_NOT_COPIED: Final = (AclReason.PRINCIPAL_NOT_MAPPED, AclReason.OWN_TOPICS, AclReason.BAD_NAME)
"""Of ACLs that are left out: clients have these rights on the source, and no promote gives them on the target."""
JUDGE_EVERY_S: Final = 60.0

ReadsTransactions = Callable[[ClusterAccess], Awaitable[Sequence[TransactionDescription]]]


async def open_transactions(access: ClusterAccess) -> Sequence[TransactionDescription]:
    """Of a cluster, those that are not ended."""
    return await all_transactions(access.cluster, VIEW_S, unended_only=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _LinkReadiness:
    """What is the same for all applications of a link. `transactions`: None when they are not told."""

    source_trouble: str
    transactions: Sequence[TransactionDescription] | None
    transactions_unknown: str
    acls_missing: int | None
    acls_unknown: str


class _ScoresOf(NamedTuple):
    """What scores are of: the text of a migration's file, and the link whose source was asked."""

    file: str
    link_id: int


class ReadinessCheck:
    """Of applications of a file, or of all that a link has.

    Attributes:
        gateways: of the fleet; set by whoever knows it.
    """

    def __init__(
        self,
        *,
        records: Records,
        views: SourcesForViews,
        target: ClusterAccess,
        world: WorldReader,
        mirrors: Mirrors,
        groups: Groups,
        acls: AclSync,
        history: MirrorTrends,
        transactions: ReadsTransactions = open_transactions,
    ) -> None:
        self._records = records
        self._views = views
        self._target = target
        self._world = world
        self._mirrors = mirrors
        self._groups = groups
        self._acls = acls
        self._history = history
        self._transactions = transactions
        self.gateways: Callable[[], Sequence[GatewayView]] = tuple
        self._last: dict[str, tuple[_ScoresOf, Mapping[str, int]]] = {}

    @property
    def last(self) -> Mapping[str, Mapping[str, int]]:
        """Migration -> application -> its score, as last judged; by the file and the link that it has now."""
        return {name: scores for name, (of, scores) in self._last.items() if self._counts(name, of)}

    def _counts(self, name: str, judged: _ScoresOf) -> bool:
        """What was judged is the migration as it is."""
        record = self._records.store.migrations.get(name)
        link = None if record is None else self._records.store.links.get(record.link)
        if record is None or link is None:
            return False
        return judged == _ScoresOf(record.file, link.link_id) and record.is_of(link)

    async def of_file(self, file: MigrationFile) -> Sequence[Readiness]:
        """Each application of a migration, in the file's order.

        Raises:
            NotFound: its link does not exist.
        """
        judged = _ScoresOf(as_text(file), self._records.link(file.link).link_id)
        plan = resolve(file, await self._world.read(file, {}))
        shared = await self._of_link(file.link)
        found = [await self._judged(file.link, one, shared) for one in plan.applications]
        if self._counts(file.migration, judged):  # not of a draft, nor of all that a link has
            self._last[file.migration] = judged, {one.application: one.score for one in found}
        self._last = {name: known for name, known in self._last.items() if name in self._records.store.migrations}
        return found

    async def look(self) -> None:
        """Judge every migration that is RUNNING: for the metrics. One whose source is silent keeps what was said."""
        for record in list(self._records.store.migrations.values()):
            if record.state is MigrationState.RUNNING:
                with suppress(ControlError, NetError, TimeoutError, OSError, ValueError):
                    await self.of_file(of_text(record.file))

    async def scores(self, file: MigrationFile) -> Mapping[str, int]:
        """Application -> its score."""
        return {one.application: one.score for one in await self.of_file(file)}

    async def of_link(self, name: str) -> Readiness | None:
        """All that a link mirrors and has not promoted, as one; None when there is nothing. NotFound as `of_file`."""
        self._records.link(name)
        store = self._records.store
        topics = [one.source_topic for one in store.mirrors.values() if one.link == name and not written_on_target(one)]
        groups = [one.source_name for one in store.groups.values() if one.link == name]
        if not topics and not groups:
            return None
        everything = Application(name=name, topics=sorted(topics)[:NAMES], groups=sorted(groups)[:NAMES])
        (judged,) = await self.of_file(MigrationFile(migration=name, link=name, applications=[everything]))
        return judged

    async def _of_link(self, name: str) -> _LinkReadiness:
        link = self._records.link(name)
        try:
            access = await self._views.reach(link)
        except ControlError as exc:
            return _LinkReadiness(
                source_trouble=str(exc),
                transactions=None,
                transactions_unknown=str(exc),
                acls_missing=None,
                acls_unknown=str(exc),
            )
        unknown, transactions = "", None
        try:
            with source_errors(name):
                async with asyncio.timeout(VIEW_S):
                    transactions = await self._transactions(access)
        except (ControlError, NetError) as exc:
            unknown = str(exc)
        missing, why = await self._acls_missing(name)
        return _LinkReadiness(
            source_trouble=access.trouble(),
            transactions=transactions,
            transactions_unknown=unknown,
            acls_missing=missing,
            acls_unknown=why,
        )

    async def _acls_missing(self, name: str) -> tuple[int | None, str]:
        """How many, or why that is not known; neither where a cluster has no authorizer: there are none to compare."""
        try:
            async with asyncio.timeout(VIEW_S):
                plan = await self._acls.plan(name)
        except (ControlError, NetError, TimeoutError, OSError) as exc:
            return None, "" if no_authorizer(exc) else str(exc) or "no answer in time"
        return len(plan.create) + sum(one.reason in _NOT_COPIED for one in plan.left_out), ""

    async def _judged(self, link: str, plan: ApplicationPlan, shared: _LinkReadiness) -> Readiness:
        slots, own = asyncio.Semaphore(_PARALLEL), frozenset(plan.topics)

        async def topic(name: str) -> TopicReady:
            async with slots:
                return await self._topic(link, name)

        async def group(name: str) -> GroupReady:
            async with slots:
                return await self._group(link, name, own)

        scene = ReadinessScene(
            application=plan.application.name,
            together=plan.application.together,
            topics=tuple(await asyncio.gather(*(topic(name) for name in plan.topics))),
            groups=tuple(await asyncio.gather(*(group(name) for name in plan.groups))),
            transactions=self._open(shared.transactions, plan.topics),
            transactions_unknown=shared.transactions_unknown,
            source_trouble=shared.source_trouble,
            target_trouble=self._target.trouble(),
            acls_missing=shared.acls_missing,
            acls_unknown=shared.acls_unknown,
            gateways=tuple(
                LostGateway(name=one.name, state=one.state, lease_left_s=one.lease_left_s)
                for one in self.gateways()
                if one.state != "up"
            ),
            link=link,
        )
        return judge(scene)

    async def _topic(self, link: str, name: str) -> TopicReady:
        """By its name on the source."""
        named = parse(self._records.link(link).configs).mirror_topic(name)
        if self._mirrors.find(link, named) is None:
            return TopicReady(name=name, lag=None)
        view = await self._mirrors.describe(link, named)
        return self._measured(link, named, name, view)

    def _measured(self, link: str, named: str, name: str, view: MirrorView) -> TopicReady:
        moved, now = view.clients_not_migrated, sample(view.partitions)
        readers = None if moved is None or moved.readers is None else moved.readers
        return TopicReady(
            name=name,
            state=view.state,
            remark=view.record.error_message or view.waiting_for,
            lag=now.lag if view.partitions else None,
            lag_before=self._history.lag_before(link, named),
            bypassed_now=now.bypassed,
            bypassed_hour=self._history.bypassed(link, named),
            after_cutover=(view.late_records or 0) if self._mirrors.late_writes_known(link, named) else None,
            readers=None
            if readers is None
            else tuple(ReaderSeen(group=one.group, client_id=one.client_id, host=one.host) for one in readers),
            unknown="" if moved is None else moved.unknown,
            set_back=len(view.set_back),
            warnings=tuple(view.warnings),
            not_durable=view.not_durable,
            promote_error=view.promote_error,
            kept=view.record.cutover.undo is not Undo.NONE and written_on_target(view.record),
        )

    async def _group(self, link: str, name: str, topics: Set[str]) -> GroupReady:
        """By its name on the source."""
        group = parse(self._records.link(link).configs).target_group(name)
        if (link, group) not in self._records.store.groups:
            return GroupReady(name=name, members=None, remark="it is not declared yet")
        view = await self._groups.describe(link, group)
        return GroupReady(
            name=name,
            state=view.record.state,
            members=None if view.source is None else len(view.source.members),
            uncommitted=_uncommitted(view, topics),
            remark=view.waits_for or view.unknown,
        )

    def _open(
        self, found: Sequence[TransactionDescription] | None, topics: Sequence[str]
    ) -> tuple[OpenTransaction, ...] | None:
        """Those that have one of the topics."""
        if found is None:
            return None
        now, own = self._records.now_ms(), frozenset(topics)
        return tuple(
            OpenTransaction(
                transactional_id=one.transactional_id,
                topics=tuple(sorted(one.partitions.keys() & own)),
                open_s=max(0.0, (now - one.started_ms) / 1000) if one.started_ms >= 0 else 0.0,
                timeout_s=one.timeout_ms / 1000,
            )
            for one in found
            if one.partitions.keys() & own
        )


def _uncommitted(view: MirrorGroupView, topics: Set[str]) -> tuple[str, ...] | None:
    """Topics that its members read and that it has no offset of; None: the source did not tell."""
    if view.source is None or view.offsets is None:
        return None
    committed = {topic for topic, _ in view.offsets}
    return tuple(sorted((view.source.topics & topics) - committed))
