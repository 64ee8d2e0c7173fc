"""An asyncio transport in the guise of a `Wire`, between real sockets: what becomes of what was written at its end."""

from __future__ import annotations

import asyncio

import pytest

from gateway.proxy.session.sides import TransportWire

BYTES = 32_000_000  # more than both kernels hold


@pytest.mark.parametrize("taken_back", [True, False])
async def test_what_is_taken_back_never_arrives(taken_back: bool) -> None:
    """The peer begins to read when the connection has ended: without it the kernel goes on sending then."""
    ended, read = asyncio.Event(), asyncio.get_running_loop().create_future()

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await ended.wait()
        count, how = 0, "end"
        try:
            while data := await reader.read(1 << 20):
                count += len(data)
        except ConnectionResetError:
            how = "reset"
        writer.close()
        read.set_result((how, count == BYTES))

    server = await asyncio.start_server(peer, "127.0.0.1", 0)
    loop, (host, port) = asyncio.get_running_loop(), server.sockets[0].getsockname()
    transport, _ = await loop.create_connection(asyncio.Protocol, host, port)
    wire = TransportWire(transport)
    wire.write(bytes(BYTES))
    (wire.take_back if taken_back else wire.close)()
    ended.set()
    assert await asyncio.wait_for(read, 10) == (("reset", False) if taken_back else ("end", True))
    server.close()
    await server.wait_closed()
