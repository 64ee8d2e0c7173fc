"""A migration taken home over a control plane in memory: the order, what is noted, what is refused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.errors import BadRequest, Conflict
from gateway.migration.rules.file import parsed
from gateway.state.migration_records import MigrationState
from gateway.state.records import GroupRecord, GroupState, MirrorDirection, MirrorState, Undo
from tests.support.control.control_plane import Plane
from tests.support.control.mirror_records import changed
from tests.support.fakes.fake_engine import status

TOPICS = ("orders", "payments")


async def kept(plane: Plane, **more: Any) -> None:
    """Two topics of a migration, promoted and mirrored back, and their group."""
    for name in TOPICS:
        record = await plane.with_mirror(name, 1)
        plane.engine.numbers["l", name] = [status(0)]
        values = {"direction": MirrorDirection.REVERSE, "undo": Undo.OPEN, "undo_until_ms": plane.now_ms + 60_000}
        await plane.by_hand(changed(record, stopped_at=(100,), readable=True, **values))
    await plane.by_hand(GroupRecord(link="l", group="billing", state=GroupState.PROMOTED))
    application = {"name": "a", "topics": list(TOPICS), "groups": ["billing"], **more}
    await plane.service.migrations.apply(parsed({"migration": "m", "link": "l", "applications": [application]}), "ann")
    plane.promoters.gate = asyncio.Event()


def journal(plane: Plane) -> list[tuple[str, str]]:
    return [(entry.what, entry.by) for entry in plane.store.migrations["m"].journal]


async def test_a_set_goes_home_under_one_pause_and_the_migration_rests(plane: Plane) -> None:
    await kept(plane)
    done = await plane.service.migration_undo.undo("m", "", "bob")
    assert done.home.topics == TOPICS
    assert [plane.state(name) for name in TOPICS] == [MirrorState.PENDING_STOPPED] * 2
    assert plane.promoters.asked == [("l", TOPICS, False)]
    assert plane.store.migrations["m"].state is MigrationState.PAUSED
    assert ("UNDO", "bob") in journal(plane)
    assert plane.store.groups["l", "billing"].state is GroupState.PROMOTED


async def test_groups_of_one_that_moves_together_change_sides_with_the_topics(plane: Plane) -> None:
    await kept(plane, together=True)
    done = await plane.service.migration_undo.undo("m", "a", "bob")
    assert (done.home.groups, done.home.demoted) == (("billing",), ())
    assert plane.promoters.along == [(TOPICS, ("billing",))]
    assert plane.store.groups["l", "billing"].state is GroupState.PROMOTED


async def test_groups_that_only_read_are_demoted_first_where_that_is_asked_for(plane: Plane) -> None:
    await kept(plane)
    done = await plane.service.migration_undo.undo("m", "a", "bob", with_groups=True)
    assert (done.home.groups, done.home.demoted) == ((), ("billing",))
    assert plane.store.groups["l", "billing"].state is GroupState.ACTIVE


async def test_a_dry_run_changes_nothing(plane: Plane) -> None:
    await kept(plane)
    before = dict(plane.store.migrations), dict(plane.store.mirrors)
    done = await plane.service.migration_undo.undo("m", "", "bob", validate_only=True)
    assert done.home.topics == TOPICS
    assert (dict(plane.store.migrations), dict(plane.store.mirrors)) == before


async def test_one_that_cannot_go_home_refuses_all_of_it(plane: Plane) -> None:
    await kept(plane)
    await plane.by_hand(changed(plane.store.mirrors["l", "payments"], undo=Undo.OVER, undo_until_ms=5))
    with pytest.raises(Conflict, match="'payments' cannot be undone: the time for it is over"):
        await plane.service.migration_undo.undo("m", "", "bob")
    assert plane.store.migrations["m"].state is not MigrationState.PAUSED
    with pytest.raises(BadRequest, match="no application 'b'"):
        await plane.service.migration_undo.undo("m", "b", "bob")


@pytest.mark.parametrize("validate_only", [True, False])
async def test_records_that_somebody_wrote_to_the_source_refuse_all_of_it(plane: Plane, validate_only: bool) -> None:
    """Before a group is demoted, and before the migration is paused."""
    await kept(plane)
    before = dict(plane.store.migrations), dict(plane.store.mirrors)
    plane.promoters.late_writes = "3 records were written to the source"
    with pytest.raises(Conflict, match="3 records were written"):
        await plane.service.migration_undo.undo("m", "", "bob", with_groups=True, validate_only=validate_only)
    assert (dict(plane.store.migrations), dict(plane.store.mirrors)) == before


async def test_a_refusal_on_the_way_leaves_the_migration_as_it_was(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    await kept(plane)
    state = plane.store.migrations["m"].state

    async def refuses(*_: Any, **__: Any) -> Any:
        raise Conflict("some partitions are not mirrored yet")

    monkeypatch.setattr(plane.service.mirrors, "promote", refuses)
    with pytest.raises(Conflict, match="some partitions"):
        await plane.service.migration_undo.undo("m", "", "bob")
    assert plane.store.migrations["m"].state is state
    assert journal(plane)[-1] == ("UNDO_REFUSED", "bob")


async def test_by_topic_it_is_refused_while_a_migration_would_promote_it_again(plane: Plane) -> None:
    await kept(plane, topics=[*TOPICS, "nosuch"])  # so that it does not come to its end
    with pytest.raises(Conflict, match="lockgate migration undo m"):
        await plane.service.undos.undo("l", ["orders"])
    await plane.service.migrations.pause("m", "ann")
    await plane.service.undos.undo("l", ["orders"])
    assert plane.state("orders") is MirrorState.PENDING_STOPPED


@pytest.mark.parametrize("validate_only", [True, False])
async def test_while_it_promotes_it_does_not_go_home(plane: Plane, validate_only: bool) -> None:
    """What is being promoted would stay on the target, behind an undo of all of it."""
    await kept(plane)
    running = plane.service.migrations.running.setdefault("m", set())
    running.add("PROMOTE_TOPICS b: bills")
    with pytest.raises(Conflict, match="PROMOTE_TOPICS b: bills is under way"):
        await plane.service.migration_undo.undo("m", "", "bob", validate_only=validate_only)
    assert plane.store.migrations["m"].state is not MigrationState.PAUSED
    running.clear()
    await plane.service.migration_undo.undo("m", "", "bob", validate_only=validate_only)


@pytest.mark.parametrize("keep_late", [True, False])
async def test_late_writes_may_be_kept_where_they_are(plane: Plane, keep_late: bool) -> None:
    await kept(plane)
    await plane.service.migration_undo.undo("m", "", "bob", keep_late=keep_late)
    assert plane.promoters.kept_late is keep_late
