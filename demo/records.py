"""What one demo record looks like, so that everything can be counted from the records themselves.

The value starts with the producer's name and its sequence number and is padded to 1 KB; the key, two headers
and the timestamp are the record's own. `java/Values.java` writes the same form.
"""

from __future__ import annotations

import hashlib
import random
import struct
from collections.abc import Iterable
from typing import NamedTuple

VALUE_BYTES = 1024
CUSTOMERS = 997  # a prime, so that keys and partitions do not move in step

_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_PADDING = "".join(random.Random(7).choices(_LETTERS, k=64 * 1024)).encode()  # fixed seed: the same on every run


class RecordId(NamedTuple):
    """Names one record for good: the producer that wrote it and its number there, from 0."""

    producer: str
    seq: int


def key_of(seq: int) -> bytes:
    """The record's key."""
    return b"customer-%d" % (seq % CUSTOMERS)


def value_of(producer: str, seq: int) -> bytes:
    """The record's value: `producer seq padding`, VALUE_BYTES long."""
    head = f"{producer} {seq} ".encode()
    start = seq * 131 % (len(_PADDING) - VALUE_BYTES)
    return head + _PADDING[start : start + VALUE_BYTES - len(head)]


def headers_of(producer: str, seq: int) -> list[tuple[str, bytes]]:
    """The record's headers."""
    return [("origin", producer.encode()), ("number", b"%d" % seq)]


def parse_value(value: bytes | None) -> RecordId:
    """The id written into a value.

    Raises:
        ValueError: The value is not one of the demo's.
    """
    head = (value or b"")[:80].split(b" ", 2)
    if len(head) != 3 or not head[1].isdigit():
        raise ValueError(f"not a record of the demo: {(value or b'')[:80]!r}")
    return RecordId(head[0].decode(), int(head[1]))


def digest(
    key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]], timestamp: tuple[int, int]
) -> int:
    """A 64-bit digest of all that a consumer can see of a record but its offset.

    `timestamp` is (type, milliseconds), as confluent-kafka gives it. Lengths are part of the digest, so that no two
    different records can look alike by moving a byte from one field to the next.
    """
    fields = [key, value]
    for name, header in headers:
        fields += (name.encode(), header)
    lengths = [-1 if field is None else len(field) for field in fields]
    content = struct.pack(f">qq{len(fields)}i", *timestamp, *lengths) + b"".join(field for field in fields if field)
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "big")
