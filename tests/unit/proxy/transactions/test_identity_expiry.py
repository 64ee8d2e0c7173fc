"""Identities of producers that the target has forgotten are forgotten here too, at every gateway and in the topic."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.config import ClusterConfig
from gateway.kafka.logs.compacted_log import CompactedLog
from gateway.proxy.rules.transactional_ids import OWN, ProducerIdentity, ProducerRecord
from gateway.proxy.transactions import identities, identity_expiry
from gateway.proxy.transactions.coordinators import Refused, TransactionCoordinators, Unseen
from gateway.proxy.transactions.identities import TOPIC, Identities
from gateway.proxy.transactions.identity_expiry import IdentityExpiry
from gateway.proxy.transactions.transactions import Transactions
from gateway.transport.host import Host
from tests.simulation.fleet import logs
from tests.simulation.kafka.cluster import EPOCH_MS, ClusterModel
from tests.simulation.kernel.loop import SimLoop

EXPIRES_MS = 60_000  # not a week: brokers and clients do something every few seconds


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimLoop]:
    monkeypatch.setattr(identities, "EXPIRES_MS", EXPIRES_MS)
    with logs.told_to(None), SimLoop(seed=5) as made:
        yield made
    assert made.unhandled == []


class Gateway:
    """As much of one as has to do with identities."""

    def __init__(self, loop: SimLoop, target: ClusterModel, name: str) -> None:
        self._loop = loop
        config = ClusterConfig.from_client_properties({"bootstrap.servers": target.bootstrap})
        host = Host(monotonic=loop.time, wall_ms=self.wall_ms, rng=loop.random(name))
        self.cluster = Cluster(config, host=host)
        self.identities = Identities(self.cluster)
        coordinators = TransactionCoordinators(self.cluster, {})
        self.transactions = Transactions(cast("Any", None), coordinators, self.identities, loop.time)
        self.expiry = IdentityExpiry(self.transactions, self.identities, lambda: True, self.wall_ms)

    def wall_ms(self) -> int:
        return EPOCH_MS + int(self._loop.time() * 1000)

    async def init(self, name: str) -> None:
        """A producer is initialised here."""
        client = await self.transactions.coordinators.init(OWN, name, 60_000, None)
        await self.identities.keep(ProducerRecord(name, client))

    async def names(self) -> set[str]:
        return {record.transactional_id for record in await self.identities.all()}


def play(loop: SimLoop, story: Callable[[ClusterModel, Gateway, Gateway], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        target = ClusterModel(loop, name="target", rng=loop.random("target"))
        await target.start()
        made = [Gateway(loop, target, name) for name in ("gw-0", "gw-1")]
        for each in made:
            await each.cluster.start(5.0)
        await story(target, *made)
        for each in made:
            await each.cluster.close()

    async def on_node() -> None:
        await loop.spawn(loop.node("gateways"), run(), "story")

    loop.run_until_complete(on_node())


async def later(loop: SimLoop) -> None:
    """In virtual time: what is written now is old then."""
    over = loop.create_future()
    loop.call_later(EXPIRES_MS / 1000 + 1, over.set_result, None)
    await over


async def names_of_a_new_one(loop: SimLoop, target: ClusterModel) -> set[str]:
    made = Gateway(loop, target, "gw-2")
    await made.cluster.start(5.0)
    try:
        return await made.names()
    finally:
        await made.cluster.close()


def expire(target: ClusterModel, name: str) -> None:
    """The target's coordinator forgets a transactional id."""
    target.transactions.records.pop(name)
    for broker in target.brokers.values():
        found = target.transactions.find(broker, name)
        if not isinstance(found, int):
            found.known.pop(name, None)


def test_who_is_no_more_is_forgotten_and_who_is_used_stays(loop: SimLoop) -> None:
    async def story(target: ClusterModel, one: Gateway, other: Gateway) -> None:
        for name in ("gone", "used"):
            await one.init(name)
        assert await other.names() == {"gone", "used"}
        expire(target, "gone")
        assert await one.expiry.look() == 0  # not old enough
        await later(loop)
        await one.init("young")
        expire(target, "young")
        assert await one.expiry.look() == 1
        assert await one.names() == await other.names() == {"used", "young"}
        target.compact(TOPIC)
        assert await names_of_a_new_one(loop, target) == {"used", "young"}

    play(loop, story)


def test_who_comes_back_by_another_gateway_at_that_moment_is_not_forgotten(
    loop: SimLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tombstone lands behind the new record: nobody minds it, and it is mended."""

    async def story(target: ClusterModel, one: Gateway, other: Gateway) -> None:
        await one.init("orders")
        expire(target, "orders")
        await later(loop)
        put = CompactedLog.put

        async def too_late(log: CompactedLog, changes: Any, timeout_s: float) -> None:
            monkeypatch.setattr(CompactedLog, "put", put)
            await other.init("orders")
            await put(log, changes, timeout_s)

        monkeypatch.setattr(CompactedLog, "put", too_late)
        assert await one.expiry.look() == 0
        assert [record.value is None for record in target.records(TOPIC, 0)] == [False, False, True, False]
        assert await one.names() == await other.names() == {"orders"}
        target.compact(TOPIC)  # keeps the last value only, which is no tombstone
        assert await names_of_a_new_one(loop, target) == {"orders"}

    play(loop, story)


def test_some_at_a_time_and_all_in_turn(loop: SimLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that cannot be asked about keeps no other from being asked about."""
    monkeypatch.setattr(identity_expiry, "AT_A_TIME", 2)
    asked: list[str] = []

    async def describe(_: Any, name: str) -> Any:
        asked.append(name)
        if name == "b":
            raise Refused(53, name)
        return SimpleNamespace()

    async def story(target: ClusterModel, one: Gateway, other: Gateway) -> None:
        for name in "abcde":
            await one.identities.keep(ProducerRecord(name, ProducerIdentity(1, 1)))
        await later(loop)
        monkeypatch.setattr(one.transactions.coordinators, "describe", describe)
        for _ in range(4):
            await one.expiry.look()
        assert asked == list("abcdeab")

    play(loop, story)


def test_where_nobody_can_tell_all_stay(loop: SimLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    async def unseen(*_: Any) -> Any:
        raise Unseen("before Kafka 3.0")

    async def story(target: ClusterModel, one: Gateway, other: Gateway) -> None:
        await one.init("orders")
        await later(loop)
        monkeypatch.setattr(one.transactions.coordinators, "describe", unseen)
        assert await one.expiry.look() == 0
        assert await one.names() == {"orders"}

    play(loop, story)


def test_only_the_leader_looks(loop: SimLoop) -> None:
    async def story(target: ClusterModel, one: Gateway, other: Gateway) -> None:
        leads, slept = iter([False, True, False]), 0
        looked: list[int] = []

        class Expiry(IdentityExpiry):
            async def look(self) -> int:
                looked.append(slept)
                return 0

        async def sleep(seconds: float) -> None:
            nonlocal slept
            slept += 1
            assert seconds == identity_expiry.LOOK_S

        expiry = Expiry(one.transactions, one.identities, lambda: next(leads), lambda: 0, sleep)
        with pytest.raises(RuntimeError, match="StopIteration"):
            await expiry.run()
        assert looked == [2]

    play(loop, story)
