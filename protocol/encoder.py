"""Encoders for kafka-python's message classes, the counterpart of `protocol.decoder`.

kafka-python's own encoders write each field into a buffer, and ask every structure of a flexible message for tagged
fields, which it hardly ever has. These follow the same schemas and write the same bytes: runs of fields of fixed size
at once, and all else as pieces that are joined at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from operator import attrgetter
from struct import Struct
from typing import Any, TypeAlias
from uuid import UUID

from protocol.decoder import FIXED, NO_OPERATIONS
from protocol.wire import INT16, array_size, bytes_size, uvarint

Append: TypeAlias = Callable[[bytes], None]
Writer: TypeAlias = Callable[[Any, Append], None]
"""Write a value as pieces."""

_NO_TAGS = b"\0"
_NO_UUID = bytes(16)
_UINT32 = Struct(">I")


@lru_cache(maxsize=1024)
def message_writer(message_class: Any, version: int) -> Callable[[Any], bytes]:
    """The encoder of one version of a message class. It raises what `struct` raises for a number out of range."""
    flexible = message_class.flexible_version_q(version)
    write_message = _struct_writer(message_class._struct, version, flexible)

    def write(message: Any) -> bytes:
        pieces: list[bytes] = []
        write_message(message, pieces.append)
        return b"".join(pieces)

    return write


def _struct_writer(struct: Any, version: int, flexible: bool, in_tag: bool = False) -> Writer:
    """`in_tag`: of a structure in a tagged field, which has no tagged fields itself."""
    steps = _steps(struct.untagged_fields(version), version, flexible, in_tag)
    tagged = _tagged_writer(struct, version) if flexible and not in_tag else None

    def write(item: Any, append: Append) -> None:
        for values_of, pack, writer, one in steps:
            if writer is not None:
                writer(values_of(item), append)
            elif one:
                append(pack(values_of(item)))
            else:
                append(pack(*values_of(item)))
        if tagged is not None:
            tagged(item, append)
        elif flexible:
            append(_NO_TAGS)

    return write


def _steps(fields: list[Any], version: int, flexible: bool, in_tag: bool) -> list[Any]:
    """(getter, None, writer, _) for a field, or (getter, pack, None, only one) for a run of fields of fixed size."""
    steps: list[Any] = []
    run: list[Any] = []

    def end_run() -> None:
        if run:
            pack = Struct(">" + "".join(FIXED[field.type_str] for field in run)).pack
            steps.append((attrgetter(*(field.name for field in run)), pack, None, len(run) == 1))
            run.clear()

    for field in fields:
        if field.type_str in FIXED and not field.is_array():
            run.append(field)
        else:
            end_run()
            steps.append((attrgetter(field.name), None, _field_writer(field, version, flexible, in_tag), False))
    end_run()
    return steps


def _field_writer(field: Any, version: int, flexible: bool, in_tag: bool) -> Writer:
    if field.is_array():
        element = field.array_of
        if element.is_struct():
            return _array(_struct_writer(element, version, flexible, in_tag), flexible)
        if element.type_str in FIXED:
            return _fixed_array(FIXED[element.type_str], flexible)
        return _array(_simple_writer(element.type_str, flexible), flexible)
    if field.is_struct():
        writer = _struct_writer(field, version, flexible, in_tag)
        return _nullable_struct(writer) if field.nullable_for_version_q(version) else writer
    return _simple_writer(field.type_str, flexible)


def _simple_writer(kind: str, flexible: bool) -> Writer:
    if kind in FIXED:
        pack = Struct(">" + FIXED[kind]).pack
        return lambda value, append: append(pack(value))
    if kind == "string":
        return _compact_string if flexible else _string
    if kind in ("bytes", "records"):
        return _compact_bytes if flexible else _bytes
    if kind == "uuid":
        return _uuid
    if kind == "bitfield":
        return _operations
    raise TypeError(f"no writer for the type {kind}")


def _compact_string(value: Any, append: Append) -> None:
    if value is None:
        append(b"\0")
        return
    data = str(value).encode()
    size = len(data) + 1
    append(bytes((size,)) + data if size < 0x80 else uvarint(size) + data)


def _string(value: Any, append: Append) -> None:
    if value is None:
        append(b"\xff\xff")
        return
    data = str(value).encode()
    append(INT16.pack(len(data)) + data)


def _compact_bytes(value: Any, append: Append) -> None:
    append(bytes_size(-1 if value is None else len(value), True))
    if value is not None:
        append(value)


def _bytes(value: Any, append: Append) -> None:
    append(bytes_size(-1 if value is None else len(value), False))
    if value is not None:
        append(value)


def _uuid(value: Any, append: Append) -> None:
    if value is None:
        append(_NO_UUID)
    else:
        append((value if isinstance(value, UUID) else UUID(value)).bytes)


def _operations(value: Any, append: Append) -> None:
    bits = NO_OPERATIONS if value is None else 0
    for bit in value or ():
        bits |= 1 << bit
    append(_UINT32.pack(bits))


def _array(write_element: Writer, flexible: bool) -> Writer:
    def write(items: Any, append: Append) -> None:
        if items is None:
            append(array_size(-1, flexible))
            return
        append(array_size(len(items), flexible))
        for item in items:
            write_element(item, append)

    return write


def _fixed_array(code: str, flexible: bool) -> Writer:
    def write(items: Any, append: Append) -> None:
        if items is None:
            append(array_size(-1, flexible))
            return
        append(array_size(len(items), flexible))
        append(Struct(f">{len(items)}{code}").pack(*items))

    return write


def _nullable_struct(writer: Writer) -> Writer:
    def write(item: Any, append: Append) -> None:
        if item is None:
            append(b"\xff")  # KIP-893
        else:
            append(b"\x01")
            writer(item, append)

    return write


def _tagged_writer(struct: Any, version: int) -> Writer | None:
    """None: the structure has none in this version."""
    fields = [
        (field.name, field.tag, field.default, _field_writer(field, version, flexible=True, in_tag=True))
        for field in struct.fields.values()
        if field.for_version_q(version) and field.tagged_field_q(version)
    ]
    if not fields:
        return None

    def write(item: Any, append: Append) -> None:
        count, pieces = 0, []
        for name, tag, default, writer in fields:
            value = getattr(item, name)
            if value != default:
                inside: list[bytes] = []
                writer(value, inside.append)
                data = b"".join(inside)
                pieces += [uvarint(tag), uvarint(len(data)), data]
                count += 1
        append(uvarint(count) + b"".join(pieces))

    return write
