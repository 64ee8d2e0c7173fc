"""What a topic promote refuses before anything is begun."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.errors import Conflict, SourceUnreachable
from gateway.kafka.commits import Committed
from gateway.kafka.connection.errors import ClusterUnavailable
from gateway.kafka.groups import GroupView, MemberView
from gateway.state.link_config import LESS_DURABLE
from gateway.state.mirror_states import WrongState
from gateway.state.records import GroupRecord, GroupState, MirrorState
from tests.support.control.control_plane import Plane
from tests.support.control.topic_scene import TopicScene, mirrored_topic
from tests.support.waiting import wait_until_async


@pytest.fixture
async def scene(plane: Plane) -> TopicScene:
    return await mirrored_topic(plane)


async def test_refuses_while_groups_read_on_the_source(scene: TopicScene) -> None:
    source = scene.plane.source
    for name in ("committed", "member", "promoted", "elsewhere"):
        source.groups[name] = GroupView(group=name, state="Empty", type="classic", protocol_type="consumer")
    source.offsets["committed"] = {("orders", 0): Committed(5, -1, "")}
    source.offsets["promoted"] = {("orders", 0): Committed(5, -1, "")}
    source.offsets["elsewhere"] = {("other", 0): Committed(5, -1, "")}
    member = MemberView(member_id="m", client_id="c", host="h", subscribed=frozenset({"orders"}))
    source.groups["member"] = replace(source.groups["member"], members=(member,))
    await scene.plane.store.put(GroupRecord(link="l", group="promoted", state=GroupState.PROMOTED))
    with pytest.raises(Conflict, match=r"not promoted: committed, member; promote them first, or use force"):
        await scene.promote()
    scene.assert_back()
    (record,) = await scene.promote(force=True)
    assert record.state is MirrorState.STOPPED


async def test_refuses_when_the_source_has_more_partitions(scene: TopicScene) -> None:
    info = scene.plane.source.existing["orders"].info
    scene.plane.source.existing["orders"].info = replace(info, partitions=4)
    with pytest.raises(Conflict, match="has 3 partitions, its source topic 4"):
        await scene.promote()


async def test_refuses_what_the_state_table_refuses(scene: TopicScene) -> None:
    await scene.promote()
    with pytest.raises(WrongState, match="STOPPED"):
        await scene.promote()


async def test_refuses_when_the_source_cannot_be_asked(scene: TopicScene) -> None:
    scene.plane.source.refuse["group_ids"] = ClusterUnavailable("no answer")
    with pytest.raises(SourceUnreachable):
        await scene.promote()
    scene.assert_back()


async def test_refuses_two_at_once(scene: TopicScene) -> None:
    scene.ends.ends["orders"] = [500, 100, 100]
    first = asyncio.create_task(scene.promote())
    await wait_until_async(lambda: scene.promoter.waiting_for("l", "orders"), what="the first to wait")
    with pytest.raises(Conflict, match="is being promoted already"):
        await scene.promote()
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)


ACCEPTED = {LESS_DURABLE: '{"topicFilters":[{"name":"ord","patternType":"PREFIXED","filterType":"INCLUDE"}]}'}


async def test_refuses_a_copy_with_too_few_replicas_in_sync_before_any_write_waits(scene: TopicScene) -> None:
    """Only the write pause met it: writes waited for as long as it lasts, and went on."""
    topic = scene.plane.target.existing["orders"]
    topic.configs["min.insync.replicas"] = "2"
    topic.info = replace(topic.info, replication_factor=3, in_sync=(3, 1, 3))
    for force in (False, True):
        with pytest.raises(Conflict, match=r"partition 1: 1 of 3 replicas on the target in sync, 2 are needed"):
            await scene.promote(force=force)
        with pytest.raises(Conflict, match="2 are needed"):
            await scene.promoter.check("l", ["orders"], force=force)
    scene.assert_back()
    assert not scene.forwarder.paused
    topic.info = replace(topic.info, in_sync=(3, 2, 3))
    (record,) = await scene.promote()
    assert record.state is MirrorState.STOPPED


async def test_refuses_a_copy_that_promises_less_unless_the_link_says_that_it_may(scene: TopicScene) -> None:
    plane = scene.plane
    plane.source.existing["orders"].configs["min.insync.replicas"] = "2"
    plane.target.existing["orders"].configs["min.insync.replicas"] = "1"
    with pytest.raises(Conflict, match=r"1 on the target \(3 replicas\), 2 on the source; set min.insync.replicas=2"):
        await scene.promote()
    assert not scene.forwarder.paused
    link = plane.store.links["l"]
    await plane.by_hand(replace(link, configs={**link.configs, **ACCEPTED}))
    (record,) = await scene.promote()
    assert record.state is MirrorState.STOPPED


async def test_refuses_a_source_that_promises_less_than_the_target_which_it_leaves(scene: TopicScene) -> None:
    plane = scene.plane
    plane.source.existing["orders"].configs["min.insync.replicas"] = "1"
    plane.target.existing["orders"].configs["min.insync.replicas"] = "2"
    await scene.turned_round()
    with pytest.raises(Conflict, match=r"1 on the source \(3 replicas\), 2 on the target; set min.insync.replicas=2"):
        await scene.promoter.check("l", ["orders"])


async def test_a_forced_promote_goes_on_with_a_copy_that_promises_less(scene: TopicScene) -> None:
    scene.plane.source.existing["orders"].configs["min.insync.replicas"] = "2"
    scene.plane.target.existing["orders"].configs["min.insync.replicas"] = "1"
    (record,) = await scene.promote(force=True)
    assert record.state is MirrorState.STOPPED
