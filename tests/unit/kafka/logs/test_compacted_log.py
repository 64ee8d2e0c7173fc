"""Lockgate's own compacted topics, before brokers in memory: created once, read on, appended to in order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from gateway.kafka.admin import AdminError
from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.config import ClusterConfig
from gateway.kafka.connection.errors import BrokerError, ClusterUnavailable, LogTruncated, ReadTooLate
from gateway.kafka.logs import compacted_log
from gateway.kafka.logs.compacted_log import CompactedLog, NotDurable
from gateway.kafka.logs.log_follower import LogFollower
from gateway.kafka.rules.topic_configs import READ_WITHIN_S
from gateway.transport.host import Host
from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from tests.simulation.fleet import logs
from tests.simulation.kafka.cluster import ClusterModel
from tests.simulation.kernel.loop import SimLoop
from tests.simulation.kernel.network import Segment
from tests.support.waiting import wait_until_async

TOPIC = "__own"
Story = Callable[[ClusterModel, Cluster, Cluster], Awaitable[None]]


@pytest.fixture
def loop() -> Iterator[SimLoop]:
    with logs.told_to(None), SimLoop(seed=3) as made:
        yield made
    assert made.unhandled == []


def told(loop: SimLoop, story: Story, version: str = "4.3.1") -> None:
    """The story, with two clients of a cluster, both of the node gw-0."""

    async def run() -> None:
        patient = {"broker.session.timeout.ms": "600000"}
        target = ClusterModel(loop, name="target", rng=loop.random("target"), version=version, configs=patient)
        await target.start()
        config = ClusterConfig.from_client_properties({"bootstrap.servers": target.bootstrap})
        host = Host(monotonic=loop.time, wall_ms=lambda: 0, rng=loop.random("client"))
        clients = [Cluster(config, host=host) for _ in range(2)]
        for client in clients:
            await client.start(5.0)
        await story(target, *clients)
        for client in clients:
            await client.close()

    async def on_node() -> None:
        await loop.spawn(loop.node("gw-0"), run(), "story")

    loop.run_until_complete(on_node())


def is_produce(segment: Segment) -> bool:
    return segment.from_client and int.from_bytes(segment.data[4:6], "big") == ApiKey.PRODUCE


async def news(log: CompactedLog) -> list[tuple[bytes | None, bytes | None]]:
    return [(each.key, each.value) async for records in log.news(5.0) for each in records]


def test_many_that_begin_at_once_make_one_topic_with_its_configs(loop: SimLoop) -> None:
    async def story(target: ClusterModel, one: Cluster, other: Cluster) -> None:
        made = [CompactedLog(client, TOPIC) for client in (one, other)]
        assert await news(made[0]) == []
        assert TOPIC not in target.topics
        await asyncio.gather(*(log.put([(b"k", b"%d" % at)], 10.0) for at, log in enumerate(made)))
        assert sorted(await news(made[1])) == [(b"k", b"0"), (b"k", b"1")]
        topic = target.topics[TOPIC]
        assert [len(each.assignment) for each in topic.partitions] == [3]
        assert await made[0].is_well_formed(5.0)

    told(loop, story)


def test_each_record_is_read_once_and_in_order(loop: SimLoop) -> None:
    async def story(_: ClusterModel, one: Cluster, other: Cluster) -> None:
        writer, reader = CompactedLog(one, TOPIC), CompactedLog(other, TOPIC)
        await writer.put([(b"a", b"1"), (b"b", b"2")], 10.0)
        assert await news(reader) == [(b"a", b"1"), (b"b", b"2")]
        await writer.put([(b"a", None)], 10.0)
        assert await news(reader) == [(b"a", None)]
        assert (await news(reader), reader.position) == ([], 3)

    told(loop, story)


def test_who_gives_up_while_reading_gets_the_records_again(loop: SimLoop) -> None:
    async def story(_: ClusterModel, one: Cluster, other: Cluster) -> None:
        writer, reader = CompactedLog(one, TOPIC), CompactedLog(other, TOPIC)
        await writer.put([(b"a", b"1")], 10.0)
        found = reader.news(5.0)
        assert len(await anext(found)) == 1
        await found.aclose()
        assert await news(reader) == [(b"a", b"1")]

    told(loop, story)


def test_a_value_whose_answer_is_lost_does_not_come_after_a_later_one(loop: SimLoop) -> None:
    """The connection stays: a broker that wakes up carries out what is on it in its order."""

    async def story(target: ClusterModel, one: Cluster, other: Cluster) -> None:
        log = CompactedLog(one, TOPIC)
        await log.put([(b"a", b"0")], 10.0)
        leader = target.partition(TOPIC, 0).leader_id
        connection = one.cached_connection(leader, "compacted log")
        assert connection is not None
        sent: list[Segment] = []
        again = asyncio.Event()

        def pause(segment: Segment) -> Any:
            if is_produce(segment):
                target.pause_broker(leader)
                sent.append(segment)
                if len(sent) > 1:
                    again.set()

        loop.network.on_segment.append(pause)
        with pytest.raises(ClusterUnavailable, match="write __own: not within 2 s"):
            await log.put([(b"a", b"1")], 2.0)
        assert one.cached_connection(leader, "compacted log") is connection
        later = asyncio.create_task(log.put([(b"a", b"2")], 10.0))
        await again.wait()
        loop.network.on_segment.remove(pause)
        target.wake_broker(leader)
        await later
        values = [value for _, value in await news(CompactedLog(other, TOPIC))]
        assert values == [b"0", b"1", b"2"]

    told(loop, story)


@pytest.mark.parametrize(("version", "highest"), [("3.9.1", 11), ("4.3.1", 11)])
def test_produce_is_one_that_names_topics(loop: SimLoop, version: str, highest: int) -> None:
    async def story(_: ClusterModel, one: Cluster, __: Cluster) -> None:
        asked: list[int] = []

        def look(segment: Segment) -> Any:
            if is_produce(segment):
                asked.append(int.from_bytes(segment.data[6:8], "big"))

        loop.network.on_segment.append(look)
        await CompactedLog(one, TOPIC).put([(b"a", b"0")], 10.0)
        assert asked == [highest]

    told(loop, story, version)


def test_a_refusal_that_stays_is_told_at_once(loop: SimLoop) -> None:
    async def story(target: ClusterModel, one: Cluster, _: Cluster) -> None:
        log = CompactedLog(one, TOPIC)
        await log.put([(b"a", b"0")], 10.0)
        target.configure_topic(TOPIC, {"max.message.bytes": "1000"})
        begun = loop.time()
        with pytest.raises(BrokerError, match="MESSAGE_TOO_LARGE"):
            await log.put([(b"a", b"0" * 2000)], 10.0)
        assert loop.time() - begun < 1.0

    told(loop, story)


# -- as durable as what it decides ---------------------------------------------------------------------------------


def of_topic(target: ClusterModel) -> dict[str, str]:
    values = target.topics[TOPIC].settings.values
    return {name: values[name] for name in DURABLE}


DURABLE = {"min.insync.replicas": "2", "unclean.leader.election.enable": "false", "delete.retention.ms": "86400000"}


def test_it_is_made_so_that_one_disk_loses_nothing(loop: SimLoop) -> None:
    async def story(target: ClusterModel, one: Cluster, _: Cluster) -> None:
        await CompactedLog(one, TOPIC).ensure(5.0)
        assert of_topic(target) == DURABLE

    told(loop, story)


def test_one_that_somebody_made_is_mended_at_each_opening(loop: SimLoop) -> None:
    async def story(target: ClusterModel, one: Cluster, other: Cluster) -> None:
        await CompactedLog(one, TOPIC).ensure(5.0)
        weak = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true", "delete.retention.ms": "60000"}
        target.configure_topic(TOPIC, weak)
        await CompactedLog(other, TOPIC).put([(b"k", b"v")], 5.0)
        assert of_topic(target) == DURABLE
        made = target.topics[TOPIC]
        heard = made.settings
        await wait_until_async(lambda: all(made.settings_at(broker) == heard for broker in target.brokers), 5.0)
        target.configure_topic(TOPIC, {"min.insync.replicas": "3"})  # more is its administrator's to say
        await CompactedLog(other, TOPIC).ensure(5.0)
        assert of_topic(target) == {**DURABLE, "min.insync.replicas": "3"}

    told(loop, story)


def test_one_that_may_not_be_mended_is_refused_with_the_remedy(loop: SimLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(_: Cluster, changes: Any, **__: Any) -> Any:
        return dict.fromkeys(changes, AdminError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "not authorized"))

    async def story(target: ClusterModel, one: Cluster, other: Cluster) -> None:
        await CompactedLog(one, TOPIC).ensure(5.0)
        target.configure_topic(TOPIC, {"min.insync.replicas": "1"})
        monkeypatch.setattr(compacted_log, "alter_topic_configs", refused)
        remedy = "kafka-configs --alter --topic __own --add-config min.insync.replicas=2"
        with pytest.raises(NotDurable, match=f"may lose what is acknowledged.*{remedy}"):
            await CompactedLog(other, TOPIC).ensure(5.0)

    told(loop, story)


@pytest.mark.parametrize(("lost", "written"), [(2, 0), (2, 1), (2, 5)])
def test_a_follower_is_told_that_the_log_went_back(loop: SimLoop, lost: int, written: int) -> None:
    """Also when others have written past its position by then: the leader epochs tell both logs apart."""

    async def story(target: ClusterModel, one: Cluster, other: Cluster) -> None:
        log, follower = CompactedLog(one, TOPIC), LogFollower(other, TOPIC)
        for at in range(6):
            await log.put([(b"k", b"%d" % at)], 5.0)
        read = 0
        while read < 6:
            read += len(await follower.read(0.5))
        leader = target.move_leader(TOPIC, 0, lose=lost, unclean=True)
        assert leader is not None
        while one.leader(TOPIC, 0) != leader:  # till then the one of before takes what is written
            await one.refresh((TOPIC,), 5.0)
        for at in range(written):
            await log.put([(b"n", b"%d" % at)], 20.0)
        with pytest.raises(LogTruncated, match="ends at offset 4 there, but records up to") as told_:
            await read_on(follower)
        assert told_.value.end == 4

    told(loop, story)


async def read_on(follower: LogFollower) -> None:
    for _ in range(100):
        await follower.read(0.5)


@pytest.mark.parametrize("stopped_s", [READ_WITHIN_S - 60.0, READ_WITHIN_S + 60.0])
def test_a_follower_that_was_stopped_for_long_is_told_that_it_may_have_missed_deletions(
    loop: SimLoop, monkeypatch: pytest.MonkeyPatch, stopped_s: float
) -> None:
    async def story(_: ClusterModel, one: Cluster, other: Cluster) -> None:
        slept = 0.0
        monkeypatch.setattr(other, "host", replace(other.host, boot=lambda: loop.time() + slept))
        log, follower = CompactedLog(one, TOPIC), LogFollower(other, TOPIC)
        await log.put([(b"k", b"1")], 5.0)
        while not await follower.read(0.5):
            pass
        slept = stopped_s
        await log.put([(b"n", b"2")], 5.0)
        if stopped_s < READ_WITHIN_S:
            assert [record.value for record in await follower.read(0.5)] == [b"2"]
            return
        with pytest.raises(ReadTooLate, match="nothing was read for"):
            await read_on(follower)
        assert [record.value for record in await LogFollower(other, TOPIC).read(0.5)] == [b"1", b"2"]

    told(loop, story)


@pytest.mark.parametrize(("lost", "written"), [(2, 0), (2, 2), (2, 5)])
def test_who_looks_for_news_now_and_then_is_told_that_the_log_went_back(loop: SimLoop, lost: int, written: int) -> None:
    """At the first look behind it, also when the log ends where it ended before; each look goes on from there."""

    async def story(target: ClusterModel, one: Cluster, other: Cluster) -> None:
        log, reader = CompactedLog(one, TOPIC), CompactedLog(other, TOPIC)
        for at in range(6):
            await log.put([(b"k", b"%d" % at)], 5.0)
        assert len(await news(reader)) == 6
        leader = target.move_leader(TOPIC, 0, lose=lost, unclean=True)
        assert leader is not None
        for client in (one, other):
            while client.leader(TOPIC, 0) != leader:  # till then the one of before takes what is written
                await client.refresh((TOPIC,), 5.0)
        for at in range(written):
            await log.put([(b"n", b"%d" % at)], 20.0)
        with pytest.raises(LogTruncated) as told_:
            await news(reader)
        assert told_.value.end == 4
        assert await news(reader) == [(b"n", b"%d" % at) for at in range(written)]

    told(loop, story)


def test_a_leader_that_lost_nothing_is_no_other_log(loop: SimLoop) -> None:
    async def story(target: ClusterModel, one: Cluster, other: Cluster) -> None:
        log, reader = CompactedLog(one, TOPIC), CompactedLog(other, TOPIC)
        await log.put([(b"k", b"1")], 5.0)
        assert await news(reader) == [(b"k", b"1")]
        leader = target.move_leader(TOPIC, 0)
        for client in (one, other):
            while client.leader(TOPIC, 0) != leader:
                await client.refresh((TOPIC,), 5.0)
        assert await news(reader) == []
        await log.put([(b"k", b"2")], 20.0)
        assert await news(reader) == [(b"k", b"2")]

    told(loop, story)
