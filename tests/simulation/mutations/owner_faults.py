"""Faults that show when owners of topics go on as if nobody migrated them: see `faults/owner_events.py`.

Those that were holes are put back as they were.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Final, cast

from gateway.cutover.failback import copy_setup
from gateway.cutover.promote import records_after_cutover
from gateway.cutover.promote.records_after_cutover import RecordsAfterCutover
from gateway.cutover.promote.rules.memory import PromoteMemory
from gateway.groups import mirror_groups
from gateway.kafka.acts import permitted
from gateway.state.records import MirrorRecord, MirrorState
from gateway.topics import create
from gateway.topics.config_sync import ConfigSync
from tests.simulation.mutations.lives import Event, EventKind, Operation, life, sought
from tests.simulation.mutations.patching import Mutation, Patching
from tests.simulation.plan.owner_acts import owned_life
from tests.simulation.recorder import SOURCE, TARGET


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


def add_partitions_behind_a_promote(patching: Patching) -> None:
    """A round of the sync goes by what it has read, whatever the topic is by then."""
    sync_all = ConfigSync._sync_all

    async def slow(self: Any, *args: Any) -> None:
        await asyncio.sleep(_ROUND_S)
        await sync_all(self, *args)

    async def unasked(self: Any, pair: Any, partitions: int) -> None:
        found = (await pair.copy.topics([pair.copy_topic])).get(pair.copy_topic)
        if found is not None and partitions > found.partitions:
            with permitted(_anything):
                await pair.copy.add_partitions(pair.copy_topic, partitions)

    patching.replace(ConfigSync, "_sync_all", slow)
    patching.replace(ConfigSync, "_sync_partitions", unasked)


def ask_the_source_who_reads(patching: Patching) -> None:
    """Which promoted groups read a topic the source's offsets alone tell."""
    shipped = mirror_groups.promoted_readers

    async def on_source(records: Any, target: Any, source: Any, mirror: MirrorRecord) -> Sequence[Any]:
        held = [replace(group, offsets=()) for group in records.store.groups.values()]
        groups = {(group.link, group.group): group for group in held}
        view = SimpleNamespace(store=SimpleNamespace(groups=groups))
        return await shipped(cast(Any, view), cast(Any, _HoldsNothing()), source, mirror)

    patching.replace(mirror_groups, "promoted_readers", on_source)


class _HoldsNothing:
    """A target that has no group's offsets."""

    async def committed_offsets(self, group: str) -> Mapping[Any, Any]:
        return {}


def forget_failback_epochs(patching: Patching) -> None:
    """How often writes have failed back goes with the record of the mirror."""
    patching.replace(create, "epoch_of_new", lambda kept, topic, cluster, source: 0)


def overlook_added_partitions(patching: Patching) -> None:
    """How many partitions there are is asked before a failback, and not in it."""
    read = PromoteMemory.read

    async def as_they_were(target: Any, record: Any, source: Any, partitions: int, door: Any) -> int:
        return partitions

    def as_before(self: Any, topic: str, reading: Any) -> None:
        read(self, topic, replace(reading, partitions=len(reading.ends)))

    patching.replace(PromoteMemory, "read", as_before)
    patching.replace(PromoteMemory, "counted", lambda self, topic, partitions: None)
    patching.replace(copy_setup, "_grown_home", as_they_were, may_rest=True)


def _anything() -> None:
    """A permit that asks nothing."""


_ROUND_S: Final = 6.0
_O: Final = Operation
_CREATED: Final = life(_O.CREATE)
_BACK: Final = life(Operation.CREATE, Operation.PROMOTE, Operation.REVERSE, Operation.REBALANCE, pause_s=2.0)
_LATE: Final = Event(EventKind.WRITER_STAYS, 2, "", 1.5, 1.0)

MUTATIONS: Final[tuple[Mutation, ...]] = (
    sought("hole A14: late writes of a mirror back", watch_promoted_topics_alone, _BACK, runs=2, events=[_LATE]),
    sought("hole A14: an undo with late writes", ask_nobody_before_an_undo, _BACK, runs=2, events=[_LATE]),
    sought(
        "hole A1: partitions are added behind a promote",
        add_partitions_behind_a_promote,
        (*_CREATED, *owned_life(_O.OWN, _O.PROMOTE, pause_s=6.0)),
        runs=6,
        events=[Event(EventKind.OWNER_ADDS, 61, "persist_stopped", 0.0, 2.0, SOURCE)],
    ),
    sought(
        "hole A3: a copy is made anew under a promoted group",
        ask_the_source_who_reads,
        (*_CREATED, *owned_life(_O.OWN, _O.GROUP_PROMOTE, _O.PROMOTE)),
        runs=2,
        events=[
            Event(EventKind.OWNER_DELETES_GROUP, 62, "", 0.0, 2.0, SOURCE),
            Event(EventKind.OWNER_DELETES_TOPIC, 62, "mark_pending", 0.0, 2.0, TARGET),
        ],
    ),
    sought(
        "hole B2: a mirror that is made again begins with the first failback epoch",
        forget_failback_epochs,
        (*_CREATED, *owned_life(_O.OWN, _O.PROMOTE, _O.REVERSE, _O.FAILBACK, _O.MADE_AGAIN, _O.PROMOTE)),
        runs=3,
    ),
    sought(
        "hole B8: partitions are added under the pause of a failback",
        overlook_added_partitions,
        (*_CREATED, *owned_life(_O.OWN, _O.PROMOTE, _O.REVERSE, _O.FAILBACK, pause_s=1.0)),
        runs=3,
        events=[Event(EventKind.OWNER_ADDS, 63, "read_ends", 0.0, 2.0, TARGET)],
    ),
)
