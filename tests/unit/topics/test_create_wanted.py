"""What an operator says of one mirror topic at create: configs, replicas, a start, and what a dry run finds."""

from __future__ import annotations

import pytest

from gateway.errors import BadRequest, Conflict
from gateway.kafka.connection.errors import BrokerError, ClusterUnavailable
from gateway.state.records import PartitionStart
from gateway.topics.plan import Wanted
from protocol.errors import ErrorCode
from tests.support.control.control_plane import Plane
from tests.support.waiting import wait_until_async

KEY = ("l", "orders")


async def create(plane, **wanted):
    if "l" not in plane.store.links:
        await plane.with_link()
    plane.source.add("orders", 2, 100, retention_ms="5000", delete_retention_ms="6000")
    await plane.service.mirrors.create("l", "orders", wanted=Wanted(**wanted))
    return plane.store.mirrors[KEY]


async def test_configs_of_its_own(plane):
    record = await create(plane, configs={"delete.retention.ms": "7", "retention.ms": "8", "segment.bytes": "9000000"})
    found = plane.target.existing["orders"].configs
    assert (found["delete.retention.ms"], found["segment.bytes"], found["retention.ms"]) == ("7", "9000000", "8")
    assert "retention.ms" not in record.restore_configs
    assert record.configs == {"delete.retention.ms": "7", "retention.ms": "8", "segment.bytes": "9000000"}


async def test_config_sync_does_not_undo_them(plane):
    await create(plane, configs={"delete.retention.ms": "7", "retention.ms": "8"})
    plane.source.existing["orders"].configs |= {"min.compaction.lag.ms": "3", "delete.retention.ms": "77"}
    plane.source.existing["orders"].configs["retention.ms"] = "88"
    await plane.service._sync.sync_link(plane.store.links["l"])
    found = plane.target.existing["orders"].configs
    assert (found["delete.retention.ms"], found["min.compaction.lag.ms"]) == ("7", "3")
    assert found["retention.ms"] == "8"


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"configs": {"cleanup.policy": "compact"}}, "cleanup.policy cannot be given: it is always synced"),
        ({"configs": {"nope": "1"}}, "nope is no topic config that the target knows"),
        ({"start": "soon"}, "'soon' is no start"),
        ({"start": "0:101"}, "offset 101 of partition 0 is out of range: topic 'orders' has offsets 0 to 100"),
        ({"start": "2:0"}, "has no partition 2"),
        ({"replication_factor": 4}, "the target has 3 broker"),
    ],
)
async def test_what_cannot_be_changes_nothing(plane, wanted, words):
    with pytest.raises(BadRequest, match=words):
        await create(plane, **wanted)
    assert KEY not in plane.store.mirrors
    assert "orders" not in plane.target.existing


async def test_a_value_that_the_target_refuses(plane):
    plane.target.refuse["check_topic"] = BrokerError(ErrorCode.INVALID_CONFIG, "Invalid value soon for retention.ms")
    with pytest.raises(BadRequest, match="Invalid value soon for retention.ms"):
        await create(plane, configs={"retention.ms": "soon"})
    assert KEY not in plane.store.mirrors


async def test_a_start_by_offsets(plane):
    record = await create(plane, start="1:40")
    assert record.starts == (PartitionStart(0, 0), PartitionStart(40, 40))
    assert record.start == "1:40"


async def test_replicas(plane):
    record = await create(plane, replication_factor=2)
    assert plane.target.existing["orders"].info.replication_factor == 2
    assert record.replication_factor == 2


async def test_the_next_leader_knows_what_was_said(plane):
    plane.target.refuse["create_topic"] = ClusterUnavailable("gone")
    with pytest.raises(Exception, match="gone"):
        await create(plane, configs={"delete.retention.ms": "7"}, replication_factor=2, start="0:3")
    plane.target.refuse.clear()
    successor = Plane(plane.log.kept, clusters_of=plane)
    await plane.service.close()
    try:
        await successor.start()
        await wait_until_async(lambda: successor.store.mirrors[KEY].created)
        record = successor.store.mirrors[KEY]
        assert (dict(record.configs), record.start) == ({"delete.retention.ms": "7"}, "0:3")
        assert record.starts[0] == PartitionStart(3, 3)
        assert plane.target.existing["orders"].configs["delete.retention.ms"] == "7"
    finally:
        await successor.close()


async def test_a_dry_run(plane):
    await plane.with_link()
    plane.source.add("orders", 2, 100)
    plan = await plane.service.mirrors.create_plan("l", "orders", wanted=Wanted(start="0:5"))
    assert [start.source_start for start in plan.starts] == [5, 0]
    assert KEY not in plane.store.mirrors
    assert "orders" not in plane.target.existing
    await plane.service.mirrors.create("l", "orders")
    with pytest.raises(Conflict, match="already a mirror topic"):
        await plane.service.mirrors.create_plan("l", "orders")


async def test_what_others_change_is_set_back_and_said(plane):
    record = await create(plane)
    sync = plane.service._sync
    await sync.sync_link(plane.store.links["l"])
    plane.source.existing["orders"].configs["delete.retention.ms"] = "9"
    await sync.sync_link(plane.store.links["l"])
    assert plane.service.mirrors.view(record).set_back == ()  # the source's, not by hand
    plane.target.existing["orders"].configs |= {"retention.ms": "1", "segment.bytes": "2"}
    await sync.sync_link(plane.store.links["l"])
    view = await plane.service.mirrors.describe(*KEY)
    assert [(one.name, one.found, one.value) for one in view.set_back] == [("retention.ms", "1", "-1")]
    assert view.configs_on_target == {"segment.bytes": "2"}


async def test_configs_on_a_target_that_is_silent_are_not_known(plane):
    await create(plane)
    plane.target.down = True
    assert (await plane.service.mirrors.describe(*KEY)).configs_on_target is None
