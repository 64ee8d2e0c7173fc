"""What one gateway of a fleet does with a topic's writes, from the records it reads and the leader's commands.

Two ways lead here, and neither waits for the other: the state topic, in its order, and commands of the leader, which
may be late, repeated, or from a leader that is one no more. **Epochs** keep them apart: every run of a promote marks
its record with the next epoch, and nothing of an older epoch than the highest that was seen has any effect.
"""

from __future__ import annotations

from gateway.domain.records import MirrorState
from gateway.domain.routing import Phase


class FenceView:
    """One topic at one gateway. `phase` is what to do with writes; a lease is needed beside FORWARD.

    Starts from the record as read up to the assignment's `state_offset`, and the fence that the assignment names.
    """

    __slots__ = ("_ended", "_fenced", "epoch", "state")

    def __init__(self, state: MirrorState, epoch: int, fenced: int | None = None) -> None:
        self.state = state
        self.epoch = epoch
        self._ended = -1 if state is MirrorState.PENDING_STOPPED else epoch
        self._fenced = False
        if fenced is not None:
            self.fence(fenced)

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
        self.epoch = max(self.epoch, epoch)

    def fence(self, epoch: int) -> bool:
        """The leader commands to hold writes. False when it is too late: the epoch is an older one, or ended."""
        if epoch < self.epoch or epoch <= self._ended:
            return False
        self.epoch, self._fenced = epoch, True
        return True

    def unfence(self, epoch: int) -> bool:
        """The leader gave the promote up. False when it is not about the fence in force."""
        if epoch != self.epoch:
            return False
        self._fenced = False
        return True
