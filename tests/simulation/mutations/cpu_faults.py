"""Faults that only keep an event loop for long: see `fleet/work.py`. What is handed over of producers is as it was."""

from __future__ import annotations

from typing import Any, Final

from gateway.mirror.partition.rules.producer_table import ProducerTable, offset_behind
from gateway.state import codec
from gateway.state.producer_entries import PackedProducers
from gateway.state.producer_tables import MOST_BATCHES
from gateway.state.views import StateViews
from tests.simulation.mutations.lives import Event, EventKind, Operation, life, sought
from tests.simulation.mutations.patching import Mutation, Patching


def keep_tables_in_the_record(patching: Patching) -> None:
    """Producer tables stand in the mirror's record, an array for each batch."""
    patching.replace(StateViews, "tables_apart", property(lambda views: False))
    patching.replace(StateViews, "most_batches", property(lambda views: MOST_BATCHES), may_rest=True)


def write_tables_as_arrays(patching: Patching) -> None:
    """They have records of their own, in which they are not packed."""

    def plain(value: Any) -> Any:
        return [shipped(entry) for entry in value] if isinstance(value, PackedProducers) else shipped(value)

    shipped = patching.replace(codec, "_plain", plain)


def take_apart_at_once(patching: Patching) -> None:
    """A gateway that takes a partition over notes what it is told of its producers batch by batch."""

    def carry_over(self: Any, entries: Any) -> None:
        for entry in sorted(entries, key=lambda entry: entry.base_offset):
            delta = offset_behind(entry) - 1 - entry.base_offset
            self.saw(entry.producer_id, entry.epoch, entry.first_sequence, delta, entry.base_offset)

    patching.replace(ProducerTable, "carry_over", carry_over)


_LIFE: Final = life(Operation.CREATE, Operation.PROMOTE, pause_s=2.0)
_MANY: Final = (Event(EventKind.MANY_PRODUCERS, 0, "", 0.5),)

MUTATIONS: Final[tuple[Mutation, ...]] = (
    sought("cpu: tables stay in the mirror's record", keep_tables_in_the_record, _LIFE, runs=1, events=_MANY),
    sought("cpu: tables are written as arrays", write_tables_as_arrays, _LIFE, runs=1, events=_MANY),
    sought("cpu: a table carried over is taken apart at once", take_apart_at_once, _LIFE, runs=1, events=_MANY),
)
