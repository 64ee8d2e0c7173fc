"""As much of Avro as the demo's records need, and the frame that Confluent's serializers put around a value.

A record is its fields one after the other; a `string` is its length and UTF-8, a `long` a zigzag varint, a `double`
eight bytes, little-endian (Avro 1.12, *Binary encoding*). The frame is a zero byte, the schema's id as four bytes,
big-endian, and what was encoded. No library: the clients of the demo use Avro, and lockgate does not.
"""

from __future__ import annotations

import struct
from typing import Any, Final

Schema = Any
"""As JSON has it: a name, or a record with `fields`."""

_FRAME: Final = struct.Struct(">bI")
_DOUBLE: Final = struct.Struct("<d")


def framed(schema_id: int, payload: bytes) -> bytes:
    """What is written to Kafka."""
    return _FRAME.pack(0, schema_id) + payload


def unframed(data: bytes | None) -> tuple[int, bytes]:
    """The schema's id and what it is about.

    Raises:
        ValueError: this is no frame.
    """
    if data is None or len(data) < _FRAME.size or data[0] != 0:
        raise ValueError(f"no frame of a schema registry: {(data or b'')[:40]!r}")
    return _FRAME.unpack_from(data)[1], data[_FRAME.size :]


def encode(schema: Schema, value: Any) -> bytes:
    """A value by a schema. Raises ValueError for a type that the demo does not use."""
    match schema:
        case "string":
            text = value.encode()
            return _varint(len(text)) + bytes(text)
        case "long":
            return _varint(value)
        case "double":
            return _DOUBLE.pack(value)
        case {"type": "record", "fields": fields}:
            return b"".join(encode(field["type"], value[field["name"]]) for field in fields)
    raise ValueError(f"not a type of the demo: {schema!r}")


def decode(schema: Schema, data: bytes) -> Any:
    """The value that a payload holds.

    Raises:
        ValueError: it does not fit the schema, or something is left over.
    """
    try:
        value, end = _decoded(schema, data, 0)
    except (struct.error, IndexError) as error:
        raise ValueError(f"ends too early for {schema!r}: {data[:40]!r}") from error
    if end != len(data):
        raise ValueError(f"{len(data) - end} bytes too many for {schema!r}: {data[:40]!r}")
    return value


def _decoded(schema: Schema, data: bytes, at: int) -> tuple[Any, int]:
    match schema:
        case "string":
            size, at = _number(data, at)
            if size < 0 or at + size > len(data):
                raise IndexError(size)
            return data[at : at + size].decode(), at + size
        case "long":
            return _number(data, at)
        case "double":
            return _DOUBLE.unpack_from(data, at)[0], at + _DOUBLE.size
        case {"type": "record", "fields": fields}:
            found = {}
            for field in fields:
                found[field["name"]], at = _decoded(field["type"], data, at)
            return found, at
    raise ValueError(f"not a type of the demo: {schema!r}")


def _varint(value: int) -> bytes:
    left = value << 1 if value >= 0 else (-value << 1) - 1
    made = bytearray()
    while left > 0x7F:
        made.append(left & 0x7F | 0x80)
        left >>= 7
    made.append(left)
    return bytes(made)


def _number(data: bytes, at: int) -> tuple[int, int]:
    found = shift = 0
    while True:
        byte = data[at]
        at += 1
        found |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (found >> 1) ^ -(found & 1), at
