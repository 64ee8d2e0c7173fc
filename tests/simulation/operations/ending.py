"""The end of a run before it is judged: faults are over, producers stop, mirrors come level, groups read it all.

A group that the source does not know has to be let in at every gateway by then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from tests.simulation.clients import Newcomer
from tests.simulation.judge import unread
from tests.simulation.operations.operator import TopicFailed
from tests.simulation.recorder import SOURCE

if TYPE_CHECKING:
    from tests.simulation.operations.branches import Branch
    from tests.simulation.world import World

_STEADY_S: Final = 0.5


class Ending:
    """Of one run."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def come_to_rest(self) -> None:
        """Faults are over; producers stop, mirrors come level, groups read to the end, and mirrors come level with what
        pipelines have written of that.
        """
        topics, newcomer = self._world.topics(), self._newcomer()
        await self._world.settled()
        self._world.loop.network.heal()
        for cluster in (self._world.source, self._world.target):
            for broker in cluster.brokers:
                cluster.rejoin_broker(broker)
        if newcomer is not None:
            serving = (gateway for gateway in self._world.gateways if gateway.serves)
            newcomer.go_round({gateway.name: gateway.bootstrap for gateway in serving})
        branches = tuple(self._world.branches.values())
        for producer in (*self._world.writers, *(each for branch in branches for each in branch.writers)):
            await producer.stop()
        await self._world.cast.stop_producers()
        await self._level(topics)
        await self._level_branches(branches)
        await self._world.until(self._read_out, "a group has not read to the end")
        for member in (*self._world.all_members(), *self._world.events.members()):
            await member.stop()
        await self._level(topics)
        if self._world.rights is not None:
            await self._world.rights.follow()
        if self._world.schemas is not None:
            await self._world.schemas.follow()
        await self._world.owned.come_to_rest()
        if newcomer is not None:  # last, since it reads slowly: nothing has to wait for it then
            await self._world.until(
                self._newcomer_read_out, "a group that is new has not read to the end", self._not_read
            )
            await newcomer.stop()

    async def _level_branches(self, branches: Sequence[Branch]) -> None:
        """But those of which nothing is mirrored any more."""
        for branch in branches:
            if not self._world.owned.is_over(branch):
                await self._level((branch.topic,), branch)

    async def _level(self, topics: tuple[str, ...], of: Branch | World | None = None) -> None:
        """`of`: whose topics they are, if not the run's own link's.

        Level for `_STEADY_S`: what `describe` knows of other gateways' mirrors is as old as their last heartbeat."""
        since, place = [float("inf")], of or self._world

        async def level() -> bool:
            listed, now = await place.operator.mirrors(), self._world.loop.time()
            is_level = bool(listed) and all(
                self._is_level(listed[t], place) if t in listed else t not in self._world.created() for t in topics
            )
            since[0] = min(since[0], now) if is_level else float("inf")
            return now - since[0] >= _STEADY_S

        await self._world.until(level, "a mirror is not level")

    def _is_level(self, mirror: dict[str, Any], of: Branch | World) -> bool:
        """By the logs: a mirror that has not heard of the last records yet says that it is level."""
        topic, lags = mirror["mirror_topic_name"], mirror["mirror_lags"]
        if mirror["mirror_status"] == "STOPPED" or of.judge.is_broken_off(topic):
            return True
        if mirror["mirror_status"] == "FAILED":
            raise TopicFailed(f"{topic}: {mirror}")
        origin = of.target if mirror["mirror_direction"] == "REVERSE" else of.source
        name = mirror["source_topic_name"] if origin is of.source else topic
        return bool(lags) and all(
            one["phase"] == "copying"
            and one["lag"] == 0
            and one["mirrored_to"] >= origin.log_range(name, one["partition"])[3]
            for one in lags
        )

    async def _read_out(self) -> bool:
        members = (self._world.readers[0], *self._world.cast.members, *self._world.events.members())
        return not any(unread(one, self._world.source if one.side == SOURCE else self._world.target) for one in members)

    def _newcomer(self) -> Newcomer | None:
        """The newcomer of a run in which it came."""
        newcomer = self._world.cast.newcomer
        return newcomer if newcomer is not None and newcomer.running else None

    async def _newcomer_read_out(self) -> bool:
        return not self._not_read()

    def _not_read(self) -> list[str]:
        """What a newcomer waits for, a line each: to be let in at a gateway, or to be given records."""
        newcomer = self._newcomer()
        if newcomer is None:
            return []
        if newcomer.round_done:
            return unread(newcomer, self._world.target)
        where = next((gateway for gateway in self._world.gateways if gateway.name == newcomer.waits_at), None)
        gate = "gone" if where is None else where.gateway._gates.known_status(newcomer.group)
        return [f"{newcomer.name} waits to be let in at {newcomer.waits_at}, where the gate of its group is {gate}"]
