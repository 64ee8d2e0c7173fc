"""The write pause: where the writes to a mirror topic go at one gateway, now. Pure.

Theory of operation
-------------------
A mirror topic is written on one cluster until its cutover, and on the other one from then on. In between no gateway may
write: each one **pauses** its writes. A `WritePause` is one topic at one gateway, the leader or any other. Every write
asks it (`goes`), and nothing else in a gateway knows where a write goes. It has four inputs, which come in any order
and do not wait for one another:

the record
    As read from the state topic, in order: on which side the topic is written, and which pauses are over. Any state but
    PENDING_STOPPED ends the pauses up to the record's epoch: their operations were completed, or given up.
    PENDING_STOPPED neither pauses (the mirror may lag far behind) nor ends a pause.
the leader's commands
    `pause` and `resume`, each for one operation: the **epoch** numbers the operations on a topic, the **term**
    identifies the leader. Commands may be late, repeated, or from a former leader.
the assignment
    It names the pauses in force to a gateway that joins, and marks a point in the state topic up to which everything
    that earlier leaders wrote was read.
the lease
    Without a valid one the others may count this gateway as gone: then a write goes nowhere (`fleet/rules/leases.py`).

Rules, each of which the exhaustive search (`tests/model`) leaves out once, or a test of this class:

1. A pause belongs to one operation. Writes resume when none is left; the end of one pause never ends another.
2. The epochs of a term rise. A command that is not newer than the newest heard of its term is late and begins nothing;
   so a pause whose end was heard before its begin, or before the assignment that names it, never begins.
3. A command of a term below the highest heard is refused.
4. The assignment of a later term ends the pauses of earlier terms; that leader's first commands do not: until the
   assignment is read, their operations may have been completed without this gateway knowing. An assignment says nothing
   about pauses of its own term, which may have begun after it was made.
5. After a cutover the record alone ends the pause. The leader resumes only pauses that no record has ended at itself: a
   gateway that has not read the record yet must keep waiting.
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
"""States right after a cutover, to the target and back to the source."""

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
    """What a topic's record says about its writes.

    `on_target`: they go to the target although the topic is mirrored. `unstamped`: it has cut over, and the leaders of
    its partitions are not known to stamp records themselves yet (`MirrorCutover`). `garbled`: the record cannot tell
    which writes are retries.
    """

    state: MirrorState
    epoch: int
    on_target: bool = False
    unstamped: bool = False
    garbled: bool = False

    def phase(self, *, paused: bool) -> WritePhase:
        """Where a topic with this record is written.

        A pause has no effect in the states at rest, in which nothing can cut over. If the topic is to stamp records
        itself, its first writes wait at every gateway until it does: the record alone says so, without a command.
        """
        if self.garbled:  # writes wait as long as some may be retries
            return WritePhase.PAUSED
        if self.unstamped and self.state in _CUT_OVER:
            return WritePhase.PAUSED
        if self.state in AT_REST:
            return WritePhase.SWITCHED
        if paused:
            return WritePhase.PAUSED
        return WritePhase.SWITCHED if self.on_target else WritePhase.FORWARD


OF_NO_MIRROR: Final = Recorded(MirrorState.STOPPED, 0)
"""For a topic whose mirror was deleted and which has a route because its writes have failed back: the target's own."""


def recorded(mirror: MirrorRecord, *, retried: bool = False) -> Recorded:
    """What a record says. `retried`: a producer may still retry a batch from before the last cutover."""
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
        phase: where writes go, if the lease is valid.
        closed: the pause was acknowledged: no transaction may add the topic until it is over.
        recorded: the record as last read.
        term: the highest term heard.
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
        """Where a write about to be sent goes; None: nowhere. `leased`: this gateway's lease is valid now."""
        return self.phase if leased else None

    # -- inputs --------------------------------------------------------------------------------------------

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
        """The leader pauses the writes. False when the command is too late: its epoch or term is over."""
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
        """The leader has given the operation up. True when this ends a pause that was in force here."""
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
        """An assignment was read, and the state up to it; or this gateway, having read that much, begins its own term.

        `epoch`: the epoch of the pause in force that the assignment names for this topic.
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

    # -- state ---------------------------------------------------------------------------------------------

    @property
    def newest(self) -> _Command:
        """The newest command heard, (term, epoch)."""
        return self._newest

    @property
    def next_epoch(self) -> int:
        """The epoch of the topic's next operation: above its record's, and above every one that was paused here."""
        return max(self.recorded.epoch, self._newest[1]) + 1

    def is_in_force(self, epoch: int, term: int) -> bool:
        """This operation's pause has begun here and not ended."""
        return (term, epoch) in self._pauses

    def in_force(self, term: int | None = None) -> int | None:
        """The youngest epoch of the pauses in force, of one term or of any; None without one."""
        return max((epoch for at, epoch in self._pauses if term in (None, at)), default=None)

    # -- waiting writes ------------------------------------------------------------------------------------

    def close(self) -> None:
        """The pause is acknowledged: no transaction may add the topic until it is over."""
        self.closed = self.phase is WritePhase.PAUSED

    def wait(self, release: Callable[[], None]) -> Callable[[], None]:
        """Hold a write until the pause is over, then call `release`. Returns a function that ends the wait earlier."""
        key = object()
        self._waiting[key] = release

        def leave() -> None:
            self._waiting.pop(key, None)

        return leave

    @property
    def waiting(self) -> int:
        """How many writes wait now."""
        return len(self._waiting)

    def let_go(self) -> None:
        """Release the waiting writes, in order of arrival: the new routes say where they go."""
        waiting, self._waiting = self._waiting, {}
        for release in waiting.values():
            release()


class WritePauses(Mapping[str, WritePause]):
    """All mirror topics at one gateway, by name."""

    def __init__(self) -> None:
        self._topics: dict[str, WritePause] = {}
        self._gone: dict[str, _Command] = {}  # the newest command for topics whose mirrors were deleted
        self._paused: set[str] = set()  # topics that were paused, and may still be
        self._term = -1

    def __getitem__(self, topic: str) -> WritePause:
        return self._topics[topic]

    def __iter__(self) -> Iterator[str]:
        return iter(self._topics)

    def __len__(self) -> int:
        return len(self._topics)

    def record(self, topic: str, found: Recorded | None) -> None:
        """Take the record of a topic's mirror as read; None: it has none, or none any more."""
        known = self._topics.get(topic)
        if known is None:
            if found is not None:
                self._topics[topic] = WritePause(found, self._term, self._gone.pop(topic, _NONE))
        elif found is None:
            self._gone[topic] = self._topics.pop(topic).newest
        else:
            known.record(found)

    def pause(self, pause: Pause) -> bool:
        """See `WritePause.pause`; also False while the topic is unknown here."""
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
        """The pauses in force here, of one term or of any: mirror topic -> the newest one's epoch."""
        found = {}
        for topic in sorted(self._paused):
            known = self._topics.get(topic)
            if known is None or known.in_force() is None:
                self._paused.discard(topic)
            elif (epoch := known.in_force(term)) is not None:
                found[topic] = epoch
        return found
