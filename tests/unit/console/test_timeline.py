"""The timeline: one event for each change of a state, whoever leads."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from gateway.console.timeline import KEPT, Timeline
from gateway.state.migration_records import JournalEntry, MigrationRecord
from gateway.state.records import GroupRecord, GroupState, MirrorState
from tests.support.control.control_plane import Plane


@pytest.fixture
async def plane() -> AsyncIterator[Plane]:
    made = Plane()
    await made.start()
    yield made
    await made.close()


def lines(timeline: Timeline) -> list[str]:
    return [str(row["line"]) for row in timeline.rows().values()]


async def test_what_happens_is_told_in_order(plane: Plane) -> None:
    timeline = Timeline(plane.store, lambda: plane.now_ms)
    await plane.with_mirror("orders", 1)
    await plane.service.mirrors.pause("l", "orders")
    record = plane.store.mirrors["l", "orders"]
    await plane.by_hand(replace(record, state=MirrorState.FAILED, error_message="it differs"))
    await plane.by_hand(GroupRecord(link="l", group="g"), GroupRecord(link="l", group="h"))
    await plane.by_hand(GroupRecord(link="l", group="g", state=GroupState.PROMOTED))
    told = lines(timeline)
    assert told[0] == "link l was created"
    assert told[-6:] == [
        "orders is mirrored",
        "orders is paused",
        "orders has FAILED",
        "group g waits at its gate",
        "group h waits at its gate",
        "group g reads on the target",
    ]
    (failed,) = (row for row in timeline.rows().values() if row["bad"])
    assert (failed["detail"], failed["kind"], failed["key"]) == ("it differs", "topic", "l/orders")


async def test_one_that_begins_has_the_last_change_of_each_object(plane: Plane) -> None:
    await plane.with_mirror("orders", 1)
    await plane.service.mirrors.pause("l", "orders")
    assert lines(Timeline(plane.store, lambda: plane.now_ms)) == ["link l was created", "orders is paused"]


async def test_a_change_of_something_else_is_no_event(plane: Plane) -> None:
    await plane.with_mirror("orders", 1)
    timeline = Timeline(plane.store, lambda: plane.now_ms)
    before = lines(timeline)
    record = plane.store.mirrors["l", "orders"]
    await plane.by_hand(replace(record, readable=True))
    assert lines(timeline) == before


async def test_a_journal_is_told_entry_by_entry(plane: Plane) -> None:
    await plane.with_link()
    record = MigrationRecord(name="m", link="l", file="{}").noted(JournalEntry(1, "APPLIED", by="ann"))
    await plane.by_hand(record)
    timeline = Timeline(plane.store, lambda: plane.now_ms)
    await plane.by_hand(record.noted(JournalEntry(2, "PROMOTE_TOPICS", "shop", ("a", "b", "c", "d"), pause_ms=31)))
    assert lines(timeline)[-1] == "migration m promoted topics a, b, c and 1 more of application shop to the target"
    assert list(timeline.rows().values())[-1]["detail"] == "writes were paused for 31 ms"
    assert lines(timeline).count("ann applied the file of migration m") == 1
    refused = JournalEntry(3, "PROMOTE_GROUP_REFUSED", "shop", ("g",), detail="no rights")
    await plane.by_hand(plane.store.migrations["m"].noted(refused, JournalEntry(4, "UNDO", "shop", ("a",), by="bob")))
    assert lines(timeline)[-2:] == [
        "migration m could not promote group g of application shop",
        "bob (migration m) took a of application shop back to the source",
    ]
    assert [row["bad"] for row in timeline.rows().values()][-2:] == [True, False]


async def test_the_oldest_go_first(plane: Plane) -> None:
    timeline = Timeline(plane.store, lambda: plane.now_ms)
    await plane.with_link()
    states = (GroupState.ACTIVE, GroupState.PROMOTED)
    for number in range(KEPT + 5):
        await plane.by_hand(GroupRecord(link="l", group="g", state=states[number % 2]))
    assert len(timeline.rows()) == KEPT
    assert "link l was created" not in lines(timeline)


async def test_a_closed_one_follows_no_more(plane: Plane) -> None:
    timeline = Timeline(plane.store, lambda: plane.now_ms)
    timeline.close()
    await plane.with_link()
    assert lines(timeline) == []
