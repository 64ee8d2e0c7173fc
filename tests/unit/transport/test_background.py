"""Background work ends together.

Pauses end together, and none is longer than it was.
"""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from gateway.transport.background import SHORTER_S, STEP_S, Background, together
from tests.support.models.virtual_time import VirtualTimeLoop


async def test_what_is_begun_in_the_end_of_another_ends_too():
    background, ended, running = Background(), [], asyncio.Event()

    async def later() -> None:
        try:
            running.set()
            await asyncio.Event().wait()
        finally:
            ended.append("later")

    async def first() -> None:
        try:
            running.set()
            await asyncio.Event().wait()
        finally:
            running.clear()
            background.spawn(later(), "later")
            await running.wait()

    background.spawn(first(), "first")
    await running.wait()
    await background.close()

    assert ended == ["later"]
    assert not [task for task in asyncio.all_tasks() if task.get_name() in ("first", "later")]


@given(st.floats(0.001, 600), st.floats(0, 1e7))
def test_a_pause_is_hardly_longer_and_not_much_shorter(seconds: float, now: float) -> None:
    pause = together(seconds, now)
    assert seconds - SHORTER_S < pause + 0.0001 <= seconds + 0.0052


@given(st.floats(1, 600), st.floats(0, 1e6))
def test_it_ends_at_a_step(seconds: float, now: float) -> None:
    end = now + together(seconds, now)
    assert abs(end / STEP_S - round(end / STEP_S)) < 0.001


def test_a_timer_that_goes_off_early_makes_the_next_pause_no_shorter() -> None:
    assert round(together(1.0, 99.999), 6) == 1.001


@given(st.floats(0, 1e6), st.floats(0, 0.05))
def test_what_is_looked_at_once_a_second_comes_to_whole_seconds_within_two_looks(now: float, look_s: float) -> None:
    for _ in range(2):
        now += look_s + together(1.0, now + look_s)
    assert abs(now - round(now)) < 0.001


def test_short_pauses_stay_as_they_are() -> None:
    assert together(0.2, 7.77) == 0.2


def test_looks_of_one_pace_end_up_at_one_time_however_they_began() -> None:
    loop = VirtualTimeLoop()
    looked: list[tuple[str, float]] = []

    async def story() -> None:
        background, over = Background(), asyncio.Event()

        def begin(name: str) -> None:
            async def look() -> None:
                looked.append((name, loop.time()))

            background.every(1.0, look, name)

        for number in range(5):
            loop.call_later(0.07 * number, begin, str(number))
        loop.call_later(3.0, looked.clear)
        loop.call_later(13.0, over.set)
        await over.wait()
        await background.close()

    loop.run_until_complete(story())
    loop.close()
    assert len({round(at, 3) for _, at in looked}) <= 10
    assert len(looked) >= 45
