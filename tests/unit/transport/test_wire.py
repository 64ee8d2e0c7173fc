"""Plain connections: order and completeness whatever the peers' pace, spliced or not; ends of all kinds."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
from collections.abc import Iterator

import pytest

from gateway.transport.event_loop_io import EventLoopIO
from gateway.transport.wire import SPLICE_BYTES, Wire
from tests.support.waiting import wait_until_async

SEED = random.randrange(2**32)


class Frames:
    """A stream of opaque frames, each as long as the list says; the first eight bytes of each must be read."""

    def __init__(self, sizes: list[int]) -> None:
        self.left = list(sizes)
        self.through = 0
        self.collects = False
        self.spliced = 0

    def skipped(self, count: int) -> None:
        assert 0 < count <= self.through
        self.through -= count
        self.spliced += count


class Relay:
    """Receives at one wire and writes to the other."""

    def __init__(self, frames: Frames) -> None:
        self.frames = frames
        self.wire: Wire
        self.other: Wire
        self.ended: list[Exception | None] = []
        self.peeks = 0

    def data_received(self, data: memoryview) -> None:
        left = len(data)
        while left:
            if not self.frames.through:
                self.frames.through = self.frames.left.pop(0)
            taken = min(left, self.frames.through)
            self.frames.through -= taken
            left -= taken
        self.other.write(data)

    def peeked(self, data: memoryview) -> bool:
        self.peeks += 1
        if self.frames.through or self.frames.left[0] < SPLICE_BYTES:
            return False
        self.frames.through = self.frames.left.pop(0)
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.append(exc)

    def pause_writing(self) -> None:
        self.other.pause_reading()

    def resume_writing(self) -> None:
        self.other.resume_reading()


class Pair:
    """Two outer sockets, blocking, with two wires between them."""

    def __init__(self, sizes: list[int]) -> None:
        event_loop_io = self.event_loop_io = EventLoopIO(asyncio.get_running_loop())
        self.left, inner_left = socket.socketpair()
        self.right, inner_right = socket.socketpair()
        for one in (inner_left, inner_right):
            one.setblocking(False)
        self.there, self.back = Relay(Frames(sizes)), Relay(Frames([2**40]))
        a = self.there.wire = self.back.other = Wire(inner_left, self.there, event_loop_io)
        b = self.back.wire = self.there.other = Wire(inner_right, self.back, event_loop_io, to_broker=True)
        a.splice_to(b, self.there.frames)
        a.start()
        b.start()

    def under_lease(self, wire: Wire, data: bytes) -> list[bool]:
        """Write while the lease is valid, in a burst that goes on. What is returned says whether it still is."""
        valid = [True]
        self.event_loop_io.lease_valid = lambda: valid[0]
        self.event_loop_io.collect()
        assert self.event_loop_io.may_write()
        wire.write(data)
        return valid

    def close(self) -> None:
        self.there.wire.close()
        self.back.wire.close()
        self.left.close()
        self.right.close()
        self.event_loop_io.pipes.close()


def slowly(sock: socket.socket, most: int, rng: random.Random) -> Iterator[bytes]:
    while data := sock.recv(rng.randrange(1, most)):
        yield data


async def turn() -> None:
    """Let the event loop look at its sockets once."""
    done = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(asyncio.get_running_loop().call_soon, done.set_result, None)
    await done


@pytest.mark.parametrize("slow", [True, False])
async def test_every_byte_arrives_in_order(slow: bool) -> None:
    rng = random.Random(SEED)
    sizes = [rng.choice([8, 60, 1000, SPLICE_BYTES, 100_000, 3_000_000]) for _ in range(30)]
    data = rng.randbytes(sum(sizes))
    pair = Pair(sizes)
    received = bytearray()

    def read() -> None:
        for piece in slowly(pair.right, 5_000 if slow else 500_000, random.Random(1)):
            received.extend(piece)

    def send() -> None:
        pair.left.sendall(data)
        pair.left.shutdown(socket.SHUT_WR)

    reading = asyncio.create_task(asyncio.to_thread(read))
    await asyncio.to_thread(send)
    await wait_until_async(lambda: pair.there.ended == [None])
    pair.there.other.close()
    await reading
    assert bytes(received) == data, f"seed {SEED}"
    pair.close()


async def test_large_frames_are_spliced_and_a_peer_that_does_not_read_stops_the_other() -> None:
    pair = Pair([50_000_000])
    if not pair.event_loop_io.pipes.usable:
        pytest.skip("no splice here")
    pair.left.setblocking(False)
    sent = 0

    async def push() -> int:
        """Until nothing more is taken for a while."""
        nonlocal sent
        refused = 0
        while refused < 50:
            try:
                sent += pair.left.send(bytes(100_000))
                refused = 0
            except BlockingIOError:
                refused += 1
            await turn()
        return sent

    before = await push()
    assert await push() == before < 50_000_000
    assert pair.there.frames.spliced > 0
    got = 0
    while got < before:
        got += len(await asyncio.to_thread(pair.right.recv, 1_000_000))
    assert await push() > before
    pair.close()


@pytest.mark.parametrize("collects", [False, True])
async def test_a_frame_is_looked_at_before_it_is_read_when_the_last_was_large_and_passed(collects: bool) -> None:
    pair = Pair([SPLICE_BYTES] * 5)
    pair.there.frames.collects = collects
    for _ in range(5):
        pair.left.sendall(bytes(SPLICE_BYTES))
        got = 0
        while got < SPLICE_BYTES:
            await turn()
            with contextlib.suppress(BlockingIOError):
                got += len(pair.right.recv(SPLICE_BYTES, socket.MSG_DONTWAIT))
    assert pair.there.peeks == (0 if collects else 4)
    pair.close()


async def test_what_was_written_leaves_before_the_end() -> None:
    pair = Pair([10])
    pair.there.other.write(b"x" * 3_000_000)
    assert pair.there.other.waiting
    pair.there.other.close()
    got = b""
    while piece := await asyncio.to_thread(pair.right.recv, 1_000_000):
        got += piece
    assert got == b"x" * 3_000_000
    pair.close()


async def test_what_is_collected_leaves_at_the_flush() -> None:
    pair = Pair([10])
    pair.event_loop_io.collect()
    shared = bytearray(b"one")
    pair.there.other.write(memoryview(shared))
    pair.there.other.writelines([b"two", b"three"])
    pair.right.setblocking(False)
    with pytest.raises(BlockingIOError):
        pair.right.recv(100)
    pair.event_loop_io.flush()
    shared[:] = b"xxx"
    assert pair.right.recv(100) == b"onetwothree"
    pair.close()


async def test_a_broken_peer_is_told_once_and_not_in_the_midst_of_a_write() -> None:
    pair = Pair([10])
    pair.right.close()
    pair.back.wire.pause_reading()
    pair.there.other.write(b"x" * 10)
    pair.there.other.write(b"x" * 10)
    assert pair.back.ended == []
    await wait_until_async(lambda: bool(pair.back.ended))
    assert isinstance(pair.back.ended[0], OSError)
    pair.close()


async def test_a_paused_wire_is_not_read_until_it_is_resumed() -> None:
    pair = Pair([10, 10])
    pair.there.wire.pause_reading()
    pair.left.sendall(b"0123456789")
    for _ in range(5):
        await turn()
    assert pair.there.frames.left == [10, 10]
    pair.there.wire.resume_reading()
    await wait_until_async(lambda: pair.there.frames.left == [10])
    assert pair.right.recv(100) == b"0123456789"
    pair.close()


async def test_a_receiver_that_fails_loses_its_connection_and_no_other() -> None:
    pair, other = Pair([100]), Pair([100])
    pair.there.frames.left.clear()  # the receiver has no frame for what comes: an IndexError
    pair.left.send(b"x" * 100)
    other.left.send(b"y" * 100)
    await wait_until_async(lambda: bool(pair.there.ended))
    assert isinstance(pair.there.ended[0], IndexError)
    other.right.setblocking(False)
    assert await asyncio.get_running_loop().sock_recv(other.right, 100) == b"y" * 100
    pair.close()
    other.close()


async def test_what_is_taken_back_never_arrives() -> None:
    """The peer does not read: the kernel would go on sending when it does, however long after the end."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        own = socket.create_connection(server.getsockname())
        peer, _ = server.accept()
    own.setblocking(False)
    event_loop_io, relay = EventLoopIO(asyncio.get_running_loop()), Relay(Frames([2**40]))
    wire = relay.wire = relay.other = Wire(own, relay, event_loop_io)
    wire.start()
    wire.write(bytes(32_000_000))
    assert wire.waiting
    wire.take_back()
    with peer, pytest.raises(ConnectionResetError):
        drain(peer)
    wire.close()  # it is over already
    event_loop_io.pipes.close()


@pytest.mark.parametrize("lapses", [True, False])
async def test_what_waits_under_a_lease_leaves_only_while_it_is_valid(lapses: bool) -> None:
    pair = Pair([2**40])
    event_loop_io, wire = pair.event_loop_io, pair.there.other
    valid = pair.under_lease(wire, bytes(8_000_000))
    event_loop_io.flush()
    assert wire.waiting
    event_loop_io.collect()  # what comes later is under none
    event_loop_io.flush()
    valid[0] = not lapses  # the process was stopped, and goes on
    count = await asyncio.to_thread(read_all, pair.right, 8_000_000)
    assert (count < 8_000_000) is lapses
    await wait_until_async(lambda: bool(pair.back.ended) is lapses)
    pair.close()


@pytest.mark.parametrize("lapses", [True, False])
async def test_a_burst_under_a_lease_leaves_only_while_it_is_valid(lapses: bool) -> None:
    pair = Pair([2**40])
    event_loop_io, wire = pair.event_loop_io, pair.there.other
    valid = pair.under_lease(wire, b"late")
    event_loop_io.collect()  # a burst within the burst
    valid[0] = not lapses  # the process was stopped, and goes on
    event_loop_io.flush()
    wire.write(b"r")  # whoever does not know it yet
    assert await asyncio.to_thread(read_all, pair.right, 5) == (0 if lapses else 5)
    await wait_until_async(lambda: bool(pair.back.ended) is lapses)
    pair.close()


async def test_answers_leave_whatever_became_of_the_lease() -> None:
    pair = Pair([2**40])
    wire = pair.there.wire  # which leads to the client
    valid = pair.under_lease(wire, bytes(8_000_000))
    valid[0] = False
    pair.event_loop_io.flush()
    assert wire.waiting
    assert await asyncio.to_thread(read_all, pair.left, 8_000_000) == 8_000_000
    pair.close()


async def test_a_burst_under_no_lease_leaves() -> None:
    pair = Pair([2**40])
    event_loop_io = pair.event_loop_io
    event_loop_io.lease_valid = lambda: False
    event_loop_io.collect()
    assert not event_loop_io.may_write()
    pair.there.other.write(b"refused")
    event_loop_io.flush()
    assert await asyncio.to_thread(read_all, pair.right, 7) == 7
    pair.close()


def read_all(sock: socket.socket, most: int) -> int:
    """How many bytes come, `most` of them at the most."""
    count = 0
    while count < most and (data := sock.recv(most - count)):
        count += len(data)
    return count


def drain(peer: socket.socket) -> None:
    """Read to the end."""
    while peer.recv(1_000_000):
        pass
