"""The simulated state topic keeps to what `control/state_topic.py` promises, on a network that fails."""

import asyncio

import pytest

from gateway.control.state_reader import Entry
from gateway.control.store_errors import ProducerFenced, StoreError, StoreUncertain
from gateway.net.config import ClusterConfig
from gateway.net.host import Host
from protocol.apis import ApiKey
from tests.simulation import logs
from tests.simulation.kafka.cluster import ClusterModel
from tests.simulation.kernel.loop import SimLoop
from tests.simulation.state_log import SimStateTopic


@pytest.fixture
def loop():
    with logs.told_to(None), SimLoop(seed=2) as made:
        yield made
    assert made.unhandled == []


class Process:
    """A process with the state topic open, and its calls as its store makes them."""

    def __init__(self, loop, name, target):
        self.loop, self.node, self.target = loop, loop.node(name), target
        self.rng = loop.random(name)

    async def open(self):
        def make():
            config = ClusterConfig.from_client_properties({"bootstrap.servers": self.target.bootstrap})
            host = Host(monotonic=self.loop.time, wall_ms=lambda: self.loop.wall_ms(self.node), rng=self.rng)
            self.log = SimStateTopic(config, self.node.name, host)
            return self.log.open()

        return await self.call(make)

    async def call(self, func, *args):
        return await self.loop.spawn(self.node, asyncio.to_thread(func, *args), func.__name__)

    async def news(self, count):
        found: list[Entry] = []
        async with asyncio.timeout(5):
            while len(found) < count:
                found += await self.call(self.log.read, 0.3)
        return [(each.offset, each.key, each.value) for each in found]


async def two(loop):
    target = ClusterModel(loop, name="target", rng=loop.random("target"))
    await target.start()
    one, other = Process(loop, "gw-0", target), Process(loop, "gw-1", target)
    assert await one.open() == []
    assert await other.open() == []
    return target, one, other


def test_changes_are_read_whole_and_in_order_by_everybody(loop):
    async def story():
        _, one, other = await two(loop)
        term = await one.call(one.log.lead)
        last = await one.call(one.log.commit, [("a", b"1"), ("b", b"2"), ("a", None)])
        found = await other.news(4)
        assert [(key, value) for _, key, value in found[1:]] == [("a", b"1"), ("b", b"2"), ("a", None)]
        assert (found[0][0], found[-1][0]) == (term, last)
        late = Process(loop, "gw-2", one.target)
        assert [each.key for each in await late.open()] == ["writer", "a", "b", "a"]
        await late.call(late.log.close)

    loop.run_until_complete(story())


def test_who_leads_fences_who_led(loop):
    async def story():
        _, one, other = await two(loop)
        first = await one.call(one.log.lead)
        assert await other.call(other.log.lead) > first
        with pytest.raises(ProducerFenced):
            await one.call(one.log.commit, [("a", b"1")])
        with pytest.raises(ProducerFenced):
            await one.call(one.log.commit, [("a", b"1")])
        await one.call(one.log.resign)
        with pytest.raises(StoreError, match="does not lead"):
            await one.call(one.log.commit, [("a", b"1")])
        assert await other.call(other.log.commit, [("a", b"2")]) > 0

    loop.run_until_complete(story())


@pytest.mark.parametrize("lost", [ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.PRODUCE, ApiKey.END_TXN])
def test_a_lost_answer_changes_nothing(loop, lost):
    async def story():
        _, one, other = await two(loop)
        await one.call(one.log.lead)
        asked: list[int] = []

        def lose(segment):
            """Break the connection instead of the answer to the first such request."""
            if segment.src == "gw-0" and int.from_bytes(segment.data[4:6], "big") == lost:
                asked.append(1)
            elif segment.dst == "gw-0" and asked == [1]:
                asked.append(2)
                return "drop-connection"
            return None

        loop.network.on_segment.append(lose)
        last = await one.call(one.log.commit, [("a", b"1")])
        assert asked[:2] == [1, 2]
        assert (await other.news(2))[1] == (last, "a", b"1")

    loop.run_until_complete(story())


def test_a_commit_that_nobody_answers_is_settled_later(loop):
    async def story():
        _, one, other = await two(loop)
        await one.call(one.log.lead)
        loop.network.cut("gw-0", "target-*")
        with pytest.raises(StoreUncertain):
            await one.call(one.log.commit, [("a", b"1")])
        loop.network.heal()
        last = await one.call(one.log.settle)
        assert (await other.news(2))[1] == (last, "a", b"1")
        assert await one.call(one.log.settle) == -1

    loop.run_until_complete(story())


def test_a_transaction_that_its_coordinator_gave_up_is_no_commit(loop):
    async def story():
        _, one, other = await two(loop)
        await one.call(one.log.lead)
        await other.news(1)
        loop.network.cut("gw-0", "target-*")
        with pytest.raises(StoreUncertain):
            await one.call(one.log.commit, [("a", b"1")])
        await other.call(other.log.lead)
        loop.network.heal()
        with pytest.raises(ProducerFenced):
            await one.call(one.log.settle)
        assert [key for _, key, _ in await other.news(1)] == ["writer"]

    loop.run_until_complete(story())
