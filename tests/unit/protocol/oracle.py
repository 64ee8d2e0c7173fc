"""kio as an independent encoder of the same protocol: entity classes by key and version, strategies, bytes."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import io
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import kio.schema
from hypothesis import settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType
from kio.static.primitive import Records

from protocol.errors import MalformedFrame


def examples(part: int) -> int:
    """One `part`-th of the examples that the profile in force asks for."""
    profile = settings.default
    assert profile is not None
    return max(profile.max_examples // part, 1)


PER_VERSION = settings(max_examples=examples(5))
"""For a property that is parametrized over versions."""


@cache
def packages() -> dict[int, str]:
    """API key -> kio's package name."""
    found = {}
    for path in Path(kio.schema.__file__).parent.iterdir():
        versions = sorted(path.glob("v*"))
        if versions and (versions[0] / "request.py").exists():
            module = importlib.import_module(f"kio.schema.{path.name}.{versions[0].name}.request")
            found[int(_entity(module, EntityType.request).__api_key__)] = path.name
    return found


def _entity(module: Any, kind: EntityType) -> Any:
    return next(value for value in vars(module).values() if getattr(value, "__type__", None) is kind)


@cache
def entity(key: int, version: int, kind: str) -> Any:
    """kio's class of a request or response."""
    module = importlib.import_module(f"kio.schema.{packages()[key]}.v{version}.{kind}")
    return _entity(module, EntityType.request if kind == "request" else EntityType.response)


def module(key: int, version: int, kind: str) -> Any:
    """kio's module of a request or response, which also has the nested classes."""
    return importlib.import_module(f"kio.schema.{packages()[key]}.v{version}.{kind}")


def versions(key: int, kind: str = "request") -> list[int]:
    """The versions kio has of an API."""
    folder = Path(kio.schema.__file__).parent / packages()[key]
    return sorted(int(path.name[1:]) for path in folder.glob("v*") if (path / f"{kind}.py").exists())


def encode(value: Any) -> bytes:
    """An entity's bytes."""
    buffer = io.BytesIO()
    entity_writer(type(value))(buffer, value)
    return buffer.getvalue()


def decode(entity_class: Any, data: bytes) -> Any:
    """An entity from bytes, all of which it must take up."""
    value, size = entity_reader(entity_class)(data, 0)
    assert size == len(data), f"{len(data) - size} bytes left over"
    return value


@cache
def instances(key: int, version: int, kind: str) -> st.SearchStrategy[Any]:
    """Any instance of an entity, its tagged and nullable fields included."""
    return _entities(entity(key, version, kind))


def _entities(entity_class: Any) -> st.SearchStrategy[Any]:
    hints = get_type_hints(entity_class)
    fields = {field.name: _values(hints[field.name], field) for field in dataclasses.fields(entity_class)}
    return st.builds(entity_class, **fields)


def _values(hint: Any, field: dataclasses.Field[Any]) -> st.SearchStrategy[Any]:
    options = [option for option in get_args(hint) if option is not NoneType]
    if isinstance(hint, UnionType) or get_origin(hint) is Union:
        return st.one_of(st.none(), _values(options[0], field))
    if get_origin(hint) is tuple:
        return st.lists(_values(options[0], field), max_size=2).map(tuple)
    if dataclasses.is_dataclass(hint):
        return _entities(hint)
    kind = field.metadata["kafka_type"]
    return st.sampled_from(list(ErrorCode)) if kind == "error_code" else _PRIMITIVES[kind]


def _integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


_MILLISECONDS = st.integers(-(2**31), 2**31 - 1).map(lambda ms: timedelta(milliseconds=ms))
_PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int8": _integers(8),
    "int16": _integers(16),
    "uint16": st.integers(0, 2**16 - 1),
    "int32": _integers(32),
    "int64": _integers(64),
    "float64": st.floats(allow_nan=False),
    "string": st.text(max_size=10),
    "bytes": st.binary(max_size=20),
    "records": st.binary(max_size=100).map(Records),
    "uuid": st.one_of(st.none(), st.uuids()),
    "timedelta_i32": _MILLISECONDS,
    "timedelta_i64": _MILLISECONDS,
    "datetime_i64": st.integers(0, 2**42).map(lambda ms: datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=ms)),
}


def written(writer: Any, value: Any) -> bytes:
    """What one of kio's primitive writers makes of a value."""
    buffer = io.BytesIO()
    writer(buffer, value)
    return buffer.getvalue()


@st.composite
def mutations(draw: st.DrawFn, data: bytes) -> bytes:
    """`data`, a few bytes of which were changed, cut out or put in, mostly to values that lengths fear."""
    broken = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(len(broken) - 1, 0)))
        what = draw(st.sampled_from(["set", "huge", "cut", "insert", "end"]))
        if what == "set":
            broken[at : at + 1] = bytes((draw(st.integers(0, 255)),))
        elif what == "huge":
            broken[at : at + 4] = draw(st.sampled_from([b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0"]))
        elif what == "cut":
            del broken[at : at + draw(st.integers(1, 5))]
        elif what == "insert":
            broken[at:at] = draw(st.binary(min_size=1, max_size=5))
        else:
            del broken[at:]
    return bytes(broken)


def only_malformed(parse: Any, *arguments: Any) -> None:
    """Call a parser on bad input: it may return something or refuse it, but not raise anything else."""
    with contextlib.suppress(MalformedFrame):
        parse(*arguments)
