"""The holes in the way of a topic, put back: the first one, which chaos found, and those found by reading that need no
group. Those of groups and of who may write are in `group_holes.py`.

Each patch makes the shipped code behave as before the fix, no more: `git log` of 2026-11-22 says what that was.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, Final

from gateway.app.term import LeaderTerm
from gateway.control import failover, old_source, promote_run, routing_publisher
from gateway.control.errors import ControlError
from gateway.control.failover_ends import FailoverEnds
from gateway.control.fleet_mirrors import FleetMirrors
from gateway.control.mirror_create import MirrorCreator
from gateway.control.net_access import NetAccess
from gateway.control.promote_gather import Gatherer
from gateway.control.store import StoreError
from gateway.domain import fetch_cursor, promote, promote_checks, way_home
from gateway.domain.copy_ends import CopyEnds, Standing
from gateway.domain.fetch_cursor import FetchCursor
from gateway.domain.promote_memory import PromoteMemory
from gateway.domain.promote_snapshot import CopyReading
from gateway.domain.records import MirrorMode
from gateway.mirror.engine import Engine
from gateway.net.errors import NetError
from gateway.proxy.flipped_lanes import FlippedLanes
from gateway.replication.map_topic import LinkMaps
from tests.simulation.kernel.node import CURRENT
from tests.simulation.mutations.lives import Event, EventKind, Fault, FaultKind, Operation, again, brief, life
from tests.simulation.mutations.patching import Mutation, Patching
from tests.simulation.plan import SET

_CREATE, _PROMOTE, _FAILOVER = Operation.CREATE, Operation.PROMOTE, Operation.FAILOVER


# -- the first one -------------------------------------------------------------------------------------------------


def take_what_runs_here(patching: Patching) -> None:
    """A cutover's ends and producers are those of whatever runs at the leader; nobody keeps it there."""

    def standing(engine: Any, mirror: Any) -> Standing:
        known = (engine._progress.position(mirror.mirror_topic, index) for index in range(len(mirror.starts)))
        return Standing(tuple(-1 if at is None else at for at in known))

    def ends(engine: Any, mirror: Any) -> CopyEnds:
        found = engine.partition_ends(mirror)
        return CopyEnds(
            standing(engine, mirror).mirrored,
            tuple(one.copy_end for one in found if one is not None),
            tuple(() if one is None else one.producers for one in found) if any(found) else (),
        )

    shipped = way_home.stopped

    def stopped(record: Any, ends: Any, copy_ends: Any, seen: Any, now_ms: int) -> Any:
        count = len(record.starts)
        whole = shipped(record, ends, (*copy_ends, *(0,) * count)[:count], (*seen, *((),) * count)[:count], now_ms)
        whole = replace(whole, producers=whole.producers if seen else ())
        if record.is_reverse:
            return replace(whole, handed_over_from=tuple(copy_ends))
        return replace(whole, stopped_copy_at=tuple(copy_ends))

    lags = Gatherer._lags

    async def lags_of_what_is_known(self: Any) -> Any:
        real = [shipped_standing(self._context.engine, record) for record in self.records()]
        return {} if any(one.absent or one.cold for one in real) else await lags(self)

    async def leave(self: Any) -> None:
        """Promotes are not ended first."""

    shipped_standing = _unwrapped("standing")
    patching.replace(Engine, "standing", standing)
    patching.replace(Engine, "ends", ends)
    patching.replace(Gatherer, "_lags", lags_of_what_is_known)
    patching.replace(promote_run, "stopped", stopped)
    patching.replace(promote, "_unlike", lambda snapshot: "")
    patching.replace(promote_checks, "_not_recordable", lambda topic, ends: None)
    patching.replace(FleetMirrors, "_kept", lambda self: frozenset())
    patching.replace(LeaderTerm, "leave", leave)


def _unwrapped(name: str) -> Any:
    """A method of the engine, called on the engine itself, whoever stands before it."""
    method = getattr(Engine, name)

    def call(engine: Any, *args: Any) -> Any:
        while hasattr(engine, "_engine"):
            engine = engine._engine
        return method(engine, *args)

    return call


# -- 6: unknown is taken for failure -------------------------------------------------------------------------------


def undo_a_create(patching: Patching) -> None:
    """A create that fails, or seems to, deletes the topic by its name, and drops the intent."""
    create, carry_out = MirrorCreator._create, MirrorCreator._carry_out
    created: set[tuple[int, str]] = set()

    async def noting(self: Any, plan: Any, intent: Any, *, may_be_asked: bool) -> None:
        await create(self, plan, intent, may_be_asked=may_be_asked)
        created.add((id(self), plan.mirror_topic))

    async def undoing(self: Any, plan: Any) -> Any:
        try:
            return await carry_out(self, plan)
        except BaseException:
            if (id(self), plan.mirror_topic) in created:
                await _quietly(self._context.target.delete_topic(plan.mirror_topic, ""))
            intent = self._context.store.mirrors.get((plan.link.name, plan.mirror_topic))
            if intent is not None and not intent.created:
                await _quietly(self._context.store.delete(intent))
            raise

    patching.replace(MirrorCreator, "_create", noting)
    patching.replace(MirrorCreator, "_carry_out", undoing)


async def _quietly(work: Any) -> None:
    try:
        await work
    except (NetError, ControlError, StoreError, TimeoutError, OSError):
        return


# -- 7, 8, 13: which batches are retries ---------------------------------------------------------------------------


def warm_too_early(patching: Patching) -> None:
    """A mirror knows the producers as soon as it runs."""
    patching.replace(FetchCursor, "warm", property(lambda self: True))


def producers_by_the_clock(patching: Patching) -> None:
    """A producer table is dropped by the time of day, compared with the one that the flip's record names."""

    def refresh(self: Any) -> None:
        loop: Any = asyncio.get_running_loop()
        now_ms = loop.wall_ms(CURRENT.get())
        young = {m.mirror_topic for m in self._store.mirrors.values() if now_ms - m.flipped_ms < 15 * 60 * 1000}
        retried = self._flips.retried
        self._flips.retried = lambda now: retried(now) & young
        try:
            shipped(self)
        finally:
            self._flips.retried = retried

    shipped = routing_publisher.RoutingPublisher.refresh
    patching.replace(routing_publisher.RoutingPublisher, "refresh", refresh)


def producers_by_count(patching: Patching) -> None:
    """The producer table is read back by a number of offsets (10,000; here 10, since less is written), not by time."""

    async def at_once(context: Any, record: Any) -> None:
        """A failover does not wait for it."""

    patching.replace(FetchCursor, "_read_from", lambda self, position: position - (self.warm_up or 10))
    patching.replace(fetch_cursor, "WARM_UP_MOST", 10)
    patching.replace(failover, "warmed", at_once)


# -- 11, 12, 14: which log it is -----------------------------------------------------------------------------------


def delete_by_name(patching: Patching) -> None:
    """truncate-and-restore deletes whatever topic has the name."""
    delete = NetAccess.delete_topic
    patching.replace(NetAccess, "delete_topic", lambda self, name, topic_id: delete(self, name, ""))


def no_map_without_a_topic(patching: Patching) -> None:
    """A broker that does not know the map's topic is taken for proof that there is none; the tail is not compared."""

    async def is_there(self: Any) -> bool:
        if not self._exists:
            view = await self._target.refresh((self.topic,), 10.0)
            topic = view.topics.get(self.topic)
            self._exists = topic is not None and bool(topic.partitions)
        return bool(self._exists)

    patching.replace(LinkMaps, "_is_there", is_there)
    patching.replace(FetchCursor, "_check_copied", lambda self, copied, records: None)


def believe_positions(patching: Patching) -> None:
    """The copy's real ends are not looked at before the flip."""

    async def believed(self: Any, timeout_s: float) -> None:
        for record in self.records():
            handed = self._memory.handed(record.mirror_topic)
            self._memory.copy_read(record.mirror_topic, CopyReading(handed.copied, handed.copied))

    patching.replace(Gatherer, "read_copies", believed)


# -- 15: a failover's accounts -------------------------------------------------------------------------------------


def relay_after_the_flip(patching: Patching) -> None:
    """What the source answers behind a failover is passed on as a success."""
    patching.replace(FlippedLanes, "routing_changed", lambda self, routing: None)


def stopped_by_positions(patching: Patching) -> None:
    """Where a failover stopped is told by positions, which lack what was acknowledged while the mirror was stopped."""
    shipped = FailoverEnds.copied

    async def copied(self: Any, record: Any) -> list[tuple[int, int]]:
        found = await shipped(self, record)
        if record.mode is MirrorMode.PRESERVE:
            return found
        known = (self._context.progress.position(record.mirror_topic, index) for index in range(len(record.starts)))
        return [(to if at is None else at, end) for at, (to, end) in zip(known, found, strict=True)]

    patching.replace(FailoverEnds, "copied", copied)


def compare_ends_only(patching: Patching) -> None:
    """A reverse looks at where the logs end, not at what they hold."""

    async def alike(context: Any, record: Any, source: Any, tops: Any) -> tuple[int, ...]:
        return ()

    patching.replace(old_source, "_unlike", alike)


# -- 16 ------------------------------------------------------------------------------------------------------------


def overlook_added_partitions(patching: Patching) -> None:
    """How many partitions the source has is asked before a promote, and not in it."""
    read = PromoteMemory.read

    def as_before(self: Any, topic: str, reading: Any) -> None:
        read(self, topic, replace(reading, partitions=len(reading.ends)))

    patching.replace(PromoteMemory, "read", as_before)


_SET: Final = life((_CREATE, SET[:1]), (_CREATE, SET[1:]), Operation.PROMOTE_SET)
_LEAVES: Final = tuple(
    brief(
        acts,
        faults=[Fault(FaultKind.LEADER_LEAVES, act, "fence", 0.0, 1.0)],
        events=[Event(EventKind.STATE_REFUSED, act, "fence", 0.0, hold_s)],
    )
    for act, acts, hold_s in ((1, life(_CREATE, _PROMOTE), 0.3), (2, _SET, 0.3), (1, life(_CREATE, _PROMOTE), 1.0))
)
_RETRIED: Final = Event(EventKind.ANSWERS_LOST, 1, "mark_pending", 0.0, 1.5)
_EARLY: Final = Event(EventKind.PRODUCER_EARLY, 0)
_CLOCKS: Final = Event(EventKind.CLOCKS_AHEAD, 1)

MUTATIONS: Final = (
    Mutation("hole 0: cutover ends of what runs", take_what_runs_here, _LEAVES),
    Mutation(
        "hole 6a: a deposed leader undoes a create",
        undo_a_create,
        again(brief(life(_CREATE), faults=[Fault(FaultKind.LEADER_PAUSED, 0, "store", 0.0, 15.0)], events=[_EARLY]), 4),
    ),
    Mutation(
        "hole 6b: an unanswered create is undone",
        undo_a_create,
        again(
            brief(
                life(_CREATE, _PROMOTE),
                events=[_EARLY, Event(EventKind.CREATE_UNANSWERED, 0, "create_topic", 0.0, 130.0)],
            ),
            4,
        ),
    ),
    Mutation(
        "hole 7: warm too early",
        warm_too_early,
        again(
            brief(
                life(_CREATE, _PROMOTE, pause_s=4.0),
                gateways=1,
                faults=[Fault(FaultKind.LEADER_KILLED, 1, "fence", 0.0, 0.5)],
                events=[
                    Event(EventKind.ANSWERS_LOST, 0, "", 2.0, 14.0),
                    Event(EventKind.SOURCE_NARROW, 1, "fence", 0.1, 12.0),
                ],
            ),
            6,
        ),
    ),
    Mutation(
        "hole 8: a producer table dropped by the clock",
        producers_by_the_clock,
        again(brief(life(_CREATE, _PROMOTE, pause_s=3.0), events=[_CLOCKS, _RETRIED]), 8),
    ),
    Mutation(
        "hole 11: a topic deleted by name",
        delete_by_name,
        again(
            brief(
                life(_CREATE, _FAILOVER, Operation.RESTORE),
                events=[Event(EventKind.DELETE_DELAYED, 2, "", 0.0, 60.0)],
            ),
            3,
        ),
    ),
    Mutation(
        "hole 13: a producer table by count",
        producers_by_count,
        again(
            brief(
                life(_CREATE, _PROMOTE, pause_s=4.0),
                gateways=1,
                faults=[Fault(FaultKind.LEADER_KILLED, 1, "fence", 0.0, 0.5)],
                events=[Event(EventKind.ANSWERS_LOST, 0, "", 2.0, 14.0)],
            ),
            6,
        ),
    ),
    Mutation(
        "hole 15a: answers relayed after a failover",
        relay_after_the_flip,
        again(
            brief(
                life(_CREATE, Operation.GROUP_PROMOTE, _FAILOVER, pause_s=2.0),
                events=[Event(EventKind.SOURCE_SLOW, 2, "hold", 0.0, 8.0)],
            ),
            3,
        ),
    ),
    Mutation(
        "hole 16: partitions added during a promote",
        overlook_added_partitions,
        tuple(
            brief(life(_CREATE, _PROMOTE), events=[Event(EventKind.PARTITIONS_ADDED, 1, step)])
            for step in ("mark_pending", "fence", "read_ends")
        ),
    ),
)
