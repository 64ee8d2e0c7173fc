"""The simulation's clients against a cluster model of their own: nothing lost, doubled or torn, whatever breaks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Literal

import pytest

from tests.simulation.clients import Bypass, GroupMember, Pipeline, Producer, TransactionalProducer
from tests.simulation.clients.client import Client, Timing
from tests.simulation.clients.member import Positions
from tests.simulation.clients.pipeline import not_once
from tests.simulation.judge import Verdict, unread, verdict
from tests.simulation.kafka.cluster import ClusterModel
from tests.simulation.kernel.loop import SimLoop
from tests.simulation.kernel.network import Segment
from tests.simulation.recorder import SOURCE, Recorder

QUICK = Timing(request_timeout=3.0, delivery_timeout=20.0, session_timeout=6.0, heartbeat_interval=1.0, api_timeout=5.0)


class World:
    """A source with three brokers and three topics, an empty target, and clients."""

    def __init__(self, loop: SimLoop) -> None:
        self.loop = loop
        self.recorder = Recorder(loop.time)
        self.source = ClusterModel(loop, name="source", rng=loop.random("source"))
        self.target = ClusterModel(loop, name="target", brokers=1, rng=loop.random("target"))
        self.clients: list[Client] = []
        self.positions: Positions = {}

    async def up(self) -> None:
        """Brokers and topics."""
        await self.source.start()
        await self.target.start()
        for topic, partitions in (("a", 2), ("b", 2), ("out", 1)):
            self.source.create_topic(topic, partitions, 3)

    def add(self, client: Client) -> Client:
        """Start it."""
        self.clients.append(client)
        client.start()
        return client

    def producer(self, name: str, kind: type[Producer] = Bypass, **options: Any) -> Producer:
        """One that writes to both partitions of `a`."""
        made = kind(
            self.loop, name, self.source.bootstrap, {"a": 2}, self.recorder, timing=QUICK, side=SOURCE, **options
        )
        self.add(made)
        return made

    def transactional(self, name: str, **options: Any) -> TransactionalProducer:
        """One that writes to all of `a` and `b`."""
        topics = {"a": 2, "b": 2}
        where = self.loop, name, self.source.bootstrap, topics, self.recorder
        made = TransactionalProducer(*where, timing=QUICK, side=SOURCE, **options)
        self.add(made)
        return made

    def member(self, name: str, kind: type[GroupMember] = GroupMember, group: str = "g", **options: Any) -> GroupMember:
        """One that reads `a` and `b`."""
        where = self.loop, name, self.source.bootstrap, group, ["a", "b"], self.recorder
        positions = self.positions if group == "g" else None
        made = kind(*where, timing=QUICK, side=SOURCE, positions=positions, **options)
        self.add(made)
        return made

    async def end(self) -> None:
        """Writers stop, readers come to the end, readers stop."""
        writers = [each for each in self.clients if not isinstance(each, GroupMember)]
        for each in writers:
            await each.stop()
        async with asyncio.timeout(60.0):
            readers = [each for each in self.clients if isinstance(each, GroupMember)]
            while any(unread(each, self.source) for each in readers):  # noqa: ASYNC110 - virtual time
                await asyncio.sleep(0.5)
        await asyncio.sleep(2.0)
        for each in self.clients:
            await each.stop()

    def judged(self, **options: Any) -> Verdict:
        """The whole run."""
        found = verdict(self.recorder, self.source, self.target, clock=self.loop.time, clients=self.clients, **options)
        assert found.passed, found.first
        return found

    def lose_answers(self, share: float, most: int = 20) -> None:
        """Connections break while an answer is under way."""
        rng, left = self.loop.random("lost answers"), [most]
        names = {client.name for client in self.clients}

        def hook(segment: Segment) -> Literal["drop-connection"] | None:
            if segment.from_client or segment.dst not in names or not left[0] or rng.random() > share:
                return None
            left[0] -= 1
            return "drop-connection"

        self.loop.network.on_segment.append(hook)


@pytest.fixture
def world() -> Iterator[World]:
    with SimLoop(seed=3) as loop:
        yield World(loop)


def play(world: World, story: Callable[[], Awaitable[None]]) -> None:
    """From the first broker to the last client."""

    async def whole() -> None:
        await world.up()
        await story()
        await world.end()

    world.loop.run_until_complete(whole())


@pytest.mark.parametrize("style", ["java", "librdkafka"])
def test_lost_answers_lose_and_double_nothing(world: World, style: str) -> None:
    async def story() -> None:
        world.producer("p", style=style)
        await asyncio.sleep(1.0)
        world.lose_answers(0.3)
        await asyncio.sleep(10.0)

    play(world, story)
    found = world.judged()
    assert found.operations["ok"] > 50
    assert found.operations["unknown"] == 0


@pytest.mark.parametrize("style", ["java", "librdkafka"])
def test_leaders_that_move_and_die(world: World, style: str) -> None:
    async def story() -> None:
        producer = world.producer("p", style=style, keyspace=5)
        await asyncio.sleep(1.0)
        world.source.move_leader("a", 0)
        await asyncio.sleep(1.0)
        world.source.kill_broker(world.source.partition("a", 1).leader_id)
        before = producer.progress
        await asyncio.sleep(12.0)  # the controller notices after 9 s
        assert producer.progress > before

    play(world, story)
    assert world.judged().operations["unknown"] == 0


def test_one_ack_and_none(world: World) -> None:
    async def story() -> None:
        one, none = world.producer("one", acks=1), world.producer("none", acks=0)
        await asyncio.sleep(3.0)
        assert one.progress > 20
        assert none.progress == 0

    play(world, story)
    found = world.judged()
    assert found.operations["ok"] > 10
    assert found.operations["unknown"] > 10
    assert all(process == "one" for process, _ in world.recorder.weak)


@pytest.mark.parametrize("style", ["java", "librdkafka"])
def test_transactions_are_whole_whatever_answer_is_lost(world: World, style: str) -> None:
    async def story() -> None:
        producer = world.transactional("t", style=style)
        await asyncio.sleep(1.0)
        world.lose_answers(0.1)
        await asyncio.sleep(5.0)
        world.source.move_coordinator("t", "transaction")
        await asyncio.sleep(5.0)
        assert producer.committed > 20
        assert producer.aborted > 1

    play(world, story)
    world.judged()


def test_the_next_instance_fences_the_one_before(world: World) -> None:
    async def story() -> None:
        first = world.transactional("t1", transactional_id="t")
        await asyncio.sleep(2.0)
        first.revives = False
        second = world.transactional("t2", transactional_id="t")
        await asyncio.sleep(3.0)
        assert first.fatal
        assert second.committed > 3
        world.clients.remove(first)

    play(world, story)
    world.judged()


def test_a_group_shares_its_partitions_and_hands_them_on(world: World) -> None:
    async def story() -> None:
        world.producer("p")
        world.transactional("t")
        one = world.member("m1")
        await asyncio.sleep(6.0)
        assert len(one.assigned) == 4
        two = world.member("m2")
        await asyncio.sleep(10.0)
        assert sorted(one.assigned + two.assigned) == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
        assert len(one.assigned) == 2
        await one.stop()
        await asyncio.sleep(6.0)
        assert len(two.assigned) == 4

    play(world, story)
    world.judged()


def test_a_member_that_is_killed_and_a_coordinator_that_moves(world: World) -> None:
    async def story() -> None:
        world.producer("p")
        one, two = world.member("m1"), world.member("m2")
        await asyncio.sleep(12.0)
        one.kill()
        await asyncio.sleep(15.0)
        assert len(two.assigned) == 4
        world.source.move_coordinator("g")
        one.start()
        await asyncio.sleep(15.0)
        assert len(one.assigned) == 2
        assert one.process == "m1#2"

    play(world, story)
    world.judged()


def test_a_pipeline_processes_everything_once(world: World) -> None:
    async def story() -> None:
        world.producer("p")
        world.transactional("t")
        world.member("m")
        world.member("pipe", Pipeline, "pg", output=("out", 1))
        await asyncio.sleep(8.0)
        world.lose_answers(0.05)
        await asyncio.sleep(8.0)
        world.source.move_coordinator("pg")
        await asyncio.sleep(12.0)

    play(world, story)
    world.judged()
    inputs = [r.value for t in ("a", "b") for i in (0, 1) for r in world.source.records(t, i, committed_only=True)]
    outputs = [r.value for r in world.source.records("out", 0, committed_only=True)]
    read = [value.decode() for value in inputs if value is not None]
    assert not not_once(read, [value.decode() for value in outputs if value is not None])
    assert len(outputs) > 100


def test_the_judge_misses_a_batch_that_a_broker_lost(world: World) -> None:
    async def story() -> None:
        world.producer("p")
        world.member("m")
        await asyncio.sleep(6.0)

    play(world, story)
    log = world.source.partition("a", 0).best.log
    lost = log.batches[5]
    log.replace([batch for batch in log.batches if batch is not lost])
    found = verdict(world.recorder, world.source, world.target, clock=world.loop.time)
    assert found.counts["lost"] == lost.header.count
    assert "of a/0, acknowledged in line" in found.examples["lost"][0]


def test_who_has_not_read_to_the_end_is_named(world: World) -> None:
    async def story() -> None:
        member = world.member("m")
        await asyncio.sleep(6.0)
        await member.stop()
        producer = world.producer("p")
        await asyncio.sleep(2.0)
        await producer.stop()
        found = unread(member, world.source)
        assert [each.partition(" of ")[0] for each in found] == [
            "m: group g on source has read a/0 to 0",
            "m: group g on source has read a/1 to 0",
        ]
        member.start()

    play(world, story)
    world.judged()


def test_what_a_pipeline_owes() -> None:
    assert not not_once(["a", "b"], ["a|p:1", "b|p:2"])
    assert not_once(["a", "b"], ["a|p:1", "a|p:2"]) == ["'b' was not processed", "'a' was processed again"]


def test_the_same_seed_is_the_same_history() -> None:
    def history(seed: int) -> str:
        with SimLoop(seed) as loop:
            world = World(loop)

            async def story() -> None:
                world.producer("p")
                world.transactional("t")
                world.member("m1")
                world.member("m2")
                await asyncio.sleep(3.0)
                world.lose_answers(0.1)
                world.source.kill_broker(1)
                await asyncio.sleep(8.0)

            play(world, story)
            return json.dumps(world.recorder.ops)

    assert history(5) == history(5)
    assert history(5) != history(6)
