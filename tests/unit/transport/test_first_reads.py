"""Sockets before their clients have logged in: read in slices, behind one descriptor."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from gateway.transport.first_reads import FirstReads
from tests.support.waiting import wait_until_async


async def test_a_read_that_raises_is_not_the_last_one() -> None:
    loop = asyncio.get_running_loop()
    told: list[Any] = []
    loop.set_exception_handler(lambda _, context: told.append(context["exception"]))
    reads = FirstReads(loop, lambda _, work: work())
    here, there = socket.socketpair()
    got: list[bytes] = []

    def read() -> None:
        got.append(here.recv(1))
        if len(got) == 1:
            raise RuntimeError("a fault")

    with here, there:
        reads.add(here.fileno(), "10.0.0.1", read)
        there.send(b"ab")
        await wait_until_async(lambda: len(got) == 2, 5.0, what="both bytes")
        reads.remove(here.fileno())
        reads.close()
    assert got == [b"a", b"b"]
    assert [str(one) for one in told] == ["a fault"]
