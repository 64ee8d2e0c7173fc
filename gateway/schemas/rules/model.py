"""Schemas and subjects as values, and how they are read from a registry's answers.

Whatever a registry answers is checked here: what is not what Confluent's API says is a ValueError, not a guess. Two
registries may write the same schema in different ways (white space, order of JSON keys), so schemas are compared by a
digest that does not depend on these.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

AVRO: Final = "AVRO"
PROTOBUF: Final = "PROTOBUF"
MAX_ID: Final = (1 << 31) - 1
MAX_SUBJECT: Final = 1_024
IMPORT: Final = "IMPORT"
READWRITE: Final = "READWRITE"
READONLY: Final = ("READONLY", "READONLY_OVERRIDE")

_LEVELS: Final = frozenset(
    {"NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE"}
)
_COMMENTS: Final = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_EXTRAS: Final = ("metadata", "ruleSet")


class SchemaReference(NamedTuple):
    """A schema names another one as `name`: that version of that subject."""

    name: str
    subject: str
    version: int


def is_of_context(subject: str) -> bool:
    """Of another context than the default one, with ids of its own."""
    return subject.startswith(":.")


class VersionKey(NamedTuple):
    """One version of one subject."""

    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    """What is registered. `type`: AVRO, JSON or PROTOBUF. `extras`: metadata and rules of data contracts."""

    text: str
    type: str = AVRO
    references: tuple[SchemaReference, ...] = ()
    extras: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def digest(self) -> str:
        """The same for schemas that differ in how they are written only."""
        known = [self.type, _normal(self.text, self.type), sorted(self.references)]
        return hashlib.sha256(json.dumps(known).encode()).hexdigest()

    def body(self, references: tuple[SchemaReference, ...] | None = None) -> dict[str, Any]:
        """As Confluent's API takes it. `references`: in the place of its own."""
        named = self.references if references is None else references
        body: dict[str, Any] = {"schema": self.text, "schemaType": self.type, **self.extras}
        if named:
            body["references"] = [one._asdict() for one in named]
        return body


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a subject, with its id."""

    version: int
    id: int
    schema: Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A subject of one registry, as far as it was read; one that is not there has no numbers.

    `numbers`: of all its versions; `active`: of those that are not soft-deleted. `versions`: those that were read.
    `level`, `mode`: set for this very subject, '' where it has none of its own; `level` None: it was not asked for.
    """

    numbers: frozenset[int] = frozenset()
    active: frozenset[int] = frozenset()
    versions: Mapping[int, Version] = field(default_factory=dict)
    level: str | None = None
    mode: str = ""


ABSENT: Final = Subject()


def read_subjects(body: Any) -> list[str]:
    """Names of subjects. Raises ValueError."""
    if not isinstance(body, list) or not all(isinstance(name, str) and 0 < len(name) <= MAX_SUBJECT for name in body):
        raise ValueError("a list of subjects expected")
    return body


def read_numbers(body: Any) -> frozenset[int]:
    """Numbers of versions. Raises ValueError."""
    if not isinstance(body, list):
        raise ValueError("a list of versions expected")
    return frozenset(_number(number, "version") for number in body)


def read_version(body: Any) -> Version:
    """A version of a subject. Raises ValueError."""
    found = _object(body)
    return Version(_number(found.get("version"), "version"), read_id(found), read_schema(found))


def read_schema(body: Any) -> Schema:
    """The schema of a version, or of an id. Raises ValueError."""
    found = _object(body)
    text, kind, references = found.get("schema"), found.get("schemaType") or AVRO, found.get("references") or []
    if not isinstance(text, str) or not isinstance(kind, str) or not isinstance(references, list):
        raise ValueError("schema, schemaType and references expected")
    extras = {name: found[name] for name in _EXTRAS if found.get(name)}
    return Schema(text, kind, tuple(_reference(one) for one in references), extras)


def read_id(body: Any) -> int:
    """The id of a schema. Raises ValueError."""
    return _number(_object(body).get("id"), "id", lowest=0)


def read_level(body: Any) -> str:
    """A compatibility level: GET names it otherwise than PUT. Raises ValueError."""
    found = _object(body)
    level = found.get("compatibilityLevel", found.get("compatibility"))
    if level not in _LEVELS:
        raise ValueError("a compatibility level expected")
    return str(level)


def read_mode(body: Any) -> str:
    """A mode. Raises ValueError."""
    mode = _object(body).get("mode")
    if not isinstance(mode, str) or not 0 < len(mode) <= 64:
        raise ValueError("a mode expected")
    return mode


def read_uses(body: Any) -> list[VersionKey]:
    """Where an id is used. Raises ValueError."""
    if not isinstance(body, list):
        raise ValueError("a list of subjects and versions expected")
    found = [_object(one) for one in body]
    return [VersionKey(_subject(one.get("subject")), _number(one.get("version"), "version")) for one in found]


def _reference(body: Any) -> SchemaReference:
    found = _object(body)
    name = found.get("name")
    if not isinstance(name, str):
        raise ValueError("a reference without a name")
    return SchemaReference(name, _subject(found.get("subject")), _number(found.get("version"), "version"))


def _object(body: Any) -> Mapping[str, Any]:
    if not isinstance(body, dict):
        raise ValueError("an object expected")
    return body


def _subject(name: Any) -> str:
    if not isinstance(name, str) or not 0 < len(name) <= MAX_SUBJECT:
        raise ValueError("a subject expected")
    return name


def _number(number: Any, what: str, lowest: int = 1) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or not lowest <= number <= MAX_ID:
        raise ValueError(f"{what}: a number from {lowest} to {MAX_ID} expected")
    return number


def _normal(text: str, kind: str) -> str:
    if kind == PROTOBUF:
        return re.sub(r"\s+", "", _COMMENTS.sub("", text))
    try:
        return json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))
    except (ValueError, RecursionError):
        return text
