"""Operations over more than one link: two sources of one target, a chain, two targets of one source, links both ways.

Each builds what it needs, then is open to faults, and leaves mirrors that run and writers that go on to the end of the
run. What is not safe is asked for as well, and must be refused with its reason: a link straight to the brokers of a
cluster that is a mirror's target, a chain that is promoted from its end, and a loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from gateway.state.records import GroupState, MirrorState
from tests.simulation.clients import Producer, TransactionalProducer
from tests.simulation.fleet.gateway_node import GatewayNode
from tests.simulation.kafka.cluster import ClusterModel
from tests.simulation.operations.branches import FAR, Branch
from tests.simulation.operations.operator import Operator, Stuck
from tests.simulation.plan import CHAINED, EAST, NORTH, ORDERS, Act
from tests.simulation.recorder import SOURCE, TARGET

if TYPE_CHECKING:
    from tests.simulation.world import World

_TOPIC: Final = {"min.insync.replicas": "2"}
_FLEET: Final = 2
_RECORDS: Final = 20
"""That a writer gets through before the story goes on."""
_REFUSED_S: Final = 300.0
_ASK_AGAIN_S: Final = 1.0

BEHIND_A_MIRROR: Final = "would land behind that mirror"
NOT_PROMOTED_YET: Final = "promote it there first"
A_LOOP: Final = "it would be a loop"
"""What the refusals say."""


class JoinedActs:
    """Of one run."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def aggregate(self, act: Act) -> None:
        """Two sources with a topic of one name, and a link with a prefix for each, before the fleet of the run."""
        world = self._world
        east = world.cluster("east", "4.3.1")
        await east.start()
        branches = [
            Branch(world, "north", f"{NORTH}{ORDERS}", source=world.source, **self._of_fleet("source-"), prefix=NORTH),
            Branch(world, "east", f"{EAST}{ORDERS}", source=east, **self._of_fleet("east-"), prefix=EAST),
        ]
        for branch in branches:
            branch.source.create_topic(ORDERS, 1, 3, _TOPIC)
            branch.writer(f"{branch.operator.link}-writer").start()
        world.arm(act)
        for branch in branches:
            await branch.operator.create_link(branch.source.bootstrap)
            await branch.operator.create(branch.topic)
            for writer in branch.writers:
                await writer.stop()
                writer.keys = [(branch.topic, 0)]
                writer.start(branch.bootstrap, TARGET)
                await self._gets_on(writer)

    async def chain(self, act: Act) -> None:
        """Source → target → a third cluster, with gateways before both."""
        world = self._world
        topic = act.topics[0]
        third, fleet = await self._third()
        world.source.create_topic(topic, 1, 3, _TOPIC)
        world.more_topics.append(topic)
        branch = Branch(
            world, "far", topic, source=world.target, target=third, gateways=fleet, asked_as_source=world.fleet_name
        )
        writer = branch.writer("chain-writer")
        writer.start(world.source.bootstrap, SOURCE)
        await world.operator.create(topic)
        world.arm(act)
        await self._not_straight(branch)
        await branch.operator.create_link(world.gateway_bootstrap)
        await branch.operator.create(topic)
        await writer.restart(branch.bootstrap, TARGET)
        await self._gets_on(writer)
        path = f"/v3/links/{branch.operator.link}/mirrors/{topic}:promote"
        await self._refused(topic, lambda: branch.operator.say("POST", path, {}), NOT_PROMOTED_YET)

    async def _not_straight(self, branch: Branch) -> None:
        """What clients write at the end of the chain would go to the brokers in its middle."""
        straight = branch.operator_of("straight")
        await straight.create_link(branch.source.bootstrap)
        await self._refused(branch.topic, lambda: straight.ask_to_mirror(branch.topic), BEHIND_A_MIRROR)
        await self._gone(straight)

    @staticmethod
    async def _gone(operator: Operator) -> None:
        """Its link is deleted."""

        async def gone() -> bool:
            return (await operator.ask("GET", f"/v3/links/{operator.link}"))[0] == 404

        await operator.until(gone, operator.delete_link, "/v3/links")

    async def fan_out(self, act: Act) -> None:
        """One source of two targets; who writes at the other one's gateways comes over before a promote here."""
        world = self._world
        topic = act.topics[0]
        third, fleet = await self._third()
        world.source.create_topic(topic, 1, 3, _TOPIC)
        world.more_topics.append(topic)
        branch = Branch(
            world,
            "far",
            topic,
            source=world.source,
            target=third,
            gateways=fleet,
            asked_as_source=world.asked_as_source,
            told=False,
        )
        here, there = (branch.writer(name, world.recorder) for name in ("fan-here", "fan-there"))
        for writer in (here, there):
            writer.start()
        world.arm(act)
        await branch.operator.create_link(world.source.bootstrap)
        await branch.operator.create(topic)
        await world.operator.create(topic)
        # Each target gives out ids from 0 on, and both have given out as many: the next ones are the same.
        world.target.issued_ids = third.issued_ids = max(world.target.issued_ids, third.issued_ids)
        await here.restart(world.gateway_bootstrap, TARGET)
        await there.restart(branch.bootstrap, TARGET)
        for writer in (here, there):
            await self._gets_on(writer)
        await there.restart(world.gateway_bootstrap, TARGET)

    async def both_ways(self, act: Act) -> None:
        """A topic goes from the target to the source, whose gateways are another fleet; and may not come back."""
        world, topic = self._world, act.topics[0]
        fleet = await self._fleet(world.source)
        world.target.create_topic(topic, 1, 3, _TOPIC)
        branch = Branch(
            world, "back", topic, source=world.target, target=world.source, gateways=fleet, asked_as_source="target-"
        )
        writer = branch.writer("crossed-writer")
        writer.start()
        world.arm(act)
        await branch.operator.create_link(world.target.bootstrap)
        await branch.operator.create(topic)
        await self._no_loop(topic)
        await writer.restart(branch.bootstrap, TARGET)
        await self._gets_on(writer)

    async def _no_loop(self, topic: str) -> None:
        """Under another name its records would come back to where they are from, and from there again."""
        again = self._world.operator.of_link("again", "again.")
        await again.create_link(self._world.source.bootstrap)
        await self._refused(topic, lambda: again.ask_to_mirror(f"again.{topic}"), A_LOOP)
        await self._gone(again)

    async def promote(self, act: Act) -> None:
        """A topic of another link. In a chain: once the link before it is promoted, and its producers' retries are
        over."""
        topic = act.topics[0]
        branch = self._world.branches.get(topic)
        if branch is None or (topic == CHAINED and not self._is_promoted(topic)):
            return  # shrinking has left out what comes before
        for writer in branch.writers:
            await writer.restart()
            await self._gets_on(writer)
        await branch.operator.promote((topic,), force=topic != CHAINED or self._waits_before_the_middle())
        for writer in branch.writers:
            await self._gets_on(writer)

    # -- parts -------------------------------------------------------------------------------------------------------

    def _of_fleet(self, asked_as_source: str) -> dict[str, Any]:
        return {"target": self._world.target, "asked_as_source": asked_as_source}

    async def _third(self) -> tuple[ClusterModel, list[GatewayNode]]:
        """A third cluster, and a fleet before it."""
        third = self._world.cluster("third", "4.3.1")
        await third.start()
        return third, await self._fleet(third)

    async def _fleet(self, target: ClusterModel) -> list[GatewayNode]:
        fleet = [self._world.gateway(f"{FAR}{number}", target) for number in range(_FLEET)]
        await asyncio.gather(*(gateway.start() for gateway in fleet))
        return fleet

    def _is_promoted(self, topic: str) -> bool:
        judge = self._world.judge
        judge.look()
        return any(one.mirror_topic == topic and one.state is MirrorState.STOPPED for one in judge.state.mirrors)

    def _waits_before_the_middle(self) -> bool:
        """A group waits at the gates of the gateways by which a chain goes: they do not say what it has read."""
        judge = self._world.judge
        judge.look()
        return any(group.state is not GroupState.PROMOTED for group in judge.state.groups)

    async def _gets_on(self, writer: Producer | TransactionalProducer) -> None:
        wanted = writer.progress + _RECORDS

        async def got_on() -> bool:
            return writer.progress >= wanted

        await self._world.until(got_on, f"{writer.name} does not get on")

    async def _refused(self, topic: str, ask: Callable[[], Awaitable[tuple[int, Any]]], reason: str) -> None:
        """Ask until it is refused with this reason. Whatever else is answered may be trouble; a yes ends the run."""
        until = self._world.loop.time() + _REFUSED_S
        while True:
            code, answer = await ask()
            # As 0, too: the gateways in the middle may not say what a group that waits there has read, which is 502.
            if not 200 <= code < 300 and reason in str(answer):
                return
            if 200 <= code < 300:
                raise Stuck(f"{topic}: what is not safe was done: {answer}")
            if self._world.loop.time() > until:
                raise Stuck(f"{topic}: it is not refused because {reason!r}: {code} {answer}")
            await asyncio.sleep(_ASK_AGAIN_S)
