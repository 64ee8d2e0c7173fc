"""What goes wrong with bytes and with the order of frames. Each mutation keeps the rest as it is."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from typing import Final

from tests.fuzz.corpus import Request

_NUMBERS: Final = (b"\xff", b"\0", b"\x7f", b"\x80", b"\x01")
_LENGTHS: Final = (
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\x80\0\0\0",
    b"\0\0\0\0",
    b"\0\1\0\0",
    b"\xff\xff\xff\x7f",
)
_SIZES: Final = (0, 1, 7, 8, 13, 14, -1, -(1 << 31), (1 << 31) - 1, 1 << 20, 16_385, 524_289)
_HEAD: Final = 4
STRANGE: Final[Sequence[tuple[bytes, str]]] = (
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40), "a TLS ClientHello"),
    (b"GET / HTTP/1.1\r\nHost: gateway\r\n\r\n", "HTTP"),
    (b"\0\0\0\0", "an empty frame"),
    (b"\xff\xff\xff\xff", "a frame of -1 bytes"),
    (b"\0\0\0\x08\0\x12\0\x04\0\0\0\x01", "a header without a client id"),
    (b"\0\0\0\x0a\0\x12\0\x63\0\0\0\x01\xff\xff", "ApiVersions v99"),
    (b"\0\0\0\x0a\x7f\xff\0\0\0\0\0\x01\xff\xff", "an API that nobody knows"),
    (b"\x0d\x0a\x0d\x0a\0\x0d\x0aQUIT\x0a\x21\x11\0\x0c\x7f\0\0\1\x7f\0\0\1\1\2\3\4", "PROXY protocol v2"),
    (bytes(300), "zeros"),
)


def byte(rng: random.Random, data: bytearray) -> str:
    """One byte is another one."""
    at = rng.randrange(len(data))
    data[at : at + 1] = rng.choice((rng.randbytes(1), rng.choice(_NUMBERS)))
    return f"byte {at}"


def length(rng: random.Random, data: bytearray) -> str:
    """Four bytes that may be a length are a strange one."""
    at = rng.randrange(_HEAD, max(len(data) - 3, _HEAD + 1))
    data[at : at + 4] = rng.choice(_LENGTHS)
    return f"length at {at}"


def cut(rng: random.Random, data: bytearray) -> str:
    """Some bytes are missing; half the time the size tells so."""
    at = rng.randrange(_HEAD, len(data))
    del data[at : at + rng.randint(1, 20)]
    return f"cut at {at}{_sized(rng, data)}"


def insert(rng: random.Random, data: bytearray) -> str:
    """There are bytes too many."""
    at = rng.randrange(_HEAD, len(data) + 1)
    data[at:at] = rng.choice((rng.randbytes(rng.randint(1, 20)), bytes(8), b"\xff" * rng.randint(1, 600)))
    return f"insert at {at}{_sized(rng, data)}"


def repeat(rng: random.Random, data: bytearray) -> str:
    """A part comes again, often."""
    at = rng.randrange(_HEAD, len(data))
    part = data[at : at + rng.randint(1, 40)]
    data[at:at] = part * rng.choice((1, 10, 500))
    return f"repeat at {at}{_sized(rng, data)}"


def size(rng: random.Random, data: bytearray) -> str:
    """The frame's size is another one."""
    chosen = rng.choice((*_SIZES, len(data) - 5, len(data) - 3, len(data) + 100))
    data[:_HEAD] = struct.pack(">i", chosen)
    return f"size {chosen}"


def api(rng: random.Random, data: bytearray) -> str:
    """Another API, or another version."""
    key, version = rng.randrange(-1, 95), rng.choice((*range(-1, 19), 0x7FFF))
    if rng.random() < 0.5:
        data[4:6] = struct.pack(">h", key)
        return f"API {key}"
    data[6:8] = struct.pack(">h", version)
    return f"version {version}"


def correlation(rng: random.Random, data: bytearray) -> str:
    """A correlation id that the gateway uses itself, or that came before."""
    chosen = rng.choice((-1, -2, 0, 1))
    data[8:12] = struct.pack(">i", chosen)
    return f"correlation id {chosen}"


def _sized(rng: random.Random, data: bytearray) -> str:
    if rng.random() < 0.7:
        data[:_HEAD] = struct.pack(">i", len(data) - _HEAD)
        return ""
    return ", its size as before"


MUTATIONS: Final[Sequence[Callable[[random.Random, bytearray], str]]] = (
    byte,
    byte,
    length,
    length,
    cut,
    insert,
    repeat,
    size,
    api,
    correlation,
)


def mutated(rng: random.Random, request: Request) -> Request:
    """The request with one to three things wrong."""
    data = bytearray(request.data)
    count = rng.choice((1, 1, 2, 3))
    notes = [rng.choice(MUTATIONS)(rng, data) for _ in range(count) if len(data) > _HEAD + 8]
    return Request(bytes(data), f"{request.note} ({', '.join(notes)})")


def reordered(rng: random.Random, requests: list[Request]) -> list[Request]:
    """Two change places, one is missing, one comes twice, or something else comes in between."""
    found = list(requests)
    at, other = rng.randrange(len(found)), rng.randrange(len(found))
    how = rng.randrange(4)
    if how == 0:
        found[at], found[other] = found[other], found[at]
    elif how == 1:
        del found[at]
    elif how == 2:
        found.insert(other, found[at])
    else:
        found.insert(at, Request(*rng.choice(STRANGE)))
    return found
