"""Producer tables go when nobody sends anything again over their cutover, and not before."""

from __future__ import annotations

from gateway.cutover.spent_tables import ForgetsSpentTables
from gateway.cutover.write_pause.rules.cutovers_seen import RETRIED_S
from gateway.state.codec import key_of
from gateway.state.producer_tables import ProducerTables, ProducerTablesRecord
from gateway.state.records import MirrorState, ProducerEntry
from tests.support.control.control_plane import Plane
from tests.support.control.mirror_records import changed

TABLES = ((ProducerEntry(7, 0, 0, 4, 95),), (), ())


def spent(plane: Plane) -> ForgetsSpentTables:
    parts = plane.parts
    return ForgetsSpentTables(records=parts.records, publisher=parts.publisher, locks=parts.locks)


async def test_they_go_when_clients_retry_no_more(plane: Plane) -> None:
    record = changed(await plane.with_mirror("orders"), state=MirrorState.STOPPED, cutover_ms=1, producers=TABLES)
    await plane.by_hand(record)
    assert any(plane.routing.current.topics["orders"].producers)
    plane.clock_s += RETRIED_S - 10.0
    await spent(plane).look()
    assert len(plane.store.producer_tables) == 1

    plane.clock_s += 20.0
    await spent(plane).look()
    assert not plane.store.producer_tables
    after = plane.store.mirrors["l", "orders"]
    assert after.cutover.producers == ((), (), ())
    assert changed(after, producers=TABLES) == record
    commits = len(plane.log.commits)
    await spent(plane).look()
    assert len(plane.log.commits) == commits


async def test_those_of_a_topic_that_is_being_promoted_stay(plane: Plane) -> None:
    record = changed(await plane.with_mirror("orders"), state=MirrorState.PENDING_STOPPED, producers=TABLES)
    await plane.by_hand(record)
    plane.clock_s += RETRIED_S + 1.0
    await spent(plane).look()
    assert plane.store.mirrors["l", "orders"] == record


async def test_those_that_no_mirror_names_go(plane: Plane) -> None:
    record = changed(await plane.with_mirror("orders"), state=MirrorState.STOPPED, cutover_ms=1, producers=TABLES)
    await plane.by_hand(record)
    (named,) = plane.store.producer_tables.values()
    left_over = ProducerTablesRecord("l", "orders", "0123", ProducerTables(TABLES))
    await plane.store.put(left_over)
    await spent(plane).look()
    assert list(plane.store.producer_tables.values()) == [named]
    assert key_of(left_over) not in plane.log.kept
