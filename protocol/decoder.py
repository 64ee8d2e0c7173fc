"""Decoders for kafka-python's message classes that are safe on bytes from anybody.

kafka-python's own decoders trust their input: a varint may run on for megabytes, a string that ends after the
buffer comes out short, null is accepted everywhere. These follow the same schemas, build the same objects, and
check every length, so that the work and the memory are bounded by the bytes that are there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from struct import Struct, calcsize, unpack_from
from typing import Any, TypeAlias
from uuid import UUID

from kafka.protocol.api_message import ApiMessage

from protocol.errors import IncompleteFrame, MalformedFrame
from protocol.wire import Buffer, array_reader, bytes_reader, read_tags, string_reader

Reader: TypeAlias = Callable[[Buffer, int], tuple[Any, int]]

FIXED = {"bool": "?", "int8": "b", "int16": "h", "uint16": "H", "int32": "i", "int64": "q", "float64": "d"}
NO_OPERATIONS = 1 << 31  # "authorized operations were not asked for" (KIP-430)


class _Plan:
    """What a message's readers share: its version, its encoding, and how many array elements may still come."""

    __slots__ = ("flexible", "left", "version")

    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.left = 0

    def take(self, elements: int) -> None:
        self.left -= elements
        if self.left < 0:
            raise MalformedFrame("more array elements than are decoded")


@lru_cache(maxsize=1024)
def message_reader(message_class: Any, version: int, max_elements: int) -> Reader:
    """The decoder of one version of a message class: `(buf, at) -> (message, next)`.

    It raises `MalformedFrame`, also for more than `max_elements` array elements in all, and what
    `protocol.wire.parser` translates into it. Not for use by several threads at once.
    """
    plan = _Plan(version, message_class.flexible_version_q(version))
    read_message = _struct_reader(message_class._struct, plan, message_class)

    def read(buf: Buffer, at: int) -> tuple[Any, int]:
        plan.left = max_elements
        return read_message(buf, at)

    return read


def _struct_reader(struct: Any, plan: _Plan, data_class: Any) -> Reader:
    version = plan.version
    steps = _steps(struct.untagged_fields(version), plan)
    tagged = _tagged_readers(struct, plan) if plan.flexible else None
    new = object.__new__
    is_message = issubclass(data_class, ApiMessage)

    def read(buf: Buffer, at: int) -> tuple[Any, int]:
        item = new(data_class)
        item._version = version
        item.tags = item.unknown_tags = None
        if is_message:
            item._header = None  # `encode` looks at it
        for name, reader, fixed in steps:
            if fixed is None:
                value, at = reader(buf, at)
                setattr(item, name, value)
            else:
                for field_name, value in zip(name, fixed.unpack_from(buf, at), strict=True):
                    setattr(item, field_name, value)
                at += fixed.size
        if tagged is not None:
            if buf[at]:
                at = _read_tagged(buf, at, tagged, item)
            else:
                at += 1
        return item, at

    return read


def _steps(fields: list[Any], plan: _Plan) -> list[tuple[Any, Any, Struct | None]]:
    """(name, reader, None) for a field, or (names, None, Struct) for a run of fields of fixed size."""
    steps: list[tuple[Any, Any, Struct | None]] = []
    names: list[str] = []
    formats = ""
    for field in fields:
        if field.type_str in FIXED:
            names.append(field.name)
            formats += FIXED[field.type_str]
            continue
        if names:
            steps.append((tuple(names), None, Struct(">" + formats)))
            names, formats = [], ""
        steps.append((field.name, _field_reader(field, plan), None))
    if names:
        steps.append((tuple(names), None, Struct(">" + formats)))
    return steps


def _field_reader(field: Any, plan: _Plan) -> Reader:
    nullable = field.nullable_for_version_q(plan.version)
    if field.is_array():
        element = field.array_of
        if element.is_struct():
            reader = _struct_reader(element, plan, element.data_class)
        elif element.type_str in FIXED:
            return _fixed_array(plan, FIXED[element.type_str], nullable, field.name)
        else:
            reader = _simple_reader(element, plan.flexible, nullable=False)
        return _array(plan, reader, nullable, field.name)
    if field.is_struct():
        reader = _struct_reader(field, plan, field.data_class)
        return _nullable_struct(reader) if nullable else reader
    return _simple_reader(field, plan.flexible, nullable)


def _simple_reader(field: Any, flexible: bool, nullable: bool) -> Reader:
    kind: str = field.type_str
    if kind in FIXED:
        return _fixed(Struct(">" + FIXED[kind]))
    if kind == "string":
        reader = string_reader(flexible)
        return reader if nullable else _required(reader, field.name)
    if kind in ("bytes", "records"):
        return _bytes(bytes_reader(flexible), flexible, nullable, field.name)
    if kind == "uuid":
        return _uuid
    if kind == "bitfield":
        return _operations
    raise TypeError(f"no reader for the type {kind} of {field.name}")


def _required(reader: Reader, name: str) -> Reader:
    def read(buf: Buffer, at: int) -> tuple[Any, int]:
        value, at = reader(buf, at)
        if value is None:
            raise MalformedFrame(f"{name} is null")
        return value, at

    return read


def _fixed(fixed: Struct) -> Reader:
    def read(buf: Buffer, at: int) -> tuple[Any, int]:
        return fixed.unpack_from(buf, at)[0], at + fixed.size

    return read


def _bytes(reader: Reader, flexible: bool, nullable: bool, name: str) -> Reader:
    def read(buf: Buffer, at: int) -> tuple[Any, int]:
        is_null = buf[at] == 0 if flexible else buf[at] >= 0x80  # a length of 0 (compact), or below 0
        start, end = reader(buf, at)
        if is_null:
            if nullable:
                return None, end
            raise MalformedFrame(f"{name} is null")
        return bytes(buf[start:end]), end

    return read


def _array(plan: _Plan, reader: Reader, nullable: bool, name: str) -> Reader:
    size_reader = array_reader(plan.flexible)

    def read(buf: Buffer, at: int) -> tuple[Any, int]:
        count, at = size_reader(buf, at)
        if count < 0:
            if nullable:
                return None, at
            raise MalformedFrame(f"{name} is null")
        plan.take(count)
        items = []
        for _ in range(count):
            item, at = reader(buf, at)
            items.append(item)
        return items, at

    return read


def _fixed_array(plan: _Plan, code: str, nullable: bool, name: str) -> Reader:
    size_reader = array_reader(plan.flexible)
    width = calcsize(">" + code)

    def read(buf: Buffer, at: int) -> tuple[Any, int]:
        count, at = size_reader(buf, at)
        if count < 0:
            if nullable:
                return None, at
            raise MalformedFrame(f"{name} is null")
        plan.take(count)
        end = at + count * width
        if end > len(buf):  # before a format for so many is made
            raise IncompleteFrame(f"{name} does not fit in the frame")
        return list(unpack_from(f">{count}{code}", buf, at)), end

    return read


def _nullable_struct(reader: Reader) -> Reader:
    def read(buf: Buffer, at: int) -> tuple[Any, int]:
        if buf[at] >= 0x80:  # KIP-893: an int8 before it, negative for null
            return None, at + 1
        return reader(buf, at + 1)

    return read


def _uuid(buf: Buffer, at: int) -> tuple[UUID | None, int]:
    raw = bytes(buf[at : at + 16])
    if len(raw) < 16:
        raise IncompleteFrame("the frame ends inside a UUID")
    return _uuid_of(raw), at + 16


@lru_cache(maxsize=4096)
def _uuid_of(raw: bytes) -> UUID | None:
    """A topic's comes again and again, and to make one takes 2 us."""
    return UUID(bytes=raw) if any(raw) else None


_UINT32 = Struct(">I")


def _operations(buf: Buffer, at: int) -> tuple[set[int] | None, int]:
    bits = _UINT32.unpack_from(buf, at)[0]
    if bits == NO_OPERATIONS:
        return None, at + 4
    return {bit for bit in range(32) if bits >> bit & 1}, at + 4


def _tagged_readers(struct: Any, plan: _Plan) -> dict[int, tuple[str, Reader]]:
    return {
        field.tag: (field.name, _field_reader(field, plan))
        for field in struct.fields.values()
        if field.for_version_q(plan.version) and field.tagged_field_q(plan.version)
    }


def _read_tagged(buf: Buffer, at: int, known: dict[int, tuple[str, Reader]], item: Any) -> int:
    tags, at = read_tags(buf, at)
    for tag, (start, end) in tags.items():
        if tag in known:
            name, reader = known[tag]
            value, stop = reader(buf, start)
            if stop > end:
                raise MalformedFrame(f"{name} is longer than its tag says")
            setattr(item, name, value)
    return at
