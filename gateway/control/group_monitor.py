"""Watches groups: classifies those that knock for the first time, promotes those that are ready, and looks after
promoted ones whose members turn up on the source again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from gateway.control.context import ControlContext, source_errors
from gateway.control.errors import ControlError
from gateway.control.mirror_groups import reads_mirrored, record_group
from gateway.control.offset_sync import OffsetSync
from gateway.control.promote_group import POLL_S, GroupPromotions
from gateway.control.store import StoreError
from gateway.domain.gates import GateStatus
from gateway.domain.link_config import parse
from gateway.domain.records import GroupRecord, GroupState, LinkRecord, MirrorState

_RETRY_S = 1.0
_LATE_S = 5.0
_ASK_S = 5.0
_LOOK_S = 1.0
_PARALLEL = 8  # groups that sources are asked about at a time: a mirror more has all be asked about again
_OTHERS_PER_TICK = 5  # with a tick of 200 ms: 25 groups a second, at most
_log = structlog.get_logger("lockgate.control")


class GroupMonitor:
    """One per process. `late`: members on the source of groups that are promoted, by (link, group); `late_commits`:
    partitions for which offsets were committed there since.
    """

    def __init__(
        self,
        context: ControlContext,
        promoter: GroupPromotions,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._context = context
        self._promoter = promoter
        self._busy: set[str] = set()
        self._asking = asyncio.Semaphore(_PARALLEL)
        self._clock = clock or context.clock
        self._looked: dict[tuple[str, str], float] = {}
        self.late: dict[tuple[str, str], int] = {}
        self.late_commits: dict[tuple[str, str], int] = {}
        self.unknown: dict[str, str] = {}  # group that knocked -> why it is not classified yet

    def start(self) -> None:
        """Answer the gates, and begin to watch."""
        self._context.gates.on_unknown = self._knocked
        self._context.on_failover.append(self._promoter.failovers.failed_over)
        self._context.late_members = lambda link, group: self.late.get((link, group), 0)
        self._context.late_commits = lambda link, group: self.late_commits.get((link, group), 0)
        for group in self._context.gates.unknown():  # the leader before has not answered
            self._knocked(group)
        groups = self._context.store.groups
        self._context.background.every(lambda: POLL_S if groups else _LOOK_S, self._tick, "group promote")
        OffsetSync(self._context, self._promoter).start()
        self._context.background.every(_LATE_S, self._look_for_late_members, "late group members")

    def _once(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` unless something of that name still runs."""
        if name in self._busy:
            work.close()
            return
        self._busy.add(name)
        self._context.background.spawn(self._run(name, work), name)

    async def _run(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        finally:
            self._busy.discard(name)

    # -- groups that knock ---------------------------------------------------------------------------------

    def _knocked(self, group: str) -> None:
        self._once(f"classify {group}", self._classify(group))

    async def _classify(self, group: str) -> None:
        """Ask every link's source whether the group is one of its own; held meanwhile.

        The answer is about the mirrors that are stored when the asking begins. When one more is stored before it ends,
        it says nothing, and the sources are asked again.
        """
        while self._context.gates.status(group) is GateStatus.UNKNOWN:
            try:
                async with self._asking:
                    await self._ask_sources(group)
            except (ControlError, StoreError) as error:
                self.unknown[group] = str(error)
                await asyncio.sleep(_RETRY_S)
        self.unknown.pop(group, None)

    async def _ask_sources(self, group: str) -> None:
        as_of = self._context.store.applied
        try:
            link = await self._link_of(group)
        except ControlError:
            if any(mirror.state is not MirrorState.STOPPED for mirror in self._context.store.mirrors.values()):
                raise
            link = None  # nothing is mirrored any more, and the source may well be gone for good
        if link is None:
            self._context.gates.let_in(group, as_of)
        else:  # Closed by its record alone: whoever leads next finds it, or has the group ask again.
            await record_group(self._context, link, group, parse(link.configs).source_group(group) or group)

    async def _link_of(self, group: str) -> LinkRecord | None:
        """The link whose source has this group reading a mirrored topic; None if there is none."""
        for link in list(self._context.store.links.values()):
            named = parse(link.configs).source_group(group)
            if named is not None and await reads_mirrored(self._context, link, named):
                return link
        return None

    # -- groups that are ready -----------------------------------------------------------------------------

    async def _tick(self) -> None:
        """Groups that somebody waits for at every tick; the others now and then, so that what is known of them is
        fresh when their first member knocks."""
        now = self._clock()
        others: list[tuple[float, tuple[str, str]]] = []
        for key, record in list(self._context.store.groups.items()):
            waiting = bool(self._context.gates.waiters(record.group))
            if record.state is GroupState.PENDING_PROMOTED or (record.state is GroupState.ACTIVE and waiting):
                self._look(key, now)
            elif record.state is GroupState.ACTIVE and now - self._looked.get(key, 0.0) >= _LOOK_S:
                others.append((self._looked.get(key, 0.0), key))
        for _, key in sorted(others)[:_OTHERS_PER_TICK]:
            self._look(key, now)

    def _look(self, key: tuple[str, str], now: float) -> None:
        self._looked[key] = now
        self._once(f"promote {key[1]}", self._attempt(*key))

    async def _attempt(self, link: str, group: str) -> None:
        try:
            await self._promoter.attempt(link, group)
        except (ControlError, StoreError) as error:
            _log.warning("group promote has to wait", link=link, group=group, reason=str(error))
            await asyncio.sleep(_RETRY_S)

    # -- groups that are done ------------------------------------------------------------------------------

    async def _look_for_late_members(self) -> None:
        for (link, group), record in list(self._context.store.groups.items()):
            if record.state is not GroupState.PROMOTED:
                self.late.pop((link, group), None)
                self.late_commits.pop((link, group), None)
                continue
            try:
                access = await self._context.reach_for_view(self._context.link(link))
                with source_errors(link):
                    async with asyncio.timeout(_ASK_S):
                        members = (await access.describe_group(record.source_name)).members
                await self._look_for_late_commits(record)
            except ControlError:
                self.late.pop((link, group), None)  # a source that is gone has no members
                continue
            if members and not self.late.get((link, group)):
                who = sorted({f"{member.client_id} ({member.host})" for member in members})
                _log.warning("a promoted group has members on the source again", link=link, group=group, members=who)
            self.late[link, group] = len(members)

    async def _look_for_late_commits(self, record: GroupRecord) -> None:
        """A consumer that assigns its partitions itself is no member: only its commits tell of it."""
        key, late = (record.link, record.group), await self._promoter.late_commits(record)
        if late and not self.late_commits.get(key):
            _log.warning("a promoted group commits on the source again", link=key[0], group=key[1], partitions=late)
        self.late_commits[key] = late
