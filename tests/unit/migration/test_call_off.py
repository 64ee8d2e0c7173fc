"""A promote of a migration that is called off, over a control plane in memory: it does not come back by itself."""

from __future__ import annotations

import pytest

from gateway.errors import Conflict
from gateway.migration.rules.file import parsed
from gateway.state.migration_records import MigrationState
from gateway.state.records import MirrorDirection, MirrorState
from tests.support.control.control_plane import Plane
from tests.support.control.mirror_records import changed


async def promoting(plane: Plane, direction: MirrorDirection = MirrorDirection.FORWARD) -> None:
    """A topic of a RUNNING migration is being promoted, and one that no migration means."""
    for topic in ("orders", "clicks"):
        record = await plane.with_mirror(topic)
        await plane.by_hand(changed(record, state=MirrorState.PENDING_STOPPED, direction=direction))
    file = {"migration": "m", "link": "l", "applications": [{"name": "a", "topics": ["orders"]}]}
    await plane.service.migrations.apply(parsed(file), "ann")


async def test_its_migration_rests(plane: Plane) -> None:
    await promoting(plane)
    done = await plane.service.promote_call_offs.call_off("l", ["orders"], "bob")
    assert [view.record.mirror_topic for view in done.mirrors] == ["orders"]
    assert done.paused == ["m"]
    assert plane.state("orders") is MirrorState.ACTIVE
    migration = plane.store.migrations["m"]
    assert migration.state is MigrationState.PAUSED
    last = migration.journal[-1]
    assert (last.what, last.by, last.names) == ("PROMOTE_CALLED_OFF", "bob", ("orders",))


async def test_a_dry_run_changes_nothing(plane: Plane) -> None:
    await promoting(plane)
    before = plane.store.applied
    done = await plane.service.promote_call_offs.call_off("l", ["orders"], "bob", validate_only=True)
    assert (done.paused, plane.store.applied) == (["m"], before)


@pytest.mark.parametrize(
    ("topic", "direction"), [("clicks", MirrorDirection.FORWARD), ("orders", MirrorDirection.REVERSE)]
)
async def test_a_migration_that_would_not_promote_it_again_goes_on(
    plane: Plane, topic: str, direction: MirrorDirection
) -> None:
    await promoting(plane, direction)
    done = await plane.service.promote_call_offs.call_off("l", [topic], "bob")
    assert done.paused == []
    assert plane.store.migrations["m"].state is MigrationState.RUNNING


async def test_what_is_refused_pauses_nothing(plane: Plane) -> None:
    await promoting(plane)
    await plane.by_hand(changed(plane.store.mirrors["l", "clicks"], state=MirrorState.STOPPED))
    with pytest.raises(Conflict, match="'clicks' is promoted already"):
        await plane.service.promote_call_offs.call_off("l", ["orders", "clicks"], "bob")
    assert plane.store.migrations["m"].state is MigrationState.RUNNING
    assert plane.state("orders") is MirrorState.PENDING_STOPPED
