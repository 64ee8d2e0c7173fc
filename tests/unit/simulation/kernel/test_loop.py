"""The kernel's clock and nodes: what runs, waits, is kept and is dropped."""

import asyncio
import gc
from contextvars import Context

import pytest

from tests.simulation.kernel.loop import SimLoop, Spinning


@pytest.fixture
def loop():
    with SimLoop(seed=1) as made:
        yield made


def test_time_jumps_to_the_next_timer(loop):
    async def story():
        began = loop.time()
        await asyncio.gather(asyncio.sleep(3600), asyncio.sleep(1800))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(60):
                await asyncio.Event().wait()
        return loop.time() - began

    assert loop.run_until_complete(story()) == pytest.approx(3660)


def test_timers_of_one_instant_fire_in_the_order_in_which_they_were_set(loop):
    fired: list[int] = []

    async def story():
        for number in range(100):
            loop.call_at(loop.time() + 5, fired.append, number)
        await asyncio.sleep(6)

    loop.run_until_complete(story())
    assert fired == list(range(100))


def test_a_stopped_node_keeps_what_comes_due_and_a_woken_one_does_it_in_order(loop):
    node, ticks = loop.node("gw-0"), []

    async def tick():
        while True:
            await asyncio.sleep(1)
            ticks.append(loop.time() - 1000)

    async def story():
        loop.spawn(node, tick(), "tick")
        loop.call_at(1003.2, ticks.append, "not the node's", context=loop.lab.context)
        await asyncio.sleep(2.5)
        loop.call_at(1003.5, ticks.append, "a", context=node.context)
        loop.call_at(1003.6, ticks.append, "b", context=node.context)
        loop.pause(node)
        await asyncio.sleep(10)
        assert ticks == [1, 2, "not the node's"]
        loop.wake(node)
        await asyncio.sleep(1.1)

    loop.run_until_complete(story())
    assert ticks == [1, 2, "not the node's", "a", "b", 12.5, 13.5]


def test_a_killed_node_does_nothing_more_not_even_its_finally(loop):
    node, done = loop.node("gw-0"), []

    async def work():
        try:
            await asyncio.sleep(1)
            done.append("went on")
        finally:
            done.append("finally")

    async def story():
        loop.spawn(node, work(), "work")
        await asyncio.sleep(0.5)
        loop.kill(node)
        gc.collect()
        await asyncio.sleep(10)
        gc.collect()
        assert done == []
        fresh = loop.restart(node)
        assert fresh is loop.node("gw-0")
        loop.spawn(fresh, work(), "work again")
        await asyncio.sleep(2)

    loop.run_until_complete(story())
    assert done == ["went on", "finally"]


def test_closing_ends_what_is_unfinished_without_a_word(loop, capsys):
    ends = []

    async def work():
        try:
            await asyncio.sleep(1000)
        finally:
            ends.append("finally")
            asyncio.get_running_loop().call_soon(ends.append, "never")
            await asyncio.sleep(1)

    async def story():
        for name in ("a", "b"):
            loop.spawn(loop.node(name), work(), name)
        await asyncio.sleep(1)
        loop.kill(loop.node("a"))

    loop.run_until_complete(story())
    loop.close()
    gc.collect()
    assert sorted(ends) == ["finally", "finally"]
    assert loop.unhandled == []
    assert capsys.readouterr() == ("", "")


def test_work_without_end_at_one_instant_is_told():
    with SimLoop(seed=1, spins=1000) as loop:

        async def spin():
            while True:  # noqa: ASYNC110 - this is the fault
                await asyncio.sleep(0)

        async def story():
            spinner = loop.spawn(loop.node("gw-0"), spin(), "spinner")
            await spinner

        with pytest.raises(Spinning, match="gw-0: spinner"):
            loop.run_until_complete(story())


def test_waiting_for_what_cannot_happen_is_told(loop):
    async def story():
        await asyncio.Event().wait()

    with pytest.raises(Spinning, match="nothing is left"):
        loop.run_until_complete(story())


def test_sets_of_tasks_have_the_order_in_which_they_were_made(loop):
    async def story():
        tasks = [loop.create_task(asyncio.sleep(1), name=str(number)) for number in range(50)]
        done, _ = await asyncio.wait(tasks)
        return [task.get_name() for task in done]

    assert loop.run_until_complete(story()) == [str(number) for number in range(50)]


def test_what_would_run_in_a_thread_is_told(loop):
    async def story():
        with pytest.raises(RuntimeError, match="cannot be simulated"):
            await asyncio.to_thread(gc.collect)

    loop.run_until_complete(story())


def test_whoever_is_woken_by_a_node_does_not_become_part_of_it(loop):
    async def story():
        node, told = loop.node("gw-0"), loop.create_future()

        async def tell():
            told.set_result(None)

        await loop.spawn(node, tell(), "tell")
        await told
        loop.kill(node)
        await asyncio.sleep(1)

    Context().run(loop.run_until_complete, story())  # as in a process where nobody has set anything
