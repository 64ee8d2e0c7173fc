"""How each operation of a plan is carried out: what the operator asks for, and what clients do for it."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from gateway.state.records import MirrorState
from tests.simulation.fleet.gateway_node import Killed
from tests.simulation.kafka.acls import Acl
from tests.simulation.operations.as_one import AsOneActs
from tests.simulation.operations.joined import JoinedActs
from tests.simulation.operations.operator import LINK
from tests.simulation.operations.repairs import RepairActs
from tests.simulation.plan import OWNED, SET, TOPICS, Act, Operation
from tests.simulation.recorder import SOURCE, TARGET

if TYPE_CHECKING:
    from tests.simulation.world import World

_PATIENCE_S = 10.0
_LOOK_S = 0.1


async def _nothing() -> None:
    """To be asked for: it happens by itself."""


class Acts:
    """Of one run."""

    def __init__(self, world: World) -> None:
        self._world = world
        repairs, joined, as_one = RepairActs(world), JoinedActs(world), AsOneActs(world)
        self._do_as_one, self._do_as_one_home = as_one.there, as_one.home
        self._do_spoil, self._do_repair = repairs.spoil, repairs.repair
        self._do_aggregate, self._do_chain, self._do_fan_out = joined.aggregate, joined.chain, joined.fan_out
        self._do_both_ways, self._do_promote_joined = joined.both_ways, joined.promote

    async def perform(self, act: Act) -> None:
        """One operation. Raises Stuck and TopicFailed."""
        if OWNED in act.topics:
            await self._world.owned.perform(act)
            return
        await getattr(self, f"_do_{act.operation.name.lower()}")(act)

    async def _do_create(self, act: Act) -> None:
        await self._world.operator.create(act.topics[0])
        await self._world.events.created(act.topics[0])
        await self._world.cast.created(act.topics[0], self._world.gateway_bootstrap)
        last = max(one.number for one in self._world.plan.acts if one.operation is Operation.CREATE)
        if act.number == last if self._world.plan.brief else act.topics[0] == SET[-1]:
            for producer in self._world.writers:
                if producer.side == SOURCE:
                    await producer.restart(self._world.gateway_bootstrap, TARGET)

    async def _do_relink(self, act: Act) -> None:
        """The link is deleted, and another one of its name is there: what counts is the state, not who answers."""
        world, old = self._world, self._link_id()
        deleting = functools.partial(world.operator.delete_link)
        await world.operator.until(self._is_link(lambda now: now != old), deleting, "/v3/links")
        creating = functools.partial(world.operator.ask_for_link, world.source.bootstrap, **world.link_options)
        await world.operator.until(self._is_link(lambda now: now > old), creating, "/v3/links")

    async def _do_unmirror(self, act: Act) -> None:
        """A mirror is created and deleted, with its topic; the operation that creates it for good comes later."""
        world, topic = self._world, act.topics[0]
        await world.operator.create(topic)

        async def gone() -> bool:
            world.judge.look()
            there = any(each.mirror_topic == topic for each in world.judge.state.mirrors)
            return not there and (topic in world.events.replaced or topic not in world.target.topic_names())

        await world.operator.until(gone, functools.partial(world.operator.delete_mirror, topic), "/v3/links")
        self._clear_away(topic)

    def _clear_away(self, topic: str) -> None:
        """A topic that somebody has put in the copy's place is theirs: it must be there still, and makes room now."""
        world = self._world
        theirs, there = world.events.replaced.pop(topic, None), world.target.topics.get(topic)
        if theirs is not None and (there is None or there.id != theirs):
            what = "a topic that somebody else has created was deleted with the mirror"
            world.judge.findings.add("lost", topic, what, world.loop.time())
        if theirs is not None and there is not None:
            world.target.delete_topic(topic)

    async def _do_update_link(self, act: Act) -> None:
        """The source is reached by its brokers in another order, and the link paused and resumed, under load."""
        servers = ",".join(reversed(self._world.source.bootstrap.split(",")))
        for configs in (
            {"bootstrap_servers": servers, "throttle_bytes_per_second": "1000000"},
            {"cluster_link_paused": "true"},
            {"cluster_link_paused": "false", "throttle_bytes_per_second": "0"},
        ):
            asking = functools.partial(self._world.operator.alter_link, **configs)
            await self._world.operator.until(self._has(configs), asking, "/v3/links")

    def _has(self, configs: Mapping[str, str]) -> Callable[[], Awaitable[bool]]:
        wanted = {name.replace("_", "."): value for name, value in configs.items()}

        async def found() -> bool:
            self._world.judge.look()
            stored = self._world.judge.state.link_configs(LINK)
            return wanted.items() <= stored.items()

        return found

    async def _do_auto_create(self, act: Act) -> None:
        """The topic comes to be, and somebody writes to it."""
        world, (topic,) = self._world, act.topics
        world.source.create_topic(topic, 1, 3, {"min.insync.replicas": "2"})
        world.begin(world.producer("auto", topic, 1))
        await world.operator.created(topic)

    async def _do_change_acls(self, act: Act) -> None:
        """Somebody changes rights on the source, and the target follows."""
        rights = self._world.rights
        if rights is not None:
            self._world.story.tell("source", rights.change(act.topics))
            await self._world.operator.until(rights.are_right, _nothing, "/v3/links")

    def _link_id(self) -> int:
        self._world.judge.look()
        return self._world.judge.state.link_id(LINK)

    def _is_link(self, meant: Callable[[int], bool]) -> Callable[[], Awaitable[bool]]:
        async def found() -> bool:
            return meant(self._link_id())

        return found

    async def _do_promote(self, act: Act) -> None:
        rights = self._world.rights
        before = rights.of(act.topics) if rights is not None else frozenset[Acl]()
        await self._world.cast.before_promote(act.topics)
        await self._world.operator.promote(act.topics, twice=act.twice)
        if rights is not None:
            await rights.given(before)

    _do_promote_set = _do_promote

    async def _do_failback(self, act: Act) -> None:
        await self._world.operator.promote(act.topics, home=True, twice=act.twice)

    _do_failback_set = _do_failback

    async def _do_reverse(self, act: Act) -> None:
        await self._world.operator.reverse(act.topics, twice=act.twice)

    async def _do_failover(self, act: Act) -> None:
        """Under load: what is left behind then, the judge excuses by the record's own account."""
        await self._roll_members()
        await self._world.asked.before_failover(act.topics[0])
        await self._world.operator.failover(act.topics[0])
        await self._promoted()

    async def _do_restore(self, act: Act) -> None:
        await self._world.operator.restore(act.topics[0])

    async def _do_rehearse(self, act: Act) -> None:
        await self._world.operator.rehearse(act.topics[0])

    async def _do_promote_given_up(self, act: Act) -> None:
        await self._world.operator.promote_in_vain(
            act.topics[0], lambda: self._world.trouble.was_taken(act, "mark_active")
        )

    async def _do_reverse_given_up(self, act: Act) -> None:
        """What is written past the gateways goes to a leader that hears of its cluster: else it may be gone before
        anybody reads it."""
        topic = act.topics[0]

        async def is_led() -> bool:
            return self._world.source.partition(topic, 0).leader is not None

        await self._world.until(is_led, f"nobody leads {topic} on the source")
        await self._world.operator.reverse_in_vain(topic, lambda: self._world.trouble.was_taken(act, "abort"))

    async def _do_restore_given_up(self, act: Act) -> None:
        topic, judge = act.topics[0], self._world.judge

        async def judged() -> bool:
            """A commit is answered before its marker is written, so REST may show what nobody can read yet."""
            judge.look()
            return any(each.mirror_topic == topic and each.state is MirrorState.FAILED for each in judge.state.mirrors)

        judge.allowed.add(topic)
        with self._world.trouble.no_deletes():
            await self._world.operator.restore_in_vain(topic)
        await self._world.until(judged, f"the state topic does not tell that {topic} is FAILED")
        judge.allowed.remove(topic)

    async def _do_group_promote(self, act: Act) -> None:
        await self._roll_members()
        await self._promoted()

    _do_group_given_up = _do_group_promote

    async def _promoted(self) -> None:
        for group in self._world.groups():
            await self._world.operator.promoted(group)

    async def _roll_members(self) -> None:
        """A group without an offset on the source would be a new one at the gateway: there is nothing to promote."""

        async def committed() -> bool:
            return all(
                len(self._world.source.committed(member.group)) >= sum(TOPICS[topic] for topic in member.topics)
                for member in self._world.all_members()
            )

        await self._world.until(committed, "a group has not committed on the source")
        for member in self._world.all_members():
            if member.side == SOURCE:
                await member.move(self._world.gateway_bootstrap, TARGET)

    async def _do_demote(self, act: Act) -> None:
        for member in self._world.all_members():
            await member.leave()
        for group in self._world.groups():
            await self._world.operator.demote(group)
        for member in self._world.all_members():
            await member.stop()
            member.start(self._world.source.bootstrap, SOURCE)

    async def _do_rebalance(self, act: Act) -> None:
        await self._world.join()

    async def _do_restart(self, act: Act) -> None:
        order = list(self._world.gateways)
        if any(fault.act == act.number for fault in self._world.plan.faults):
            await self._led()
            order.sort(key=lambda gateway: gateway is self._world.leader())  # a fault of the leader finds one
        for gateway in order:
            if gateway.runs:
                await gateway.stop()
            if not gateway.runs:
                with suppress(Killed):  # whoever killed it starts it again
                    await gateway.start()

    async def _led(self) -> None:
        """One gateway leads, or none does for so long that nobody would wait."""
        until = self._world.loop.time() + _PATIENCE_S
        while self._world.leader() is None and self._world.loop.time() < until:  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(_LOOK_S)
