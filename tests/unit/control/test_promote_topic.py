"""The runner of a topic promote on a control plane in memory: what it publishes, holds and lets go."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.control.errors import Conflict
from gateway.domain.records import MirrorState
from gateway.domain.routing import Phase
from tests.support.control_plane import Plane
from tests.support.topic_scene import LIMITS, TABLE, TopicScene, mirrored_topic
from tests.support.waiting import wait_until_async


@pytest.fixture
async def scene(plane: Plane) -> TopicScene:
    return await mirrored_topic(plane)


async def test_flips_and_hands_over(scene: TopicScene) -> None:
    (record,) = await scene.promote()
    assert record.state is MirrorState.STOPPED
    assert (record.stopped_at, record.stopped_copy_at) == ((100, 100, 100), (60, 60, 60))
    assert (record.producers, record.fence_epoch) == (TABLE, 1)
    assert [phase for phase in scene.phases if phase is not Phase.FORWARD] == [Phase.FENCED, Phase.SWITCHED]
    assert scene.phases[-1] is Phase.SWITCHED
    assert ("l", "orders") not in scene.plane.engine.running
    assert scene.held == [("l", "stopped")]
    assert scene.forwarder.fenced == [("orders", 1)]


async def test_the_fence_waits_for_the_lag(scene: TopicScene) -> None:
    scene.ends.ends["orders"] = [100, 100, 111]
    run = asyncio.create_task(scene.promote())
    await wait_until_async(lambda: scene.promoter.waiting_for("l", "orders"), what="a reason")
    assert "11 records behind" in scene.promoter.waiting_for("l", "orders")
    assert scene.record.state is MirrorState.PENDING_STOPPED
    assert not scene.forwarder.fenced
    scene.advance("orders", 2, 101)
    await wait_until_async(lambda: scene.forwarder.fenced, what="the fence")
    assert not run.done()
    scene.advance("orders", 2, 111)
    (record,) = await run
    assert record.stopped_at == (100, 100, 111)


async def test_waits_for_the_mirror_under_the_fence(scene: TopicScene) -> None:
    scene.ends.ends["orders"] = [100, 105, 100]

    def on_read(number: int) -> None:
        if scene.forwarder.fenced and number > 4:
            scene.advance("orders", 1, 105)

    scene.ends.on_read = on_read
    (record,) = await scene.promote()
    assert record.stopped_at == (100, 105, 100)


async def test_a_bypassing_writer_aborts(scene: TopicScene) -> None:
    def on_read(number: int) -> None:
        if len([1 for _ in scene.forwarder.fenced]) and number > 2:
            scene.ends.ends["orders"][1] += 1

    scene.ends.on_read = on_read
    with pytest.raises(Conflict, match="does not use the gateway wrote to orders .* partition 1 from offset 10"):
        await scene.promote()
    scene.assert_back()
    assert "partition 1 from offset" in scene.record.error_message
    assert scene.held == [("l", "aborted")]


async def test_a_gateway_that_does_not_acknowledge_ends_in_the_timeout(scene: TopicScene) -> None:
    scene.forwarder.silent = True
    with pytest.raises(Conflict, match=r"not done 0\.3 s after the fence: writes to orders still in flight at g"):
        await scene.promote()
    scene.assert_back()


async def test_the_next_try_has_the_next_epoch(scene: TopicScene) -> None:
    scene.forwarder.silent = True
    with pytest.raises(Conflict):
        await scene.promote()
    scene.forwarder.silent = False
    (record,) = await scene.promote()
    assert (record.fence_epoch, record.error_message) == (2, "")
    assert scene.forwarder.fenced == [("orders", 1), ("orders", 2)]


async def test_the_source_lost_under_the_fence(scene: TopicScene) -> None:
    def on_read(number: int) -> None:
        scene.ends.down = bool(scene.forwarder.fenced)

    scene.ends.on_read = on_read
    with pytest.raises(Conflict, match="connection refused"):
        await scene.promote()
    scene.assert_back()


async def test_the_source_away_before_the_fence(scene: TopicScene) -> None:
    scene.ends.down = True
    with pytest.raises(Conflict, match=r"not reachable for 0\.2 s"):
        await scene.promote()
    scene.assert_back()
    assert scene.phases.count(Phase.FENCED) == 0


async def test_hidden_records_hold_the_flip(scene: TopicScene) -> None:
    scene.ends.hidden = 1
    with pytest.raises(Conflict, match="partition 0 at 100 of 101"):
        await scene.promote()
    scene.assert_back()


async def test_unknown_outcomes_take_the_longer_grace(scene: TopicScene) -> None:
    scene.forwarder.unknown = 1
    loop = asyncio.get_running_loop()
    fenced_at: list[float] = []
    scene.plane.routing.subscribe(lambda _: fenced_at.append(loop.time()))
    await scene.promote()
    assert fenced_at[-1] - fenced_at[0] > LIMITS.unknown_grace_s


async def test_no_fence_right_after_the_start(scene: TopicScene) -> None:
    promoter = scene.make(replace(LIMITS, unknown_grace_s=0.2))
    loop = asyncio.get_running_loop()
    began = loop.time()
    await promoter.promote("l", ["orders"])
    assert loop.time() - began >= 0.2


async def test_a_set_is_all_or_none(scene: TopicScene) -> None:
    await scene.mirror("payments")
    scene.ends.ends["payments"] = [100, 100, 103]
    with pytest.raises(Conflict, match="payments: partition 2 at 100 of 103"):
        await scene.promote("orders", "payments")
    assert scene.plane.state("payments") is MirrorState.ACTIVE
    scene.assert_back()
    scene.mirrored("payments", 103)
    scene.ends.ends["payments"] = [103, 103, 103]
    records = await scene.promote("orders", "payments")
    assert [record.state for record in records] == [MirrorState.STOPPED] * 2
    flips = [
        [key for key, _ in changes]
        for changes in scene.plane.log.commits
        if b'"state":"STOPPED"' in (changes[0][1] or b"")
    ]
    assert flips[0] == ["mirror/l/orders", "mirror/l/payments"]
