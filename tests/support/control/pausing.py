"""A write pause in some phase, for tests of what asks it."""

from __future__ import annotations

from gateway.cutover.write_pause.rules.write_pause import Recorded, WritePause, WritePhase
from gateway.state.records import MirrorState


def in_phase(phase: WritePhase) -> WritePause:
    """Of a topic that is being promoted, or was."""
    found = WritePause(Recorded(MirrorState.ACTIVE, 0), term=0)
    if phase is WritePhase.PAUSED:
        assert found.pause(1, 0)
    if phase is WritePhase.SWITCHED:
        found.record(Recorded(MirrorState.STOPPED, 1))
    assert found.phase is phase
    return found
