"""What outlives a mirror's record, and in which failback epoch a mirror of the same topic begins."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.state import failback_records
from gateway.state.codec import key_of
from gateway.state.errors import StoreError
from gateway.state.failback_records import FailbackEpochRecord, epoch_of_new, outliving, to_forget
from gateway.state.records import Deletion, LinkRecord, MirrorDirection, MirrorState
from tests.support.control.mirror_records import changed, mirror_record

LINK = LinkRecord(name="l", link_id=1, source_cluster_id="S", client={})
MIRROR = mirror_record(
    link="l",
    source_topic="orders",
    mirror_topic="orders",
    mirror_id=4,
    source_topic_id="source-id",
    mirror_topic_id="target-id",
)


def kept(epoch: int, *, on_target: bool, topic: str = "orders", source: str = "orders") -> FailbackEpochRecord:
    return FailbackEpochRecord(
        mirror_topic=topic, epoch=epoch, source_cluster_id="S", source_topic=source, on_target=on_target
    )


def test_a_failback_epoch_outlives_its_mirror() -> None:
    stopped = changed(MIRROR, state=MirrorState.STOPPED, failback_epoch=2)
    assert outliving(stopped, LINK, None, 7) == FailbackEpochRecord(
        mirror_topic="orders",
        epoch=2,
        mirror_topic_id="target-id",
        source_cluster_id="S",
        source_topic="orders",
        source_topic_id="source-id",
        on_target=True,
        since_ms=7,
    )


@pytest.mark.parametrize(
    ("state", "direction", "deletion", "on_target"),
    [
        (MirrorState.ACTIVE, MirrorDirection.FORWARD, Deletion.TOPIC, False),
        (MirrorState.ACTIVE, MirrorDirection.FORWARD, Deletion.RECORD, True),  # clients write it there from now on
        (MirrorState.ACTIVE, MirrorDirection.FORWARD, Deletion.NONE, True),  # the link is deleted
        (MirrorState.ACTIVE, MirrorDirection.REVERSE, Deletion.TOPIC, True),
        (MirrorState.STOPPED, MirrorDirection.FORWARD, Deletion.TOPIC, True),
        (MirrorState.FAILED, MirrorDirection.FORWARD, Deletion.TOPIC, False),
    ],
)
def test_where_clients_have_written_last(state, direction, deletion, on_target) -> None:
    mirror = changed(MIRROR, state=state, direction=direction, deletion=deletion, failback_epoch=1)
    found = outliving(mirror, LINK, None, 0)
    assert found is not None
    assert found.on_target is on_target


def test_what_never_failed_back_needs_no_memory_while_its_topic_stays() -> None:
    stopped = changed(MIRROR, state=MirrorState.STOPPED)
    assert outliving(stopped, LINK, None, 0) is None
    deleted = outliving(changed(stopped, deletion=Deletion.TOPIC), LINK, None, 0)
    assert deleted is not None
    assert (deleted.epoch, deleted.on_target) == (0, True)


def test_an_epoch_never_falls() -> None:
    found = outliving(changed(MIRROR, failback_epoch=1), LINK, kept(3, on_target=False), 0)
    assert found is not None
    assert found.epoch == 3


@pytest.mark.parametrize(
    ("records", "epoch"),
    [
        ([], 0),
        ([kept(2, on_target=False)], 2),
        ([kept(2, on_target=True)], 3),
        ([kept(0, on_target=True)], 1),
        ([kept(2, on_target=False, topic="east.orders")], 2),  # the same source topic, under another name
        ([kept(2, on_target=False, topic="a", source="b")], 0),
        ([kept(2, on_target=True), kept(4, on_target=False, topic="east.orders")], 4),
    ],
)
def test_a_new_mirror_goes_on(records, epoch) -> None:
    assert epoch_of_new(records, "orders", "S", "orders") == epoch


def test_the_oldest_are_forgotten() -> None:
    records = [
        replace(kept(1, on_target=False, topic=name), since_ms=at) for name, at in [("a", 3), ("b", 1), ("c", 2)]
    ]
    assert [one.mirror_topic for one in to_forget(records, 1)] == ["c", "b"]
    assert to_forget(records, 3) == []


async def test_the_store_keeps_it_whoever_deletes_the_mirror(plane) -> None:
    mirror = await plane.with_mirror()
    at_home = changed(mirror, failback_epoch=1)
    await plane.by_hand(at_home)
    await plane.store.delete(at_home)
    record = plane.store.failback_epochs["orders"]
    assert (record.epoch, record.mirror_topic_id) == (1, mirror.mirror_topic_id)
    assert key_of(record) in plane.log.kept


async def test_no_more_are_kept_than_there_may_be(plane, monkeypatch) -> None:
    monkeypatch.setattr("gateway.state.store.MAX_REMEMBERED", 1)
    assert failback_records.MAX_REMEMBERED >= 10_000
    first, second = await plane.with_mirror("a"), await plane.with_mirror("b")
    await plane.by_hand(changed(first, failback_epoch=1), changed(second, failback_epoch=1))
    await plane.store.delete(changed(first, failback_epoch=1))
    with pytest.raises(StoreError, match="delete topics on the target that nobody needs"):
        await plane.store.delete(changed(second, failback_epoch=1))
    assert ("l", "b") in plane.store.mirrors
