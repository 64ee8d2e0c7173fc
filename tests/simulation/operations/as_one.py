"""Topics and groups that change sides as one: what the operator asks for, and what applications do for it."""

from __future__ import annotations

import asyncio
import functools
import json
from typing import TYPE_CHECKING

from tests.simulation.plan import Act
from tests.simulation.plan.as_one import ASKED
from tests.simulation.plan.topics import TOPICS
from tests.simulation.recorder import SOURCE, TARGET

if TYPE_CHECKING:
    from tests.simulation.clients.client import Client
    from tests.simulation.world import World

_REFUSED = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
_MOVES_AFTER_S = 1.0


class AsOneActs:
    """Of one run."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._watched = False

    async def there(self, act: Act) -> None:
        """Members come to the gateways before, or while the promote waits for them."""
        world = self._world
        self._watch()
        await self._committed()
        await world.operator.until(self._by_hand, self._ask_by_hand, "/v3/links")
        for group in world.groups():
            await world.operator.declare(group)
        if act.how == ASKED:
            asked = asyncio.create_task(world.operator.promote_as_one(act.topics, world.groups()))
            await asyncio.sleep(_MOVES_AFTER_S)
            await self._move(world.gateway_bootstrap, TARGET)
            await asked
        else:
            await self._move(world.gateway_bootstrap, TARGET)
            await world.operator.promote_as_one(act.topics, world.groups())

    async def home(self, act: Act) -> None:
        """The pipeline runs at the gateways until then, and goes on at the source.

        Who only reads is stopped before, as for a demote: an answer that was on its way when the gate was shut is read
        and not committed, as in a rebalance, and the checker counts what was read.
        """
        world = self._world
        self._watch()
        for reader in world.readers:
            await reader.stop()
        await world.operator.promote_as_one(act.topics, world.groups(), home=True)
        for reader in world.readers:
            reader.start(world.source.bootstrap, SOURCE)
        await self._move(world.source.bootstrap, SOURCE)

    async def _move(self, bootstrap: str, side: str) -> None:
        for member in self._world.all_members():
            if member.side != side:
                await member.restart(bootstrap, side)

    async def _committed(self) -> None:
        async def committed() -> bool:
            members = self._world.all_members()
            return all(
                len(self._world.source.committed(each.group)) >= sum(TOPICS[topic] for topic in each.topics)
                for each in members
            )

        await self._world.until(committed, "a group has not committed on the source")

    async def _by_hand(self) -> bool:
        self._world.judge.look()
        found = self._world.judge.state.link_configs(self._world.operator.link)
        return found.get("groups.auto.promote") == "false"

    async def _ask_by_hand(self) -> None:
        """The copies promise less than their origins, which is accepted: a set with groups cannot be forced."""
        filters = {"topicFilters": [{"name": "*", "patternType": "LITERAL", "filterType": "INCLUDE"}]}
        await self._world.operator.alter_link(
            groups_auto_promote="false", promote_less_durable_topic_filters=json.dumps(filters)
        )

    def _watch(self) -> None:
        """No transaction is ever refused for having two sides."""
        if self._watched:
            return
        self._watched = True
        for client in (*self._world.all_members(), *self._world.writers):
            client.on_error.append(functools.partial(self._told, client))

    def _told(self, client: Client, *said: str) -> None:
        text = " ".join(said)
        if _REFUSED in text:
            self._world.judge.findings.add("torn", client.name, f"a transaction was refused: {text}", self._now())

    def _now(self) -> float:
        return self._world.loop.time()
