"""The write pause: where the writes to a mirror topic go at one gateway, now. Pure.

Theory of operation
-------------------
A mirror topic is written on one cluster until its cutover, and on the other one from then on. In between nobody may
write: every gateway **pauses** its writes. A `WritePause` is one topic at one gateway, at the leader's as at any other.
It is asked before every write (`goes`), and nothing else in a gateway knows where a write goes. It is told four things,
which come in any order and do not wait for one another:

the record
    As read from the state topic, in its order: on which side the topic is written, and which pauses are over. Any state
    but PENDING_STOPPED ends the pauses up to the record's epoch: what they were for has been done, or given up.
    PENDING_STOPPED neither pauses (the mirror may have far to go) nor ends a pause.
the leader's commands
    `pause` and `resume`, of one operation: the **epoch** numbers the operations on a topic, the **term** tells leaders
    apart. Commands may be late, repeated, or from a leader that is one no more.
the assignment
    It names the pauses in force to whoever comes new, and it is a point in the state topic: all that the leaders
    before have written is read.
the lease
    Without it the others may count this gateway as gone: a write goes nowhere then (`fleet/rules/leases.py`).

Rules, each of which the exhaustive search leaves out once (`tests/model`), or a test of this class:

1. A pause is one operation's. Writes go on when none is left; the end of one never ends another.
2. The epochs of a term rise. A command that is not younger than the youngest heard of its term comes late and begins
   nothing; so a pause whose end was heard before its begin, or before the assignment that names it, never begins.
3. A command of a term below the highest heard is refused.
4. A pause of an earlier term ends with the assignment of a later one, and not with that leader's first commands: until
   the assignment is read, what the pause was for may have been done without this gateway knowing. An assignment says
   nothing about pauses of its own term: they may have begun after it was made.
5. After a cutover the record alone ends the pause. The leader resumes only what no record has ended at itself: a
   gateway that has not read the record yet must go on waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from gateway.state.per_partition import WrongLength, tables_of
from gateway.state.records import MirrorRecord, MirrorState

AT_REST: Final = (MirrorState.STOPPED, MirrorState.PENDING_SYNCHRONIZE)
"""States in which a topic is written on the target and not mirrored."""

_CUT_OVER: Final = (MirrorState.STOPPED, MirrorState.PENDING_MIRROR)
"""States right behind a cutover, to the target and home."""

_Command = tuple[int, int]  # (term, epoch): its order is the order in which commands count
_NONE: Final[_Command] = (-1, -1)


class WritePhase(StrEnum):
    """Where the writes to a mirrored topic go."""

    FORWARD = "forward"  # to the source leader
    PAUSED = "paused"  # nowhere yet: they wait
    SWITCHED = "switched"  # to the target


class Pause(NamedTuple):
    """One operation's pause of a mirror topic. `term`: of the leader whose operation it is."""

    topic: str
    epoch: int
    term: int


class Recorded(NamedTuple):
    """What a topic's record says of its writes.

    `on_target`: they go to the target although it is mirrored. `unstamped`: it has cut over, and the leaders of its
    partitions are not known to give records their own timestamps yet (`MirrorCutover`). `garbled`: which writes are
    retries cannot be told.
    """

    state: MirrorState
    epoch: int
    on_target: bool = False
    unstamped: bool = False
    garbled: bool = False

    def phase(self, *, paused: bool) -> WritePhase:
        """Where a topic with this record is written.

        A pause says nothing while nobody can cut over: STOPPED, and the step after it. The first writes to a topic
        that is to stamp them itself wait at every gateway until it does: the record alone says so, no command.
        """
        if self.garbled:  # they wait for as long as some may be retries
            return WritePhase.PAUSED
        if self.unstamped and self.state in _CUT_OVER:
            return WritePhase.PAUSED
        if self.state in AT_REST:
            return WritePhase.SWITCHED
        if paused:
            return WritePhase.PAUSED
        return WritePhase.SWITCHED if self.on_target else WritePhase.FORWARD


OF_NO_MIRROR: Final = Recorded(MirrorState.STOPPED, 0)
"""Of a topic whose mirror was deleted, and which has a route since its writes have failed back: the target's own."""


def recorded(mirror: MirrorRecord, *, retried: bool = False) -> Recorded:
    """Of a record. `retried`: a producer may still retry a batch from before the last cutover."""
    garbled = False
    if retried:
        try:
            tables_of(mirror)
        except WrongLength:
            garbled = True
    return Recorded(mirror.state, mirror.cutover.pause_epoch, mirror.is_reverse, mirror.cutover.unstamped, garbled)


def phase_of(mirror: MirrorRecord, *, is_paused: bool) -> WritePhase:
    """Where a topic with this record is written."""
    return recorded(mirror).phase(paused=is_paused)


class WritePause:
    """One mirror topic at one gateway; begins with the record as read.

    Attributes:
        phase: where writes go, but for the lease.
        closed: the pause was acknowledged: no transaction takes the topic in until it is over.
        recorded: the record as read last.
        term: the highest that was heard of.
    """

    __slots__ = ("_ended", "_newest", "_pauses", "_waiting", "closed", "phase", "recorded", "term")

    def __init__(self, found: Recorded, term: int = -1, newest: _Command = _NONE) -> None:
        self.recorded = found
        self.term = term
        self.closed = False
        self._ended = -1 if found.state is MirrorState.PENDING_STOPPED else found.epoch
        self._newest = newest
        self._pauses: frozenset[_Command] = frozenset()
        self._waiting: dict[object, Callable[[], None]] = {}
        self.phase = found.phase(paused=False)

    def goes(self, leased: bool) -> WritePhase | None:
        """Where a write goes that is about to be sent; None: nowhere. `leased`: this gateway's lease is valid now."""
        return self.phase if leased else None

    # -- what it is told -----------------------------------------------------------------------------------

    def record(self, found: Recorded) -> None:
        """The next record of the topic was read."""
        if found == self.recorded:
            return
        self.recorded = found
        if found.state is not MirrorState.PENDING_STOPPED:
            self._ended = max(self._ended, found.epoch)
            self._pauses = frozenset(each for each in self._pauses if each[1] > found.epoch)
        self._look()

    def pause(self, epoch: int, term: int) -> bool:
        """The leader pauses the writes. False when that comes too late: the epoch or the term is over."""
        command = (term, epoch)
        if command in self._pauses:
            return True
        late = term < self.term or command <= self._newest or epoch <= self._ended or epoch < self.recorded.epoch
        if late:
            return False
        self.term, self._newest = term, command
        self._pauses |= {command}
        self._look()
        return True

    def resume(self, epoch: int, term: int) -> bool:
        """The leader has given the operation up. True when that ends a pause that was in force here."""
        command = (term, epoch)
        if term < self.term:
            return False
        self.term, self._newest = term, max(command, self._newest)
        if command not in self._pauses:
            return False
        self._pauses -= {command}
        self._look()
        return True

    def assigned(self, term: int, epoch: int | None) -> None:
        """An assignment was read, and the state up to it; or this gateway begins its own term, having read as much.

        `epoch`: of the pause in force that it names for this topic.
        """
        self.term = max(self.term, term)
        if any(each[0] < term for each in self._pauses):
            self._pauses = frozenset(each for each in self._pauses if each[0] >= term)
            self._look()
        if epoch is not None:
            self.pause(epoch, term)

    def _look(self) -> None:
        self.phase = self.recorded.phase(paused=bool(self._pauses))
        self.closed = self.closed and self.phase is WritePhase.PAUSED

    # -- what is known -------------------------------------------------------------------------------------

    @property
    def newest(self) -> _Command:
        """The youngest command that was heard, (term, epoch)."""
        return self._newest

    @property
    def next_epoch(self) -> int:
        """For the topic's next operation: above what its record says, and above every one that was paused here."""
        return max(self.recorded.epoch, self._newest[1]) + 1

    def is_in_force(self, epoch: int, term: int) -> bool:
        """This operation's pause has begun here, and not ended."""
        return (term, epoch) in self._pauses

    def in_force(self, term: int | None = None) -> int | None:
        """The youngest epoch of the pauses in force, of one term or of any; None without one."""
        return max((epoch for at, epoch in self._pauses if term in (None, at)), default=None)

    # -- who waits -----------------------------------------------------------------------------------------

    def close(self) -> None:
        """The pause is acknowledged: no transaction takes the topic in until it is over."""
        self.closed = self.phase is WritePhase.PAUSED

    def wait(self, release: Callable[[], None]) -> Callable[[], None]:
        """Keep a write until the pause is over; `release` is called then. Returns what ends the wait before that."""
        key = object()
        self._waiting[key] = release

        def leave() -> None:
            self._waiting.pop(key, None)

        return leave

    @property
    def waiting(self) -> int:
        """Writes that wait now."""
        return len(self._waiting)

    def let_go(self) -> None:
        """Release, in order of arrival, whoever waits: the routes say where writes go from now on."""
        waiting, self._waiting = self._waiting, {}
        for release in waiting.values():
            release()


class WritePauses(Mapping[str, WritePause]):
    """All mirror topics at one gateway, by name."""

    def __init__(self) -> None:
        self._topics: dict[str, WritePause] = {}
        self._gone: dict[str, _Command] = {}  # what was heard last of topics whose mirrors were deleted
        self._paused: set[str] = set()  # what was paused, and is not known to be so no more
        self._term = -1

    def __getitem__(self, topic: str) -> WritePause:
        return self._topics[topic]

    def __iter__(self) -> Iterator[str]:
        return iter(self._topics)

    def __len__(self) -> int:
        return len(self._topics)

    def record(self, topic: str, found: Recorded | None) -> None:
        """What is read of a topic's mirror; None: it has none, or none any more."""
        known = self._topics.get(topic)
        if known is None:
            if found is not None:
                self._topics[topic] = WritePause(found, self._term, self._gone.pop(topic, _NONE))
        elif found is None:
            self._gone[topic] = self._topics.pop(topic).newest
        else:
            known.record(found)

    def pause(self, pause: Pause) -> bool:
        """See `WritePause.pause`; False too while the topic is not known here."""
        topic = self._topics.get(pause.topic)
        if topic is None or not topic.pause(pause.epoch, pause.term):
            return False
        self._paused.add(pause.topic)
        return True

    def resume(self, pause: Pause) -> bool:
        """See `WritePause.resume`."""
        topic = self._topics.get(pause.topic)
        return topic is not None and topic.resume(pause.epoch, pause.term)

    def assigned(self, term: int, named: Mapping[str, int]) -> None:
        """See `WritePause.assigned`. `named`: mirror topic -> epoch."""
        self._term = max(self._term, term)
        for topic, pause in self._topics.items():
            pause.assigned(term, named.get(topic))
        self._paused |= named.keys() & self._topics.keys()

    def in_force(self, term: int | None = None) -> Mapping[str, int]:
        """The pauses in force here, of one term or of any: mirror topic -> the youngest one's epoch."""
        found = {}
        for topic in sorted(self._paused):
            known = self._topics.get(topic)
            if known is None or known.in_force() is None:
                self._paused.discard(topic)
            elif (epoch := known.in_force(term)) is not None:
                found[topic] = epoch
        return found
