"""Faults of calling a promote off: somebody is told that it was, and it cuts over; or writes stay paused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import gateway.cutover.promote.run as promote_run
from gateway.cutover.promote.call_off import CallOffs
from gateway.cutover.promote.run import PromoteRun
from gateway.cutover.write_pause.rules.write_pause import Recorded, WritePause
from gateway.state.records import MirrorState
from tests.simulation.mutations.lives import Event, EventKind, Operation, brief, life, sought
from tests.simulation.mutations.patching import Mutation, Patching
from tests.simulation.plan import RunPlan

_PROMOTE: Final = life(Operation.CREATE, Operation.PROMOTE, pause_s=1.5)


def not_looked_at_by_the_cutover(patching: Patching) -> None:
    """What the record says right before the cutover is written does not count; who asks is told once it says so."""

    async def marks(self: Any, link: str, names: Sequence[str]) -> None:
        await self._marked(link, names)

    patching.replace(promote_run, "is_called_off", lambda _record: False)
    patching.replace(PromoteRun, "_require_unchanged", lambda _self, _old: None)
    patching.replace(CallOffs, "_back", marks)


def done_past_the_point(patching: Patching) -> None:
    """Nobody looks where the topics are when the promotes have come to their end."""
    patching.replace(CallOffs, "_require_back", lambda _self, _link, _names, _before: None)


def nothing_of_it_without_a_record(patching: Patching) -> None:
    """Only what the records say is ended: what was asked for a moment ago begins all the same."""

    async def recorded(self: Any, link: str, names: Sequence[str]) -> None:
        if await self._marked(link, names):
            await back(self, link, names)

    back = patching.replace(CallOffs, "_back", recorded)
    patching.replace(CallOffs, "_require_back", lambda _self, _link, _names, _before: None)
    patching.replace(CallOffs, "is_asked", lambda _self, _link, _topics: False, may_rest=True)


def writes_stay_paused(patching: Patching) -> None:
    """A pause ends with the cutover alone: not by the leader's word, nor by the record of a mirror that is back."""
    record = WritePause.record

    def read(self: Any, found: Recorded) -> None:
        pauses = self._pauses
        record(self, found)
        if found.state is MirrorState.ACTIVE:
            self._pauses = pauses
            self._look()

    patching.replace(WritePause, "record", read)
    patching.replace(WritePause, "resume", lambda _self, _epoch, _term: False)


def _off(step: str, delay_s: float = 0.0) -> list[Event]:
    return [Event(EventKind.CALLED_OFF, 1, step, delay_s, 0.51)]


def _at(step: str, *delays_s: float) -> tuple[RunPlan, ...]:
    """Of what is open for some milliseconds: the likeliest first."""
    return tuple(brief(_PROMOTE, events=_off(step, delay_s)) for delay_s in delays_s)


MUTATIONS: Final = (
    Mutation(
        "call off: not looked at right before the cutover",
        not_looked_at_by_the_cutover,
        _at("read_copy", 0.0, 0.0005, 0.001, 0.0015),
    ),
    sought(
        "call off: done, they say, past the point of no return",
        done_past_the_point,
        _PROMOTE,
        runs=4,
        events=_off("persist_stopped"),
    ),
    Mutation(
        "call off: a promote without a record goes on",
        nothing_of_it_without_a_record,
        _at("", 0.002, 0.005, 0.01, 0.02),
    ),
    sought(
        "call off: writes stay paused",
        writes_stay_paused,
        _PROMOTE,
        runs=2,
        events=_off("read_ends"),
    ),
)
