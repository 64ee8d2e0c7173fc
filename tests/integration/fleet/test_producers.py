"""Producers whose requests go through one gateway and then another, before, during and after a promote."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager

import pytest

from gateway.kafka.cluster import Cluster
from gateway.kafka.offsets import LATEST, list_offsets
from tests.support.brokers.logs import create_topic
from tests.support.clients.transactions import committed_values
from tests.support.clients.wandering_producer import WanderingProducer
from tests.support.gateways.fleet import PARTITIONS, GatewayFleet
from tests.support.mirror.mirror_lab import cluster
from tests.support.waiting import wait_until, wait_until_async


@asynccontextmanager
async def clients(fleet: GatewayFleet) -> AsyncIterator[list[Cluster]]:
    made = [cluster(gateway.bootstrap) for gateway in fleet.gateways]
    try:
        for one in made:
            await one.start(topics=[fleet.topic])
        yield made
    finally:
        await asyncio.gather(*(one.close() for one in made))


async def promote(fleet: GatewayFleet) -> None:
    leader = await asyncio.to_thread(fleet.leader)
    await asyncio.to_thread(leader.promote, fleet.link, fleet.topic)


async def promoted(fleet: GatewayFleet, again: str = "") -> bool:
    """Whether it is. `again`: of an error with this in it the operator knows what to do.

    A transaction that began through one gateway, when another one had closed its write pause, ends there or not at
    all: when its producer insists on the other gateway, the write pause gives way.
    """
    mirror = await asyncio.to_thread(fleet.mirror, await asyncio.to_thread(fleet.leader))
    if again and again in mirror["promote_error"] and mirror["mirror_status"] == "ACTIVE":
        await promote(fleet)
        return False
    assert not mirror["promote_error"], mirror["promote_error"]
    return bool(mirror["mirror_status"] == "STOPPED")


async def on_target(fleet: GatewayFleet) -> list[list[str]]:
    return await asyncio.to_thread(committed_values, fleet.target.bootstrap, fleet.topic, PARTITIONS)


class Traffic:
    """Numbers written through any gateway to any partition. `expected`: what was acknowledged, by partition."""

    def __init__(self, gateways: Sequence[Cluster], topic: str, dice: random.Random, name: str | None = None) -> None:
        self.producer = WanderingProducer(gateways, topic, dice, name)
        self.expected: list[list[str]] = [[] for _ in range(PARTITIONS)]
        self._dice = dice

    async def write(self, numbers: Iterable[int]) -> None:
        """One record each."""
        for number in numbers:
            partition = self._dice.randrange(PARTITIONS)
            await self.producer.write(partition, str(number).encode())
            self.expected[partition].append(str(number))

    async def transact(self, numbers: Iterable[int]) -> None:
        """A transaction each, over two partitions; some are aborted, and not expected."""
        for number in numbers:
            chosen = self._dice.sample(range(PARTITIONS), 2)
            commit = self._dice.random() < 0.7
            await self.producer.transact([(p, f"{number}.{p}".encode()) for p in chosen], commit=commit)
            for partition in chosen if commit else ():
                self.expected[partition].append(f"{number}.{partition}")


@asynccontextmanager
async def traffic_of(fleet: GatewayFleet, dice: random.Random, name: str | None = None) -> AsyncIterator[Traffic]:
    """Its producer has an identity. `name`: its transactional id."""
    async with clients(fleet) as gateways:
        traffic = Traffic(gateways, fleet.topic, dice, name)
        await traffic.producer.begin()
        yield traffic


@pytest.mark.slow
async def test_transactions_through_any_gateway(fleet: GatewayFleet, dice: random.Random) -> None:
    async with traffic_of(fleet, dice, f"tx-{fleet.topic}") as traffic:
        await traffic.transact(range(8))
        promoting = asyncio.create_task(promote(fleet))
        number = 8
        while not await promoted(fleet, again="the end of a transaction"):
            await traffic.transact([number])
            number += 1
        await promoting
        await traffic.transact(range(number, number + 8))
    assert await on_target(fleet) == traffic.expected


@pytest.mark.slow
async def test_sequences_through_any_gateway(fleet: GatewayFleet, dice: random.Random) -> None:
    """An idempotent producer: what it retries is there once, whichever gateway it is retried at."""
    async with traffic_of(fleet, dice) as traffic:
        await traffic.write(range(50))
        killed = dice.choice(await asyncio.to_thread(fleet.others, await asyncio.to_thread(fleet.leader)))
        killed.kill()
        await traffic.write(range(50, 60))
        await asyncio.to_thread(killed.start)
        await asyncio.to_thread(fleet.wait_together)
        await promote(fleet)
        await wait_until_async(lambda: promoted(fleet), 60.0, what="the promote")
        for partition, (_, offset) in traffic.producer.last.items():  # mirrored by either gateway, promoted by one
            assert await traffic.producer.repeat(partition) == offset
        await traffic.write(range(60, 110))
    assert await on_target(fleet) == traffic.expected


@pytest.mark.slow
async def test_a_failover_takes_what_every_gateway_has_mirrored(fleet: GatewayFleet, dice: random.Random) -> None:
    async with traffic_of(fleet, dice) as traffic:
        await traffic.write(range(40))
        leader = await asyncio.to_thread(fleet.leader)
        await asyncio.to_thread(wait_until, lambda: fleet.mirror(leader)["readable"], 20.0, what="a settled mirror")
        failed_over = asyncio.create_task(
            asyncio.to_thread(leader.api.post, f"/v3/links/{fleet.link}/mirrors/{fleet.topic}:failover")
        )
        await traffic.write(range(40, 60))
        answer = await failed_over
        assert answer.is_success, answer.text
        await traffic.write(range(60, 100))
        mirror = await asyncio.to_thread(fleet.mirror, leader)
    assert mirror["mirror_status"] == "STOPPED"
    lost = sum(mirror["records_not_mirrored"].values())
    found = await on_target(fleet)
    for log, written in zip(found, traffic.expected, strict=True):
        assert [value for value in written if value in set(log)] == log  # in order, none twice
    assert sum(map(len, found)) == 100 - lost
    if not lost:
        assert found == traffic.expected


@pytest.mark.slow
async def test_acknowledged_by_both_clusters_wherever_it_is_mirrored(fleet: GatewayFleet, dice: random.Random) -> None:
    """The gateway that answers does not mirror all partitions: the others tell it as soon as they have a record."""
    link, topic = f"{fleet.link}-both", f"{fleet.topic}-both"
    create_topic(fleet.source.bootstrap, topic, partitions=PARTITIONS)
    fleet.gateways[0].create_link(link, fleet.source.bootstrap, ack="both")
    try:
        fleet.gateways[0].create_mirror(link, topic)
        await asyncio.to_thread(wait_until, lambda: spread(fleet), 60.0, what="partitions at both gateways")
        async with clients(fleet) as gateways:
            for one in gateways:
                await one.refresh([topic])
            producer = WanderingProducer(gateways, topic, dice)
            await producer.begin()
            waits = []
            for number in range(60):
                partition, began = number % PARTITIONS, time.monotonic()
                offset = await producer.write(partition, str(number).encode())
                waits.append(time.monotonic() - began)
                end = (await list_offsets(gateways[0], {topic: {partition: LATEST}}))[topic, partition]
                assert end.offset > offset, f"{topic}-{partition} at {offset} was acknowledged before it was mirrored"
        print(f"ack of both: p50 {sorted(waits)[30] * 1000:.0f} ms")  # noqa: T201 - the measurement
        assert sorted(waits)[30] < 0.1
    finally:
        fleet.gateways[0].delete_link(link)


def spread(fleet: GatewayFleet) -> bool:
    """Each gateway mirrors half of the partitions of two topics."""
    known = fleet.known(fleet.gateways[0])
    return [one["mirror_partitions"] for one in known.values()] == [PARTITIONS, PARTITIONS]
