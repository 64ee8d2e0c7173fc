"""The holes in the way of a group, and in who may write, put back: those of reading that `topic_faults.py` has not."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from gateway.cutover.promote.promoter import TopicPromoter
from gateway.cutover.write_pause.rules.write_pause import WritePause
from gateway.fleet import registry as fleet_registry
from gateway.fleet.rules.membership import AdmissionWrites, admit
from gateway.groups import failover as failover_group
from gateway.groups.gate.fleet import FleetGates
from gateway.groups.gate.rules.commands import GateCommands
from gateway.groups.gate.rules.gates import GroupGates
from gateway.groups.gather import GroupGatherer
from gateway.groups.mirror_groups import reads_mirrored
from gateway.groups.offset_sync import OffsetSync
from gateway.groups.promote import GroupPromotions
from gateway.state.link_config import parse
from gateway.state.records import GroupRecord, GroupState
from tests.simulation.mutations.lives import Event, EventKind, Operation, brief, life, sought
from tests.simulation.mutations.patching import Mutation, Patching
from tests.simulation.plan import SET

_CREATE, _GROUP = Operation.CREATE, Operation.GROUP_PROMOTE


def stay_let_in(patching: Patching) -> None:
    """1: a group that was let in stays so when its topic comes to be mirrored."""
    recorded = GroupGates.recorded
    patching.replace(GroupGates, "recorded", lambda self, groups, grown_at: recorded(self, groups, -1))


def cut_at_the_present_end(patching: Patching) -> None:
    """2: a group's failover cuts its offsets at the target's end of now."""

    async def ends(target: Any, mirror: Any) -> list[int]:
        ranges = await target.log_ranges(mirror.mirror_topic, len(mirror.starts))
        return [end for _, end in ranges]

    patching.replace(failover_group, "_ends", ends)


def one_hold_for_all(patching: Patching) -> None:
    """3: a failover and a promote run at once, and share one hold."""
    resume = WritePause.resume

    def resume_all(self: Any, epoch: int, term: int) -> bool:
        ended = resume(self, epoch, term) or bool(self._pauses)
        self._pauses = frozenset()
        self._look()
        return ended

    async def nobody_waits(self: Any, key: Any) -> None:
        """A promote is not ended first."""

    patching.replace(WritePause, "resume", resume_all)
    patching.replace(TopicPromoter, "_ended", nobody_waits)
    patching.replace(TopicPromoter, "_require_not_barred", lambda self, keys: None)


def keep_offsets_that_were_read_back(patching: Patching) -> None:
    """4: offsets that were read back stay good, however long the mark takes."""

    async def watch(self: Any, record: Any, progress: Any) -> None:
        if progress.seen is None:
            progress.seen, progress.seen_at = (await self._offsets.on_source(record))[0], self._clock()

    look = GroupGatherer.look

    async def looking(self: Any, record: Any, progress: Any, *, force: bool) -> None:
        before = progress.offsets, progress.offsets_at, progress.read_back, progress.carried
        await look(self, record, progress, force=force)
        if before[2] is not None and progress.members == 0 and not progress.source_error:
            progress.offsets, progress.offsets_at, progress.read_back, progress.carried = before

    async def mark(self: Any, record: Any, progress: Any) -> None:
        offsets = progress.carried or ()
        await self._offsets.store(record, GroupState.PROMOTED, offsets=offsets, note=progress.note, demoted=False)

    patching.replace(GroupGatherer, "_watch_offsets", watch)
    patching.replace(GroupGatherer, "look", looking)
    patching.replace(GroupPromotions, "_mark_promoted", mark)


def sync_over_promoted(patching: Patching) -> None:
    """5: offset sync writes ACTIVE for a group that it has taken for unknown a while ago."""

    async def find(self: Any, link: Any) -> None:
        store, config = self._store, parse(link.configs)
        access = await self._sources.reach(link)
        names = await access.group_ids()
        taken = {group for _, group in store.groups}
        await asyncio.sleep(12.0)  # as long as a few hundred groups take
        for name in names:
            group = config.target_group(name)
            if group in taken or (await reads_mirrored(store, self._sources, link, name)).kind is None:
                continue
            await store.put(GroupRecord(link=link.name, group=group, state_since_ms=self._records.now_ms()))

    patching.replace(OffsetSync, "_find_groups", find)


def open_by_what_was_read(patching: Patching) -> None:
    """9: the end of a demote opens a follower's gate by the record as far as it has been read."""

    async def opened(self: Any, body: Any) -> dict[str, Any]:
        group = str(body["group"])
        self._gates._commands._last.pop(group, None)
        self._gates._look_at(group)
        return {}

    patching.replace(FleetGates, "_open", opened)
    patching.replace(GateCommands, "is_shut", _shut_whatever_changed)


def _shut_whatever_changed(commands: Any, group: str, changed_at: int) -> bool:
    last = commands._last.get(group)
    return last is not None and last.shuts


def names_are_identities(patching: Patching) -> None:
    """10: who takes a name proves that the one before is dead."""

    def replaced(members: Any, registry: Any) -> AdmissionWrites:
        found = admit(members, registry)
        return AdmissionWrites(found.register, (*found.replaced, *found.succeeded), ())

    patching.replace(fleet_registry, "admit", replaced)


def open_by_a_step(patching: Patching) -> None:
    """17: the leader's gate opens by a step behind the mark, which is not taken when the mark's outcome was unknown."""
    mark, begins, verdict = GroupPromotions._mark_promoted, GroupGates.term_begins, GroupGates._verdict
    leading: dict[int, set[str]] = {}

    async def marking(self: Any, record: Any, progress: Any) -> None:
        await mark(self, record, progress)
        leading.setdefault(id(self._gates), set()).add(record.group)

    def beginning(self: Any) -> None:
        leading[id(self)] = {group for group, record in self._recorded.items() if record.promoted}
        begins(self)

    def judged(self: Any, group: str) -> Any:
        found = verdict(self, group)
        shut = id(self) in leading and group in self._recorded and group not in leading[id(self)]
        return type(found).CLOSED if shut else found

    patching.replace(GroupPromotions, "_mark_promoted", marking)
    patching.replace(GroupGates, "term_begins", beginning)
    patching.replace(GroupGates, "_verdict", judged)


_MARK: Final = "mark_promoted"

MUTATIONS: Final = (
    sought(
        "hole 1: a group let in stays let in",
        stay_let_in,
        life(_CREATE, (_CREATE, SET[:1])),
        runs=3,
        events=[Event(EventKind.GROUP_ASKS, 0, "", 5.0)],
    ),
    sought(
        "hole 2: a group's failover cuts at the present end",
        cut_at_the_present_end,
        life(_CREATE, _GROUP, pause_s=3.0),
        runs=2,
        rate_per_s=100.0,
        events=[
            Event(EventKind.SOURCE_LEADER_CUT, 0, "", 2.0, 70.0),
            # the group is known then; of one that is not, nobody can tell whether it is the source's
            Event(EventKind.SOURCE_DOWN, 1, "mark_pending", 0.9, 60.0),
            Event(EventKind.FAILOVER_ASKED, 1, "mark_pending", 1.4),
        ],
    ),
    Mutation(
        "hole 3: a failover and a promote share a hold",
        one_hold_for_all,
        tuple(
            brief(
                life(_CREATE, Operation.PROMOTE, pause_s=2.0), events=[Event(EventKind.FAILOVER_ASKED, 1, step), beside]
            )
            for step, beside in (
                ("persist_stopped", Event(EventKind.STATE_UNANSWERED, 1, "persist_stopped", 0.0, 45.0)),
                ("read_ends", Event(EventKind.SOURCE_SLOW, 1, "pause_writes", 0.0, 15.0)),
                ("pause_writes", Event(EventKind.SOURCE_SLOW, 1, "pause_writes", 0.0, 15.0)),
                ("stop_mirror", Event(EventKind.STATE_REFUSED, 1, "pause_writes", 0.0, 30.0)),
                ("pause_writes", Event(EventKind.STATE_REFUSED, 1, "pause_writes", 0.0, 30.0)),
            )
        ),
    ),
    sought(
        "hole 4: a promoted group gets stale offsets",
        keep_offsets_that_were_read_back,
        life(_CREATE, _GROUP, pause_s=2.0),
        runs=4,
        events=[
            Event(EventKind.STATE_REFUSED, 1, _MARK, 0.0, 24.0),
            Event(EventKind.MEMBER_ON_SOURCE, 1, _MARK, 0.5, 4.0),
        ],
    ),
    sought(
        "hole 5: offset sync writes over a promoted group",
        sync_over_promoted,
        life(_CREATE, _GROUP, Operation.REBALANCE, pause_s=3.0),
        runs=4,
        synced=True,
    ),
    sought(
        "hole 9: a demote opens gates for a moment",
        open_by_what_was_read,
        life(_CREATE, _GROUP, Operation.DEMOTE, pause_s=2.0),
        runs=4,
        events=[
            Event(EventKind.STATE_LATE, 2, "await_commits", 0.0, 4.0),
            Event(EventKind.FIRST_REQUEST, 2, "await_commits", 0.0, 10.0),
        ],
        seed=7,
    ),
    # the new process is admitted 6 s after the old one was cut off, which writes on under its lease
    sought(
        "hole 10: a replaced name is not waited for",
        names_are_identities,
        life(_CREATE, Operation.PROMOTE, Operation.REBALANCE, pause_s=7.0),
        runs=6,
        lease_s=20.0,
        events=[Event(EventKind.NAME_TAKEN, 0, "", 1.0, 12.0)],
    ),
    sought(
        "hole 17: a gate shut for ever at the leader",
        open_by_a_step,
        life(_CREATE, _GROUP, pause_s=2.0),
        runs=3,
        events=[Event(EventKind.STATE_UNANSWERED, 1, _MARK, 0.0, 24.0)],
        seed=2,
    ),
)
