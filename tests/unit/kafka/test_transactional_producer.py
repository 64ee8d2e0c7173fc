"""A transactional id that was forgotten is no take-over; one that somebody else has is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest

from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.config import ClusterConfig
from gateway.kafka.logs.compacted_log import CompactedLog
from gateway.kafka.logs.log_follower import LogFollower
from gateway.kafka.transactional_producer import Fenced, LogProducer
from gateway.transport.host import Host
from protocol.batch.keyed import KeyedRecord
from tests.simulation.fleet import logs
from tests.simulation.kafka.cluster import ClusterModel
from tests.simulation.kafka.transactions import Transactions
from tests.simulation.kernel.loop import SimLoop

TOPIC, NAME = "__own", "__own-writer"
Story = Callable[[ClusterModel, Cluster], Awaitable[None]]


@pytest.fixture
def loop() -> Iterator[SimLoop]:
    with logs.told_to(None), SimLoop(seed=3) as made:
        yield made
    assert made.unhandled == []


def told(loop: SimLoop, story: Story) -> None:
    async def run() -> None:
        target = ClusterModel(loop, name="target", rng=loop.random("target"))
        await target.start()
        config = ClusterConfig.from_client_properties({"bootstrap.servers": target.bootstrap})
        client = Cluster(config, host=Host(monotonic=loop.time, wall_ms=lambda: 0, rng=loop.random("client")))
        await client.start(5.0)
        await CompactedLog(client, TOPIC).ensure(5.0)
        await story(target, client)
        await client.close()

    async def on_node() -> None:
        await loop.spawn(loop.node("gw-0"), run(), "story")

    loop.run_until_complete(on_node())


def forgets(target: ClusterModel) -> None:
    """Seven days without a transaction (transactional.id.expiration.ms)."""
    led = target.transactions._of(NAME)
    assert isinstance(led, Transactions)
    del led.known[NAME], target.transactions.records[NAME]


async def wrote(producer: LogProducer, value: bytes) -> int:
    return await producer.commit([KeyedRecord(b"k", value)], 10.0)


def test_an_id_that_expired_is_taken_anew_and_the_write_goes_on(loop: SimLoop) -> None:
    async def story(target: ClusterModel, client: Cluster) -> None:
        producer = LogProducer(client, NAME, TOPIC)
        await producer.init(5.0)
        first = await wrote(producer, b"1")
        forgets(target)
        assert await wrote(producer, b"2") > first
        assert await wrote(producer, b"3") > first + 1

    told(loop, story)


def test_one_that_somebody_else_took_since_is_fenced(loop: SimLoop) -> None:
    """Under a new producer id, as the coordinator knew none: the answer to the former one is the same."""

    async def story(target: ClusterModel, client: Cluster) -> None:
        former, successor = (LogProducer(client, NAME, TOPIC) for _ in range(2))
        await former.init(5.0)
        await wrote(former, b"1")
        forgets(target)
        await successor.init(5.0)
        with pytest.raises(Fenced, match="INVALID_PRODUCER_ID_MAPPING"):
            await wrote(former, b"2")
        with pytest.raises(Fenced):
            await wrote(former, b"2")
        await wrote(successor, b"3")

    told(loop, story)


def test_one_that_somebody_else_took_and_lost_as_well_is_fenced_by_what_that_one_wrote(loop: SimLoop) -> None:
    """A leader that was suspended for two weeks: the coordinator has forgotten its successor, the log has not."""

    async def story(target: ClusterModel, client: Cluster) -> None:
        former, successor = (LogProducer(client, NAME, TOPIC) for _ in range(2))
        await former.init(5.0)
        await wrote(former, b"1")
        forgets(target)
        await successor.init(5.0)
        last = await wrote(successor, b"2")
        forgets(target)
        with pytest.raises(Fenced, match=f"somebody else has written offset {last}"):
            await wrote(former, b"3")
        await successor.init(20.0)  # what was open is ended
        assert [value async for value in values(client)] == [b"1", b"2"]

    told(loop, story)


def test_one_that_somebody_takes_right_behind_the_question_is_fenced(
    loop: SimLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new producer id begins at epoch 0: with a higher one, somebody was there before."""

    async def story(target: ClusterModel, client: Cluster) -> None:
        former, successor = (LogProducer(client, NAME, TOPIC) for _ in range(2))
        await former.init(5.0)
        await wrote(former, b"1")
        forgets(target)
        asked = former._is_forgotten

        async def taken_then(deadline: float) -> bool:
            found = await asked(deadline)
            await successor.init(5.0)
            return found

        monkeypatch.setattr(former, "_is_forgotten", taken_then)
        with pytest.raises(Fenced, match="somebody else has taken it meanwhile"):
            await wrote(former, b"2")
        assert [value async for value in values(client)] == [b"1"]

    told(loop, story)


async def values(client: Cluster) -> AsyncIterator[bytes | None]:
    follower = LogFollower(client, TOPIC)
    while not follower.at_end:
        for record in await follower.read(0.5):
            yield record.value
