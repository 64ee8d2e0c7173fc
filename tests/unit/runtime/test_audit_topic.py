"""The audit trail's topic: lines come in their order, wait while it cannot be written, and their loss is counted."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.config import ClusterConfig
from gateway.runtime import audit_topic
from gateway.runtime.audit_topic import AuditTopic
from gateway.telemetry.logs import AUDIT
from gateway.transport.host import Host
from tests.simulation.fleet import logs
from tests.simulation.kafka.cluster import ClusterModel
from tests.simulation.kernel.loop import SimLoop
from tests.support.waiting import wait_until_async

TOPIC = "audit"
AUDIT_LOG = logging.getLogger(AUDIT)


@pytest.fixture
def said() -> list[logs.Entry]:
    return []


@pytest.fixture
def loop(said: list[logs.Entry]) -> Iterator[SimLoop]:
    level = AUDIT_LOG.level
    AUDIT_LOG.setLevel(logging.INFO)
    with logs.told_to(said.append), SimLoop(seed=5) as made:
        yield made
    AUDIT_LOG.setLevel(level)
    assert made.unhandled == []
    assert not any(isinstance(handler, AuditTopic) for handler in AUDIT_LOG.handlers)


def play(loop: SimLoop, story: Callable[[ClusterModel], Coroutine[Any, Any, None]]) -> None:
    async def on_node() -> None:
        target = ClusterModel(loop, name="target", rng=loop.random("target"))

        async def with_target() -> None:
            await target.start()
            await story(target)

        await loop.spawn(loop.node("gateway"), with_target(), "story")

    loop.run_until_complete(on_node())


@asynccontextmanager
async def trail(loop: SimLoop, target: ClusterModel) -> AsyncIterator[AuditTopic]:
    config = ClusterConfig.from_client_properties({"bootstrap.servers": target.bootstrap})
    cluster = Cluster(config, host=Host(monotonic=loop.time, wall_ms=lambda: 77, rng=loop.random("gw")))
    await cluster.start(5.0)
    made = AuditTopic(cluster, TOPIC, lambda: "gw-0", lambda: 77)
    made.start()
    try:
        yield made
    finally:
        await made.stop()
        await cluster.close()


def values(target: ClusterModel) -> list[str]:
    return [(record.value or b"").decode() for record in target.records(TOPIC, 0)]


def test_lines_come_in_their_order(loop: SimLoop) -> None:
    async def story(target: ClusterModel) -> None:
        target.create_topic(TOPIC, 1, 3)
        async with trail(loop, target) as made:
            for number in range(1_200):
                AUDIT_LOG.info("line %d", number)
            await wait_until_async(lambda: len(values(target)) == 1_200)
            assert made.lost == 0
        assert values(target) == [f"line {number}" for number in range(1_200)]
        assert target.records(TOPIC, 0)[0].key == b"gw-0"

    play(loop, story)


def test_lines_wait_for_a_topic_that_is_not_there(loop: SimLoop, said: list[logs.Entry]) -> None:
    async def story(target: ClusterModel) -> None:
        async with trail(loop, target) as made:
            AUDIT_LOG.info("early")
            await wait_until_async(lambda: bool(made._fails))
            target.create_topic(TOPIC, 1, 3)
            AUDIT_LOG.info("late")
            await wait_until_async(lambda: values(target) == ["early", "late"])
            assert made.lost == 0

    play(loop, story)
    events = [entry.event for entry in said]
    assert events.count("the audit topic cannot be written: lines wait") == 1
    assert events.count("the audit topic is written again") == 1


def test_more_than_may_wait_is_left_out_and_counted(
    loop: SimLoop, said: list[logs.Entry], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_topic, "MOST_LINES", 3)

    async def story(target: ClusterModel) -> None:
        async with trail(loop, target) as made:
            for number in range(5):
                AUDIT_LOG.info("line %d", number)  # returns at once: no request waits
            assert made.lost == 2
            target.create_topic(TOPIC, 1, 3)
            await wait_until_async(lambda: values(target) == ["line 0", "line 1", "line 2"])
            AUDIT_LOG.info("line 5")
            await wait_until_async(lambda: values(target)[3:] == ["line 5"])

    play(loop, story)
    told = [entry.fields["so_far"] for entry in said if entry.event == "audit lines are not in the topic"]
    assert told == [1, 2]


def test_what_waits_is_bounded_in_bytes_too(loop: SimLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_topic, "MOST_BYTES", 10)

    async def story(target: ClusterModel) -> None:
        async with trail(loop, target) as made:
            for _ in range(3):
                AUDIT_LOG.info("x" * 5)
            assert made.lost == 1
            target.create_topic(TOPIC, 1, 3)
            await wait_until_async(lambda: len(values(target)) == 2)

    play(loop, story)


def test_a_line_that_the_topic_does_not_take_holds_up_no_other(loop: SimLoop) -> None:
    async def story(target: ClusterModel) -> None:
        target.create_topic(TOPIC, 1, 3)
        target.configure_topic(TOPIC, {"max.message.bytes": "1000"})
        async with trail(loop, target) as made:
            for line in ("one", "x" * 2_000, "two"):
                AUDIT_LOG.info(line)
            await wait_until_async(lambda: values(target) == ["one", "two"])
            assert made.lost == 1

    play(loop, story)


def test_what_is_there_at_the_end_is_sent(loop: SimLoop) -> None:
    async def story(target: ClusterModel) -> None:
        target.create_topic(TOPIC, 1, 3)
        async with trail(loop, target):
            AUDIT_LOG.info("the last one")
        assert values(target) == ["the last one"]

    play(loop, story)
