"""A schema registry in memory that is stricter than real ones: it takes nothing that Confluent's API does not name.

Its rules are those of Confluent's registry: what modes allow, which id a schema gets, what IMPORT overwrites, what may
be deleted, which error code says what. What a careful client never does is written down (`offences`), though a real
registry would let it pass: a test ends with `assert not registry.offences`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

IMPORT, READWRITE, READONLY = "IMPORT", "READWRITE", "READONLY"
_FIELDS = {"schema", "schemaType", "references", "id", "version", "metadata", "ruleSet"}
_CHECKING = {"BACKWARD", "BACKWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE"}


class Refusal(Exception):
    """What a request is answered with instead."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


class Answer(NamedTuple):
    status: int
    body: Any


@dataclass
class Row:
    """A version of a subject."""

    id: int
    deleted: bool = False


@dataclass
class StrictRegistry:
    """`keeps_ids` False: it says IMPORT and gives ids of its own, as Apicurio 3 does. `has_modes` False: it knows none,
    as Apicurio 2. `before`: called with (method, path) before each request; what it raises is the answer. `writes`: how
    it writes the text of a schema that it takes.

    `requests`: "METHOD path" of all that changed something.
    """

    keeps_ids: bool = True
    has_modes: bool = True
    level: str = "BACKWARD"
    mode: str = READWRITE
    subjects: dict[str, dict[int, Row]] = field(default_factory=dict)
    schemas: dict[int, str] = field(default_factory=dict)
    levels: dict[str, str] = field(default_factory=dict)
    modes: dict[str, str] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    reads: int = 0
    offences: list[str] = field(default_factory=list)
    before: Callable[[str, str], None] = lambda method, path: None
    writes: Callable[[str], str] = lambda text: text
    _next: int = 1

    # -- for tests ----------------------------------------------------------------------------------------------------

    def add(self, subject: str, schema: Any, *, schema_id: int | None = None, version: int | None = None) -> int:
        """A version, past all modes. `schema`: a body, or an Avro schema's JSON. Returns its id."""
        body = schema if isinstance(schema, dict) and "schema" in schema else {"schema": json.dumps(schema)}
        return self._store(subject, _content(body), schema_id, version)

    def content(self) -> dict[str, dict[int, tuple[int, Any, bool]]]:
        """All that is in it: subject -> version -> (id, what the id means, deleted)."""
        return {
            name: {
                number: (row.id, json.loads(self.schemas[row.id]), row.deleted) for number, row in sorted(rows.items())
            }
            for name, rows in sorted(self.subjects.items())
        }

    def take(self, method: str, path: str, params: dict[str, str], body: Any) -> Answer:
        """One request; `path`: its parts, decoded, between slashes."""
        parts = [part.replace("\0", "/") for part in path.strip("/").split("/")]
        try:
            self.before(method, path.replace("\0", "/"))
            if method in ("PUT", "DELETE") or (method == "POST" and parts[-1] == "versions"):
                self.requests.append(f"{method} {path}".replace("\0", "/"))
            else:
                self.reads += 1
            return Answer(200, self._routed(method, parts, params, body))
        except Refusal as exc:
            return Answer(exc.status, {"error_code": exc.code, "message": str(exc)})

    # -- routes -------------------------------------------------------------------------------------------------------

    def _routed(self, method: str, parts: list[str], params: dict[str, str], body: Any) -> Any:
        match method, parts:
            case "GET", ["subjects"]:
                return [name for name in self.subjects if self._numbers(name, params)]
            case "GET", ["subjects", name, "versions"]:
                return self._listed(name, params)
            case "GET", ["subjects", name, "versions", number]:
                return self._version(name, int(number), params)
            case "POST", ["subjects", name, "versions"]:
                return {"id": self._register(name, self._checked(body), params)}
            case "POST", ["subjects", name]:
                return self._lookup(name, body, params)
            case "DELETE", ["subjects", name, "versions", number]:
                return self._delete(name, int(number), params)
            case "GET", ["schemas", "ids", number, *uses]:
                return self._uses(int(number), params) if uses else self._schema(int(number))
            case _, ["config", *subject]:
                return self._config(method, "".join(subject), body)
            case _, ["mode", *subject] if self.has_modes:
                return self._mode(method, "".join(subject), body, params)
        raise Refusal(404, 0, "Operation not supported.")

    def _checked(self, body: Any) -> Any:
        unknown = set(body) - _FIELDS
        if unknown:
            self.offences.append(f"fields {sorted(unknown)}")
            raise Refusal(422, 422, f"Unrecognized field: {min(unknown)}")
        return body

    def _numbers(self, name: str, params: dict[str, str]) -> list[int]:
        rows = self.subjects.get(name, {})
        return sorted(number for number, row in rows.items() if not row.deleted or params.get("deleted") == "true")

    def _listed(self, name: str, params: dict[str, str]) -> list[int]:
        numbers = self._numbers(name, params)
        if not numbers:
            raise Refusal(404, 40401, f"Subject '{name}' not found.")
        return numbers

    def _version(self, name: str, number: int, params: dict[str, str]) -> dict[str, Any]:
        if number not in self._listed(name, params):
            raise Refusal(404, 40402, f"Version {number} not found.")
        row = self.subjects[name][number]
        return {"subject": name, "version": number, "id": row.id, **_shown(self.schemas[row.id])}

    def _schema(self, number: int) -> dict[str, Any]:
        if number not in self.schemas:
            raise Refusal(404, 40403, f"Schema {number} not found")
        return _shown(self.schemas[number])

    def _uses(self, number: int, params: dict[str, str]) -> list[dict[str, Any]]:
        self._schema(number)
        return [
            {"subject": name, "version": one}
            for name, rows in self.subjects.items()
            for one in self._numbers(name, params)
            if rows[one].id == number
        ]

    def _lookup(self, name: str, body: Any, params: dict[str, str]) -> dict[str, Any]:
        content = self._taken(body, params)
        self._listed(name, {"deleted": "true"})
        for number in reversed(self._numbers(name, params)):
            if self.schemas[self.subjects[name][number].id] == content:
                return self._version(name, number, params)
        raise Refusal(404, 40403, "Schema not found")

    def _register(self, name: str, body: Any, params: dict[str, str]) -> int:
        mode, content = self.modes.get(name, self.mode), self._taken(body, params)
        schema_id, version = body.get("id"), body.get("version")
        for one in body.get("references", []):
            if one["version"] not in self.subjects.get(one["subject"], {}):
                raise Refusal(422, 42201, f"Invalid schema: no schema reference found for {one['name']}")
        if self.keeps_ids:
            _require_mode(name, mode, schema_id)
        else:
            schema_id = version = None
        if schema_id is not None and self.schemas.get(schema_id, content) != content:
            raise Refusal(422, 42205, f"Overwrite new schema with id {schema_id} is not permitted.")
        there = self.subjects.get(name, {}).get(version or 0)
        if there is not None and (there.id, there.deleted) != (schema_id, True):  # else it is live again, and no more
            self.offences.append(f"overwrote version {version} of {name}")
        if schema_id is None:
            for number in self._numbers(name, {}):
                if self.schemas[self.subjects[name][number].id] == content:
                    return self.subjects[name][number].id
            self._require_compatible(name, content)
        return self._store(name, content, schema_id, version)

    def _taken(self, body: Any, params: dict[str, str]) -> str:
        """A schema of a request, as it is kept and compared. Normalized its keys are in order."""
        body = {**body, "schema": self.writes(body["schema"])}
        if params.get("normalize") == "true" and body.get("schemaType", "AVRO") != "PROTOBUF":
            body["schema"] = json.dumps(json.loads(body["schema"]), sort_keys=True)
        return _content(body)

    def _store(self, name: str, content: str, schema_id: int | None, version: int | None) -> int:
        if schema_id is None:
            schema_id = next((known for known, text in self.schemas.items() if text == content), None)
        if schema_id is None:
            schema_id = max([self._next, *(known + 1 for known in self.schemas)])
        self.schemas[schema_id] = content
        self._next = max(self._next, schema_id + 1)
        rows = self.subjects.setdefault(name, {})
        version = version or max(rows, default=0) + 1
        rows[version] = Row(schema_id)
        for number in [one for one, row in rows.items() if one < version and row == Row(schema_id, deleted=True)]:
            del rows[number]  # the schema is live again under its new number
        return schema_id

    def _require_compatible(self, name: str, content: str) -> None:
        """As far as tests need it: a new field of an Avro record needs a default."""
        numbers = self._numbers(name, {})
        if self.levels.get(name, self.level) not in _CHECKING or not numbers:
            return
        before = _fields(self.schemas[self.subjects[name][numbers[-1]].id])
        for known, has_default in _fields(content).items():
            if known not in before and not has_default:
                raise Refusal(409, 409, f"Schema being registered is incompatible with an earlier schema: {known}")

    def _delete(self, name: str, number: int, params: dict[str, str]) -> int:
        self._listed(name, {"deleted": "true"})
        row = self.subjects[name].get(number)
        if row is None:
            raise Refusal(404, 40402, f"Version {number} not found.")
        if any(
            {"subject": name, "version": number} == {"subject": one["subject"], "version": one["version"]}
            for rows in self.subjects.values()
            for other in rows.values()
            if not other.deleted
            for one in json.loads(self.schemas[other.id]).get("references", [])
        ):
            raise Refusal(422, 42206, f"One or more references exist to the schema {name} version {number}")
        if params.get("permanent") == "true":
            if not row.deleted:
                raise Refusal(404, 40407, f"Subject '{name}' Version {number} was not deleted first")
            del self.subjects[name][number]
            if not self.subjects[name]:
                del self.subjects[name]
            if not any(row.id == other.id for rows in self.subjects.values() for other in rows.values()):
                del self.schemas[row.id]
        elif row.deleted:
            raise Refusal(404, 40406, f"Subject '{name}' Version {number} was soft deleted")
        row.deleted = True
        if not self._numbers(name, {}):  # with its last active version a subject loses its settings
            self.modes.pop(name, None)
            self.levels.pop(name, None)
        return number

    def _config(self, method: str, subject: str, body: Any) -> dict[str, str]:
        if method == "PUT":
            if self.modes.get(subject, self.mode) == READONLY:
                raise Refusal(422, 42205, f"Subject {subject} is in read-only mode")
            self.levels[subject] = body["compatibility"]
            return {"compatibility": body["compatibility"]}
        if not subject:
            return {"compatibilityLevel": self.level}
        if subject not in self.levels:
            raise Refusal(404, 40408, f"Subject '{subject}' does not have subject-level compatibility configured")
        level = self.levels.pop(subject) if method == "DELETE" else self.levels[subject]
        return {"compatibilityLevel": level}

    def _mode(self, method: str, subject: str, body: Any, params: dict[str, str]) -> dict[str, str]:
        if method == "PUT":
            rows = self.subjects.get(subject, {})
            if body["mode"] == IMPORT and params.get("force") != "true":
                if self._numbers(subject, {}):
                    raise Refusal(422, 42205, "Cannot import since found existing subjects")
                if rows:
                    self.offences.append(f"emptied {subject}")
                    del self.subjects[subject]
            self.modes[subject] = body["mode"]
            return {"mode": body["mode"]}
        if not subject:
            return {"mode": self.mode}
        if subject not in self.modes:
            raise Refusal(404, 40409, f"Subject '{subject}' does not have subject-level mode configured")
        return {"mode": self.modes.pop(subject) if method == "DELETE" else self.modes[subject]}


def _require_mode(name: str, mode: str, schema_id: int | None) -> None:
    if mode == READONLY:
        raise Refusal(422, 42205, f"Subject {name} is in read-only mode")
    if schema_id is not None and mode != IMPORT:
        raise Refusal(422, 42205, f"Subject {name} is not in import mode")
    if schema_id is None and mode == IMPORT:
        raise Refusal(422, 42205, f"Subject {name} is not in read-write mode")


def _content(body: Any) -> str:
    """What an id means, as text."""
    kind = body.get("schemaType", "AVRO")
    text = body["schema"] if kind == "PROTOBUF" else json.dumps(json.loads(body["schema"]), separators=(",", ":"))
    found = {"schema": text}
    if kind != "AVRO":
        found["schemaType"] = kind
    if body.get("references"):
        found["references"] = body["references"]
    return json.dumps(found, sort_keys=True)


def _shown(content: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(content)
    return found


def _fields(content: str) -> dict[str, bool]:
    """Of an Avro record: field -> has a default."""
    body = json.loads(content)
    schema = json.loads(body["schema"]) if body.get("schemaType", "AVRO") == "AVRO" else {}
    fields = schema.get("fields", []) if isinstance(schema, dict) else []
    return {one["name"]: "default" in one for one in fields}
