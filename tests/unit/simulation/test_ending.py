"""The end of a simulated run: what is waited for before it is judged."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from tests.simulation.ending import Ending


def world(course: list[str]) -> Any:
    """One that tells what it was asked for."""

    async def until(_reached: object, what: str) -> None:
        course.append(what)

    async def done() -> None:
        pass

    async def stop() -> None:
        course.append("the pipeline stops")

    return SimpleNamespace(
        settled=done,
        loop=SimpleNamespace(network=SimpleNamespace(heal=lambda: None)),
        writers=[],
        cast=SimpleNamespace(stop_producers=done, topics=("out",)),
        until=until,
        all_members=lambda: [SimpleNamespace(stop=stop)],
        events=SimpleNamespace(members=list),
    )


def test_mirrors_come_level_with_what_a_pipeline_wrote_last():
    course: list[str] = []
    asyncio.run(Ending(world(course)).come_to_rest())
    level = "a mirror is not level"
    assert course == [level, "a group has not read to the end", "the pipeline stops", level]
