"""Which topics the proxy must not create."""

from __future__ import annotations

import asyncio

import pytest

from gateway.topics import source_topics
from gateway.topics.source_topics import UnmirroredTopics
from tests.support.control.control_plane import Plane
from tests.support.fakes.fake_kafka import FakeKafka


@pytest.fixture
def clock() -> list[float]:
    return [100.0]


@pytest.fixture
def unmirrored(plane: Plane, clock: list[float]) -> UnmirroredTopics:
    return UnmirroredTopics(plane.store, plane.parts.sources, clock=lambda: clock[0])


async def test_only_what_a_source_has_and_nobody_mirrors(plane, unmirrored):
    await plane.with_mirror("mirrored")
    plane.source.add("forgotten")
    plane.source.add("__consumer_offsets")

    found = await unmirrored.exists_unmirrored(["mirrored", "forgotten", "new", "__consumer_offsets"])

    assert found == {"forgotten": "l"}


async def test_without_links_nothing_is_asked(plane, unmirrored):
    plane.source.add("t")

    assert await unmirrored.exists_unmirrored(["t"]) == {}
    assert plane.source.calls == []


async def test_every_link_is_asked(plane, unmirrored):
    await plane.with_link("a")
    other = plane.reachable["other:9092"] = FakeKafka("O")
    other.add("t")
    await plane.service.links.create("b", {"bootstrap.servers": "other:9092"})

    assert await unmirrored.exists_unmirrored(["t"]) == {"t": "b"}


async def test_answers_are_kept_for_five_seconds_per_name(plane, unmirrored, clock):
    await plane.with_link()
    plane.source.calls.clear()
    await unmirrored.exists_unmirrored(["a"])
    clock[0] += 4.9
    await unmirrored.exists_unmirrored(["a", "b"])
    assert plane.source.calls.count("topics") == 2  # b was new

    plane.source.add("a")
    assert await unmirrored.exists_unmirrored(["a"]) == {}
    clock[0] += 0.2
    assert await unmirrored.exists_unmirrored(["a"]) == {"a": "l"}


async def test_a_lost_source_counts_as_having_what_it_was_not_asked_for(plane, unmirrored, clock):
    await plane.with_link()
    plane.source.add("there")
    await unmirrored.exists_unmirrored(["there", "absent"])
    plane.source.down = True
    clock[0] += 60

    found = await unmirrored.exists_unmirrored(["there", "absent", "never-asked"])

    assert found == {"there": "l", "never-asked": "l"}
    plane.source.down = False
    assert await unmirrored.exists_unmirrored(["never-asked"]) == {}


async def test_a_silent_source_is_not_waited_for_beyond_the_promise(plane, unmirrored, monkeypatch):
    await plane.with_link()
    monkeypatch.setattr(source_topics, "_ANSWER_S", 0.05)
    plane.source.before["topics"] = asyncio.Event().wait

    assert await asyncio.wait_for(unmirrored.exists_unmirrored(["t"]), 2) == {"t": "l"}


async def test_a_link_with_a_prefix_is_asked_under_the_source_s_names(plane, unmirrored):
    await plane.with_link(**{"link.prefix": "usa_"})
    for name in ("clicks", "usa_clicks", "__consumer_offsets"):
        plane.source.add(name)

    found = await unmirrored.exists_unmirrored(["usa_clicks", "usa_new", "clicks", "usa_", "usa___consumer_offsets"])

    assert found == {"usa_clicks": "l"}  # nothing on the target would ever be called clicks by this link


async def test_a_fixed_number_of_answers_is_kept(plane, unmirrored, monkeypatch):
    await plane.with_link()
    monkeypatch.setattr(source_topics, "_KEPT", 10)
    plane.source.add("t7")

    assert await unmirrored.exists_unmirrored([f"t{number}" for number in range(25)]) == {"t7": "l"}
    assert [name for _, name in unmirrored._seen] == [f"t{number}" for number in range(15, 25)]
    assert await unmirrored.exists_unmirrored(["t24", "t7", *(f"u{number}" for number in range(12))]) == {"t7": "l"}
