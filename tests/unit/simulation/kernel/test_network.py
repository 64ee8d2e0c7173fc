"""The kernel's network: bytes in order and late, ends of connections, stopped and dead peers, faults."""

import asyncio
import socket
import struct

import pytest

from tests.simulation.kernel.loop import SimLoop
from tests.simulation.kernel.transport import WINDOW

WRITERS: list[asyncio.StreamWriter] = []  # a writer that nobody holds closes its connection


@pytest.fixture
def loop():
    with SimLoop(seed=3) as made:
        yield made
    WRITERS.clear()
    assert made.unhandled == []


class Echo:
    """A server that answers each line, and remembers how its connections ended."""

    def __init__(self, loop, name="broker", port=9092):
        self.loop, self.name, self.port = loop, name, port
        self.lines, self.ends = [], []

    async def start(self):
        self.server = await self.loop.spawn(
            self.loop.node(self.name), asyncio.start_server(self._serve, "", self.port), "listen"
        )
        return self.server

    async def _serve(self, reader, writer):
        try:
            while line := await reader.readline():
                self.lines.append(line)
                writer.write(b"answer to " + line)
                await writer.drain()
            self.ends.append("eof")
        except OSError as exc:
            self.ends.append(type(exc).__name__)
        writer.close()


def run(loop, story, name="client"):
    return loop.run_until_complete(loop.spawn(loop.node(name), story(), "story"))


async def dial(host="broker", port=9092):
    reader, writer = await asyncio.open_connection(host, port)
    WRITERS.append(writer)
    return reader, writer


async def call(port=9092, line=b"hello\n", host="broker"):
    reader, writer = await dial(host, port)
    writer.write(line)
    return reader, writer


def test_an_answer_takes_two_round_trips_with_the_connecting(loop):
    async def story():
        await Echo(loop).start()
        loop.network.slow("client", "broker", 0.1)
        loop.network.slow("broker", "client", 0.3)
        began = loop.time()
        reader, writer = await call()
        assert writer.get_extra_info("peername") == ("broker", 9092)
        assert await reader.readline() == b"answer to hello\n"
        return loop.time() - began

    assert run(loop, story) == pytest.approx(0.8, abs=0.01)


def test_bytes_stay_in_order_and_a_rate_holds(loop):
    async def story():
        await Echo(loop).start()
        loop.network.slow("client", "*", 0.001, bytes_per_s=1000)
        reader, writer = await dial()
        began = loop.time()
        for number in range(200):
            writer.write(b"%09d\n" % number)
            if number % 7 == 0:
                await asyncio.sleep(0.001)
        got = [await reader.readline() for _ in range(200)]
        assert got == [b"answer to %09d\n" % number for number in range(200)]
        return loop.time() - began

    assert run(loop, story) == pytest.approx(2.0, abs=0.1)


def test_nobody_listens_and_nobody_has_the_name(loop):
    async def story():
        loop.node("broker")
        with pytest.raises(ConnectionRefusedError):
            await call()
        with pytest.raises(OSError, match="not known"):
            await call(host="nowhere")
        echo = await Echo(loop).start()
        await call()
        echo.close()
        with pytest.raises(ConnectionRefusedError):
            await call()

    run(loop, story)


def test_a_port_is_one_servers_and_port_0_is_any(loop):
    async def story():
        first = await asyncio.start_server(lambda _r, writer: WRITERS.append(writer), "127.0.0.1", 0)
        port = first.sockets[0].getsockname()[1]
        with pytest.raises(OSError, match="in use"):
            await asyncio.start_server(lambda _r, _w: None, "", port)
        await dial("127.0.0.1", port)
        await dial("client", port)

    run(loop, story)


def test_close_is_heard_as_the_end_and_abort_as_a_reset(loop):
    async def story():
        echo = Echo(loop)
        await echo.start()
        reader, writer = await call()
        assert await reader.readline()
        writer.close()
        await writer.wait_closed()
        _, writer = await call()
        writer.transport.abort()
        await asyncio.sleep(1)
        assert echo.ends == ["eof", "ConnectionResetError"]
        assert echo.lines == [b"hello\n"] * 2

    run(loop, story)


def test_what_was_written_before_a_close_arrives(loop):
    async def story():
        echo = Echo(loop)
        await echo.start()
        _, writer = await dial()
        writer.write(b"x" * 60_000 + b"\n")
        writer.close()
        await asyncio.sleep(1)
        assert [len(line) for line in echo.lines] == [60_001]

    run(loop, story)


def test_a_cut_holds_one_direction_until_it_is_healed(loop):
    async def story():
        echo = Echo(loop)
        await echo.start()
        reader, writer = await call()
        await reader.readline()
        loop.network.cut("broker", "client")
        writer.write(b"a\n")
        await asyncio.sleep(5)
        assert echo.lines == [b"hello\n", b"a\n"]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await reader.readline()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):
                await call()
        loop.network.heal("broker", "client")
        assert await reader.readline() == b"answer to a\n"
        loop.network.cut("client", "*")
        writer.write(b"b\n")
        later = asyncio.create_task(call(line=b"c\n"))
        await asyncio.sleep(5)
        assert len(echo.lines) == 2
        loop.network.heal()
        assert await reader.readline() == b"answer to b\n"
        reader, _ = await later
        assert await reader.readline() == b"answer to c\n"

    run(loop, story)


@pytest.mark.parametrize("cut", [("client", "broker"), ("broker", "client")])
def test_a_cut_breaks_a_connection_that_gives_up_on_what_is_not_acknowledged(loop, cut):
    async def story():
        await Echo(loop).start()
        reader, writer = await call()
        await reader.readline()
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 3000)
        loop.network.cut(*cut)
        began = loop.time()
        writer.write(b"a\n")
        with pytest.raises(TimeoutError):
            await reader.readline()
        assert loop.time() - began == pytest.approx(3)

    run(loop, story)


@pytest.mark.parametrize("forgets", [True, False])
def test_what_a_cut_holds_arrives_behind_an_abort_unless_the_kernel_forgets_it(loop, forgets):
    async def story():
        echo = Echo(loop)
        await echo.start()
        reader, writer = await call()
        await reader.readline()
        loop.network.cut("client", "broker")
        writer.write(b"late\n")
        if forgets:
            at_once = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
        writer.transport.abort()
        await asyncio.sleep(5)
        loop.network.heal()
        await asyncio.sleep(1)
        assert echo.lines == [b"hello\n", *([] if forgets else [b"late\n"])]
        assert echo.ends == ["ConnectionResetError"]

    run(loop, story)


def test_a_connection_given_up_while_the_link_was_cut_is_nobodys(loop):
    async def story():
        echo = Echo(loop)
        await echo.start()
        loop.network.cut("broker", "client")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await call()
        loop.network.heal()
        await asyncio.sleep(1)
        assert echo.ends == ["ConnectionResetError"]

    run(loop, story)


def test_bytes_for_a_stopped_process_pile_up_and_its_port_accepts(loop):
    async def story():
        echo = Echo(loop)
        await echo.start()
        reader, writer = await call()
        await reader.readline()
        loop.pause(loop.node("broker"))
        writer.write(b"a\n")
        other, _ = await call(line=b"b\n")
        await asyncio.sleep(5)
        assert len(echo.lines) == 1
        loop.wake(loop.node("broker"))
        assert await reader.readline() == b"answer to a\n"
        assert await other.readline() == b"answer to b\n"

    run(loop, story)


async def _reads_all(reader, writer):
    WRITERS.append(writer)
    while await reader.read(1 << 20):
        pass


def test_a_stopped_process_still_reads_what_came_before_its_connection_broke(loop):
    async def story():
        echo = Echo(loop)
        await echo.start()
        reader, writer = await call()
        await reader.readline()
        loop.pause(loop.node("broker"))
        writer.write(b"a\n")
        _, other = await call(line=b"b\n")
        await asyncio.sleep(1)
        writer.transport.abort()
        other.transport.abort()
        await asyncio.sleep(1)
        loop.wake(loop.node("broker"))
        await asyncio.sleep(1)
        assert sorted(echo.lines[1:]) == [b"a\n", b"b\n"]
        assert echo.ends == ["ConnectionResetError"] * 2

    run(loop, story)


def test_a_writer_is_held_back_by_a_peer_that_does_not_read(loop):
    async def story():
        await loop.spawn(loop.node("broker"), asyncio.start_server(_reads_all, "", 9092), "listen")
        _, writer = await dial()
        loop.pause(loop.node("broker"))
        writer.write(b"x" * WINDOW)
        writer.write(b"y" * 100_000)
        assert writer.transport.get_write_buffer_size() == 100_000
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await writer.drain()
        loop.wake(loop.node("broker"))
        async with asyncio.timeout(1):
            await writer.drain()

    run(loop, story)


def test_peers_of_a_killed_process_are_reset_and_its_port_refuses_until_it_is_back(loop):
    async def story():
        await Echo(loop).start()
        reader, _ = await call()
        await reader.readline()
        loop.kill(loop.node("broker"))
        with pytest.raises(ConnectionResetError):
            await reader.readline()
        with pytest.raises(ConnectionRefusedError):
            await call()
        loop.restart(loop.node("broker"))
        await Echo(loop).start()
        reader, _ = await call()
        assert await reader.readline()

    run(loop, story)


def test_a_fault_can_lose_exactly_one_answer(loop):
    async def story():
        echo = Echo(loop)
        await echo.start()
        reader, writer = await call()
        await reader.readline()

        def lose(segment):
            return "drop-connection" if not segment.from_client and segment.dst_port == 9092 else None

        loop.network.on_segment.append(lose)
        writer.write(b"a\n")
        with pytest.raises(ConnectionResetError):
            await reader.readline()
        assert echo.lines == [b"hello\n", b"a\n"]

    run(loop, story)


def test_a_fault_can_let_half_a_frame_through(loop):
    async def story():
        await Echo(loop).start()
        reader, writer = await call()
        await reader.readline()
        loop.network.on_segment.append(lambda segment: None if segment.from_client else 4)
        writer.write(b"a\n")
        assert await reader.read(100) == b"answ"
        with pytest.raises(ConnectionResetError):
            await reader.readline()

    run(loop, story)


def test_open_connections_can_be_reset_by_name(loop):
    async def story():
        echo = Echo(loop)
        await echo.start()
        reader, _ = await call()
        await reader.readline()
        assert loop.network.reset("brok*", "client") == 1
        with pytest.raises(ConnectionResetError):
            await reader.readline()
        await asyncio.sleep(1)
        assert echo.ends == ["ConnectionResetError"]
        assert loop.network.reset("*", "*") == 0

    run(loop, story)


def test_the_same_seed_gives_the_same_times():
    def trace(seed):
        seen = []
        with SimLoop(seed=seed) as loop:

            async def story():
                await Echo(loop).start()
                loop.network.on_segment.append(lambda segment: seen.append((loop.time(), *segment)))
                for _ in range(20):
                    reader, _ = await call()
                    await reader.readline()

            run(loop, story)
        WRITERS.clear()
        return seen

    assert trace(5) == trace(5)
    assert trace(5) != trace(6)
