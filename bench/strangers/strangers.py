"""The attacks, one in a process of its own: it goes on until its stdin ends.

    python -m bench.strangers.strangers half_open PLAIN_BOOTSTRAP TLS_BOOTSTRAP CA API_URL TOKEN_FILE SOURCE BOMBS

Prints `attacking` when it is under way. What the gateway refuses, or closes, is asked for again after a moment: a
stranger is not impressed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import ssl
import struct
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import uvloop
import zstandard

from bench.clients.raw import address, all_metadata, batch_around, read_frame
from bench.strangers.wire import connected, framed, logged_in, trusting
from protocol.apis import ApiKey
from protocol.header import frame_request
from protocol.messages import CreateTopicsRequest, OffsetFetchRequest
from protocol.produce import build_request_body

MALLORY: Final = "mallory"
NICE: Final = 19
"""Strangers have machines of their own. Here they take what CPU the others leave: what they use of it is no cost of the
gateway's."""
_REST_S: Final = 0.05
_HALF_OPEN: Final = 1_000
_HEAD_BYTES: Final = 60_000
_FLOOD: Final = 1_000  # handshakes a second, of all addresses
_SLOW: Final = 50
_CONSOLES: Final = 30
_NAMES: Final = 10_000
_GROUPS: Final = 2_000
_EMPTY_RECORDS: Final = 100_000
_ZEROS: Final = 48 * 1024 * 1024
_ZSTD: Final = 4
_GARBAGE: Final = (
    b"GET /v3/links HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: x\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
    b"GET /" + b"a" * 4_000 + b" HTTP/1.1\r\n\r\n",
    b"POST /v3/migrations:check HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n{{{{",
    b"\x00\xff\r\n\r\n",
)

Attack = Callable[[argparse.Namespace], Awaitable[None]]


async def _for_ever(one: Callable[[], Awaitable[object]]) -> None:
    """Again and again, whatever becomes of it."""
    while True:
        with suppress(OSError, EOFError, TimeoutError, ValueError):
            await one()
        await asyncio.sleep(_REST_S)


async def half_open(args: argparse.Namespace) -> None:
    """A SaslAuthenticate of 60 KB, but for its last byte, on each of a thousand connections."""
    head = struct.pack(">ihhih", _HEAD_BYTES, int(ApiKey.SASL_AUTHENTICATE), 2, 1, -1) + b"\0"
    body = bytes(_HEAD_BYTES - len(head) + 4 - 1)

    async def one() -> None:
        reader, writer = await connected(args.plain)
        try:
            writer.write(head + body)
            await reader.read(1)  # until it is closed
        finally:
            writer.close()

    await asyncio.gather(*(_for_ever(one) for _ in range(_HALF_OPEN)))


async def _flood(args: argparse.Namespace, addresses: int) -> None:
    context = trusting(args.ca)
    pending = asyncio.Semaphore(200)
    number = 0

    async def one(source: str) -> None:
        async with pending:
            with suppress(OSError, EOFError, TimeoutError, ssl.SSLError):
                async with asyncio.timeout(5):
                    _, writer = await connected(args.tls, tls=context, source=source)
                    writer.close()

    async with asyncio.TaskGroup() as group:
        while True:
            for _ in range(_FLOOD // 50):
                if not pending.locked():
                    group.create_task(one(f"127.0.0.{2 + number % addresses}"))
                    number += 1
            await asyncio.sleep(1 / 50)


async def handshakes_one(args: argparse.Namespace) -> None:
    """As many TLS handshakes as one address is let, and more."""
    await _flood(args, 1)


async def handshakes_ten(args: argparse.Namespace) -> None:
    """The same from ten addresses."""
    await _flood(args, 10)


async def slow_readers(args: argparse.Namespace) -> None:
    """Who has logged in asks for all metadata again and again, and reads no answer."""

    async def one() -> None:
        _, writer = await logged_in(args.plain, MALLORY)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        try:
            async with asyncio.timeout(30):
                while True:
                    writer.write(all_metadata() * 10)
                    await writer.drain()
        finally:
            writer.transport.abort()

    await asyncio.gather(*(_for_ever(one) for _ in range(_SLOW)))


async def _asking(args: argparse.Namespace, connections: int, request: Callable[[int], bytes]) -> None:
    async def one() -> None:
        reader, writer = await logged_in(args.plain, MALLORY)
        number = 0
        try:
            while True:
                writer.write(request(number))
                number += 1
                await read_frame(reader)
        finally:
            writer.close()

    await asyncio.gather(*(_for_ever(one) for _ in range(connections)))


async def create_topics(args: argparse.Namespace) -> None:
    """Ten thousand names of 200 characters, which mallory may not create; other names each time."""

    def request(number: int) -> bytes:
        topics = [
            CreateTopicsRequest.CreatableTopic(
                name=f"{number}-{index}-".ljust(200, "x"),
                num_partitions=1,
                replication_factor=1,
                assignments=[],
                configs=[],
            )
            for index in range(_NAMES)
        ]
        return framed(CreateTopicsRequest(topics=topics, timeout_ms=5_000, validate_only=True), 5)

    prepared = [request(number) for number in range(4)]
    await _asking(args, 2, lambda number: prepared[number % len(prepared)])


async def offset_fetch(args: argparse.Namespace) -> None:
    """Offsets of two thousand groups in a request."""
    groups = [
        OffsetFetchRequest.OffsetFetchRequestGroup(group_id=f"nobody-{index}", topics=None) for index in range(_GROUPS)
    ]
    request = framed(OffsetFetchRequest(groups=groups, require_stable=False), 8)
    await _asking(args, 4, lambda _: request)


async def bombs(args: argparse.Namespace) -> None:
    """Batches that are small and inflate to much, in a topic whose schema ids are written anew."""
    squeeze = zstandard.ZstdCompressor(level=3).compress
    many = squeeze(b"".join(_record(index, b"") for index in range(_EMPTY_RECORDS)))
    large = squeeze(_record(0, bytes(_ZEROS)))
    batches = [batch_around(many, _EMPTY_RECORDS, codec=_ZSTD), batch_around(large, 1, codec=_ZSTD)]

    async def one() -> None:
        reader, writer = await connected(args.source)
        try:
            while True:
                for batch in batches:
                    body = b"".join(build_request_body(9, None, -1, 30_000, {args.bombs: [(0, batch)]}))
                    writer.write(frame_request(int(ApiKey.PRODUCE), 9, 1, MALLORY, body))
                    await read_frame(reader)
                    await asyncio.sleep(_REST_S)
        finally:
            writer.close()

    await _for_ever(one)


def _record(offset: int, value: bytes) -> bytes:
    inside = b"\x00\x00" + _varint(offset) + b"\x01" + _varint(len(value)) + value + b"\x00"
    return _varint(len(inside)) + inside


def _varint(value: int) -> bytes:
    """Signed (zigzag), of a number that is not negative."""
    coded, found = value << 1, bytearray()
    while coded >= 0x80:
        found.append(coded & 0x7F | 0x80)
        coded >>= 7
    return bytes([*found, coded])


async def rest_garbage(args: argparse.Namespace) -> None:
    """What is no HTTP, or not for this server, on many connections; from an address that nobody else has."""
    host, port = address(args.api.removeprefix("http://"))

    def one(number: int) -> Callable[[], Awaitable[None]]:
        async def garbage() -> None:
            reader, writer = await asyncio.open_connection(host, port, local_addr=("127.0.0.9", 0))
            try:
                async with asyncio.timeout(2):
                    for _ in range(50):
                        writer.write(_GARBAGE[number % len(_GARBAGE)])
                        await writer.drain()
                        if not await reader.read(65_536):
                            return
            finally:
                writer.transport.abort()

        return garbage

    await asyncio.gather(*(_for_ever(one(number)) for number in range(50)))


async def consoles(args: argparse.Namespace) -> None:
    """Thirty streams of the console that nobody reads."""
    host, port = address(args.api.removeprefix("http://"))
    token = args.token.read_text(encoding="utf-8").strip()

    async def one() -> None:
        reader, writer = await asyncio.open_connection(host, port, limit=1_024)
        try:
            writer.write(f"GET /console/feed HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
            await reader.read(1)
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            await asyncio.sleep(60)
        finally:
            writer.transport.abort()

    await asyncio.gather(*(_for_ever(one) for _ in range(_CONSOLES)))


ATTACKS: Final[Mapping[str, Attack]] = {
    one.__name__: one
    for one in (
        half_open,
        handshakes_one,
        handshakes_ten,
        slow_readers,
        create_topics,
        offset_fetch,
        bombs,
        rest_garbage,
        consoles,
    )
}


async def _under_way(args: argparse.Namespace) -> None:
    await ATTACKS[args.attack](args)


async def _run(args: argparse.Namespace) -> None:
    attack = asyncio.create_task(_under_way(args), name=args.attack)
    over = asyncio.create_task(asyncio.to_thread(sys.stdin.read), name="until the end")
    sys.stdout.write("attacking\n")
    sys.stdout.flush()
    await asyncio.wait((attack, over), return_when=asyncio.FIRST_COMPLETED)
    if attack.done():
        attack.result()
    attack.cancel()


def main() -> None:
    """Attack until the end of stdin."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("attack", choices=sorted(ATTACKS))
    parser.add_argument("plain")
    parser.add_argument("tls")
    parser.add_argument("ca", type=Path)
    parser.add_argument("api")
    parser.add_argument("token", type=Path)
    parser.add_argument("source")
    parser.add_argument("bombs")
    os.nice(NICE)
    uvloop.run(_run(parser.parse_args()))


if __name__ == "__main__":
    main()
