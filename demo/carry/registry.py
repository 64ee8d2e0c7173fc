"""A schema registry as its clients use it: Confluent's API, as much of it as the demo needs."""

from __future__ import annotations

import json
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx

from demo.carry.avro import Schema

_JSON = ("AVRO", "JSON")


class Version(NamedTuple):
    """A version of a subject. `schema`: parsed where it is JSON, since registries lay it out as they like."""

    id: int
    kind: str
    schema: Schema
    deleted: bool


Subjects = dict[str, dict[int, Version]]
"""All of a registry: subject -> number -> version."""


class Registry:
    """Over HTTP. `url`: what stands before `/subjects`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._http = httpx.Client(base_url=url, timeout=30.0, trust_env=False)

    def register(self, subject: str, schema: str, kind: str = "AVRO") -> int:
        """A new version of a subject; its id. Raises ValueError when the registry refuses."""
        return int(self._ask("POST", f"/subjects/{quote(subject, '')}/versions", _body(schema, kind))["id"])

    def id_of(self, subject: str, schema: str) -> int:
        """The id of a schema that is registered. Raises ValueError when it is not."""
        return int(self._ask("POST", f"/subjects/{quote(subject, '')}", _body(schema, "AVRO"))["id"])

    def schema(self, schema_id: int) -> Schema:
        """What an id means. Raises ValueError when the registry does not know it."""
        found = self._ask("GET", f"/schemas/ids/{schema_id}")
        return _parsed(found.get("schemaType", "AVRO"), found["schema"])

    def delete(self, subject: str, number: int) -> None:
        """A soft delete. Raises ValueError when the registry refuses."""
        self._ask("DELETE", f"/subjects/{quote(subject, '')}/versions/{number}")

    def set_level(self, subject: str, level: str) -> None:
        """Its compatibility. Raises ValueError when the registry refuses."""
        self._ask("PUT", f"/config/{quote(subject, '')}", {"compatibility": level})

    def level(self, subject: str) -> str:
        """Its compatibility; '' when it has none of its own."""
        answer = self._http.get(f"/config/{quote(subject, '')}")
        return str(answer.json()["compatibilityLevel"]) if answer.is_success else ""

    def content(self) -> Subjects:
        """All of it, soft-deleted versions included."""
        found: Subjects = {}
        for subject in sorted(self._ask("GET", "/subjects?deleted=true")):
            path = f"/subjects/{quote(subject, '')}/versions"
            live = self._live(path)
            versions = found[subject] = {}
            for number in self._ask("GET", f"{path}?deleted=true"):
                row = self._ask("GET", f"{path}/{number}?deleted=true")
                kind = row.get("schemaType") or "AVRO"
                versions[number] = Version(row["id"], kind, _parsed(kind, row["schema"]), number not in live)
        return found

    def is_there(self) -> bool:
        """Whether it answers."""
        try:
            return self._http.get("/subjects").is_success
        except httpx.TransportError:
            return False

    def close(self) -> None:
        """End its connections."""
        self._http.close()

    def _live(self, path: str) -> set[int]:
        answer = self._http.get(path)
        return set(answer.json()) if answer.is_success else set()  # 404: all of them are deleted

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        try:
            answer = self._http.request(method, path, json=body)
        except httpx.TransportError as error:
            raise ValueError(f"{method} {self.url}{path}: {error}") from error
        if not answer.is_success:
            raise ValueError(f"{method} {self.url}{path}: {answer.status_code} {answer.text[:300]}")
        return answer.json()


def _body(schema: str, kind: str) -> dict[str, str]:
    return {"schema": schema, "schemaType": kind}


def _parsed(kind: str, schema: str) -> Schema:
    return json.loads(schema) if kind in _JSON else schema
