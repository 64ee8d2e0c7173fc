"""What chaos found in the past (CHANGELOG, "Fixed"), put back one by one, as far as it concerns what is simulated."""

from __future__ import annotations

from itertools import groupby
from typing import Any, Final

from gateway.cutover.failback import copy_setup, destination
from gateway.cutover.failover.run import FailoverRun
from gateway.cutover.promote.promoter import TopicPromoter
from gateway.cutover.write_pause.rules.write_pause import WritePause, WritePhase
from gateway.fleet.rules.mirror_news import MirrorNews
from gateway.groups.gate.fleet import FleetGates
from gateway.proxy.handlers.produce import ProduceHandler
from gateway.proxy.rules.cutover_order import CutoverOrder
from gateway.proxy.rules.leader_order import LeaderOrder
from gateway.state.records import MirrorRecord, MirrorState
from gateway.state.store import StoreUncertain
from gateway.state.views import StateViews
from tests.simulation.mutations.lives import (
    Event,
    EventKind,
    Fault,
    FaultKind,
    Operation,
    again,
    brief,
    life,
    sought,
)
from tests.simulation.mutations.patching import Mutation, Patching
from tests.simulation.plan import MENDED, NEWCOMER, SET, Act
from tests.simulation.plan.roles import TABLE

_CREATE, _PROMOTE, _REVERSE, _FAILBACK = Operation.CREATE, Operation.PROMOTE, Operation.REVERSE, Operation.FAILBACK


def revived_by_an_assignment(patching: Patching) -> None:
    """What an assignment names is paused, at its leader, too, although it may be over by the time that it is read."""
    assigned = WritePause.assigned

    def reviving(self: Any, term: int, epoch: int | None) -> None:
        assigned(self, term, epoch)
        if epoch is not None:
            self._pauses |= {(term, epoch)}
            self._look()

    patching.replace(WritePause, "assigned", reviving)


def sets_by_their_time(patching: Patching) -> None:
    """What became PENDING_STOPPED in the same millisecond is taken for one set."""

    def time_of(mirror: MirrorRecord) -> tuple[str, int]:
        return mirror.link, mirror.state_since_ms

    def resume(self: Any) -> None:
        self._late.start()
        pending = [m for m in self._store.mirrors.values() if m.state is MirrorState.PENDING_STOPPED]
        for (link, _), mirrors in groupby(sorted(pending, key=time_of), key=time_of):
            names = tuple(mirror.mirror_topic for mirror in mirrors)
            self._background.spawn(self._resume(link, names, ""), f"resume promote {link} {','.join(names)}")

    patching.replace(TopicPromoter, "resume", resume)


def refused_for_good(patching: Patching) -> None:
    """That there is no such topic is a refusal like any other."""
    for module in (copy_setup, destination):
        patching.replace(module, "knows_no_topic", lambda exc: False, may_rest=True)


def an_assignment_ends_fences(patching: Patching) -> None:
    """An assignment that does not name a write pause ends it, also one of its own leader that it is too old for."""
    assigned = WritePause.assigned

    def ending(self: Any, term: int, epoch: int | None) -> None:
        assigned(self, term, epoch)
        if epoch is None and term >= self.term:
            self._pauses = frozenset()
            self._look()

    patching.replace(WritePause, "assigned", ending)


def an_unknown_failover_lets_go(patching: Patching) -> None:
    """A failover whose record may or may not be written lets writes go to the source."""
    persist = FailoverRun._persist

    async def letting_go(self: Any, step: Any) -> None:
        try:
            await persist(self, step)
        except StoreUncertain:
            self._as_recorded()
            raise

    patching.replace(FailoverRun, "_persist", letting_go)


def batches_overtake(patching: Patching) -> None:
    """A change of leader on the source lets a batch overtake the one before it."""
    patching.replace(LeaderOrder, "overtakes", lambda self, plan, view_of, leads: False)


def old_routes_without_a_lease(patching: Patching) -> None:
    """What is written on the target as far as a gateway knows is written without a lease."""

    def goes(self: WritePause, leased: bool) -> WritePhase | None:
        return self.phase if leased or self.phase is WritePhase.SWITCHED else None

    def to_target(self: Any, session: Any, exchange: Any, view: Any, plan: Any, answered: Any) -> None:
        exchange.forward(None)

    patching.replace(WritePause, "goes", goes)
    patching.replace(ProduceHandler, "_to_target", to_target)


def let_in_as_of_then(patching: Patching) -> None:
    """The leader answers as of when it let the group in, not of what it has read since. Whoever has begun to read
    since finds a mirror at its last change only, and takes it for younger.
    """
    first_requested = FleetGates._first_requested

    async def answering(self: Any, body: Any) -> Any:
        answer = await first_requested(self, body)
        return {**answer, "as_of": self._gates.let_in_at(str(body["group"]))} if self._gates.enabled else answer

    patching.replace(FleetGates, "_first_requested", answering)


def as_young_as_its_last_change(patching: Patching) -> None:
    """Likewise, and what is read at once is as young as the last of it: so also where nobody began anew."""
    apply = StateViews.apply

    def applied(self: Any, changes: Any, offset: int, offsets: Any = None) -> None:
        if offsets is not None:
            changes, offsets = list(changes), list(offsets)
            last = {key: at for (key, _), at in zip(changes, offsets, strict=True)}
            offsets = [last[key] for key, _ in changes]
        apply(self, changes, offset, offsets)

    let_in_as_of_then(patching)
    patching.replace(StateViews, "apply", applied)


def told_once(patching: Patching) -> None:
    """What a leader has heard counts as written down."""
    patching.replace(MirrorNews, "is_written", lambda self, record: True)


def any_batch_first_after_a_failover(patching: Patching) -> None:
    """What was held is let go to a target that takes any first sequence."""
    admits = CutoverOrder._admits

    def admitting(self: Any, connection: int, batch: Any, now: float) -> bool:
        found = self._watched.get(batch.topic)
        return (found is not None and not found.goes_on) or bool(admits(self, connection, batch, now))

    patching.replace(CutoverOrder, "_admits", admitting)


_WAITS: Final = brief(
    life(_CREATE, Operation.FAILOVER, pause_s=2.0),
    gateways=1,  # its own clients' writes are those that it lets go
    lease_s=60.0,
    events=[Event(EventKind.STATE_UNHEARD, 1, "persist", 0.0, 32.0)],
)
_FAILS_UNHEARD: Final = brief(
    (
        Act(0, Operation.SPOIL, (MENDED,), how="written"),
        Act(1, Operation.REPAIR, (MENDED,), how="written"),
    ),
    seed=2,
    events=[Event(EventKind.STATE_REFUSED, 0, "", 1.2, 5.0)],
    faults=[Fault(FaultKind.LEADER_KILLED, 0, "", 1.6, 4.0)],
)

MUTATIONS: Final = (
    sought(
        "past: an assignment revives a pause that is over",
        revived_by_an_assignment,
        life(_CREATE, _PROMOTE, _REVERSE, _FAILBACK),
        runs=20,
        faults=[
            Fault(FaultKind.TARGET_COORDINATOR_MOVES, 0, "begin"),  # away from the broker that leads the state
            Fault(FaultKind.GATEWAY_JOINS, 3, "pause_writes"),
            Fault(FaultKind.FOLLOWER_PAUSED, 3, "pause_writes", 0.0, 1.5),  # and with it both, pause and rebalance
        ],
        events=[
            Event(EventKind.ASSIGNMENT_LATE, 3, "pause_writes", 0.0, 2.0),
        ],
    ),
    sought(
        "past: an assignment ends a write pause that it is too old for",
        an_assignment_ends_fences,
        life(_CREATE, _PROMOTE, pause_s=1.3),  # an assignment follows a create by a second
        runs=6,
        rate_per_s=100.0,
        faults=[Fault(FaultKind.TARGET_COORDINATOR_MOVES, 0, "begin")],
        events=[
            Event(EventKind.ASSIGNMENT_LATE, 0, "", 0.0, 1.5),
            Event(EventKind.STATE_REFUSED, 1, "persist_stopped", 0.0, 2.0),
        ],
    ),
    sought(
        "past: writes to the target by old routes, without a lease",
        old_routes_without_a_lease,
        life(_CREATE, _PROMOTE, _REVERSE, _FAILBACK, pause_s=2.0),
        runs=4,
        faults=[Fault(FaultKind.FOLLOWER_PAUSED, 3, "mark_pending", 0.0, 24.0)],
        events=[Event(EventKind.PROMOTE_ASKED, 3, "", 13.0)],
        seed=3,
    ),
    Mutation("past: a failover of unknown outcome lets writes go", an_unknown_failover_lets_go, again(_WAITS, 3)),
    # the leader can write nothing down, and dies; the mirror fails where nobody leads, for as long as that lasts
    Mutation("past: what a leader has heard counts as written down", told_once, again(_FAILS_UNHEARD, 3)),
    # what one gateway has sent to a slow source is not copied when the source is given up, and the gateway leaves: its
    # clients send it again by the other gateway, which has held later batches of theirs
    sought(
        "past: after a failover any batch comes first",
        any_batch_first_after_a_failover,
        life(_CREATE, Operation.FAILOVER, pause_s=2.0),
        runs=5,
        seed=2,
        gateways=2,
        events=[Event(EventKind.SOURCE_SLOW, 1, "begin", 0.0, 7.5)],
        faults=[
            Fault(FaultKind.TARGET_LEADER_MOVES, 1, "", 0.7),
            Fault(FaultKind.TARGET_LEADER_MOVES, 1, "", 0.8),
            Fault(FaultKind.FOLLOWER_LEAVES, 1, "", 2.5, 0.2),
        ],
    ),
    sought(
        "past: a batch overtakes the one before it",
        batches_overtake,
        life(_CREATE, pause_s=3.0),
        runs=8,
        rate_per_s=200.0,
        in_order=True,
        events=[
            Event(EventKind.SOURCE_LEADER_CUT, 0, "", 1.95, 3.0),  # one batch is appended, and not answered
            Event(EventKind.SOURCE_LEADER_MOVES_AWAY, 0, "", 2.0, 3.0),  # one does not arrive, the next finds another
        ],
        seed=10,
    ),
    # the mirror has changed since the newcomer was let in, and the follower is away meanwhile
    sought(
        "past: a group let in is held where a gateway began later",
        let_in_as_of_then,
        life(_CREATE, _PROMOTE, pause_s=2.0),
        runs=3,
        cast=(NEWCOMER,),
        faults=[Fault(FaultKind.FOLLOWER_KILLED, 1, "publish_switched", 0.0, 1.0)],
    ),
    # the newcomer is there before the second mirror, of which a follower that is no longer waited for reads all at once
    sought(
        "past: a mirror is as young as the last of what is read at once",
        as_young_as_its_last_change,
        life(_CREATE, (_CREATE, (TABLE,)), pause_s=2.0),
        runs=4,
        cast=(NEWCOMER, TABLE),
        faults=[Fault(FaultKind.FOLLOWER_PAUSED, 1, "", 0.0, 40.0)],
        events=[Event(EventKind.SOURCE_SLOW, 1, "", 0.0, 4.0)],
    ),
    sought(
        "past: a set falls apart by a tick of the clock",
        sets_by_their_time,
        life((_CREATE, SET[:1]), (_CREATE, SET[1:]), Operation.PROMOTE_SET),
        runs=6,
        faults=[Fault(FaultKind.LEADER_KILLED, 2, "read_ends", 0.0, 1.0)],
    ),
    sought(
        "past: brokers that do not agree on a topic end its failback",
        refused_for_good,
        life(_CREATE, _PROMOTE, Operation.FAILOVER, Operation.RESTORE),
        runs=6,
        events=[Event(EventKind.SOURCE_HEARS_LATE, 3, "delete", 0.0, 12.0)],
    ),
)
