"""What an HTTP service answers costs no more than what is allowed, however it is packed and however slowly it comes."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx
import pytest

from gateway.transport.http_answer import AnswerError, bounded_answer

MOST = 4096
BOMB = gzip.compress(gzip.compress(bytes(64 << 20)))  # 64 MiB of zeros in some hundred bytes

Serve = Callable[[asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def service(serve: Serve) -> AsyncIterator[str]:
    """A service that answers each request by `serve`."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            await serve(writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    finally:
        server.close()


def answers(body: bytes, *headers: str, length: int | None = None) -> Serve:
    async def serve(writer: asyncio.StreamWriter) -> None:
        head = [f"content-length: {len(body) if length is None else length}", *headers]
        writer.write("\r\n".join(["HTTP/1.1 200 OK", *head, "", ""]).encode() + body)
        await writer.drain()

    return serve


async def asked(serve: Serve, within_s: float = 10.0) -> tuple[int, bytes]:
    async with service(serve) as url, httpx.AsyncClient(trust_env=False) as client:
        return await bounded_answer(client, "GET", url, most=MOST, within_s=within_s)


async def test_an_answer() -> None:
    assert await asked(answers(b"x" * MOST)) == (200, b"x" * MOST)


async def test_one_that_is_too_long() -> None:
    with pytest.raises(AnswerError, match=r"^an answer of more than 4096 bytes$"):
        await asked(answers(b"x" * (MOST + 1)))


@pytest.mark.parametrize("encoding", ["gzip, gzip", "gzip", "deflate", "br", "made-up"])
async def test_a_compressed_one_is_not_inflated(encoding: str) -> None:
    assert len(BOMB) < MOST
    with pytest.raises(AnswerError, match=r"^its answer is compressed"):
        await asked(answers(BOMB, f"content-encoding: {encoding}"))


async def test_one_that_trickles() -> None:
    """Each byte comes in time, and they never end."""

    async def trickle(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4000\r\n\r\n")
        turns = asyncio.Event()
        while not writer.is_closing():
            writer.write(b"x")
            await writer.drain()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(turns.wait(), 0.02)

    with pytest.raises(AnswerError, match=r"^no whole answer within 0.3 s$"):
        await asked(trickle, within_s=0.3)


async def test_one_that_is_cut_off() -> None:
    with pytest.raises(AnswerError):
        await asked(answers(b"x", length=100))


async def test_nobody_there(unused_tcp_port: int) -> None:
    async with httpx.AsyncClient(trust_env=False) as client:
        with pytest.raises(AnswerError):
            await bounded_answer(client, "GET", f"http://127.0.0.1:{unused_tcp_port}/", most=MOST, within_s=5.0)
