"""State topic records as JSON: pure functions, `encode` and `decode`.

A key is `KIND/...` and names the object; the value is one JSON object with a version `v`. The rules that let
two versions of lockgate read each other's records:

* unknown fields are ignored, missing fields get the record's own default;
* nested values (starts, producers, offsets) are arrays in field order: new fields only at the end;
* values of a mapping are text, numbers too;
* the parts of a mirror (its cutover, its failback) are flat: their fields stand beside the mirror's own;
* a kind this version does not know is skipped (`decode` returns None);
* `v` is raised only when old readers must not go on; a higher one than `VERSION` is a `StateFormatError`. It is raised
  for the very records that need it: 2 for a mirror that names its producer tables (`state/producer_tables.py`), which
  stand in the mirror's record as arrays, one for each batch, where `v` is 1.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from struct import error as StructError
from typing import Any, Final, get_args, get_origin, get_type_hints

from gateway.state.acls.acl_records import AclRecord
from gateway.state.failback_records import FailbackEpochRecord
from gateway.state.gateway_records import FleetRecord, GatewayRecord, PortRecord
from gateway.state.migration_records import MigrationRecord
from gateway.state.per_partition import of_this_version, with_copy_ends
from gateway.state.producer_entries import PackedProducers, ProducerEntry
from gateway.state.producer_tables import ProducerTables, ProducerTablesRecord, table_key
from gateway.state.records import (
    GroupRecord,
    LinkRecord,
    MirrorCutover,
    MirrorFailback,
    MirrorRecord,
    OriginRecord,
    SequenceRecord,
)
from gateway.state.schemas.schema_records import SchemaRecord

VERSION = 2
"""The highest that this version reads."""

_OF_ALL: Final = 1
_NAMES_TABLES: Final = 2

Record = (
    LinkRecord
    | MirrorRecord
    | GroupRecord
    | PortRecord
    | SequenceRecord
    | GatewayRecord
    | FleetRecord
    | OriginRecord
    | AclRecord
    | SchemaRecord
    | MigrationRecord
    | FailbackEpochRecord
    | ProducerTablesRecord
)

_KINDS: Mapping[str, type[Record]] = {
    "link": LinkRecord,
    "mirror": MirrorRecord,
    "group": GroupRecord,
    "port": PortRecord,
    "sequence": SequenceRecord,
    "gateway": GatewayRecord,
    "fleet": FleetRecord,
    "origin": OriginRecord,
    "acl": AclRecord,
    "schema": SchemaRecord,
    "migration": MigrationRecord,
    "failback": FailbackEpochRecord,
    "producers": ProducerTablesRecord,
}
_KIND_OF: Mapping[type[Record], str] = {kind: name for name, kind in _KINDS.items()}


_TABLES: Final = "tables"
"""Of a mirror: the names of the records that have its producer tables, in order."""

_PARTS: Mapping[str, type[MirrorCutover | MirrorFailback]] = {"cutover": MirrorCutover, "failback": MirrorFailback}
"""Of a mirror, by the name of its field."""

_NAMES: Mapping[tuple[type[Any], str], str] = {
    (MirrorCutover, "at_ms"): "cutover_ms",
    (MirrorFailback, "epoch"): "failback_epoch",
}
"""What a field of a part is called beside the mirror's own, where that is another name."""


class StateFormatError(ValueError):
    """A record of the state topic that this version cannot read. The message names the key."""


def key_of(record: Record) -> str:
    """The state topic key: `link/NAME`, `mirror/LINK/TOPIC`, `group/LINK/GROUP`, `port/NODE`, `sequence/NAME`,
    `gateway/NAME`, `fleet`, `origin/LINK_ID`, `acl/LINK/RESOURCE_TYPE/PATTERN_TYPE/NAME`, `schema/LINK/SUBJECT`,
    `migration/NAME`, `failback/MIRROR_TOPIC`, `producers/LINK/TOPIC/NAME`.

    Link and topic names hold no slash; a group and a subject may, so they come last.
    """
    match record:
        case LinkRecord() | SequenceRecord() | GatewayRecord() | MigrationRecord():
            return f"{_KIND_OF[type(record)]}/{record.name}"
        case MirrorRecord(link=link, mirror_topic=topic):
            return mirror_key(link, topic)
        case GroupRecord(link=link, group=group):
            return f"group/{link}/{group}"
        case PortRecord(node_id=node_id):
            return f"port/{node_id}"
        case FleetRecord():
            return "fleet"
        case OriginRecord(link_id=link_id):
            return f"origin/{link_id}"
        case FailbackEpochRecord(mirror_topic=topic):
            return f"failback/{topic}"
        case AclRecord() | SchemaRecord() | ProducerTablesRecord():
            return _key_below_link(record)


def _key_below_link(record: AclRecord | SchemaRecord | ProducerTablesRecord) -> str:
    if isinstance(record, ProducerTablesRecord):
        return table_key(record.link, record.mirror_topic, record.name)
    if isinstance(record, SchemaRecord):
        return f"schema/{record.link}/{record.subject}"
    return f"acl/{record.link}/{record.resource_type}/{record.pattern_type}/{record.name}"


def mirror_key(link: str, mirror_topic: str) -> str:
    """The key of a mirror's record."""
    return f"mirror/{link}/{mirror_topic}"


def encode(record: Record, *, apart: bool = True) -> bytes:
    """The record's value, compact JSON in UTF-8.

    `apart`: producer tables of a mirror that have names are stored under these; else they are in its own record.
    """
    values, version = values_of(record), _OF_ALL
    if isinstance(record, MirrorRecord):
        del values["producers"]
        version = _NAMES_TABLES if apart and record.cutover.tables.names else _OF_ALL
    body: dict[str, Any] = {"v": version}
    body |= {name: _plain(value) for name, value in values.items()}
    if isinstance(record, MirrorRecord):
        tables = record.cutover.tables
        body |= {_TABLES: tables.names} if version == _NAMES_TABLES else {"producers": [_rows(one) for one in tables]}
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()


def decode(key: str, value: bytes) -> Record | None:
    """The record of a key and its value, or None for a kind this version does not know.

    Raises:
        StateFormatError: not JSON, a newer version, a missing field, a value of the wrong type, or a key that
            does not belong to the value.
    """
    kind = _KINDS.get(key.partition("/")[0])
    if kind is None:
        return None
    try:
        body = json.loads(value)
        version = _expect(int, _expect(dict, body).get("v"))
        if version > VERSION:
            raise ValueError(f"version {version} was written by a newer lockgate (this one reads {VERSION})")
        values = _read(kind, body)
        if kind is MirrorRecord and _TABLES in body:
            values["producers"] = ProducerTables(names=_read_names(body[_TABLES]))
        record: Record = mirror_of(with_copy_ends(values)) if kind is MirrorRecord else kind(**values)
    except (ValueError, RecursionError) as exc:  # JSON and UTF-8 errors are ValueErrors
        raise StateFormatError(f"state record {key!r}: {exc}") from exc
    if key_of(record) != key:
        raise StateFormatError(f"state record {key!r}: its value is that of {key_of(record)!r}")
    return of_this_version(record) if isinstance(record, MirrorRecord) else record


def values_of(record: Record) -> dict[str, Any]:
    """The values of a record by the names that they have in the topic."""
    found = {field.name: getattr(record, field.name) for field in fields(record)}
    if isinstance(record, MirrorRecord):
        for part in (found.pop(name) for name in _PARTS):
            names = ((field.name, _NAMES.get((type(part), field.name), field.name)) for field in fields(part))
            found |= {there: getattr(part, here) for here, there in names}
    return found


def mirror_of(values: Mapping[str, Any]) -> MirrorRecord:
    """The mirror that has these values, by the names that they have in the topic; what is missing has its default.

    Raises:
        ValueError: a part of it would be there by halves.
        TypeError: a name is unknown, or one that has no default is missing.
    """
    own: dict[str, Any] = dict(values)
    parts: dict[str, Any] = {}
    for part, kind in _PARTS.items():
        names = {_NAMES.get((kind, field.name), field.name): field.name for field in fields(kind)}
        parts[part] = kind(**{names[name]: own.pop(name) for name in names if name in own})
    return MirrorRecord(**own, **parts)


def _rows(table: PackedProducers) -> list[list[int]]:
    return [_plain(entry) for entry in table]


def _plain(value: Any) -> Any:
    if type(value) in (str, int):  # most are: a promoted topic's record names its whole set
        return value
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, PackedProducers):
        return value.text
    if is_dataclass(value):
        return [_plain(getattr(value, field.name)) for field in fields(value)]
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(name): str(text) for name, text in value.items()}
    return value


def _read(kind: type[Any], body: Mapping[str, Any]) -> dict[str, Any]:
    values = {}
    for name, required, read in _fields_of(kind):
        if name in body:
            values[name] = read(body[name])
        elif required:
            raise ValueError(f"field {name!r} is missing")
    return values


def _fields_of(kind: type[Any]) -> list[tuple[str, bool, Callable[[Any], Any]]]:
    known = _fields_cache.get(kind)
    if known is None:
        hints = get_type_hints(kind)
        known = _fields_cache[kind] = []
        for field in fields(kind):
            if kind is MirrorRecord and field.name in _PARTS:
                part = _PARTS[field.name]
                known += [(_NAMES.get((part, name), name), needed, read) for name, needed, read in _fields_of(part)]
                continue
            required = field.default is MISSING and field.default_factory is MISSING
            known.append((field.name, required, _reader(hints[field.name])))
    return known


_fields_cache: dict[type[Any], list[tuple[str, bool, Callable[[Any], Any]]]] = {}


def _reader(hint: Any) -> Callable[[Any], Any]:
    origin = get_origin(hint)
    if origin is tuple:
        item = _reader(get_args(hint)[0])
        return lambda value: tuple(item(each) for each in _expect(list, value))
    if origin is Sequence:  # of batches: one partition's
        return _read_table
    if origin is not None and issubclass(origin, Mapping):
        read = _read_number if get_args(hint)[1] is int else _read_text
        return lambda value: {name: read(text) for name, text in _expect(dict, value).items()}
    if issubclass(hint, StrEnum):
        return lambda value: hint(_expect(str, value))
    if is_dataclass(hint) and isinstance(hint, type):
        return lambda value: _build_array(hint, _expect(list, value))
    return lambda value: _expect(hint, value)


def _read_table(value: Any) -> PackedProducers:
    """As text, or as an array with an array for each batch."""
    if isinstance(value, str):
        return PackedProducers.read(value)
    try:
        return PackedProducers.of(_build_array(ProducerEntry, _expect(list, item)) for item in _expect(list, value))
    except StructError as exc:
        raise ValueError(f"no batches of producers: {exc}") from None


def _read_names(value: Any) -> tuple[str, ...]:
    return tuple(_read_text(name) for name in _expect(list, value))


def _read_text(value: Any) -> str:
    text: str = _expect(str, value)
    return text


def _read_number(value: Any) -> int:
    """Numbers of a mapping are kept as text, as all that is in one: older versions read nothing else there."""
    return int(_read_text(value))


def _build_array(kind: type[Any], items: list[Any]) -> Any:
    return kind(**_read(kind, {name: item for (name, _, _), item in zip(_fields_of(kind), items, strict=False)}))


def _expect(kind: type[Any], value: Any) -> Any:
    # bool is an int in Python, but not in a record
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"{kind.__name__} expected, found {type(value).__name__}")
    return value
