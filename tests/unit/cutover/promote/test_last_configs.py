"""A config that changes on the source right before a promote is not lost, and holds the promote up in no way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from gateway.cutover.promote.rules.memory import CONFIG_TRIES
from gateway.kafka.connection.errors import BrokerError
from gateway.state.records import MirrorState
from tests.support.control.control_plane import Plane
from tests.support.control.topic_scene import TopicScene, mirrored_topic

FORBIDDEN = 29


@pytest.fixture
async def scene(plane: Plane) -> TopicScene:
    return await mirrored_topic(plane)


def configs(scene: TopicScene) -> dict[str, str]:
    return scene.plane.target.existing["orders"].configs


def at_reading(scene: TopicScene, number: int, what: Callable[[], Awaitable[None]]) -> None:
    """Before the source answers for its configs the so-manieth time: 1 is before the write pause, 2 under it; what a
    promote asks before it begins does not count."""
    asked = -1

    async def before() -> None:
        nonlocal asked
        asked += 1
        if asked == number:
            await what()

    scene.plane.source.before["topic_configs"] = before


@pytest.mark.parametrize("number", [1, 2])
async def test_a_change_since_the_last_sync(scene: TopicScene, number: int) -> None:
    """Of what was lifted and of what was not, also one that comes between the first reading and the pause."""

    async def change() -> None:
        values = {"retention.ms": "4242", "delete.retention.ms": "77", "message.timestamp.type": "LogAppendTime"}
        scene.plane.source.existing["orders"].configs |= values

    at_reading(scene, number, change)
    (record,) = await scene.promote()
    assert record.state is MirrorState.STOPPED
    found = configs(scene)
    assert (found["retention.ms"], found["delete.retention.ms"]) == ("4242", "77")
    assert found["message.timestamp.type"] == "LogAppendTime"
    assert (record.restore_configs, record.error_message) == ({}, "")


async def test_under_the_pause_the_source_alone_is_asked_and_for_configs_only(scene: TopicScene) -> None:
    source, target = scene.plane.source, scene.plane.target

    def asked() -> tuple[int, int, int]:
        return source.calls.count("topic_configs"), target.calls.count("topic_configs"), source.calls.count("topics")

    at_second: list[tuple[int, int, int]] = []

    async def note() -> None:
        at_second.append(asked())

    at_reading(scene, 2, note)
    await scene.promote()
    assert at_second == [asked()]


async def test_a_reading_under_the_pause_that_gets_no_answer_is_not_waited_for(scene: TopicScene) -> None:
    scene.plane.source.existing["orders"].configs["retention.ms"] = "4242"

    async def hang() -> None:
        await asyncio.Event().wait()

    at_reading(scene, 2, hang)
    async with asyncio.timeout(3.0):  # the pause itself may take five seconds
        (record,) = await scene.promote()
    assert (record.state, record.error_message) == (MirrorState.STOPPED, "")
    assert configs(scene)["retention.ms"] == "4242", "what was read before the pause"
    assert not [
        task for task in asyncio.all_tasks() if task.get_name() == "last topic configs" and not task.cancelling()
    ]


async def test_configs_that_cannot_be_read_do_not_block_the_promote(scene: TopicScene) -> None:
    scene.plane.source.refuse["topic_configs"] = BrokerError(FORBIDDEN, "describe configs: TOPIC_AUTHORIZATION_FAILED")
    before = dict(scene.record.restore_configs)
    asked = scene.plane.source.calls.count("topic_configs")
    (record,) = await scene.promote()
    assert record.state is MirrorState.STOPPED
    assert "may be missing" in record.error_message
    assert "TOPIC_AUTHORIZATION_FAILED" in record.error_message
    assert configs(scene)["retention.ms"] == before["retention.ms"]
    assert scene.plane.source.calls.count("topic_configs") == asked + 1 + CONFIG_TRIES + 1, "once before it begins"


async def test_what_was_read_before_the_pause_counts_when_it_cannot_be_read_again(scene: TopicScene) -> None:
    scene.plane.source.existing["orders"].configs["retention.ms"] = "4242"

    async def refuse() -> None:
        raise BrokerError(FORBIDDEN, "no more")

    at_reading(scene, 2, refuse)
    (record,) = await scene.promote()
    assert configs(scene)["retention.ms"] == "4242"
    assert "no more" in record.error_message


async def test_another_topic_of_the_name_is_not_read(scene: TopicScene) -> None:
    source = scene.plane.source.existing["orders"]
    scene.plane.source.existing["orders"].configs["retention.ms"] = "4242"
    object.__setattr__(source.info, "topic_id", "another")
    (record,) = await scene.promote(force=True)
    assert "is not the one that is mirrored" in record.error_message
    assert configs(scene)["retention.ms"] != "4242"


async def test_what_is_the_topics_own_stays_its_own(plane: Plane) -> None:
    await plane.with_link(**{"topic.config.sync.include": "delete.retention.ms"})
    scene = await mirrored_topic(plane)
    plane.target.existing["orders"].configs["retention.ms"] = "99"
    plane.source.existing["orders"].configs["retention.ms"] = "4242"
    await scene.promote()
    assert configs(scene)["retention.ms"] == "99"
