"""The holes in the way of a topic, put back: the first one, which chaos found, and those found by reading that need no
group. Those of groups and of who may write are in `group_faults.py`.

Each patch makes the shipped code behave as before the fix, no more: `git log` of 2026-11-22 says what that was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from gateway.cutover.failback.destination import FailbackDestinations
from gateway.cutover.failback.rules import failback_promote as way_home
from gateway.cutover.failback.rules.failback_promote import Producers
from gateway.cutover.failover import run as failover_run
from gateway.cutover.failover.ends import FailoverEnds
from gateway.cutover.failover.rules import failover as failover_rules
from gateway.cutover.failover.rules.snapshot import CopyEnd, KnownProducers
from gateway.cutover.promote import run as promote_run
from gateway.cutover.promote.gather import Gatherer
from gateway.cutover.promote.rules import checks as promote_checks
from gateway.cutover.promote.rules import promote
from gateway.cutover.promote.rules.memory import PromoteMemory
from gateway.cutover.promote.rules.snapshot import CopyReading
from gateway.cutover.write_pause import publisher as routing_publisher
from gateway.errors import ControlError
from gateway.fleet.mirrors import FleetMirrors
from gateway.kafka.connection.errors import NetError
from gateway.kafka.logs.compacted_log import CompactedLog
from gateway.mirror.engine.engine import Engine
from gateway.mirror.partition.rules import fetch_cursor
from gateway.mirror.partition.rules.fetch_cursor import FetchCursor
from gateway.mirror.rules.copy_ends import CopyEnds, RunningPartitions
from gateway.operations.net_access import NetAccess
from gateway.proxy.produce.cutover_connections import CutoverLanes
from gateway.runtime.term import LeaderTerm
from gateway.state.records import MirrorCutover, MirrorFailback, MirrorMode
from gateway.state.store import StoreError
from gateway.topics.create import MirrorCreator
from gateway.topics.status import Measure
from tests.simulation.kernel.node import CURRENT
from tests.simulation.mutations.lives import Event, EventKind, Fault, FaultKind, Operation, brief, life, sought
from tests.simulation.mutations.patching import Mutation, Patching
from tests.simulation.plan import SET
from tests.simulation.plan.roles import TABLE

_CREATE, _PROMOTE, _FAILOVER = Operation.CREATE, Operation.PROMOTE, Operation.FAILOVER


# -- the first one -------------------------------------------------------------------------------------------------


def take_what_runs_here(patching: Patching) -> None:
    """A cutover's ends and producers are those of whatever runs at the leader; nobody keeps it there."""

    def running_partitions(engine: Any, mirror: Any) -> RunningPartitions:
        known = (engine._progress.position(mirror.mirror_topic, index) for index in range(len(mirror.starts)))
        return RunningPartitions(tuple(-1 if at is None else at for at in known))

    def ends(engine: Any, mirror: Any) -> CopyEnds:
        found = engine.partition_ends(mirror)
        return CopyEnds(
            running_partitions(engine, mirror).mirrored,
            tuple(one.copy_end for one in found if one is not None),
            tuple(() if one is None else one.producers for one in found) if any(found) else (),
        )

    shipped = way_home.stopped

    def stopped(record: Any, ends: Any, copy_ends: Any, seen: Any, now_ms: int) -> Any:
        count = len(record.starts)
        whole = shipped(record, ends, (*copy_ends, *(0,) * count)[:count], (*seen, *((),) * count)[:count], now_ms)
        cutover = replace(whole.cutover, producers=whole.cutover.producers if seen else ())
        if record.is_reverse:
            failback = replace(whole.failback, handed_over_from=tuple(copy_ends))
            return replace(whole, cutover=cutover, failback=failback)
        return replace(whole, cutover=replace(cutover, stopped_copy_at=tuple(copy_ends)))

    lags = Gatherer._lags

    async def lags_of_what_is_known(self: Any) -> Any:
        real = [shipped_running_partitions(self._tools.engine, record) for record in self.records()]
        return {} if any(one.absent or one.cold for one in real) else await lags(self)

    async def leave(self: Any) -> None:
        """Promotes are not ended first."""

    shipped_running_partitions = _unwrapped("running_partitions")
    for part in (MirrorCutover, MirrorFailback):
        patching.replace(part, "__post_init__", lambda self: None)  # they could be built by halves
    patching.replace(Engine, "running_partitions", running_partitions)
    patching.replace(Engine, "ends", ends)
    patching.replace(Gatherer, "_lags", lags_of_what_is_known)
    patching.replace(promote_run, "stopped", stopped)
    patching.replace(promote, "_unlike", lambda snapshot: "")
    patching.replace(promote_checks, "_not_recordable", lambda topic, ends: None)
    patching.replace(FleetMirrors, "_keys_kept", lambda self: frozenset())
    patching.replace(LeaderTerm, "leave", leave, may_rest=True)


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
    create, execute = MirrorCreator._create, MirrorCreator._carry_out
    created: set[tuple[int, str]] = set()

    async def noting(self: Any, plan: Any, intent: Any, *, may_be_asked: bool) -> None:
        await create(self, plan, intent, may_be_asked=may_be_asked)
        created.add((id(self), plan.mirror_topic))

    async def undoing(self: Any, plan: Any) -> Any:
        try:
            return await execute(self, plan)
        except BaseException:
            if (id(self), plan.mirror_topic) in created:
                await _quietly(self._target.delete_topic(plan.mirror_topic, ""))
            intent = self._records.store.mirrors.get((plan.link.name, plan.mirror_topic))
            if intent is not None and not intent.created:
                await _quietly(self._records.store.delete(intent))
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
    """A producer table is dropped by the time of day, compared with the one that the cutover's record names."""

    def look_at(self: Any, topic: str, now: float) -> None:
        loop: Any = asyncio.get_running_loop()
        mirror, left_s = self._store.mirror_of(topic), self._cutovers.left_s
        if mirror is not None and loop.wall_ms(CURRENT.get()) - mirror.cutover.at_ms >= 15 * 60 * 1000:
            self._cutovers.left_s = lambda topic, now: 0.0
        try:
            shipped(self, topic, now)
        finally:
            self._cutovers.left_s = left_s

    shipped = routing_publisher.RoutingPublisher._look_at
    patching.replace(routing_publisher.RoutingPublisher, "_look_at", look_at)


def producers_by_count(patching: Patching) -> None:
    """The producer table is read back by a number of offsets (10,000; here 10, since less is written), not by time."""
    at_once = replace(failover_run.LIMITS, warm_s=0.0)  # a failover does not wait for it
    patching.replace(
        FetchCursor, "_read_from", lambda self, position: position - (10 if self.carried_to is None else 1)
    )
    patching.replace(fetch_cursor, "WARM_UP_MOST", 10)
    patching.replace(failover_run, "LIMITS", at_once)


# -- 11, 12, 14: which log it is -----------------------------------------------------------------------------------


def delete_by_name(patching: Patching) -> None:
    """truncate-and-restore deletes whatever topic has the name."""
    delete = NetAccess.delete_topic
    patching.replace(NetAccess, "delete_topic", lambda self, name, topic_id: delete(self, name, ""))


def no_map_without_a_topic(patching: Patching) -> None:
    """A broker that does not know the map's topic is taken for proof that there is none; the tail is not compared."""

    async def exists(self: Any, timeout_s: float) -> bool:
        if not self._exists:
            view = await self._cluster.refresh((self.topic,), timeout_s)
            topic = view.topics.get(self.topic)
            self._exists = topic is not None and bool(topic.partitions)
        return bool(self._exists)

    patching.replace(CompactedLog, "exists", exists)
    patching.replace(FetchCursor, "_check_copied", lambda self, copied, records: None, may_rest=True)


def believe_positions(patching: Patching) -> None:
    """The copy's real ends are not looked at before the cutover."""

    async def believed(self: Any, timeout_s: float) -> None:
        for record in self.records():
            handed = self._memory.handed(record.mirror_topic)
            self._memory.copy_read(record.mirror_topic, CopyReading(handed.copied, handed.copied))

    patching.replace(Gatherer, "read_copies", believed)


# -- 15: a failover's accounts -------------------------------------------------------------------------------------


def relay_after_the_cutover(patching: Patching) -> None:
    """What the source answers behind a failover is passed on as a success."""
    patching.replace(CutoverLanes, "routing_changed", lambda self, routing, changed: None)


def stopped_by_positions(patching: Patching) -> None:
    """Where a failover stopped is told by positions, which lack what was acknowledged while the mirror was stopped."""
    shipped, stop = FailoverEnds.copied, Measure.stop
    told: dict[tuple[int, str], list[int | None]] = {}

    async def stopping(self: Any, record: Any) -> None:
        places = range(len(record.starts))
        at = [self._maps.progress.position(record.mirror_topic, index) for index in places]
        told[id(self), record.mirror_topic] = at
        await stop(self, record)

    async def copied(self: Any, record: Any) -> tuple[Any, ...]:
        found = await shipped(self, record)
        known = told.get((id(self._measure), record.mirror_topic))
        if record.mode is MirrorMode.PRESERVE or known is None:
            return found
        pairs = zip(known, found, strict=True)
        return tuple(end if end is None or at is None else end._replace(mirrored_to=at) for at, end in pairs)

    patching.replace(Measure, "stop", stopping)
    patching.replace(FailoverEnds, "copied", copied)


def hand_over_what_is_queued(patching: Patching) -> None:
    """A failover answers retries of batches that the mirror has fetched and not appended."""

    def unfiltered(known: KnownProducers, copy: Sequence[CopyEnd], most: int) -> tuple[Producers, tuple[int, ...]]:
        return tuple(tuple(one.entry for one in table) for table in known.tables), known.missing

    patching.replace(failover_rules, "handed_on", unfiltered)


def compare_ends_only(patching: Patching) -> None:
    """A reverse looks at where the logs end, not at what they hold."""

    async def alike(self: Any, record: Any, source: Any, log_end_offsets: Any) -> tuple[int, ...]:
        return ()

    patching.replace(FailbackDestinations, "_unlike", alike)


# -- 16 ------------------------------------------------------------------------------------------------------------


def overlook_added_partitions(patching: Patching) -> None:
    """How many partitions the source has is asked before a promote, and not in it, nor right before the cutover."""
    read = PromoteMemory.read

    def not_asked(self: Any, topic: str, partitions: int) -> None:
        return

    def as_before(self: Any, topic: str, reading: Any) -> None:
        read(self, topic, replace(reading, partitions=len(reading.ends)))

    patching.replace(PromoteMemory, "read", as_before)
    patching.replace(PromoteMemory, "counted", not_asked)


_SET: Final = life((_CREATE, SET[:1]), (_CREATE, SET[1:]), Operation.PROMOTE_SET)
_LEAVES: Final = tuple(
    brief(
        acts,
        faults=[Fault(FaultKind.LEADER_LEAVES, act, "pause_writes", 0.0, 1.0)],
        events=[Event(EventKind.STATE_REFUSED, act, "pause_writes", 0.0, hold_s)],
    )
    for act, acts, hold_s in ((1, life(_CREATE, _PROMOTE), 0.3), (2, _SET, 0.3), (1, life(_CREATE, _PROMOTE), 1.0))
)
_RETRIED: Final = Event(EventKind.ANSWERS_LOST, 1, "mark_pending", 0.0, 1.5)
_EARLY: Final = Event(EventKind.PRODUCER_EARLY, 0)
_CLOCKS: Final = Event(EventKind.CLOCKS_AHEAD, 1)

MUTATIONS: Final = (
    Mutation("hole 0: cutover ends of what runs", take_what_runs_here, _LEAVES),
    sought(
        "hole 6a: a deposed leader undoes a create",
        undo_a_create,
        life(_CREATE),
        runs=4,
        faults=[Fault(FaultKind.LEADER_PAUSED, 0, "store", 0.0, 15.0)],
        events=[_EARLY],
    ),
    # else the operator asks another one at once
    sought(
        "hole 6b: an unanswered create is undone",
        undo_a_create,
        life(_CREATE, _PROMOTE),
        runs=4,
        gateways=1,
        events=[_EARLY, Event(EventKind.CREATE_UNANSWERED, 0, "create_topic", 0.0, 1.0)],
    ),
    sought(
        "hole 7: warm too early",
        warm_too_early,
        life(_CREATE, _FAILOVER, pause_s=6.0),
        runs=6,
        gateways=1,
        rate_per_s=100.0,  # more than is read while the failover waits for appends that may still land
        faults=[Fault(FaultKind.LEADER_KILLED, 1, "begin", 0.0, 1.2)],
        events=[
            Event(EventKind.ANSWERS_LOST, 0, "", 5.5, 14.0),
            Event(EventKind.SOURCE_NARROW, 1, "begin", 0.5, 12.0),
        ],
    ),
    sought(
        "hole 8: a producer table dropped by the clock",
        producers_by_the_clock,
        life(_CREATE, _PROMOTE, pause_s=3.0),
        runs=8,
        events=[_CLOCKS, _RETRIED],
    ),
    sought(
        "hole 11: a topic deleted by name",
        delete_by_name,
        life(_CREATE, _FAILOVER, Operation.RESTORE, Operation.FAILBACK),
        runs=3,
        events=[Event(EventKind.DELETE_DELAYED, 2, "", 0.0, 30.0)],
    ),
    sought(
        "hole 13: a producer table by count",
        producers_by_count,
        life(_CREATE, _PROMOTE, pause_s=4.0),
        runs=6,
        gateways=1,
        faults=[Fault(FaultKind.LEADER_KILLED, 1, "pause_writes", 0.0, 0.5)],
        events=[Event(EventKind.ANSWERS_LOST, 0, "", 2.0, 14.0)],
    ),
    sought(
        "hole 12: a topic that a broker does not know is no map",
        no_map_without_a_topic,
        life((_CREATE, SET[:1]), Operation.RESTART, (_PROMOTE, SET[:1]), pause_s=4.0),
        runs=4,
        gateways=1,
        events=[Event(EventKind.MAP_UNKNOWN, 1, "", 0.0, 6.0)],
    ),
    sought(
        "hole 14: positions outlive the target's log",
        believe_positions,
        life(_CREATE, _PROMOTE, pause_s=2.0),
        runs=4,
        events=[Event(EventKind.TARGET_LOSES, 1, "stop_mirror")],
    ),
    sought(
        "hole 15b: a failover's end by positions",
        stopped_by_positions,
        life(_CREATE, (_CREATE, (TABLE,)), (_FAILOVER, (TABLE,)), pause_s=1.0),
        runs=6,
        gateways=1,
        cast=(TABLE,),
        events=[Event(EventKind.TARGET_BROKER_PAUSED, 1, "", 1.5, 2.7)],
    ),
    sought(
        "hole 15d: a failover hands over what is queued",
        hand_over_what_is_queued,
        life(_CREATE, _FAILOVER, pause_s=2.0),
        runs=4,
        gateways=1,
        rate_per_s=40.0,
        ack_both=True,
        events=[Event(EventKind.TARGET_BROKER_PAUSED, 0, "", 1.5, 2.7)],
    ),
    sought(
        "hole 15c: a reverse compares ends only",
        compare_ends_only,
        life(_CREATE, _FAILOVER, Operation.REBALANCE, Operation.RESTORE, pause_s=2.0),
        runs=8,
        events=[
            Event(EventKind.SOURCE_REWRITTEN, 2, "", 0.0),
            Event(EventKind.REVERSE_ASKED, 2, "", 1.5),
        ],
        seed=4,
    ),
    sought(
        "hole 15a: answers relayed after a failover",
        relay_after_the_cutover,
        life(_CREATE, Operation.GROUP_PROMOTE, _FAILOVER, pause_s=2.0),
        runs=3,
        rate_per_s=100.0,
        events=[Event(EventKind.SOURCE_DOWN, 2, "begin", 0.0, 12.0)],
    ),
    Mutation(
        "hole 16: partitions added during a promote",
        overlook_added_partitions,
        tuple(
            brief(life(_CREATE, _PROMOTE), events=[Event(EventKind.PARTITIONS_ADDED, 1, step)])
            for step in ("mark_pending", "pause_writes", "read_ends")
        ),
    ),
)
