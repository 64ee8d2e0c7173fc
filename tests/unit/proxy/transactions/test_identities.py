"""The identities of transactional producers, written by two gateways."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest

from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.config import ClusterConfig
from gateway.proxy.rules.transactional_ids import ProducerIdentity, ProducerRecord, TransactionSide
from gateway.proxy.transactions.identities import TOPIC, Identities
from gateway.transport.host import Host
from tests.simulation.fleet import logs
from tests.simulation.kafka.cluster import ClusterModel
from tests.simulation.kernel.loop import SimLoop

ID = "orders"


@pytest.fixture
def loop() -> Iterator[SimLoop]:
    with logs.told_to(None), SimLoop(seed=5) as made:
        yield made
    assert made.unhandled == []


def record(epoch: int, side: str) -> ProducerRecord:
    return ProducerRecord(ID, ProducerIdentity(7, epoch), sides={TransactionSide(side): ProducerIdentity(9, epoch)})


def test_two_gateways_that_write_at_once_end_with_one_whole_record(loop: SimLoop) -> None:
    async def gateway(target: ClusterModel, name: str) -> tuple[Cluster, Identities]:
        config = ClusterConfig.from_client_properties({"bootstrap.servers": target.bootstrap})
        cluster = Cluster(config, host=Host(monotonic=loop.time, wall_ms=lambda: 0, rng=loop.random(name)))
        await cluster.start(5.0)
        return cluster, Identities(cluster)

    async def story() -> None:
        target = ClusterModel(loop, name="target", rng=loop.random("target"))
        await target.start()
        made = [await gateway(target, name) for name in ("gw-0", "gw-1", "gw-2")]
        (_, one), (_, other), (_, late) = made
        kept = await asyncio.gather(one.keep(record(3, "A")), other.keep(record(3, "B")))
        whole = {TransactionSide("A"): ProducerIdentity(9, 3), TransactionSide("B"): ProducerIdentity(9, 3)}
        assert dict(kept[0].sides) == whole or dict(kept[1].sides) == whole
        found = [await each.current(ID) for each in (one, other, late)]
        assert [dict(each.sides) for each in found if each is not None] == [whole] * 3
        target.compact(TOPIC)  # keeps the last value only
        cluster, after = await gateway(target, "gw-3")
        (left,) = await after.all()
        assert dict(left.sides) == whole
        for each in (*(cluster for cluster, _ in made), cluster):
            await each.close()

    async def on_node() -> None:
        await loop.spawn(loop.node("gateways"), story(), "story")

    loop.run_until_complete(on_node())


def test_identities_that_the_topic_acknowledged_and_lost_are_written_again(loop: SimLoop) -> None:
    """By whoever has read them; what was written since is not written over."""

    async def story() -> None:
        target = ClusterModel(loop, name="target", rng=loop.random("target"))
        await target.start()
        config = ClusterConfig.from_client_properties({"bootstrap.servers": target.bootstrap})
        clients = [
            Cluster(config, host=Host(monotonic=loop.time, wall_ms=lambda: 0, rng=loop.random(f"gw-{at}")))
            for at in range(3)
        ]
        for client in clients:
            await client.start(5.0)
        one, other, late = (Identities(client) for client in clients)
        for name in ("kept", "lost", "written since"):
            await one.keep(replace(record(3, "A"), transactional_id=name))
        leader = target.move_leader(TOPIC, 0, lose=2, unclean=True)
        assert leader is not None
        for client in clients:
            while client.leader(TOPIC, 0) != leader:
                await client.refresh((TOPIC,), 5.0)
        await other.keep(replace(record(4, "A"), transactional_id="written since"))
        assert await late.current("lost") is None
        assert await one.current("lost") == replace(record(3, "A"), transactional_id="lost")
        found = {each.transactional_id: each.client.epoch for each in await late.all()}
        assert found == {"kept": 3, "lost": 3, "written since": 4}
        for client in clients:
            await client.close()

    async def on_node() -> None:
        await loop.spawn(loop.node("gateways"), story(), "story")

    loop.run_until_complete(on_node())
