"""Watches groups: classifies those whose first request comes, promotes those that are ready, and looks after
promoted ones whose members turn up on the source again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import structlog

from gateway.errors import ControlError
from gateway.groups.gate.rules.gates import GateStatus, GroupGates
from gateway.groups.gather import source_seen
from gateway.groups.mirror_groups import reads_mirrored, record_group
from gateway.groups.offset_sync import OffsetSync
from gateway.groups.promote import POLL_S, GroupPromotions
from gateway.groups.reports import GroupReports
from gateway.groups.rules.classify import LinkSeen, to_ask, waits_for
from gateway.operations.cluster_errors import source_errors
from gateway.operations.records import Records
from gateway.operations.sources import LinkHealth, SourcesForViews
from gateway.state.link_config import parse
from gateway.state.records import GroupKind, GroupRecord, GroupState, MirrorState
from gateway.state.store import StoreError
from gateway.transport.background import Background

_RETRY_S = 1.0
_AFTER_PROMOTE_S = 5.0
_ASK_S = 5.0
_LOOK_S = 1.0
_NAMED = 3
_STAYS_S = 300.0  # members come again every 20 s while they wait: they are told of once
_PARALLEL = 8  # groups that sources are asked about at a time: a mirror more has all be asked about again
_ASKED_PER_S = 500  # groups that sources are asked about, since any client can name any number of them
_OTHERS_PER_TICK = 5  # with a tick of 200 ms: 25 groups a second, at most
_log = structlog.get_logger("lockgate.control")
_of_clients = structlog.get_logger("lockgate.proxy.groups")  # which have a rate (`telemetry/log_rates.py`)


class GroupMonitor:
    """One per process. `late`: members on the source of groups that are promoted, by (link, group);
    `commits_after_promote`: partitions for which offsets were committed there since.
    """

    def __init__(
        self,
        *,
        records: Records,
        views: SourcesForViews,
        health: Mapping[str, LinkHealth],
        gates: GroupGates,
        promoter: GroupPromotions,
        offset_sync: OffsetSync,
        reports: GroupReports,
        background: Background,
        clock: Callable[[], float],
    ) -> None:
        """`health`: by link name, as it is now. `offset_sync` is started with it."""
        self._records = records
        self._store = records.store
        self._views = views
        self._health = health
        self._gates = gates
        self._background = background
        self._promoter = promoter
        self._busy: set[str] = set()
        self._asking = asyncio.Semaphore(_PARALLEL)
        self._asks_next = float("-inf")
        self._clock = clock
        self._looked: dict[tuple[str, str], float] = {}
        self._waiting: dict[tuple[str, str], float] = {}  # groups whose members wait -> when that was last seen
        self._offset_sync = offset_sync
        self._members_on_source = reports.members_on_source
        self._who_on_source = reports.who_on_source
        self._by_commits_alone = reports.by_commits_alone
        self.members_after_promote = reports.members_after_promote
        self.commits_after_promote = reports.commits_after_promote
        self._held = reports.held
        self._stopped: tuple[int, Mapping[str, bool]] = (-1, {})

    def start(self) -> None:
        """Answer the gates, and begin to watch."""
        self._gates.on_unknown = self._first_requested
        for group in self._gates.unknown():  # the leader before has not answered
            self._first_requested(group)
        groups = self._store.groups
        self._background.every(lambda: POLL_S if groups else _LOOK_S, self._tick, "group promote")
        self._offset_sync.start()
        self._background.every(_AFTER_PROMOTE_S, self._look_for_members_after_promote, "late group members")

    def _once(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Run `work` unless something of that name still runs."""
        if name not in self._busy:
            self._busy.add(name)
            self._background.spawn(self._run(name, work), name)

    async def _run(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        finally:
            self._busy.discard(name)

    # -- groups that make a first request
    # ---------------------------------------------------------------------------------

    def _first_requested(self, group: str) -> None:
        self._once(f"classify {group}", partial(self._classify, group))

    async def _classify(self, group: str) -> None:
        """Ask the sources of links whether the group is one of their own; held until none is left to be asked.

        An answer is about the mirrors that are stored when that link's source is asked. When it gets one more before
        the group is let in, it is asked again.
        """
        not_its: dict[str, int] = {}
        try:
            while self._gates.status(group) is GateStatus.UNKNOWN:
                async with self._asking:
                    await self._turn()
                    waits = await self._ask_sources(group, not_its)
                if waits:
                    self._tell_held(group, waits)
                    await asyncio.sleep(_RETRY_S)
        finally:
            self._held.pop(group, None)

    def _tell_held(self, group: str, waits: Mapping[str, str]) -> None:
        before = self._held.get(group, {})
        self._held[group] = waits
        for link, reason in waits.items():
            if before.get(link) != reason:
                _of_clients.warning(
                    "a group is held: nobody knows whether it is the link's", group=group, link=link, reason=reason
                )

    async def _turn(self) -> None:
        now = self._clock()
        turn = max(now, self._asks_next)
        self._asks_next = turn + 1 / _ASKED_PER_S
        if turn > now:
            await asyncio.sleep(turn - now)

    async def _ask_sources(self, group: str, not_its: dict[str, int]) -> Mapping[str, str]:
        """Ask those that have not told yet, and let the group in when that is all; link -> why its source did not tell.

        `not_its`: see `rules/classify.py`; what is found out is added.
        """
        before, unanswered = self._gates.last_let_in(group), dict[str, str]()
        for name in to_ask(self._links(), not_its, before):
            as_of = self._store.applied
            try:
                kind = await self._kind(name, group)
                if kind is None:
                    not_its[name] = as_of
                    continue
                # Closed by its record alone: whoever leads next finds it, or has the group ask again.
                link = self._records.link(name)
                await record_group(self._records, link, group, parse(link.configs).source_group(group) or group, kind)
                return {}
            except (ControlError, StoreError) as error:
                unanswered[name] = str(error)
        waits = waits_for(self._links(), not_its, before, unanswered)
        if not waits:
            self._gates.let_in(group, self._store.applied)
        return {link: reason for link, reason in waits.items() if link in unanswered}

    async def _kind(self, link: str, group: str) -> GroupKind | None:
        """How the group reads a mirrored topic on the link's source; None when it does not."""
        record = self._records.link(link)
        named = parse(record.configs).source_group(group)
        if named is None:
            return None
        return (await reads_mirrored(self._store, self._views, record, named)).kind  # nobody waits for one that is lost

    def _links(self) -> Mapping[str, LinkSeen]:
        """Those that have mirrors. All mirrors are gone through once for a change of the state, not for each group."""
        if self._stopped[0] != self._store.applied:
            stopped: dict[str, bool] = {}
            for (link, _), mirror in self._store.mirrors.items():
                stopped[link] = stopped.get(link, True) and mirror.state is MirrorState.STOPPED
            self._stopped = self._store.applied, stopped
        now = self._clock()
        return {
            name: LinkSeen(self._store.grown_at_of(name), is_stopped, source_seen(self._health, name, now))
            for name, is_stopped in self._stopped[1].items()
        }

    # -- groups that are ready -----------------------------------------------------------------------------

    async def _tick(self) -> None:
        """Groups that somebody waits for at every tick; the others now and then, so that what is known of them is
        fresh when their first member makes its first request."""
        now = self._clock()
        others: list[tuple[float, tuple[str, str]]] = []
        for key, record in list(self._store.groups.items()):
            waiting = bool(self._gates.waiters(record.group))
            if record.state is GroupState.PENDING_PROMOTED or (record.state is GroupState.ACTIVE and waiting):
                self._look(key, now)
            elif record.state is GroupState.ACTIVE and now - self._looked.get(key, 0.0) >= _LOOK_S:
                others.append((self._looked.get(key, 0.0), key))
        for _, key in sorted(others)[:_OTHERS_PER_TICK]:
            self._look(key, now)

    def _look(self, key: tuple[str, str], now: float) -> None:
        self._looked[key] = now
        self._once(f"promote {key[1]}", partial(self._attempt, *key))

    async def _attempt(self, link: str, group: str) -> None:
        try:
            await self._promoter.attempt(link, group)
        except (ControlError, StoreError) as error:
            _log.warning("group promote has to wait", link=link, group=group, reason=str(error))
            await asyncio.sleep(_RETRY_S)
        finally:
            progress = self._promoter.progress_of(link, group)
            self._members_on_source[link, group] = progress.members
            self._who_on_source[link, group] = progress.who
            self._by_commits_alone[link, group] = progress.never_joined
        self._tell_waiting(link, group, progress.waits_for)

    def _tell_waiting(self, link: str, group: str, reason: str) -> None:
        """Once, of a group whose members wait at its gate: to them, and to tools, it looks as if nothing happened."""
        key, waiters, now = (link, group), self._gates.waiters(group), self._clock()
        record = self._store.groups.get(key)
        if record is None or record.state is GroupState.PROMOTED:
            self._waiting.pop(key, None)
            return
        if not waiters:
            return
        if now - self._waiting.get(key, float("-inf")) > _STAYS_S:
            who = sorted({f"{one.identity.client_id} at {one.identity.host}" for one in waiters})
            _log.info(
                "members of a group wait at its gate until it is promoted",
                link=link,
                group=group,
                members=who[:_NAMED],
                more=max(0, len(who) - _NAMED),
                waits_for=reason or "a look at its source",
            )
        self._waiting[key] = now

    # -- groups that are done ------------------------------------------------------------------------------

    async def _look_for_members_after_promote(self) -> None:
        for key in self._members_on_source.keys() - self._store.groups.keys():
            del self._members_on_source[key]
            self._who_on_source.pop(key, None)
            self._by_commits_alone.pop(key, None)
        for (link, group), record in list(self._store.groups.items()):
            if record.state is GroupState.PROMOTED:
                self._members_on_source.pop((link, group), None)
                self._who_on_source.pop((link, group), None)
            else:
                self.members_after_promote.pop((link, group), None)
                self.commits_after_promote.pop((link, group), None)
                continue
            try:
                access = await self._views.reach(self._records.link(link))
                with source_errors(link):
                    async with asyncio.timeout(_ASK_S):
                        members = (await access.describe_group(record.source_name)).members
                await self._look_for_commits_after_promote(record)
            except ControlError:
                self.members_after_promote.pop((link, group), None)  # a source that is gone has no members
                continue
            if members and not self.members_after_promote.get((link, group)):
                who = sorted({f"{member.client_id} ({member.host})" for member in members})
                _log.warning("a promoted group has members on the source again", link=link, group=group, members=who)
            self.members_after_promote[link, group] = len(members)

    async def _look_for_commits_after_promote(self, record: GroupRecord) -> None:
        """A consumer that assigns its partitions itself is no member: only its commits tell of it."""
        key, late = (record.link, record.group), await self._promoter.commits_after_promote(record)
        if late and not self.commits_after_promote.get(key):
            _log.warning("a promoted group commits on the source again", link=key[0], group=key[1], partitions=late)
        self.commits_after_promote[key] = late
