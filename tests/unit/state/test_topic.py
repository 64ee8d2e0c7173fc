"""The state topic's promises, before brokers in memory and on a network that fails, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gateway.kafka import transactional_producer
from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.config import ClusterConfig
from gateway.kafka.logs import log_follower
from gateway.state.errors import ProducerFenced, StoreError, StoreUncertain
from gateway.state.log import MORE, Change, Entry, StateReader
from gateway.state.topic import TOPIC, TRANSACTIONAL_ID, StateTopic
from gateway.transport.host import Host
from protocol.apis import ApiKey
from protocol.batch.record_reader import Record
from protocol.codec import decode_request
from protocol.errors import ErrorCode
from protocol.header import peek_request_header
from tests.simulation.fleet import logs
from tests.simulation.kafka.cluster import ClusterModel
from tests.simulation.kernel.loop import SimLoop
from tests.simulation.kernel.network import Segment

Answer = Any  # what a network's hook returns


@pytest.fixture
def loop() -> Iterator[SimLoop]:
    with logs.told_to(None), SimLoop(seed=2) as made:
        yield made
    assert made.unhandled == []


class Process:
    """A process with the state topic open. Its commits are unknown after 2 s."""

    def __init__(self, loop: SimLoop, name: str, target: ClusterModel) -> None:
        self.loop, self.node, self.target = loop, loop.node(name), target
        self.log: StateTopic

    async def open(self) -> list[Entry]:
        async def made() -> list[Entry]:
            config = ClusterConfig.from_client_properties({"bootstrap.servers": self.target.bootstrap})
            rng = self.loop.random(self.node.name)
            host = Host(monotonic=self.loop.time, wall_ms=lambda: self.loop.wall_ms(self.node), rng=rng)
            self.log = StateTopic(config, self.node.name, host=host, commit_s=2.0)
            return await self.log.open()

        return await self.loop.spawn(self.node, made(), "open")

    async def lead(self) -> int:
        return await self.loop.spawn(self.node, self.log.lead(), "lead")

    async def commit(self, *changes: Change, still: Callable[[], None] = lambda: None) -> int:
        return await self.loop.spawn(self.node, self.log.commit(changes, still), "commit")

    async def resolve_outcome(self) -> int:
        return await self.loop.spawn(self.node, self.log.resolve_outcome(), "resolve_outcome")

    async def read(self) -> list[Entry]:
        return await self.loop.spawn(self.node, self.log.read(0.3), "read")

    async def news(self, count: int) -> list[tuple[int, str, bytes | None]]:
        found: list[Entry] = []
        async with asyncio.timeout(5):
            while len(found) < count:
                found += await self.read()
        return [(each.offset, each.key, each.value) for each in found]

    async def keys(self) -> list[str]:
        """Of all that is committed, as a process sees it that comes new."""
        late = Process(self.loop, f"late-{self.loop.time()}", self.target)
        found = [each.key for each in await late.open()]
        await late.log.close()
        return found


async def two(loop: SimLoop, version: str = "4.3.1") -> tuple[ClusterModel, Process, Process]:
    patient = {"broker.session.timeout.ms": "600000"}  # a paused broker stays the coordinator
    target = ClusterModel(loop, name="target", rng=loop.random("target"), version=version, configs=patient)
    await target.start()
    one, other = Process(loop, "gw-0", target), Process(loop, "gw-1", target)
    assert [*await asyncio.gather(one.open(), other.open())] == [[], []]
    return target, one, other


def asks(segment: Segment, key: ApiKey, src: str = "gw-0") -> bool:
    return segment.src == src and int.from_bytes(segment.data[4:6], "big") == key


def told(loop: SimLoop, story: Callable[[], Any]) -> None:
    loop.run_until_complete(story())


def test_changes_are_read_whole_and_in_order_by_everybody(loop: SimLoop) -> None:
    async def story() -> None:
        _, one, other = await two(loop)
        term = await one.lead()
        last = await one.commit(("a", b"1"), ("b", b"2"), ("a", None))
        found = await other.news(4)
        assert [(key, value) for _, key, value in found[1:]] == [("a", b"1"), ("b", b"2"), ("a", None)]
        assert (found[0][0], found[-1][0]) == (term, last)
        assert await one.keys() == ["writer", "a", "b", "a"]

    told(loop, story)


def test_a_large_change_in_several_batches_and_answers_is_never_seen_by_half(
    loop: SimLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactional_producer, "_BATCH_BYTES", 10_000)
    monkeypatch.setattr(log_follower, "_FETCH_BYTES", 1)  # one batch an answer

    async def story() -> None:
        target, one, other = await two(loop)
        await one.lead()
        await other.news(1)
        values = [loop.rng.randbytes(6_000) for _ in range(9)]
        await one.commit(*((f"k{index}", value) for index, value in enumerate(values)))
        assert len({batch.header.base_offset for batch in target.partition(TOPIC, 0).best.log.batches}) > 5
        seen: list[list[Entry]] = []
        async with asyncio.timeout(5):
            while not seen:
                seen += [found] if (found := await other.read()) else []
        assert [each.value for each in seen[0]] == values

    told(loop, story)


async def test_a_change_whose_last_record_was_compacted_away_is_whole_at_the_end() -> None:
    class Log:
        at_end = False

        async def read(self, wait_s: float) -> list[Record]:
            self.at_end = len(answers) == 1
            return answers.pop(0)

    answers = [[Record(at, 0, key, b"1", ((MORE, b""),))] for at, key in enumerate((b"a", b"b"))]
    reader = StateReader(Log())  # type: ignore[arg-type]
    assert await reader.read(1.0) == []
    assert [each.key for each in await reader.read(1.0)] == ["a", "b"]


def test_who_leads_fences_who_led(loop: SimLoop) -> None:
    async def story() -> None:
        _, one, other = await two(loop)
        first = await one.lead()
        assert await other.lead() > first
        for _ in range(2):
            with pytest.raises(ProducerFenced, match="taken over"):
                await one.commit(("a", b"1"))
        one.log.resign()
        with pytest.raises(StoreError, match="does not lead"):
            await one.commit(("a", b"1"))
        assert await other.commit(("a", b"2")) > 0

    told(loop, story)


@pytest.mark.parametrize("lost", [ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.PRODUCE, ApiKey.END_TXN])
def test_a_lost_answer_changes_nothing(loop: SimLoop, lost: ApiKey) -> None:
    async def story() -> None:
        _, one, other = await two(loop)
        await one.lead()
        asked: list[int] = []

        def lose(segment: Segment) -> Answer:
            """Break the connection instead of the answer to the first such request."""
            if asks(segment, lost):
                asked.append(1)
            elif segment.dst == "gw-0" and asked == [1]:
                asked.append(2)
                return "drop-connection"
            return None

        loop.network.on_segment.append(lose)
        last = await one.commit(("a", b"1"))
        assert asked[:2] == [1, 2]
        assert (await other.news(2))[1] == (last, "a", b"1")
        assert await one.resolve_outcome() == -1

    told(loop, story)


@pytest.mark.parametrize("version", ["3.9.1", "4.3.1"])
def test_a_commit_that_lands_after_its_outcome_was_unknown_is_found_by_settling(loop: SimLoop, version: str) -> None:
    """The coordinator is paused as it is asked, and carries the request out when it wakes up."""

    async def story() -> None:
        target, one, other = await two(loop, version)
        await one.lead()
        coordinator = target.coordinator("transaction", TRANSACTIONAL_ID).leader_id

        def pause(segment: Segment) -> Answer:
            if asks(segment, ApiKey.END_TXN):
                target.pause_broker(coordinator)
                loop.network.on_segment.remove(pause)

        loop.network.on_segment.append(pause)
        with pytest.raises(StoreUncertain):
            await one.commit(("a", b"1"))
        with pytest.raises(StoreUncertain):
            await one.commit(("b", b"2"))
        with pytest.raises(StoreUncertain):
            await one.resolve_outcome()
        target.wake_broker(coordinator)
        last = await one.resolve_outcome()
        assert (await other.news(2))[1] == (last, "a", b"1")
        assert await one.resolve_outcome() == -1
        await one.commit(("c", b"3"))
        assert await one.keys() == ["writer", "a", "c"]

    told(loop, story)


@pytest.mark.parametrize("version", ["3.9.1", "4.3.1"])
def test_a_commit_that_did_not_land_is_aborted_and_can_never_land(loop: SimLoop, version: str) -> None:
    """The request is lost on its way. Whoever sends it again later, like a network that kept it, is refused."""

    async def story() -> None:
        _, one, other = await two(loop, version)
        await one.lead()
        await other.news(1)
        kept: list[bytes] = []

        def lose(segment: Segment) -> Answer:
            if not asks(segment, ApiKey.END_TXN):
                return None
            kept.append(segment.data)
            return "drop-connection"

        loop.network.on_segment.append(lose)
        with pytest.raises(StoreUncertain):
            await one.commit(("a", b"1"))
        loop.network.on_segment.remove(lose)
        with pytest.raises(StoreError, match="was not made") as failed:
            await one.resolve_outcome()
        assert type(failed.value) is StoreError
        assert await late_end(loop, other.target, kept[0]) in (
            ErrorCode.PRODUCER_FENCED,
            ErrorCode.INVALID_PRODUCER_EPOCH,
        )
        last = await one.commit(("b", b"2"))
        assert await other.news(1) == [(last, "b", b"2")]
        assert await one.keys() == ["writer", "b"]

    told(loop, story)


async def late_end(loop: SimLoop, target: ClusterModel, frame: bytes) -> int:
    """The answer to a request that comes when nobody expects it any more."""
    header = peek_request_header(frame[4:])
    message = decode_request(header.api_key, header.api_version, frame[4:][header.body_offset :])
    assert message.committed

    async def ask() -> int:
        cluster = Cluster(ClusterConfig.from_client_properties({"bootstrap.servers": target.bootstrap}))
        await cluster.start(5.0)
        node = await cluster.transaction_coordinator(TRANSACTIONAL_ID)
        answer = await cluster.request(message, node_id=node, cap=4)
        await cluster.close()
        return int(answer.error_code)

    return await loop.spawn(loop.node("network"), ask(), "late")


@pytest.mark.parametrize("lost", [ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.PRODUCE])
def test_what_was_never_to_be_committed_is_not_made_and_nothing_is_unknown(loop: SimLoop, lost: ApiKey) -> None:
    async def story() -> None:
        _, one, other = await two(loop)
        await one.lead()

        def refuse(segment: Segment) -> Answer:
            return "drop-connection" if asks(segment, lost) else None

        loop.network.on_segment.append(refuse)
        with pytest.raises(StoreError) as failed:
            await one.commit(("a", b"1"))
        assert type(failed.value) is StoreError
        assert await one.resolve_outcome() == -1
        loop.network.on_segment.remove(refuse)
        last = await one.commit(("b", b"2"))
        assert (await other.news(2))[1] == (last, "b", b"2")
        assert await one.keys() == ["writer", "b"]

    told(loop, story)


def test_a_commit_of_unknown_outcome_ends_when_another_process_takes_over(loop: SimLoop) -> None:
    async def story() -> None:
        _, one, other = await two(loop)
        await one.lead()
        await other.news(1)
        loop.network.cut("gw-0", "target-*")
        with pytest.raises(StoreError):
            await one.commit(("a", b"1"))
        await other.lead()
        loop.network.heal()
        with pytest.raises(ProducerFenced):
            await one.commit(("b", b"1"))
        assert [key for _, key, _ in await other.news(1)] == ["writer"]
        await other.commit(("c", b"1"))  # it was not fenced by the one that was
        assert await one.keys() == ["writer", "writer", "c"]

    told(loop, story)


def test_settling_does_not_fence_a_successor(loop: SimLoop) -> None:
    """Who takes over before the settling, and in the middle of it."""

    async def story() -> None:
        _, one, other = await two(loop)
        lost = ApiKey.END_TXN

        def lose(segment: Segment) -> Answer:
            return "drop-connection" if asks(segment, lost) else None

        for lost_next in (ApiKey.END_TXN, ApiKey.INIT_PRODUCER_ID):
            await one.lead()
            lost = ApiKey.END_TXN
            loop.network.on_segment.append(lose)
            with pytest.raises(StoreUncertain):
                await one.commit(("a", b"1"))
            lost = lost_next
            with pytest.raises(StoreUncertain):
                await one.resolve_outcome()
            await other.lead()
            loop.network.on_segment.remove(lose)
            with pytest.raises(ProducerFenced):
                await one.resolve_outcome()
            await other.commit(("c", b"1"))
        assert await one.keys() == ["writer", "writer", "c"] * 2

    told(loop, story)


def test_an_end_that_was_sent_twice_does_not_end_the_next_transaction(loop: SimLoop) -> None:
    """The first one comes late: when the next transaction is open, and not whole."""

    async def story() -> None:
        target, one, _ = await two(loop)
        await one.lead()
        kept: list[bytes] = []

        def lose(segment: Segment) -> Answer:
            if not asks(segment, ApiKey.END_TXN):
                return None
            kept.append(segment.data)
            return "drop-connection" if len(kept) == 1 else None

        loop.network.on_segment.append(lose)
        await one.commit(("a", b"1"))
        assert len(kept) == 2
        answers: list[asyncio.Task[int]] = []

        def late(segment: Segment) -> Answer:
            if asks(segment, ApiKey.PRODUCE) and not answers:
                answers.append(loop.create_task(late_end(loop, target, kept[0])))
                return "drop-connection"
            return None

        loop.network.on_segment.append(late)
        await one.commit(("b", b"2"))
        assert await answers[0] in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
        assert await one.keys() == ["writer", "a", "b"]

    told(loop, story)


class TooLate(Exception):
    """What a guard raises."""


def test_a_guard_is_asked_again_right_before_the_commit(loop: SimLoop) -> None:
    """The target cannot be written for a while; what was true when the write began is not when it could end."""

    async def story() -> None:
        _, one, other = await two(loop)
        await one.lead()
        begun = loop.time()

        def refuse(segment: Segment) -> Answer:
            return "drop-connection" if asks(segment, ApiKey.PRODUCE) and loop.time() < begun + 1.0 else None

        def fresh() -> None:
            if loop.time() > begun + 0.5:
                raise TooLate

        loop.network.on_segment.append(refuse)
        with pytest.raises(TooLate):
            await one.commit(("a", b"1"), still=fresh)
        last = await one.commit(("b", b"2"))
        assert (await other.news(2))[1] == (last, "b", b"2")
        assert await one.keys() == ["writer", "b"]

    told(loop, story)


@pytest.mark.parametrize("arrives", [True, False])
def test_an_end_is_not_sent_again_when_the_guard_is_against_it(loop: SimLoop, arrives: bool) -> None:
    """The first one was rightly sent. When it has arrived the change was made, else it never will be."""

    async def story() -> None:
        _, one, other = await two(loop)
        await one.lead()
        sent: list[bytes] = []
        dropped: list[bool] = []

        def lose(segment: Segment) -> Answer:
            if asks(segment, ApiKey.END_TXN):
                sent.append(segment.data)
                return None if arrives or len(sent) > 1 else "drop-connection"
            if segment.dst == "gw-0" and arrives and sent and not dropped:
                dropped.append(True)
                return "drop-connection"
            return None

        def once() -> None:
            if sent:
                raise TooLate

        loop.network.on_segment.append(lose)
        if arrives:
            last = await one.commit(("a", b"1"), still=once)
            assert (await other.news(2))[1] == (last, "a", b"1")
        else:
            with pytest.raises(TooLate):
                await one.commit(("a", b"1"), still=once)
        await one.commit(("b", b"2"))
        assert await one.keys() == ["writer", *(["a"] if arrives else []), "b"]

    told(loop, story)


def test_a_record_that_the_broker_refuses_is_not_written_and_the_next_is(loop: SimLoop) -> None:
    async def story() -> None:
        target, one, other = await two(loop)
        await one.lead()
        target.configure_topic(TOPIC, {"max.message.bytes": "10000"})
        with pytest.raises(StoreError, match="MESSAGE_TOO_LARGE"):
            await one.commit(("a", loop.rng.randbytes(20_000)))
        last = await one.commit(("b", b"1"))
        assert (await other.news(2))[1] == (last, "b", b"1")

    told(loop, story)


def test_a_topic_that_is_not_a_state_topic_is_left_alone(loop: SimLoop) -> None:
    async def story() -> None:
        target = ClusterModel(loop, name="target", rng=loop.random("target"))
        await target.start()
        target.create_topic(TOPIC, 2, 1, {"cleanup.policy": "compact"})
        with pytest.raises(StoreError, match="not a compacted topic of one partition"):
            await Process(loop, "gw-0", target).open()

    told(loop, story)


def test_a_target_that_is_not_there_is_told_with_the_reason(loop: SimLoop) -> None:
    async def story() -> None:
        config = ClusterConfig.from_client_properties({"bootstrap.servers": "target-1:9092"})
        log = StateTopic(config, "x", host=Host(monotonic=loop.time, rng=loop.rng))
        loop.node("target-1")
        with pytest.raises(StoreError, match="could not be opened: target-1:9092: .*refused"):
            await log.open(3.0)
        await log.close()

    told(loop, story)


def test_a_broker_that_is_silent_is_given_up_after_ten_seconds_however_long_it_may_wait(loop: SimLoop) -> None:
    async def story() -> None:
        _, one, _ = await two(loop)
        loop.network.cut("gw-0", "target-*")
        began = loop.time()
        assert await loop.spawn(one.node, one.log.read(5.0), "read") == []
        assert 9.9 < loop.time() - began < 11.5

    told(loop, story)
