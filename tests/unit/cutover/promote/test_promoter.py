"""The runner of a topic promote on a control plane in memory: what it publishes, holds and lets go."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from gateway.cutover.write_pause.interface import PauseAck
from gateway.cutover.write_pause.rules.routing import WritePhase
from gateway.cutover.write_pause.rules.write_pause import Pause
from gateway.errors import Conflict
from gateway.kafka.connection.errors import NetError
from gateway.state.records import MirrorState
from tests.support.control.control_plane import Plane
from tests.support.control.topic_scene import LIMITS, TABLE, TopicScene, mirrored_topic
from tests.support.waiting import wait_until_async


@pytest.fixture
async def scene(plane: Plane) -> TopicScene:
    return await mirrored_topic(plane)


async def test_cuts_over_and_hands_over(scene: TopicScene) -> None:
    (record,) = await scene.promote()
    assert record.state is MirrorState.STOPPED
    assert (record.cutover.stopped_at, record.cutover.stopped_copy_at) == ((100, 100, 100), (60, 60, 60))
    assert (record.cutover.producers, record.cutover.pause_epoch) == (TABLE, 1)
    assert [phase for phase in scene.phases if phase is not WritePhase.FORWARD] == [
        WritePhase.PAUSED,
        WritePhase.SWITCHED,
    ]
    assert scene.phases[-1] is WritePhase.SWITCHED
    assert ("l", "orders") not in scene.plane.engine.running
    assert scene.held == [("l", "stopped")]
    seen = scene.plane.parts.pauses_seen
    assert (seen.since("l", ["orders"], 0.0) >= 0, seen.since("l", ["payments"], 0.0)) == (True, -1)
    assert scene.forwarder.paused == [("orders", 1)]


async def test_the_write_pause_waits_for_the_lag(scene: TopicScene) -> None:
    scene.ends.ends["orders"] = [100, 100, 111]
    run = asyncio.create_task(scene.promote())
    await wait_until_async(lambda: scene.promoter.waiting_for("l", "orders"), what="a reason")
    assert "11 records behind" in scene.promoter.waiting_for("l", "orders")
    assert scene.record.state is MirrorState.PENDING_STOPPED
    assert not scene.forwarder.paused
    scene.advance("orders", 2, 101)
    await wait_until_async(lambda: scene.forwarder.paused, what="the write pause")
    assert not run.done()
    scene.advance("orders", 2, 111)
    (record,) = await run
    assert record.cutover.stopped_at == (100, 100, 111)


async def test_waits_for_the_mirror_under_the_write_pause(scene: TopicScene) -> None:
    scene.ends.ends["orders"] = [100, 105, 100]

    def on_read(number: int) -> None:
        if scene.forwarder.paused and number > 4:
            scene.advance("orders", 1, 105)

    scene.ends.on_read = on_read
    (record,) = await scene.promote()
    assert record.cutover.stopped_at == (100, 105, 100)


async def test_a_bypassing_writer_aborts(scene: TopicScene) -> None:
    def on_read(number: int) -> None:
        if len([1 for _ in scene.forwarder.paused]) and number > 2:
            scene.ends.ends["orders"][1] += 1

    scene.ends.on_read = on_read
    with pytest.raises(Conflict, match="does not use the gateway wrote to orders .* partition 1 from offset 10"):
        await scene.promote()
    scene.assert_back()
    assert "partition 1 from offset" in scene.record.error_message
    assert scene.held == [("l", "aborted")]


async def test_a_gateway_that_does_not_acknowledge_ends_in_the_timeout(scene: TopicScene) -> None:
    scene.forwarder.silent = True
    with pytest.raises(Conflict, match=r"not done 0\.3 s after the write pause: writes to orders still in flight at g"):
        await scene.promote()
    scene.assert_back()


async def test_a_gateway_that_is_gone_is_told_of_once_per_reason(scene: TopicScene) -> None:
    """It is asked again every few milliseconds, for as long as writes may pause."""
    reasons = ["connection refused"] * 5

    async def gone(pause: Pause) -> PauseAck:
        raise NetError(reasons.pop() if reasons else "the connection was closed")

    scene.forwarder.drain = gone  # type: ignore[method-assign]
    with capture_logs() as logs, pytest.raises(Conflict, match="still in flight at g"):
        await scene.promote()
    told = [line["reason"] for line in logs if "did not acknowledge" in line["event"]]
    assert told == ["g: connection refused", "g: the connection was closed"]


async def test_the_next_try_has_the_next_epoch(scene: TopicScene) -> None:
    scene.forwarder.silent = True
    with pytest.raises(Conflict):
        await scene.promote()
    scene.forwarder.silent = False
    (record,) = await scene.promote()
    assert (record.cutover.pause_epoch, record.error_message) == (2, "")
    assert scene.forwarder.paused == [("orders", 1), ("orders", 2)]


async def test_the_source_lost_under_the_write_pause(scene: TopicScene) -> None:
    def on_read(number: int) -> None:
        scene.ends.down = bool(scene.forwarder.paused)

    scene.ends.on_read = on_read
    with pytest.raises(Conflict, match="connection refused"):
        await scene.promote()
    scene.assert_back()


async def test_the_source_away_before_the_write_pause(scene: TopicScene) -> None:
    scene.ends.down = True
    with pytest.raises(Conflict, match=r"not reachable for 0\.2 s"):
        await scene.promote()
    scene.assert_back()
    assert scene.phases.count(WritePhase.PAUSED) == 0


async def test_hidden_records_hold_the_cutover(scene: TopicScene) -> None:
    scene.ends.hidden = 1
    with pytest.raises(Conflict, match="partition 0 at 100 of 101"):
        await scene.promote()
    scene.assert_back()


async def test_a_transaction_that_only_its_coordinator_knows_holds_the_cutover(scene: TopicScene) -> None:
    scene.ends.transactions = {"orders": ("payments",)}
    with pytest.raises(Conflict, match="the end of transaction 'payments', which has orders"):
        await scene.promote()
    scene.assert_back()
    scene.ends.transactions = {"orders": ()}
    (record,) = await scene.promote()
    assert record.state is MirrorState.STOPPED


async def test_unknown_outcomes_take_the_longer_grace(scene: TopicScene) -> None:
    scene.forwarder.unknown = 1
    loop = asyncio.get_running_loop()
    paused_at: list[float] = []
    scene.plane.routing.subscribe(lambda _routing, _changed: paused_at.append(loop.time()))
    await scene.promote()
    assert paused_at[-1] - paused_at[0] > LIMITS.unknown_grace_s


async def test_no_write_pause_right_after_the_start(scene: TopicScene) -> None:
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
    cutovers = [
        [key for key, _ in changes]
        for changes in scene.plane.log.commits
        if b'"state":"STOPPED"' in (changes[0][1] or b"")
    ]
    assert cutovers[0] == ["mirror/l/orders", "mirror/l/payments"]


async def test_a_promote_does_not_begin_on_a_link_that_is_paused_meanwhile(scene: TopicScene) -> None:
    """Past what is asked before it: the record of its beginning is bound to the link's."""
    link = scene.plane.store.links["l"]
    await scene.plane.store.put(replace(link, configs={**link.configs, "cluster.link.paused": "true"}))

    with pytest.raises(Conflict, match="link 'l' is paused; resume it first: lockgate link resume l"):
        await scene.promote()

    assert scene.record.state is MirrorState.ACTIVE
    assert not scene.forwarder.paused
    await scene.plane.store.put(replace(scene.plane.store.links["l"], configs=link.configs))
    (record,) = await scene.promote()
    assert record.state is MirrorState.STOPPED
