"""Faults that show when owners of topics go on as if nobody migrated them: see `faults/owner_events.py`.

Those that were holes are put back as they were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gateway.cutover.promote import records_after_cutover
from gateway.cutover.promote.records_after_cutover import RecordsAfterCutover
from gateway.state.records import MirrorRecord, MirrorState
from tests.simulation.mutations.lives import Event, EventKind, Operation, life, sought
from tests.simulation.mutations.patching import Mutation, Patching


def watch_promoted_topics_alone(patching: Patching) -> None:
    """Whoever writes to the source while its topic is mirrored back is not seen, and nobody asks before an undo."""

    def is_stopped(record: MirrorRecord) -> bool:
        return record.state is MirrorState.STOPPED

    async def nothing(self: Any, link: str, topics: Sequence[str]) -> Mapping[str, Any]:
        return {}

    patching.replace(records_after_cutover, "is_looked_at", is_stopped)
    patching.replace(RecordsAfterCutover, "measure", nothing)


def ask_nobody_before_an_undo(patching: Patching) -> None:
    """They are counted, and an undo begins all the same."""

    async def nothing(self: Any, link: str, topics: Sequence[str]) -> Mapping[str, Any]:
        return {}

    patching.replace(RecordsAfterCutover, "measure", nothing)


_BACK: Final = life(Operation.CREATE, Operation.PROMOTE, Operation.REVERSE, Operation.REBALANCE, pause_s=2.0)
_LATE: Final = Event(EventKind.WRITER_STAYS, 2, "", 1.5, 1.0)

MUTATIONS: Final[tuple[Mutation, ...]] = (
    sought("hole A14: late writes of a mirror back", watch_promoted_topics_alone, _BACK, runs=2, events=[_LATE]),
    sought("hole A14: an undo with late writes", ask_nobody_before_an_undo, _BACK, runs=2, events=[_LATE]),
)
