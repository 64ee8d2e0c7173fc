"""What one gateway of a fleet does with a topic's writes, from the records it reads and the leader's commands.

Two ways lead here, and neither waits for the other: the state topic, in its order, and commands of the leader, which
may be late, repeated, or from a leader that is one no more. **Epochs** keep them apart: every operation that holds
writes has the next epoch, and nothing of an older epoch than the highest that was seen has any effect. **Terms**
tell leaders apart: what a leader commanded ends with the first assignment of its successor, which may come after that
one's own first commands. A successor knows the epochs of records only, so those of commands count under their own term.
"""

from __future__ import annotations

from gateway.domain.records import MirrorState
from gateway.domain.routing import Phase


class FenceView:
    """One topic at one gateway. `phase` is what to do with writes; a lease is needed beside FORWARD.

    Starts from the record as read up to the assignment's `state_offset`, and the fence that the assignment names.
    `term` is the highest that was heard of.
    """

    __slots__ = ("_ended", "_fenced", "_given_up", "_recorded", "epoch", "state", "term")

    def __init__(self, state: MirrorState, epoch: int, fenced: int | None = None, term: int = -1) -> None:
        self.state = state
        self.epoch = epoch
        self.term = term
        self._recorded = epoch
        self._ended = -1 if state is MirrorState.PENDING_STOPPED else epoch
        self._fenced = False
        self._given_up = (-1, -1)  # (term, epoch) of a fence whose end was heard of
        if fenced is not None:
            self.fence(fenced, term)

    @property
    def phase(self) -> Phase:
        """Where writes go now."""
        if self.state is MirrorState.STOPPED:
            return Phase.SWITCHED
        return Phase.FENCED if self._fenced else Phase.FORWARD

    @property
    def held(self) -> bool:
        """A fence is in force."""
        return self._fenced

    def record(self, state: MirrorState, epoch: int) -> None:
        """The next record of the topic was read.

        PENDING_STOPPED does not fence by itself (the mirror may have far to go), nor does it end a fence: a new run
        begins under the one it found. Any other state ends it, unless a younger fence came already.
        """
        self.state = state
        if state is not MirrorState.PENDING_STOPPED:
            self._ended = max(self._ended, epoch)
            self._fenced = self._fenced and epoch < self.epoch
        self._recorded = max(self._recorded, epoch)
        self.epoch = max(self.epoch, epoch)

    def fence(self, epoch: int, term: int = -1) -> bool:
        """The leader commands to hold writes. False when it is too late: the epoch or the term is over."""
        known = self.epoch if term == self.term else self._recorded
        if term < self.term or epoch < known or epoch <= self._ended:
            return False
        self.epoch, self._fenced, self.term = epoch, True, term
        return True

    def unfence(self, epoch: int, term: int = -1) -> bool:
        """The leader gave it up. True when that ends a fence that was in force here.

        One that is not is remembered: the assignment that names it may come later.
        """
        if term < self.term or (term == self.term and epoch < self.epoch):
            return False
        self._given_up = (term, epoch)
        if epoch != self.epoch or not self._fenced:
            return False
        self._fenced, self.term = False, term
        return True

    def assigned(self, term: int, epoch: int | None) -> None:
        """An assignment was read: its leader names the epoch of this topic's fence, or None.

        A fence of an earlier term came to nothing: the leader has read all that its predecessors wrote, and a promote
        that goes on fences anew. It may have to wait for long before that, which nobody's writes should. A fence of the
        same term that is not named began after the assignment was made.
        """
        if epoch is not None:
            if (term, epoch) != self._given_up:
                self.fence(epoch, term)
        elif term > self.term:
            self._fenced, self.term = False, term
