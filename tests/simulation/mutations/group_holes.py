"""The holes in the way of a group, and in who may write, put back: those of reading that `topic_holes.py` has not."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from gateway.control import failover_group, fleet_registry
from gateway.control.fleet_gates import FleetGates
from gateway.control.gates_by_record import GatesByRecord
from gateway.control.group_gather import GroupGatherer
from gateway.control.mirror_groups import reads_mirrored
from gateway.control.offset_sync import OffsetSync
from gateway.control.promote_group import GroupPromotions
from gateway.control.promote_topic import TopicPromoter
from gateway.domain.gate_commands import GateCommands
from gateway.domain.gates import GroupGates
from gateway.domain.link_config import parse
from gateway.domain.membership import Admission, admit
from gateway.domain.records import GroupRecord, GroupState
from gateway.domain.write_holds import WriteHolds
from tests.simulation.mutations.lives import Event, EventKind, Operation, again, brief, life
from tests.simulation.mutations.patching import Mutation, Patching
from tests.simulation.plan import SET

_CREATE, _GROUP = Operation.CREATE, Operation.GROUP_PROMOTE


def stay_let_in(patching: Patching) -> None:
    """1: a group that was let in stays so when its topic comes to be mirrored."""
    recorded = GroupGates.recorded
    patching.replace(GroupGates, "recorded", lambda self, groups, grown_at: recorded(self, groups, -1))


def cut_at_the_present_end(patching: Patching) -> None:
    """2: a group's failover cuts its offsets at the target's end of now."""

    async def ends(context: Any, mirror: Any) -> list[int]:
        ranges = await context.target.log_ranges(mirror.mirror_topic, len(mirror.starts))
        return [end for _, end in ranges]

    patching.replace(failover_group, "_ends", ends)


def one_hold_for_all(patching: Patching) -> None:
    """3: a failover and a promote run at once, and share one hold."""
    end = WriteHolds.end

    def end_all(self: Any, hold: Any) -> None:
        for one in [each for each in self._own if each.topic == hold.topic]:
            end(self, one)
        end(self, hold)

    async def nobody_waits(self: Any, key: Any) -> None:
        """A promote is not ended first."""

    patching.replace(WriteHolds, "end", end_all)
    patching.replace(TopicPromoter, "_ended", nobody_waits)
    patching.replace(TopicPromoter, "_require_not_barred", lambda self, keys: None)


def keep_offsets_that_were_read_back(patching: Patching) -> None:
    """4: offsets that were read back stay good, however long the mark takes."""

    async def watch(self: Any, record: Any, progress: Any) -> None:
        if progress.seen is None:
            progress.seen, progress.seen_at = (await self._offsets.on_source(record))[0], self._clock()

    look = GroupGatherer.look

    async def looking(self: Any, record: Any, progress: Any, *, force: bool) -> None:
        before = progress.offsets, progress.offsets_at, progress.read_back
        await look(self, record, progress, force=force)
        if before[2] is not None and progress.members == 0 and not progress.source_error:
            progress.offsets, progress.offsets_at, progress.read_back = before

    async def mark(self: Any, record: Any, progress: Any) -> None:
        offsets = progress.offsets or ()
        await self._offsets.store(record, GroupState.PROMOTED, offsets=offsets, note=progress.note, demoted=False)

    patching.replace(GroupGatherer, "_watch_offsets", watch)
    patching.replace(GroupGatherer, "look", looking)
    patching.replace(GroupPromotions, "_mark_promoted", mark)


def sync_over_promoted(patching: Patching) -> None:
    """5: offset sync writes ACTIVE for a group that it has taken for unknown a while ago."""

    async def find(self: Any, link: Any) -> None:
        context, config = self._context, parse(link.configs)
        access = await context.sources.reach(link)
        names = await access.group_ids()
        taken = {group for _, group in context.store.groups}
        await asyncio.sleep(12.0)  # as long as a few hundred groups take
        for name in names:
            group = config.target_group(name)
            if group in taken or not await reads_mirrored(context, link, name):
                continue
            await context.store.put(GroupRecord(link=link.name, group=group, state_since_ms=context.now_ms()))

    patching.replace(OffsetSync, "_find_groups", find)


def open_by_what_was_read(patching: Patching) -> None:
    """9: the end of a demote opens a follower's gate by the record as far as it has been read."""

    async def opened(self: Any, body: Any) -> dict[str, Any]:
        group = str(body["group"])
        self._gates._commands._last.pop(group, None)
        self._gates._look_at(group)
        return {}

    demoted = GatesByRecord.refresh

    def late(self: Any) -> None:
        """The state is read seconds later than commands are heard, as over a slow link."""
        asyncio.get_running_loop().call_later(6.0, demoted, self)

    patching.replace(FleetGates, "_open", opened)
    patching.replace(GateCommands, "is_shut", _shut_whatever_changed)
    patching.replace(GatesByRecord, "refresh", late)


def _shut_whatever_changed(commands: Any, group: str, changed_at: int) -> bool:
    last = commands._last.get(group)
    return last is not None and last.shuts


def names_are_identities(patching: Patching) -> None:
    """10: who takes a name proves that the one before is dead."""

    def replaced(members: Any, registry: Any) -> Admission:
        found = admit(members, registry)
        return Admission(found.register, (*found.replaced, *found.succeeded), ())

    patching.replace(fleet_registry, "admit", replaced)


def open_by_a_step(patching: Patching) -> None:
    """17: the leader's gate opens by a step behind the mark, which is not taken when the mark's outcome was unknown."""
    mark, begins, verdict = GroupPromotions._mark_promoted, GroupGates.term_begins, GroupGates._verdict
    leading: dict[int, set[str]] = {}

    async def marking(self: Any, record: Any, progress: Any) -> None:
        await mark(self, record, progress)
        leading.setdefault(id(self._context.gates), set()).add(record.group)

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
    Mutation(
        "hole 1: a group let in stays let in",
        stay_let_in,
        again(brief(life(_CREATE, (_CREATE, SET[:1])), events=[Event(EventKind.GROUP_ASKS, 0, "", 0.4)]), 3),
    ),
    Mutation(
        "hole 2: a group's failover cuts at the present end",
        cut_at_the_present_end,
        again(
            brief(
                life(_CREATE, Operation.FAILOVER, pause_s=2.0),
                events=[Event(EventKind.TARGET_BROKER_PAUSED, 0, "", 3.0, 7.0)],
            ),
            4,
        ),
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
                ("read_ends", Event(EventKind.SOURCE_SLOW, 1, "fence", 0.0, 15.0)),
                ("fence", Event(EventKind.SOURCE_SLOW, 1, "fence", 0.0, 15.0)),
                ("stop_mirror", Event(EventKind.STATE_REFUSED, 1, "fence", 0.0, 30.0)),
                ("fence", Event(EventKind.STATE_REFUSED, 1, "fence", 0.0, 30.0)),
            )
        ),
    ),
    Mutation(
        "hole 4: a promoted group gets stale offsets",
        keep_offsets_that_were_read_back,
        again(
            brief(
                life(_CREATE, _GROUP, pause_s=2.0),
                events=[
                    Event(EventKind.STATE_REFUSED, 1, _MARK, 0.0, 24.0),
                    Event(EventKind.MEMBER_ON_SOURCE, 1, _MARK, 0.5, 4.0),
                ],
            ),
            4,
        ),
    ),
    Mutation(
        "hole 5: offset sync writes over a promoted group",
        sync_over_promoted,
        again(
            brief(
                life(_CREATE, _GROUP, Operation.REBALANCE, pause_s=3.0),
                synced=True,
            ),
            4,
        ),
    ),
    Mutation(
        "hole 9: a demote opens gates for a moment",
        open_by_what_was_read,
        again(
            brief(
                life(_CREATE, _GROUP, Operation.DEMOTE),
                events=[Event(EventKind.MEMBER_KNOCKS, 2, "answered", 0.0, 10.0)],
            ),
            4,
        ),
    ),
    Mutation(
        "hole 10: a replaced name is not waited for",
        names_are_identities,
        again(
            brief(
                life(_CREATE, Operation.PROMOTE, pause_s=2.0),
                events=[Event(EventKind.NAME_TAKEN, 1, "", 0.0, 30.0)],
            ),
            4,
        ),
    ),
    Mutation(
        "hole 17: a gate shut for ever at the leader",
        open_by_a_step,
        again(
            brief(life(_CREATE, _GROUP, pause_s=2.0), events=[Event(EventKind.STATE_UNANSWERED, 1, _MARK, 0.0, 24.0)]),
            3,
        ),
    ),
)
