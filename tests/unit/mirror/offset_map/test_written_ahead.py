"""A map topic that loses its end gets it again from whoever wrote it, before brokers in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.config import ClusterConfig
from gateway.mirror.offset_map.rules.codec import MARK_BASE, Chunk, MapKey, Mark, PartitionKey, encode_key, encode_value
from gateway.mirror.offset_map.rules.offset_map import Breakpoint
from gateway.mirror.offset_map.rules.written_ahead import WrittenAhead
from gateway.mirror.offset_map.topic import LinkMaps, map_topic
from gateway.transport.host import Host
from gateway.transport.tasks import Tasks
from tests.simulation.fleet import logs
from tests.simulation.kafka.cluster import ClusterModel
from tests.simulation.kernel.loop import SimLoop
from tests.support.waiting import wait_until_async

OF = PartitionKey(1, 0, 0)
START = Breakpoint(0, 0)
TOPIC = map_topic("l")
Story = Callable[[ClusterModel, LinkMaps, LinkMaps], Awaitable[None]]


@pytest.fixture
def loop() -> Iterator[SimLoop]:
    with logs.told_to(None), SimLoop(seed=5) as made:
        yield made
    assert made.unhandled == []


def told(loop: SimLoop, story: Story) -> None:
    """The story, with the maps as two gateways see them."""

    async def run() -> None:
        patient = {"broker.session.timeout.ms": "600000"}
        target = ClusterModel(loop, name="target", rng=loop.random("target"), version="4.3.1", configs=patient)
        await target.start()
        config = ClusterConfig.from_client_properties({"bootstrap.servers": target.bootstrap})
        host = Host(monotonic=loop.time, wall_ms=lambda: 0, rng=loop.random("client"))
        clients, tasks = [Cluster(config, host=host) for _ in range(2)], Tasks()
        for client in clients:
            await client.start(5.0)
        await story(target, *(LinkMaps(client, "l", tasks) for client in clients))
        await tasks.close()
        for client in clients:
            await client.close()

    async def on_node() -> None:
        await loop.spawn(loop.node("gw-0"), run(), "story")

    loop.run_until_complete(on_node())


async def write(maps: LinkMaps, base: int) -> None:
    """A chunk for the batch of three records at `base`, whose source offsets are ten higher for each one before."""
    ledger, durable = maps.ledger(OF, START), asyncio.Event()
    change = ledger.plan(base, Chunk.of(3, 0, [(base * 10, base)]))
    maps.append((change,), durable.set, lambda _: None)
    await durable.wait()
    ledger.acknowledged(base + 3)


async def bases(maps: LinkMaps) -> list[int]:
    """Those of the chunks that whoever takes over reads."""
    ledger = maps.ledger(OF, START)
    await maps.catch_up()
    return [one.base for one in ledger.undecided(1_000)]


async def lose(target: ClusterModel, maps: LinkMaps, count: int) -> None:
    """The map's log loses its last batches with a broker."""
    leader = target.move_leader(TOPIC, 0, lose=count, unclean=True)
    assert leader is not None
    while maps._target.leader(TOPIC, 0) != leader:
        await maps._target.refresh((TOPIC,), 5.0)


@pytest.mark.parametrize("written_since", [1, 2, 4])
def test_what_is_lost_is_there_again_with_the_next_chunk(loop: SimLoop, written_since: int) -> None:
    """Also when the log is as long as it was by then."""

    async def story(target: ClusterModel, writer: LinkMaps, successor: LinkMaps) -> None:
        for base in (10, 20, 30, 40):
            await write(writer, base)
        await lose(target, writer, 2)
        more = [50 + 10 * index for index in range(written_since)]
        for base in more:
            await write(writer, base)
        assert sorted(await bases(successor)) == [10, 20, 30, 40, *more]

    told(loop, story)


def test_what_is_lost_is_there_again_when_nothing_more_is_written(loop: SimLoop) -> None:
    async def story(target: ClusterModel, writer: LinkMaps, successor: LinkMaps) -> None:
        for base in (10, 20, 30, 40):
            await write(writer, base)
        await lose(target, writer, 3)
        await wait_until_async(lambda: not writer._may_lack_some(), 30.0, what="the map looked at again")
        assert sorted(await bases(successor)) == [10, 20, 30, 40]

    told(loop, story)


def test_a_leader_that_has_all_gets_nothing_twice(loop: SimLoop) -> None:
    async def story(target: ClusterModel, writer: LinkMaps, successor: LinkMaps) -> None:
        for base in (10, 20):
            await write(writer, base)
        await lose(target, writer, 0)
        await write(writer, 30)
        assert sorted(await bases(successor)) == [10, 20, 30]
        assert successor._log.position == 3

    told(loop, story)


def key(base: int) -> bytes:
    return encode_key(MapKey(OF, base, 7))


def test_marks_and_what_was_deleted_are_not_written_again() -> None:
    written = WrittenAhead()
    written.wrote([(key(1), b"one"), (key(2), b"two"), (key(MARK_BASE), encode_value(Mark(2, 1)))], 0)
    written.wrote([(key(1), None)], 3)
    assert written.lost(written.from_offset(0), ()) == [(key(2), b"two")]
    assert written.lost(written.from_offset(2), ()) == []


def test_what_was_written_while_the_topic_was_read_is_not_missed() -> None:
    written = WrittenAhead()
    written.wrote([(key(1), b"one"), (key(2), b"two")], 0)
    expected = written.from_offset(0)
    written.wrote([(key(2), b"again")], 2)
    assert written.lost(expected, {key(1)}) == []


def test_a_log_that_takes_records_where_it_took_some_before_went_back() -> None:
    written = WrittenAhead()
    assert not written.wrote([(key(1), b"one"), (key(2), b"two")], 5)
    assert not written.wrote([(key(3), b"three")], 7)
    assert written.wrote([(key(4), b"four")], 7)
    assert not written.wrote([(key(5), b"five")], 8)


def test_the_oldest_go_when_there_are_too_many() -> None:
    written = WrittenAhead(limit=3 * (len(key(0)) + 10))
    for index in range(5):
        written.wrote([(key(index), b"x" * 10)], index)
    assert list(written.from_offset(0)) == [key(2), key(3), key(4)]
    written.wrote([(key(9), b"x" * 1_000)], 9)
    assert not written
