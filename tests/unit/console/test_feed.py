"""The feed: one look for all who listen, nothing that piles up, and an end to every stream."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.console import feed as feed_module
from gateway.console.feed import LISTENERS, LISTENERS_OF_ONE, STREAM_S, Feed, TooManyListeners, Trouble
from tests.support.waiting import wait_until_async


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look as soon as the loop has nothing else to do."""
    monkeypatch.setattr(feed_module, "EVERY_S", 0.0)
    monkeypatch.setattr(feed_module, "_SHARE", 0.0)


class Scene:
    """A number that is looked at. `trouble`: said instead."""

    def __init__(self) -> None:
        self.looks = 0
        self.number = 0
        self.trouble = ""
        self.now = 0.0
        self.feed = Feed(self.look, lambda: self.now)

    def listen(self, hello: dict[str, str]) -> AsyncIterator[bytes]:
        return self.feed.listen(self.feed.enter(f"caller {self.feed.listeners}"), hello)

    async def look(self) -> Any:
        await asyncio.sleep(0)  # noqa: TID251 - others have their turn
        self.looks += 1
        if self.trouble:
            raise Trouble(self.trouble)
        return {"lock": {"": {"n": self.number, "same": 1}}}


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    made = Scene()
    yield made
    await made.feed.close()


async def told(stream: AsyncIterator[bytes]) -> tuple[str, Any]:
    async with asyncio.timeout(10):
        event, data = (await anext(stream)).decode().strip().split("\n")
    return event.removeprefix("event: "), json.loads(data.removeprefix("data: "))


async def ended(stream: AsyncIterator[bytes]) -> None:
    async with asyncio.timeout(10):
        async for _ in stream:
            pass


async def test_hello_then_all_then_what_changed(scene: Scene) -> None:
    stream = scene.listen({"role": "viewer"})
    assert await told(stream) == ("hello", {"role": "viewer"})
    assert await told(stream) == ("all", {"lock": {"": {"n": 0, "same": 1}}})
    scene.number = 7
    while (said := await told(stream)) == ("change", {}):
        pass
    assert said == ("change", {"lock": {"set": {"": {"n": 7}}}})


async def test_a_look_is_for_all_and_nobody_looks_without_listeners(scene: Scene) -> None:
    streams = [scene.listen({}) for _ in range(3)]
    for stream in streams:
        assert (await told(stream))[0] == "hello"
    for stream in streams:
        assert (await told(stream))[0] == "all"
    for stream in streams:
        await stream.aclose()  # type: ignore[attr-defined]
    assert scene.feed.listeners == 0
    await wait_until_async(lambda: scene.feed._task is not None and scene.feed._task.done(), 10)
    seen = scene.looks
    again = scene.listen({})
    assert (await told(again))[0] == "hello"
    assert (await told(again))[0] == "all"
    assert scene.looks > seen


async def test_who_does_not_read_is_told_everything_later_and_holds_no_more_than_that(scene: Scene) -> None:
    slow, quick = scene.listen({}), scene.listen({})
    for stream in (slow, quick):
        await told(stream)
        assert (await told(stream))[0] == "all"
    for number in range(1, 60):
        scene.number = number
        while await told(quick) == ("change", {}):
            pass
    assert max(each.told.qsize() for each in scene.feed._listeners) <= 8
    scene.number = 99
    events = [await told(slow) for _ in range(12)]
    assert ("all", {"lock": {"": {"n": 99, "same": 1}}}) in events, events


async def test_trouble_is_said_and_goes(scene: Scene) -> None:
    scene.trouble = "no gateway leads"
    stream = scene.listen({})
    await told(stream)
    assert await told(stream) == ("trouble", {"message": "no gateway leads"})
    scene.trouble = ""
    while (said := await told(stream))[0] == "trouble":
        pass
    assert said[0] == "all"


async def test_a_stream_ends_so_that_its_token_is_looked_at_again(scene: Scene) -> None:
    stream = scene.listen({})
    await told(stream)
    scene.now = STREAM_S + 1
    await ended(stream)


async def test_only_so_many_listen(scene: Scene) -> None:
    for _ in range(LISTENERS):
        scene.listen({})
    with pytest.raises(TooManyListeners, match="32 consoles"):
        scene.listen({})
    scene.feed.enter("root", is_admin=True)


async def test_one_caller_leaves_room_for_others(scene: Scene) -> None:
    """Finding 14: one viewer's token had all places, and the admin's console none."""
    places = [scene.feed.enter("viewer") for _ in range(LISTENERS_OF_ONE)]
    with pytest.raises(TooManyListeners, match="viewer has 4 consoles at this gateway already"):
        scene.feed.enter("viewer")
    scene.feed.enter("another")
    scene.feed.leave(places[0])
    scene.feed.enter("viewer")


async def test_an_admin_gets_a_place_for_its_oldest_one(scene: Scene) -> None:
    oldest = scene.feed.listen(scene.feed.enter("root", is_admin=True), {})
    await told(oldest)
    for _ in range(LISTENERS_OF_ONE):
        scene.feed.enter("root", is_admin=True)
    assert scene.feed.listeners == LISTENERS_OF_ONE
    await ended(oldest)


async def test_close_ends_the_streams(scene: Scene) -> None:
    stream = scene.listen({})
    await told(stream)
    await scene.feed.close()
    await ended(stream)
