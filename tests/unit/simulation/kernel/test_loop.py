"""The kernel's clock and nodes: what runs, waits, is kept and is dropped."""

import asyncio
import gc
from contextvars import Context, ContextVar

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


def test_whoever_computes_is_late_and_keeps_its_node_alone(loop):
    node, other, seen = loop.node("gw-0"), loop.node("gw-1"), []
    node.takes_time = True

    async def ticks(name):
        while True:
            await asyncio.sleep(0.01)
            seen.append((name, round(loop.time() - 1000, 3)))

    async def computes():
        loop.works(0.004)
        loop.works(0.021)
        seen.append(("computed", round(loop.time() - 1000, 3)))

    async def story():
        for each in (node, other):
            loop.spawn(each, ticks(each.name), "ticks")
        loop.spawn(node, computes(), "computes")
        await asyncio.sleep(0.027)

    loop.run_until_complete(story())
    assert seen == [("computed", 0.025), ("gw-1", 0.01), ("gw-1", 0.02), ("gw-0", 0.025)]


def test_what_is_computed_of_little_and_by_others_takes_no_time(loop):
    async def computes(seconds):
        loop.works(seconds)

    async def story():
        loop.node("gw-0").takes_time = True
        await loop.spawn(loop.node("gw-0"), computes(0.000_9), "a little")
        await loop.spawn(loop.node("client"), computes(9.0), "computes")
        loop.works(9.0)
        assert loop.time() == 1000

    loop.run_until_complete(story())


def test_what_a_computing_node_sends_leaves_late_and_what_it_is_sent_waits(loop):
    arrived: list[tuple[str, float]] = []

    class Ends(asyncio.Protocol):
        def __init__(self, name):
            self.name = name

        def connection_made(self, transport):
            self.transport = transport

        def data_received(self, data):
            arrived.append((self.name, round(loop.time() - 1000, 2)))
            if self.name == "gw-0":
                loop.works(0.5)
                self.transport.write(b"answer")

    async def story():
        node = loop.node("gw-0")
        node.takes_time = True

        async def listen():
            await loop.create_server(lambda: Ends("gw-0"), "", 9092)

        await loop.spawn(node, listen(), "listen")
        transport, _ = await loop.create_connection(lambda: Ends("lab"), "gw-0", 9092)
        transport.write(b"question")
        await asyncio.sleep(0.1)
        transport.write(b"another one")
        await asyncio.sleep(2)

    loop.run_until_complete(story())
    assert arrived == [("gw-0", 0.0), ("gw-0", 0.5), ("lab", 0.5), ("lab", 1.0)]


def test_whoever_is_stopped_or_killed_while_it_computes_does_not_go_on(loop):
    ran: list[str] = []

    async def computes(name):
        loop.works(1.0)
        await asyncio.sleep(0)
        ran.append(name)

    async def story():
        for name in ("paused", "killed"):
            loop.node(name).takes_time = True
            loop.spawn(loop.node(name), computes(name), name)
        await asyncio.sleep(0.5)
        loop.pause(loop.node("paused"))
        loop.kill(loop.node("killed"))
        await asyncio.sleep(10)
        assert not ran
        loop.wake(loop.node("paused"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    loop.run_until_complete(story())
    assert ran == ["paused"]


def test_what_a_thread_computes_takes_its_time_beside_the_loop(loop):
    node, seen = loop.node("gw-0"), []
    node.takes_time = True

    def thread():
        loop.works(0.5)
        return "found"

    def fails():
        raise ValueError("no")

    async def asks():
        seen.append((await asyncio.to_thread(thread), loop.time()))
        with pytest.raises(ValueError, match="no"):
            await asyncio.to_thread(fails)

    async def ticks():
        await asyncio.sleep(0.2)
        seen.append(("tick", loop.time()))

    async def story():
        await asyncio.gather(loop.spawn(node, asks(), "asks"), loop.spawn(node, ticks(), "ticks"))

    loop.run_until_complete(story())
    assert seen == [("tick", 1000.2), ("found", 1000.5)]


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


def test_what_ends_with_the_loop_ends_in_its_own_context():
    said, ended = ContextVar("said", default=0), []

    async def work():
        token = said.set(1)
        try:
            await asyncio.sleep(1e6)
        finally:
            said.reset(token)
            ended.append("set back")

    async def story():
        task = made.spawn(made.node("gw-0"), work(), "work")
        await asyncio.sleep(1)
        assert not task.done()

    with SimLoop(seed=1) as made:
        made.run_until_complete(story())
    assert ended == ["set back"]
