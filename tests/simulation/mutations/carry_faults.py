"""Faults of what comes along with clients: offsets that transactions bring without saying which member sends them,
schemas, and groups that somebody deletes. The holes of groups that are not here are in `not_here.py`, with the tests
that have them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from gateway.cutover.failover import operations as failover
from gateway.proxy.handlers.group_deletes import DeleteGroupsHandler
from gateway.proxy.rules.transactional_ids import OWN, TransactionSide
from gateway.proxy.transactions.group_sides import GroupSides
from gateway.schemas import schema_round
from gateway.schemas.schema_round import SchemaRound
from gateway.telemetry import metrics
from tests.simulation.mutations.lives import Event, EventKind, Operation, life, sought
from tests.simulation.mutations.patching import Mutation, Patch, Patching
from tests.simulation.plan.roles import OLD_API, OUT, PIPE

_OUT: Final = (OUT,)


def offsets_to_the_source_that_was_left(patching: Patching) -> None:
    """A transaction's offsets go to the source on which it took the group in, wherever that reads by now."""

    def require_at(self: Any, group: str, side: TransactionSide) -> None:
        if side == OWN:
            shipped(self, group, side)

    shipped = patching.replace(GroupSides, "require_at", require_at)


def offsets_to_the_target_that_was_left(patching: Patching) -> None:
    """Likewise, to the target."""

    def require_at(self: Any, group: str, side: TransactionSide) -> None:
        if side != OWN:
            shipped(self, group, side)

    shipped = patching.replace(GroupSides, "require_at", require_at)


def import_by_what_was_seen(patching: Patching) -> None:
    """A subject is imported into by what was seen of it before its mode was set."""

    async def forced(self: Any, change: Any, looked: Any) -> None:
        await self._target.set_mode(change.subject, change.value, force=True)

    patching.replace(SchemaRound, "_set_mode", forced)
    patching.replace(schema_round, "why_not_imported", lambda mode, there, known: "")


def delete_whatever_waits(patching: Patching) -> None:
    """DeleteGroups of a group that is not promoted goes to the target, which has of it what a promote commits there."""
    patching.replace(DeleteGroupsHandler, "handle", lambda self, session, exchange: exchange.forward())


def count_from_the_beginning(patching: Patching) -> None:
    """A dry run of a failover counts what was mirrored long ago, too."""

    def left(ends: Sequence[Any], copy: Sequence[Any]) -> tuple[int, ...]:
        return tuple(count + 10_000 for count in shipped(ends, copy))

    shipped = patching.replace(failover, "left_behind", left)


def scrape_nobody(patching: Patching) -> None:
    """Metrics count nothing behind a cutover."""
    shipped = metrics._MIRROR
    name, words, _ = next(one for one in shipped if one[0] == "lockgate_mirror_records_after_cutover")
    others = [one for one in shipped if one[0] != name]
    patching.replace(metrics, "_MIRROR", ((name, words, lambda mirror: 0), *others))


_GROUP: Final = ((Operation.CREATE, _OUT), Operation.CREATE, Operation.GROUP_PROMOTE, (Operation.PROMOTE, _OUT))
_HOME: Final = ((Operation.REVERSE, _OUT), Operation.DEMOTE, (Operation.FAILBACK, _OUT))


def _sought(name: str, patch: Patch, *operations: Operation | tuple[Operation, tuple[str, ...]]) -> Mutation:
    return sought(f"hole A5: {name}", patch, life(*operations, pause_s=2.0), runs=16, cast=(PIPE, OLD_API))


MUTATIONS: Final[tuple[Mutation, ...]] = (
    _sought("offsets go to the source behind a promote", offsets_to_the_source_that_was_left, *_GROUP),
    sought(
        "hole A9: an import overwrites what a client has registered",
        import_by_what_was_seen,
        life(Operation.CREATE, Operation.PROMOTE, pause_s=6.0),
        runs=4,
        schemas=True,
        events=[Event(EventKind.SCHEMA_FIRST, 0, "", 0.0), Event(EventKind.SCHEMAS_CHANGED, 0, "", 1.0)],
    ),
    sought(
        "hole A13: a group is deleted amid its promote",
        delete_whatever_waits,
        life(Operation.CREATE, Operation.GROUP_PROMOTE, pause_s=4.0),
        runs=6,
        events=[
            Event(EventKind.GROUP_DELETED, 1, "", 0.0, 30.0),
            Event(EventKind.GROUP_DELETED, 1, "mark_promoted", 0.0),
        ],
    ),
    sought(
        "a failover's dry run counts what is mirrored",
        count_from_the_beginning,
        life(Operation.CREATE, Operation.FAILOVER, pause_s=2.0),
        runs=1,
        asks=True,
    ),
    sought(
        "metrics tell of nobody who is left on the source",
        scrape_nobody,
        life(Operation.CREATE, Operation.PROMOTE, pause_s=1.0),
        runs=1,
        asks=True,
        events=[Event(EventKind.WRITER_STAYS, 1, "publish_switched", 1.0)],
    ),
    _sought("offsets go to the target behind a demote", offsets_to_the_target_that_was_left, *_GROUP, *_HOME),
)
