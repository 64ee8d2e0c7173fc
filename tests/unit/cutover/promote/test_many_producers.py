"""A promote of a topic with very many producers: refused before the pause, or the loop goes on turning under it."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from gateway.cutover.write_pause.rules.routing import WritePhase
from gateway.errors import Conflict
from gateway.mirror.rules.copy_ends import PartitionEnd
from gateway.state.gateway_records import GatewayRecord
from gateway.state.producer_entries import ROW, PackedProducers
from gateway.state.producer_tables import MOST_BATCHES, MOST_IN_MIRROR
from gateway.state.records import MirrorState
from tests.support.control.control_plane import Plane
from tests.support.control.topic_scene import TopicScene, mirrored_topic

_PRODUCERS = 10_000


@pytest.fixture
async def scene(plane: Plane) -> TopicScene:
    return await mirrored_topic(plane)


async def test_too_many_are_refused_before_the_pause(scene: TopicScene) -> None:
    scene.plane.engine.batches = MOST_BATCHES + 1
    with pytest.raises(Conflict, match=r"400,001, and at most 400,000 do .*orders.*promote fewer topics"):
        await scene.promote()
    assert WritePhase.PAUSED not in scene.phases
    scene.assert_back()


async def test_fewer_go_along_while_a_gateway_is_older(scene: TopicScene) -> None:
    """It reads them from the mirror's own record alone, which is coded in one go."""
    scene.plane.engine.batches = MOST_IN_MIRROR + 1
    await scene.plane.store.put(GatewayRecord(name="b", incarnation="1", role="node", peer="b:1", lease_ms=1))
    with pytest.raises(Conflict, match="at most 10,000 do while a gateway of an older version is in the fleet"):
        await scene.promote()
    assert WritePhase.PAUSED not in scene.phases


async def test_the_loop_turns_while_they_are_handed_over(scene: TopicScene, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = b"".join(ROW.pack(2**49 + pid, 0, seq, seq, 5 * pid + seq) for pid in range(_PRODUCERS) for seq in range(5))
    running = scene.plane.engine.here["l", "orders"]
    for index, end in running.items():
        assert end is not None
        running[index] = PartitionEnd(end.mirrored_to, end.copy_end, PackedProducers(rows), warm=True)
    turns: list[float] = []
    loop: Any = asyncio.get_running_loop()
    once = loop._run_once

    def turn() -> None:
        began = time.thread_time()
        once()
        turns.append(time.thread_time() - began)

    monkeypatch.setattr(loop, "_run_once", turn)
    (record,) = await scene.promote()
    assert record.state is MirrorState.STOPPED
    assert [len(table) for table in record.cutover.producers] == [5 * _PRODUCERS] * 3
    assert max(turns) < 0.05  # of CPU: what else the machine does is not counted
