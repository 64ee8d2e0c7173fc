"""Faults that show when a broker of the source has lost its cluster, and not its clients
(`EventKind.SOURCE_BROKER_CUT_OFF`): a gateway that starts asks it first, and finds less than the copy has.

That a promote goes by ends that are not lower than what clients were told (`PauseAck.acked`) is shown by unit tests:
before it comes to that, whoever reads the ends has asked another broker who leads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from gateway.kafka.metadata import MetadataKeeper, _Turn
from gateway.mirror.partition.rules.source_side import SourceBehind, SourceSide
from tests.simulation.mutations.lives import Event, EventKind, Operation, life, sought
from tests.simulation.mutations.patching import Patching

_LIFE: Final = life(Operation.CREATE, Operation.RESTART, Operation.REBALANCE, pause_s=40.0)
_CUT_OFF: Final = (Event(EventKind.SOURCE_BROKER_CUT_OFF, 0, "", 1.0, 120.0),)


def ask_the_same_broker(patching: Patching) -> None:
    """Who finds out that the metadata is wrong has the same broker asked again."""

    async def open_ones(keeper: Any, turn: _Turn, try_s: float, reasons: list[str]) -> Sequence[Any]:
        found: Sequence[Any] = await shipped(keeper, _Turn.STAY if turn is _Turn.NEXT else turn, try_s, reasons)
        return found

    shipped: Any = patching.replace(MetadataKeeper, "_open_ones", open_ones)


def believe_a_low_end(patching: Patching) -> None:
    """A source whose log ends below the copy was truncated, whoever says so."""

    def behind(side: SourceSide, found: SourceBehind, now: float) -> None:
        raise found

    patching.replace(SourceSide, "behind", behind)


MUTATIONS: Final = (
    sought("cut off: the same broker is asked again", ask_the_same_broker, _LIFE, runs=12, gateways=2, events=_CUT_OFF),
    sought("cut off: a low end is final", believe_a_low_end, _LIFE, runs=12, gateways=2, events=_CUT_OFF),
)
