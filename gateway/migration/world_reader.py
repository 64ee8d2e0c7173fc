"""Reads the world for a migration: the records, what is measured of them, and the names that the source has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from gateway.cutover.write_pause.rules.routing_build import written_on_target
from gateway.errors import ControlError
from gateway.groups.gate.rules.gates import GroupGates, members_of
from gateway.groups.reports import GroupReports
from gateway.groups.rules.left_behind import left_behind
from gateway.migration.rules.client_errors import ClientErrors
from gateway.migration.rules.file import MigrationFile
from gateway.migration.rules.world import GroupStanding, MirrorStanding, World
from gateway.operations.cluster_errors import source_errors
from gateway.operations.records import Records
from gateway.operations.sources import VIEW_S, SourcesForViews
from gateway.state.link_config import parse
from gateway.state.mirror_states import UNDER_WAY
from gateway.state.records import GroupRecord, GroupState, LinkRecord, MirrorError, MirrorRecord
from gateway.topics.mirrors import Mirrors, MirrorView

FRESH_S: Final = 10.0
"""For how long the names of a source count as its names now."""

_IN_A_TURN: Final = 500
"""Mirrors that are looked at, of some 20 µs each."""

_Names = tuple[frozenset[str] | None, frozenset[str] | None, str]


class WorldReader:
    """`reports`, `gates`: what is known of groups without asking anybody."""

    def __init__(
        self,
        *,
        records: Records,
        views: SourcesForViews,
        mirrors: Mirrors,
        gates: GroupGates,
        reports: GroupReports,
        waits_for: Callable[[str, str], str],
        client_errors: Callable[[str], ClientErrors | None],
        clock: Callable[[], float],
    ) -> None:
        """`waits_for`: (link, group) -> why the group is not promoted yet. `client_errors`: of a migration."""
        self._records = records
        self._views = views
        self._mirrors = mirrors
        self._gates = gates
        self._reports = reports
        self._waits_for = waits_for
        self._client_errors = client_errors
        self._clock = clock
        self._names: dict[str, tuple[float, int, _Names]] = {}

    async def read(self, file: MigrationFile, readiness: Mapping[str, int], *, fresh: bool = False) -> World:
        """The world. `fresh`: the source is asked for its names now."""
        store, link = self._records.store, self._records.store.links.get(file.link)
        if link is None:
            return World(now=self._now(), link_there=False)
        config = parse(link.configs)
        topics, groups, trouble = await self._names_of(link, fresh=fresh)
        own = {one.source_name: self._group(one) for key, one in store.groups.items() if key[0] == link.name}
        mirrors = await self._mirrors_of(link)
        return World(
            now=self._now(),
            link_paused=config.paused,
            auto_promote=config.groups_auto_promote,
            source_topics=topics,
            source_groups=groups,
            source_trouble=trouble,
            mirrors=mirrors,
            groups=own,
            readiness=readiness,
            client_errors=self._client_errors(file.migration),
        )

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._records.now_ms() / 1000, UTC)

    async def _names_of(self, link: LinkRecord, *, fresh: bool) -> _Names:
        """Topics and groups of the source, and why they are not known."""
        at, link_id, known = self._names.get(link.name, (0.0, -1, (None, None, "")))
        if link_id == link.link_id and not fresh and self._clock() - at < FRESH_S:
            return known
        asked_at = self._clock()
        try:
            access = await self._views.reach(link)
            with source_errors(link.name):
                async with asyncio.timeout(VIEW_S):
                    topics = frozenset(topic.name for topic in await access.list_topics())
                    groups = frozenset(await access.group_ids())
        except ControlError as exc:
            return None, None, str(exc)
        there = self._records.store.links
        self._names = {name: known for name, known in self._names.items() if name in there}
        self._names[link.name] = (asked_at, link.link_id, (topics, groups, ""))
        return topics, groups, ""

    async def _mirrors_of(self, link: LinkRecord) -> Mapping[str, MirrorStanding]:
        """By source topic: the link's own, and those that other links have of topics that its own would be named as.

        All records are of one moment, so a set that changes sides is on one of them. What is measured of each is worked
        out in turns of the event loop: there are tens of thousands.
        """
        config, found = parse(link.configs), dict[str, MirrorStanding]()
        for number, mirror in enumerate(list(self._records.store.mirrors.values()), start=1):
            if not number % _IN_A_TURN:
                await asyncio.sleep(0)
            if mirror.link == link.name:
                found[mirror.source_topic] = self._mirror(mirror)
            elif name := config.source_topic(mirror.mirror_topic):
                found.setdefault(name, self._mirror(mirror))
        return found

    def _mirror(self, mirror: MirrorRecord) -> MirrorStanding:
        view = self._mirrors.view(mirror)
        lags = [one.lag for one in view.partitions]
        return MirrorStanding(
            mirror_topic=mirror.mirror_topic,
            state=view.state,
            link=mirror.link,
            lag=None if not lags or None in lags else sum(lag or 0 for lag in lags),
            reverse=mirror.is_reverse or (mirror.created and mirror.state in UNDER_WAY),
            remark=mirror.error_message or view.promote_error or view.waiting_for,
            written_on_target=written_on_target(mirror),
            promoted_ms=mirror.cutover.at_ms,
            late=_late(mirror, view),
            late_known=self._mirrors.late_writes_known(mirror.link, mirror.mirror_topic),
            undo=mirror.cutover.undo,
            undo_until_ms=mirror.cutover.undo_until_ms,
        )

    def _group(self, record: GroupRecord) -> GroupStanding:
        link, group = record.link, record.group
        at_gate = self._gates.waiters(group)
        waiters = members_of(at_gate, by_commits_alone=self._reports.by_commits_alone.get((link, group), False))
        on_source = left_behind(self._reports.who_on_source.get((link, group), ()), at_gate)
        return GroupStanding(
            group=group,
            state=record.state,
            members=self._reports.members_on_source.get((link, group)),
            waiting=len(waiters),
            alive=tuple(sorted(f"{one.member.client_id} at {one.member.host}" for one in on_source if not one.waits)),
            session_timeout_s=max((one.session_timeout_s for one in waiters), default=0.0),
            demoted=record.demoted,
            remark=record.error_message or self._waits_for(link, group),
            target_lag=self._target_lag(link, group),
            promoted_ms=record.state_since_ms if record.state is GroupState.PROMOTED else 0,
        )

    def _target_lag(self, link: str, group: str) -> int | None:
        lags = self._reports.lags.get((link, group))
        return None if lags is None or not lags.target else sum(lags.target.values())


def _late(mirror: MirrorRecord, view: MirrorView) -> int:
    """A mirror back that FAILED since somebody wrote to the source tells of one record at least."""
    seen = view.late_records or 0  # `late_known` says whether that is all
    diverged = mirror.is_reverse and mirror.error is MirrorError.TARGET_DIVERGED
    return max(seen, 1) if diverged else seen
