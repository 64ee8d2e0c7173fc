"""A LogAppendTime topic behind a cutover: no write goes to a leader that does not stamp records yet."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.control_parts import records_after_cutover
from gateway.cutover.write_pause.rules.routing import WritePhase
from gateway.kafka.connection.errors import ClusterUnavailable
from gateway.kafka.rules.topic_configs import OWN, stamp_changes
from gateway.state.records import MirrorState
from gateway.topics import lifted_configs
from gateway.topics.lifted_configs import WAITS_FOR_STAMPS
from tests.support.control.control_plane import Plane
from tests.support.control.failback_scene import FailbackScene
from tests.support.control.topic_scene import TopicScene, mirrored_topic
from tests.support.waiting import wait_until_async

TYPE = "message.timestamp.type"
LAGS = {TYPE: "CreateTime", "max.message.bytes": str(2**31 - 1)}
"""What a leader tells that has not heard of the change."""
STAMPS = {TYPE: "LogAppendTime", "max.message.bytes": "1048588"}


@pytest.fixture
async def scene(plane: Plane) -> TopicScene:
    made = await mirrored_topic(plane)
    plane.source.existing["orders"].configs[TYPE] = "LogAppendTime"
    plane.target.leaders_tell["orders"] = dict(LAGS)
    return made


@pytest.fixture
def soon_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifted_configs, "STAMPED_WITHIN_S", 0.05)


async def asked(scene: TopicScene, more: int = 3) -> None:
    """Until the leaders were asked so often again."""
    calls = scene.plane.target.calls
    until = calls.count("configs_at_leaders") + more
    await wait_until_async(lambda: calls.count("configs_at_leaders") >= until, 10)


def phase(scene: TopicScene) -> WritePhase:
    return scene.plane.routing.current.topics["orders"].phase


async def test_writes_wait_until_every_leader_tells_of_both_changes(scene: TopicScene) -> None:
    target = scene.plane.target
    promoting = asyncio.create_task(scene.promote())
    await wait_until_async(lambda: scene.record.state is MirrorState.STOPPED, 10)
    await asked(scene)
    assert (phase(scene), len(target.alter_requests)) == (WritePhase.PAUSED, 1)
    assert target.existing["orders"].configs["max.message.bytes"] == LAGS["max.message.bytes"]  # set behind the first
    del target.leaders_tell["orders"][TYPE]
    await wait_until_async(lambda: len(target.alter_requests) == 2, 10)
    await asked(scene)
    assert phase(scene) is WritePhase.PAUSED  # its metadata has it, its log may not
    assert scene.promoter.waiting_for("l", "orders") == WAITS_FOR_STAMPS
    target.leaders_tell.clear()
    (record,) = await promoting
    assert phase(scene) is WritePhase.SWITCHED
    assert (record.cutover.unstamped, record.restore_configs, record.error_message) == (False, {}, "")


@pytest.mark.usefixtures("soon_over")
async def test_they_wait_for_a_bounded_time_and_the_record_says_what_may_be_wrong(scene: TopicScene) -> None:
    (record,) = await scene.promote()
    assert (record.state, record.cutover.unstamped, phase(scene)) == (MirrorState.STOPPED, False, WritePhase.SWITCHED)
    assert "may have their producers' timestamps" in record.error_message
    scene.plane.target.leaders_tell.clear()
    await records_after_cutover(scene.plane.parts, scene.ends).look()
    assert not scene.record.restore_configs


@pytest.mark.usefixtures("soon_over")
async def test_a_cluster_that_does_not_answer_holds_them_no_longer(scene: TopicScene) -> None:
    scene.plane.target.refuse["configs_at_leaders"] = ClusterUnavailable("connection refused")
    (record,) = await scene.promote()
    assert (record.cutover.unstamped, phase(scene)) == (False, WritePhase.SWITCHED)
    assert "connection refused" in record.error_message


async def test_who_leads_next_goes_on(scene: TopicScene) -> None:
    """Nothing but the record outlives the leader: it holds the writes, and says what is left to do."""
    scene.plane.target.leaders_tell.clear()
    stopped = replace(
        scene.record,
        state=MirrorState.STOPPED,
        restore_configs=dict(STAMPS),
        cutover=replace(scene.record.cutover, unstamped=True),
    )
    await scene.plane.by_hand(stopped)
    assert phase(scene) is WritePhase.PAUSED
    await records_after_cutover(scene.plane.parts, scene.ends).look()
    assert (phase(scene), scene.record.cutover.unstamped) == (WritePhase.SWITCHED, False)
    assert scene.plane.target.existing["orders"].configs[TYPE] == "LogAppendTime"


async def test_a_failover_holds_them_as_well(plane: Plane) -> None:
    topic = FailbackScene(plane)
    await plane.with_mirror("orders")
    await topic.set(MirrorState.ACTIVE, readable=True, restore_configs=dict(STAMPS))
    topic.ends.down = True
    plane.target.leaders_tell["orders"] = dict(LAGS)
    failing = asyncio.create_task(topic.periods.failover("l", ["orders"]))
    await wait_until_async(lambda: "configs_at_leaders" in plane.target.calls, 10)
    assert topic.record.state is MirrorState.STOPPED
    phases = [plane.routing.current.topics["orders"].phase]
    plane.target.leaders_tell.clear()
    (record,) = await failing
    assert record.state is MirrorState.STOPPED
    await wait_until_async(lambda: not topic.record.cutover.unstamped, 10)
    phases.append(plane.routing.current.topics["orders"].phase)
    assert phases == [WritePhase.PAUSED, WritePhase.SWITCHED]


def test_what_is_set_first_and_later() -> None:
    restore = {**STAMPS, "compression.type": "producer", "retention.ms": OWN}
    assert stamp_changes(restore) == ({TYPE: "LogAppendTime"}, {"max.message.bytes": "1048588"})
    assert stamp_changes({TYPE: "LogAppendTime", "retention.ms": OWN}) == ({TYPE: "LogAppendTime"}, {})
