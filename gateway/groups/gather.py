"""What a group promote is told: by the source of its members and commits, by the gate, the mirror and the record."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.errors import ControlError
from gateway.groups.gate.rules.gates import GateStatus, members_of
from gateway.groups.offsets import GroupTools
from gateway.groups.progress import GroupProgress
from gateway.groups.rules.kind import kind_of
from gateway.groups.rules.promote import GroupSnapshot, same_on_source, somebody_came
from gateway.groups.rules.source_gone import SourceSeen
from gateway.kafka.groups import DEAD
from gateway.operations.sources import LinkHealth
from gateway.state.link_config import parse
from gateway.state.records import GroupRecord, GroupState, MirrorState

_ASK_S = 5.0
_WATCH_S = 1.0
LOOKED_AWAY_S = 3.0  # an observation older than this says nothing of the time since


def source_seen(health: Mapping[str, LinkHealth], link: str, now: float) -> SourceSeen:
    """How the link's source is by now. `health`: by link name. `now`: of the clock that the health is told by."""
    found = health.get(link)
    if found is None:
        return SourceSeen()
    return SourceSeen(None if found.silent_since is None else now - found.silent_since, found.message)


class GroupGatherer:
    """Changes nothing but the group's GroupProgress, whose lock the caller holds. `clock`: monotonic seconds."""

    def __init__(self, tools: GroupTools) -> None:
        self._records = tools.records
        self._store = tools.records.store
        self._gates = tools.gates
        self._maps = tools.maps
        self._offsets = tools.offsets
        self._clock = tools.clock

    async def look(self, record: GroupRecord, progress: GroupProgress, *, force: bool) -> None:
        """How many members the group has on the source now. With `force` they commit on, and that is accepted.

        A source that does not answer is remembered as such, and not raised.
        """
        if record.state is GroupState.PROMOTED:
            return
        if record.silent_s and not progress.silences.last:  # seen by another leader
            progress.silences = progress.silences.ended(float(record.silent_s))
        asked_at = self._clock()
        try:
            view = await self._offsets.source_view(record, _ASK_S)
            progress.kind = None if view.state == DEAD else kind_of(view.type)
            progress.never_joined = view.state != DEAD and not view.protocol_type
            if not view.members:
                await self._watch_offsets(record, progress)
        except ControlError as error:
            progress.members, progress.empty_since, progress.source_error = None, None, str(error)
            progress.who = ()
            progress.unanswered = True
            progress.forget_offsets()  # who knows who comes and goes meanwhile
            return
        if record.demoted and view.members:
            progress.arrived = True
        now = self._clock()
        progress.unanswered = False
        looked_away = now - progress.members_at > LOOKED_AWAY_S
        if looked_away:
            progress.read_back = None  # somebody may have come, committed, and left: to be looked at again
        # As old as the question: of what has happened since the answer says nothing, however long it took.
        progress.members, progress.members_at, progress.source_error = len(view.members), asked_at, ""
        progress.who = tuple(view.members)
        static = tuple(sorted(member.instance_id for member in view.members if member.instance_id))
        progress.static = static if len(static) == len(view.members) else ()
        mirrored = {mirror.source_topic for (link, _), mirror in self._store.mirrors.items() if link == record.link}
        progress.unmirrored = tuple(sorted(view.internal - mirrored))
        if view.members:
            progress.empty_since, progress.seen = None, None
            if not force:
                progress.forget_offsets()
        elif progress.empty_since is None or looked_away:
            progress.empty_since = now

    async def _watch_offsets(self, record: GroupRecord, progress: GroupProgress) -> None:
        """Of a group without members: whether somebody commits for it all the same.

        Once its offsets were carried over each look is at them too: the last one is what the group is promoted by.
        """
        carried = progress.read_back is not None
        if progress.seen is not None and self._clock() - progress.seen_at < _WATCH_S and not carried:
            return
        mirrors_at, asked_at = self._store.mirrors_grown_at, self._clock()
        seen, _ = await self._offsets.on_source(record)
        progress.mirrors_at = mirrors_at
        progress.remember(seen, asked_at)
        if progress.offsets is not None and not same_on_source(progress.offsets, seen):
            progress.forget_offsets()
        progress.watched(seen, asked_at, self._clock())
        if progress.watched_since is None and progress.never_joined and seen and not record.demoted:
            progress.watched_since = self._clock()  # its consumer may live, and commit next in some seconds
        if record.demoted and (progress.memberless_at is not None or somebody_came(record.sent_back, seen)):
            progress.arrived = True

    def snapshot(self, record: GroupRecord, progress: GroupProgress, *, requested: bool, force: bool) -> GroupSnapshot:
        """All that is known now. `requested`: an operator asked for it, with `force` beside members on the source."""
        gates, link = self._gates, self._records.link(record.link)
        offsets, between = progress.offsets or (), self._maps.between(record.link)
        waiters = gates.waiters(record.group)
        waiting = len(members_of(waiters, by_commits_alone=progress.never_joined))
        return GroupSnapshot(
            state=record.state,
            now=self._clock(),
            gate_open=gates.enabled and gates.status(record.group) is GateStatus.OPEN,
            waiting=waiting,
            looking=len(waiters) - waiting,
            members=progress.members,
            members_at=progress.members_at,
            empty_since=progress.empty_since,
            source_error=progress.source_error,
            auto=parse(link.configs).groups_auto_promote,
            requested=requested,
            force=force,
            offsets=progress.offsets,
            offsets_at=progress.offsets_at,
            mirrored={(o.topic, o.partition): between.mirrored(o, progress.maps) for o in offsets},
            ends={key: end for key, (_, end) in progress.ranges.items()},
            beyond=progress.beyond,
            carried=progress.carried,
            read_back=progress.read_back,
            failure=progress.failure,
            static=progress.static,
            unmirrored=progress.unmirrored,
            failed=frozenset(o.topic for o in offsets if self._has_failed(record.link, o.topic)),
            demoted=record.demoted,
            memberless_at=progress.memberless_at,
            silences=progress.silences,
            by_commits_alone=progress.never_joined,
            watched_since=progress.watched_since if progress.never_joined else None,
        )

    def _has_failed(self, link: str, topic: str) -> bool:
        mirror = self._store.mirrors.get((link, topic))
        return mirror is not None and mirror.state is MirrorState.FAILED
