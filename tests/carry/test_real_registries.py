"""Schema sync between real registries, by a control plane without Kafka: Apicurio 2.6 to itself, and to 3.3."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.schemas.registry import Registry as Client
from tests.support.control.control_plane import Plane
from tests.support.registries import apicurio
from tests.support.registries.apicurio import V2, V3, Registry
from tests.support.registries.registry_pair import RegistryPair

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(900)]

N = {"type": "record", "name": "N", "fields": [{"name": "n", "type": "int"}]}
LINE = {"type": "record", "name": "L", "fields": [{"name": "f", "type": "N"}]}
PROTO = 'syntax = "proto3";\nmessage M {\n  string a = 1;\n}\n'
ONLY_PROTO = '{"subjectFilters": [{"name": "proto-value", "patternType": "LITERAL", "filterType": "INCLUDE"}]}'


@pytest.fixture
async def pair() -> AsyncIterator[RegistryPair]:
    plane = Plane()
    await plane.start()
    yield RegistryPair(plane)
    await plane.close()


async def between(pair: RegistryPair, source: Registry, target: Registry, **more: str) -> None:
    pair.urls, pair.sync.open_registry = (source.url, target.url), Client
    await pair.linked(**more)


def avro(schema: object, **more: object) -> dict[str, object]:
    return {"schema": json.dumps(schema), "schemaType": "AVRO", **more}


def filled(registry: Registry) -> None:
    registry.register("spare-value", avro({"type": "string"}))
    registry.register("orders-value", avro({"type": "long"}))
    registry.register("orders-value", avro(N))
    registry.register("lines-value", avro(LINE, references=[{"name": "N", "subject": "orders-value", "version": 2}]))
    registry.register("proto-value", {"schema": PROTO, "schemaType": "PROTOBUF"})
    registry.delete("orders-value", 1)
    registry.set_level("orders-value", "FULL")


async def test_ids_are_translated(pair: RegistryPair, tmp_path: Path) -> None:
    with apicurio.running(V2, tmp_path) as source, apicurio.running(V2, tmp_path) as target:
        filled(source)
        target.register("its-own", avro({"type": "bytes"}))
        await between(pair, source, target, schema_ids="translate")
        assert pair.at_rest(), pair.state
        ids = pair.ids()
        assert len(ids) == 5
        for there, here in ids.items():
            assert there != here
            one, other = source.get(f"/schemas/ids/{there}"), target.get(f"/schemas/ids/{here}")
            assert (one["schema"], one.get("schemaType")) == (other["schema"], other.get("schemaType"))
        assert target.get("/subjects/orders-value/versions") == [2]
        assert target.get("/subjects/orders-value/versions", deleted="true") == [1, 2]
        assert target.get("/config/orders-value") == {"compatibilityLevel": "FULL"}
        assert target.get("/config/lines-value") == {"compatibilityLevel": "NONE"}
        source.register("later-value", avro({"type": "float"}))
        await pair.round(61.0)
        assert set(target.get("/subjects")) == {*source.get("/subjects"), "its-own"}
        print(f"schemas: source=apicurio-{V2} target=apicurio-{V2} ids=translated map={len(ids)}")  # noqa: T201


@pytest.mark.skipif(not apicurio.java(21), reason="Apicurio 3 needs Java 21")
async def test_a_target_that_only_says_import_is_found_out(pair: RegistryPair, tmp_path: Path) -> None:
    """Apicurio 3.3 has mode IMPORT, and gives ids of its own in it. (It would hit some of the others by chance.)"""
    with apicurio.running(V2, tmp_path) as source, apicurio.running(V3, tmp_path) as target:
        filled(source)
        target.register("its-own", avro({"type": "bytes"}))
        await between(pair, source, target, schema_subject_filters=ONLY_PROTO)
        assert "it does not keep ids; set schema.ids=translate" in pair.state[2]
        assert target.get("/subjects") == ["its-own"]
        assert not pair.plane.store.schemas["l"]
        print(f"schemas: target=apicurio-{V3} ids=fixed: {pair.state[2]}")  # noqa: T201
