"""Faults of what a topic has beside its records: they lose none, so only the judge of a topic at rest finds them.

Those that were holes are put back as they were; where what makes them rare is a cluster that takes long, they wait
themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gateway.cutover.promote.records_after_cutover import RecordsAfterCutover
from gateway.kafka.acts import permitted
from gateway.topics import lifted_configs
from gateway.topics.config_sync import ConfigSync
from gateway.topics.lifted_configs import LiftedConfigs
from gateway.topics.log_start_sync import LogStartSync
from tests.simulation.mutations.lives import Event, EventKind, Operation, life, sought
from tests.simulation.mutations.patching import Mutation, Patching
from tests.simulation.plan.roles import ACKS_1, WEAK

_ROUND_S: Final = 6.0
"""A round of the sync with some hundred topics, or with a slow broker among them."""


def _anything() -> None:
    """A permit that asks nothing."""


def sync_behind_a_promote(patching: Patching) -> None:
    """A round sets the configs of copies on whatever their topics are by then."""
    sync_all = ConfigSync._sync_all

    async def slow(self: Any, *args: Any) -> None:
        await asyncio.sleep(_ROUND_S)
        await sync_all(self, *args)

    async def unasked(self: Any, copy: Any, syncs: Sequence[Any]) -> Mapping[str, Any]:
        with permitted(_anything):
            changes = {sync.pair.copy_topic: sync.change for sync in syncs}
            found: Mapping[str, Any] = await self._lifted.alter(copy, changes)
        return found

    patching.replace(ConfigSync, "_sync_all", slow)
    patching.replace(ConfigSync, "_alter_together", unasked)


def leave_them_lifted(patching: Patching) -> None:
    """What was lifted counts as set back."""

    async def told(self: Any, mirrors: Sequence[Any]) -> Mapping[str, Exception]:
        return {}

    patching.replace(LiftedConfigs, "_set_back", told)


def delete_where_clients_write(patching: Patching) -> None:
    """Records are deleted by what was measured some time ago, whichever way the topic is mirrored by then."""

    async def late(self: Any, copy: Any, target: Any, before: Mapping[int, int]) -> bool:
        await asyncio.sleep(_ROUND_S)
        with permitted(_anything):
            await target.delete_records(copy.copy_topic, before)
        return True

    patching.replace(LogStartSync, "_deleted", late)


def keep_what_the_origin_deletes(patching: Patching) -> None:
    """Log starts are not followed."""

    async def nothing(self: Any, between: Any, copies: Any, target: Any) -> None:
        return

    patching.replace(LogStartSync, "follow", nothing)


def write_before_leaders_stamp(patching: Patching) -> None:
    """Writes go on when the controller has answered, whatever leaders have heard of."""

    async def at_once(access: Any, topic: str, partitions: int, values: Mapping[str, str]) -> None:
        return

    patching.replace(lifted_configs, "_told", at_once)


def nobody_is_left(patching: Patching) -> None:
    """Nobody looks at what is written to the source behind a cutover."""

    async def nothing(self: Any, link: Any, mirrors: Any) -> None:
        return

    patching.replace(RecordsAfterCutover, "_look_at", nothing)


_THERE: Final = life(Operation.CREATE, Operation.PROMOTE, pause_s=6.0)
_DELETED: Final = life((Operation.CREATE, (WEAK,)), (Operation.PROMOTE, (WEAK,)), pause_s=6.0)

MUTATIONS: Final[tuple[Mutation, ...]] = (
    sought("a config sync goes on behind a promote", sync_behind_a_promote, _THERE, runs=6),
    sought("lifted configs stay on a promoted topic", leave_them_lifted, _THERE, runs=1),
    sought(
        "log starts are followed where clients write",
        delete_where_clients_write,
        _DELETED,
        runs=6,
        cast=(ACKS_1,),
        events=[Event(EventKind.RECORDS_DELETED, 0, "", 3.0)],
    ),
    sought(
        "log starts are not followed",
        keep_what_the_origin_deletes,
        _DELETED[:1],
        runs=2,
        cast=(ACKS_1,),
        events=[Event(EventKind.RECORDS_DELETED, 0, "", 3.0)],
    ),
    sought(
        "a promoted topic is written before its leaders stamp",
        write_before_leaders_stamp,
        life(Operation.CREATE, Operation.PROMOTE, pause_s=1.0),
        runs=10,
        stamped=True,
        rate_per_s=100.0,
        seed=13,
    ),
    sought(
        "nobody is left on the source, it is said",
        nobody_is_left,
        life(Operation.CREATE, Operation.PROMOTE, pause_s=1.0),
        runs=1,
        events=[Event(EventKind.WRITER_STAYS, 1, "publish_switched", 1.0)],
    ),
)
