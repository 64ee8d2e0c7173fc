"""What a fleet's world is made of (see fleet_world.py): its gateways, its clock, and what tells two states apart."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, Self

from gateway.cutover.promote.rules.memory import PromoteMemory
from gateway.cutover.promote.rules.snapshot import PromoteLimits
from gateway.cutover.write_pause.rules.write_pause import Recorded, WritePause
from gateway.fleet.rules.leases import Presumptions, WriteLease
from gateway.state.records import MirrorState

Event = tuple[str, Callable[[Any], None]]
TOPIC = "t"
LEASE, DRIFT = 1.0, 0.5
LANDS_WITHIN = 1  # ticks in which a write lands whose gateway does not run any more
LIMITS = PromoteLimits(lag_threshold=1, pause_timeout_s=5, grace_s=1, unknown_grace_s=2, source_timeout_s=2)
NODES = (0, 1)
COPY = 7  # the copy's offsets are higher by so much
BROKEN = (
    "lease ignored",
    "answered without a lease",
    "acknowledgement forgotten",
    "acknowledged in flight",
    "drift forgotten",
    "presumed at once",
    "epochs ignored",
    "registry forgotten",
    "terms ignored",
    "ended by another operation",
    "ended by a later leader's command",
    "resumed after the cutover",
    "empty taken for ends",
    "rights left to the sync",
)


class EpochsIgnored(WritePause):
    """Whatever is commanded is done, however late it comes."""

    __slots__ = ()

    def pause(self, epoch: int, term: int) -> bool:
        self._pauses |= {(term, epoch)}
        self._look()
        return True

    def resume(self, epoch: int, term: int) -> bool:
        self._pauses = frozenset()
        self._look()
        return True


class TermsIgnored(WritePause):
    """An assignment ends what its own leader has begun after it was made, too."""

    __slots__ = ()

    def assigned(self, term: int, epoch: int | None) -> None:
        self._pauses = frozenset()
        self._look()
        super().assigned(term, epoch)


class OneForAll(WritePause):
    """The end of one operation is the end of all."""

    __slots__ = ()

    def resume(self, epoch: int, term: int) -> bool:
        ended = super().resume(epoch, term)
        if ended:
            self._pauses = frozenset()
            self._look()
        return ended


class CommandsDecide(WritePause):
    """A later leader's first command ends the pauses of the one before, although the state was not read so far."""

    __slots__ = ()

    def pause(self, epoch: int, term: int) -> bool:
        begun = super().pause(epoch, term)
        if begun:
            self._pauses = frozenset(each for each in self._pauses if each[0] == term)
        return begun


SPOILT: dict[str, type[WritePause]] = {
    "epochs ignored": EpochsIgnored,
    "terms ignored": TermsIgnored,
    "ended by another operation": OneForAll,
    "ended by a later leader's command": CommandsDecide,
}
"""The shipped class without one of its rules."""


class Gateway:
    """One gateway. `write`: '' | checked | sent | landed; `sent_at`; `place` in the source's log; `told`: the term of
    the last assignment it read."""

    __slots__ = ("_key", "cut", "lease", "place", "read", "sent_at", "status", "told", "unknown", "write", "writes")

    def __init__(self, writes: type[WritePause] = WritePause) -> None:
        self.status = "up"  # up | paused | dead
        self.cut = False  # from the target and from all peers, not from the source
        self.lease = WriteLease(LEASE)
        self.writes = writes(Recorded(MirrorState.ACTIVE, 0), term=0)
        self.told = 0
        self.read = 1  # records of the state topic
        self.write = ""
        self.sent_at = 0
        self.place = -1
        self.unknown = 0
        self._key: tuple[int, tuple[Any, ...]] | None = None  # at which time; one that is shared does not change

    def clone(self) -> Gateway:
        other: Gateway = object.__new__(Gateway)
        other.status, other.cut, other.lease, other.read = self.status, self.cut, self.lease, self.read
        other.write, other.sent_at, other.place, other.unknown = self.write, self.sent_at, self.place, self.unknown
        old, other.told = self.writes, self.told
        other.writes = writes = object.__new__(type(old))
        writes.recorded, writes.phase, writes.term, writes.closed = old.recorded, old.phase, old.term, old.closed
        writes._pauses, writes._ended, writes._newest, writes._waiting = old._pauses, old._ended, old._newest, {}
        other._key = None
        return other

    def renewed(self, now: int) -> None:
        self.lease = WriteLease(LEASE)
        self.lease.renewed(now / (1 + DRIFT))

    @property
    def reachable(self) -> bool:
        return self.status == "up" and not self.cut

    def key(self, now: int) -> tuple[Any, ...]:
        if self._key is None or self._key[0] != now:
            writes = self.writes
            sent = min(now - self.sent_at, LANDS_WITHIN) if self.write == "sent" else 0
            self._key = now, (
                self.status, self.cut, round(self.lease.left_s(now / (1 + DRIFT)), 2), writes.recorded,
                writes._pauses, writes._ended, writes._newest, writes.term, self.told,
                self.read, self.write, sent, self.place, self.unknown,
            )  # fmt: skip
        return self._key[1]


class FleetState:
    """One state of the world. `budget`: how often each thing may happen yet; `faults`: all of them together.

    `actors`: the gateways that take writes and have bad luck. 1 is like 2 until it leads, and then like 0, so that
    with one fault nothing new is found with it.
    """

    def __init__(
        self,
        budget: dict[str, int],
        *,
        faults: int = 1,
        writes: int = 1,
        promotes: int = 1,
        actors: tuple[int, ...] = (0, 2),
        limits: PromoteLimits = LIMITS,
        acls: bool = False,
        broken: str = "",
    ) -> None:
        self.limits = limits
        self.broken = broken
        self.acls = acls  # the link copies them
        self.rights = ""  # of the last ACL sync of a run: "gateways" may write the copy, or "all" who may on the source
        self.actors = actors
        self.gateways = [Gateway(SPOILT.get(broken, WritePause)) for _ in range(3)]
        self.now = 0
        self.records: tuple[tuple[MirrorState, int], ...] = ((MirrorState.ACTIVE, 0),)
        self.members = frozenset((0, 1, 2))
        self.leader = 0
        self.log: tuple[bool, ...] = ()  # the source; True: acknowledged
        self.limbo: tuple[int, ...] = ()  # deadlines of writes whose gateway gave them up
        self.mirrored = 0
        self.engine = True
        self.here = True  # the partition is mirrored in the leader's process
        self.leaving = False  # the leader is being stopped in order
        self.stale: frozenset[tuple[str, int, int]] = (
            frozenset()
        )  # (command, epoch, term) of a leader that is one no more
        self.term = 0
        self.began = 1  # records that the leader had read when its term began
        self.budget = {
            **dict.fromkeys(("crash", "pause", "cut", "outcome_is_unknown", "release", "leave", "other", "refusal"), 0),
            **budget,
            "write": writes,
        }
        self.faults = faults
        self.promotes = promotes  # how often somebody asks for it
        self.running = False
        self.other: int | None = None  # the epoch of another operation of this leader
        self.asked: frozenset[int] = frozenset()
        self.reading: tuple[int, int] | None = None
        self.memory = PromoteMemory([TOPIC])
        self.presumptions = Presumptions()
        self._lead()
        for gateway in self.gateways:
            gateway.renewed(0)

    def _lead(self) -> None:
        raise NotImplementedError

    def clone(self) -> Self:
        """What an event changes of it is copied by `_own` and `_own_memory`."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.gateways = list(self.gateways)
        return other

    def _own(self, g: int) -> Gateway:
        self.gateways[g] = own = self.gateways[g].clone()
        return own

    def _own_memory(self) -> PromoteMemory:
        self.memory = memory = copy(self.memory)
        memory._epochs, memory._acked_at = dict(memory._epochs), dict(memory._acked_at)
        memory._acks = {topic: dict(acks) for topic, acks in memory._acks.items()}
        memory._drains, memory._stopped = dict(memory._drains), dict(memory._stopped)
        memory._copies, memory._partitions = dict(memory._copies), dict(memory._partitions)
        memory._acl_rounds = dict(memory._acl_rounds)
        return memory

    def _spend(self, what: str) -> None:
        self.budget = {**self.budget, what: self.budget[what] - 1}
        self.faults -= what not in ("write", "other")

    # -- what tells states apart ---------------------------------------------------------------------------

    def key(self) -> tuple[Any, ...]:
        memory = self.memory
        return (
            *(gateway.key(self.now) for gateway in self.gateways),
            self.records, self.members, self.leader, self.term, self.began, self.log,
            tuple(d - self.now for d in self.limbo),
            self.mirrored, self.engine, self.stale, tuple(self.budget.values()), self.faults, self.promotes,
            self.running, self.other, self.asked, self._age(memory.paused_at, 5), memory.committing,
            bool(memory.gave_up), memory.configs_read, self.rights, tuple(memory._acl_rounds.items()),
            memory._epochs.get(TOPIC), memory._stopped.get(TOPIC), TOPIC in memory._copies, self.here, self.leaving,
            tuple((g, a.epoch, a.unknown_outcomes) for g, a in sorted(memory.acks(TOPIC).items())),
            tuple(sorted((g, self._age(at / (1 + DRIFT), 2)) for g, (at, _) in self.presumptions._since.items())),
            self._drain_key(),
        )  # fmt: skip

    def _drain_key(self) -> tuple[Any, ...]:
        drain, acked_at = self.memory._drains.get(TOPIC), self.memory._acked_at.get(TOPIC, -1)
        reading = None if self.reading is None else (self._age(self.reading[0], 2), self.reading[1])
        if drain is None:
            return reading, self._age(acked_at, 1)
        first, last = drain.first, drain.last
        ages = self._age(drain.since, 3), self._age(first.asked, 1), first.asked >= acked_at
        return reading, first.ends, last.ends, last.mirrored, min(max(drain.stable_s, 0), 2), drain.complete, *ages

    def _age(self, at: float | None, enough: float) -> float | None:
        return None if at is None else round(min(self.now - at, enough), 2)
