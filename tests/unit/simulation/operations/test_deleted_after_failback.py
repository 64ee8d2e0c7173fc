"""Whoever writes goes on when what has failed back is deleted, or mirrored again: Java's way and librdkafka's.

Before failback epochs outlived their records librdkafka was fatal within half a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.simulation.clients.producer import Producer
from tests.simulation.fleet import logs
from tests.simulation.kernel.loop import SimLoop
from tests.simulation.plan import RunPlan
from tests.simulation.world import World

pytestmark = pytest.mark.slow

TOPIC = "plain-1"
RETRIES_S = 16 * 60.0


class Lab:
    """Two gateways, a mirror, and a producer of either kind at each."""

    def __init__(self, loop: SimLoop) -> None:
        self.loop = loop
        self.world = World(RunPlan(seed=1, gateways=2, lease_s=60.0, brief=True), self.loop, lambda line: None)
        self.producers: list[Producer] = []

    async def over_and_back(self) -> None:
        """Until the topic has failed back once, with both producers at work."""
        world = self.world
        await asyncio.gather(world.source.start(), world.target.start())
        world.source.create_topic(TOPIC, 1, 3, {"min.insync.replicas": "2"})
        await asyncio.gather(*(gateway.start() for gateway in world.gateways))
        await world.operator.create_link(world.source.bootstrap)
        await world.operator.create(TOPIC)
        for style, gateway in zip(("java", "librdkafka"), world.gateways, strict=True):
            made = Producer(
                self.loop,
                style,
                gateway.bootstrap,
                {TOPIC: 1},
                world.recorder,
                rate_per_s=5.0,
                side="target",
                style=style,
            )
            made.start()
            self.producers.append(made)
        await asyncio.sleep(3)
        await world.operator.promote((TOPIC,))
        await asyncio.sleep(3)
        await world.operator.reverse((TOPIC,))
        await asyncio.sleep(2)
        await world.operator.promote((TOPIC,), home=True)
        await asyncio.sleep(3)

    async def require_all_go_on(self) -> None:
        before = [producer.progress for producer in self.producers]
        await asyncio.sleep(10)
        assert [producer.fatal for producer in self.producers] == ["", ""]
        assert [producer.sequences.bumps for producer in self.producers] == [0, 0]
        assert all(now.progress > then + 20 for now, then in zip(self.producers, before, strict=True))


def lived(story: Callable[[Lab], Awaitable[None]]) -> None:
    """A loop that closes collects the garbage of its run: by then nobody has its world any more."""
    loop = SimLoop(1)

    def live() -> None:
        lab = Lab(loop)
        with logs.told_to(lab.world.logged):
            loop.run_until_complete(story(lab))

    try:
        live()
    finally:
        loop.close()


def test_a_link_that_is_deleted_after_the_second_promote() -> None:
    async def story(lab: Lab) -> None:
        await lab.over_and_back()
        await lab.world.operator.promote((TOPIC,))
        await asyncio.sleep(RETRIES_S)
        status, said = await lab.world.gateways[0].api.request("DELETE", "/v3/links/west", None, 40.0)
        assert status == 204, said
        await lab.require_all_go_on()

    lived(story)


def test_a_mirror_that_is_deleted_and_made_again() -> None:
    async def story(lab: Lab) -> None:
        await lab.over_and_back()
        await lab.world.operator.delete_mirror(TOPIC)
        await asyncio.sleep(1)
        await lab.world.operator.create(TOPIC)
        await lab.require_all_go_on()

    lived(story)
