"""Schema sync by a gateway process between real registries: Apicurio 2.6 is the source of all tests here.

What the targets are: Apicurio 2.6 where ids are translated, and where they are to be kept and the target has no
modes; a strict registry of our own, behind HTTPS, where they are kept: no real one that takes ids can be had.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gateway.devcluster import DevCluster
from tests.support.gateways.gateway import GatewayProcess
from tests.support.identities.certificates import Certificates
from tests.support.registries import apicurio
from tests.support.registries.apicurio import V2, Registry
from tests.support.registries.served import served
from tests.support.registries.strict_registry import IMPORT, StrictRegistry
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(900)]

N = {"type": "record", "name": "N", "fields": [{"name": "n", "type": "int"}]}
WIDER = {"type": "record", "name": "N", "fields": [*N["fields"], {"name": "m", "type": "int", "default": 0}]}
LINE = {"type": "record", "name": "L", "fields": [{"name": "f", "type": "N"}]}
JSON_SCHEMA = '{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}'
PROTO = 'syntax = "proto3";\nmessage M {\n  string a = 1;\n}\n'


class Lab(NamedTuple):
    """A gateway, and the source's registry with what is in it."""

    gateway: GatewayProcess
    source: Registry
    cluster: str

    def link(self, name: str, target: str, **more: str) -> None:
        registries = {"schema_source_registry_url": self.source.url, "schema_target_registry_url": target}
        configs = {"schema_sync_enable": "true", "schema_sync_ms": "1000", **registries, **more}
        self.gateway.create_link(name, self.cluster, **configs)

    def task(self, name: str) -> dict[str, Any]:
        tasks = self.gateway.api.get(f"/v3/links/{name}/tasks").json()["data"]
        (found,) = (one for one in tasks if one["task_name"] == "SchemaSync")
        return dict(found)

    def error(self, name: str) -> str:
        errors = self.task(name)["errors"]
        return str(errors[0]["error_message"]) if errors else ""

    def plan(self, name: str) -> dict[str, Any]:
        answer = self.gateway.api.get(f"/v3/links/{name}/schema-plan")
        assert answer.is_success, answer.text
        return dict(answer.json())

    def at_rest(self, name: str) -> bool:
        plan = self.plan(name)
        return plan["state"] == "ACTIVE" and not plan["change_count"]

    def subjects(self, name: str) -> dict[str, list[dict[str, Any]]]:
        data = self.gateway.api.get(f"/v3/links/{name}/schemas").json()["data"]
        return {one["subject"]: one["versions"] for one in data}


def avro(schema: Any, **more: Any) -> dict[str, Any]:
    return {"schema": json.dumps(schema), "schemaType": "AVRO", **more}


@pytest.fixture(scope="module")
def lab(source: DevCluster, target: DevCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("schemas")
    with apicurio.running(V2, folder) as registry:
        registry.register("spare-value", avro({"type": "string"}))
        registry.register("orders-value", avro(N))
        registry.register("orders-value", avro(WIDER))
        names_it = {"name": "N", "subject": "orders-value", "version": 2}
        registry.register("lines-value", avro(LINE, references=[names_it]))
        registry.register("json-value", {"schema": JSON_SCHEMA, "schemaType": "JSON"})
        registry.register("proto-value", {"schema": PROTO, "schemaType": "PROTOBUF"})
        registry.register("copies-value", avro(N))
        registry.delete("orders-value", 1)
        registry.set_level("orders-value", "FULL")
        gateway = GatewayProcess(folder, target.bootstrap, links={"files": str(folder)})
        try:
            gateway.start()
            yield Lab(gateway, registry, source.bootstrap)
            gateway.assert_runs()
        finally:
            gateway.close()
            print(gateway.log.read_text(errors="replace")[-8000:])  # noqa: T201 - pytest shows it when a test failed


@pytest.fixture
def name(lab: Lab) -> Iterator[str]:
    """Of a link of the test's own."""
    yield "west"
    lab.gateway.delete_link("west")


def test_ids_are_translated(lab: Lab, name: str, tmp_path: Path) -> None:
    """To Apicurio 2.6, which has schemas of its own; over a kill of the gateway."""
    with apicurio.running(V2, tmp_path) as target:
        target.register("its-own", avro({"type": "long"}))
        lab.link(name, target.url, schema_ids="translate")
        wait_until(lambda: lab.subjects(name), 60, what="the first schemas")
        lab.gateway.kill()
        lab.gateway.start()
        wait_until(lambda: lab.at_rest(name), 60, what="the schemas to be there")
        subjects, differ = lab.subjects(name), 0
        assert sorted(subjects) == sorted(lab.source.get("/subjects"))
        for versions in subjects.values():
            for one in versions:
                there = lab.source.get(f"/schemas/ids/{one['schema_id']}")
                here = target.get(f"/schemas/ids/{one['target_schema_id']}")
                assert (here["schema"], here.get("schemaType")) == (there["schema"], there.get("schemaType"))
                differ += one["schema_id"] != one["target_schema_id"]
        assert target.get("/subjects/orders-value/versions") == [2]
        assert target.get("/subjects/orders-value/versions", deleted="true") == [1, 2]
        assert target.get("/config/orders-value") == {"compatibilityLevel": "FULL"}
        assert target.get("/config/lines-value") == {"compatibilityLevel": "NONE"}
        assert differ
        lab.source.register("later-value", avro({"type": "float"}))
        wait_until(lambda: "later-value" in lab.subjects(name), 60, what="a new subject")
        for subject, versions in subjects.items():  # nothing was registered twice
            numbers = target.get(f"/subjects/{subject}/versions", deleted="true")
            assert numbers == [one["target_version"] for one in versions]
        known = {one["schema_id"] for versions in subjects.values() for one in versions}
        print(f"schemas: source=apicurio-{V2} target=apicurio-{V2} ids=translated map={len(known)} differ={differ}")  # noqa: T201


def test_a_target_without_modes_is_refused(lab: Lab, name: str, tmp_path: Path) -> None:
    with apicurio.running(V2, tmp_path) as target:
        lab.link(name, target.url)
        wait_until(lambda: "has no modes" in lab.error(name), 60, what="the preflight")
        assert lab.error(name).endswith("set schema.ids=translate")
        assert target.get("/subjects") == []
        print(f"schemas: target=apicurio-{V2} ids=fixed: {lab.error(name)}")  # noqa: T201


def test_ids_are_kept(lab: Lab, name: str, tmp_path: Path) -> None:
    """To a strict registry of our own, over TLS and with a login, whose password is a file's; and its promote."""
    target, certificates = StrictRegistry(), Certificates(Path(str(lab.gateway.log)).parent / "pki")
    secrets = certificates.folder.parent / name  # a link's own: `links.files` is the folder above
    secrets.mkdir()
    (secrets / "password").write_text("s3cret\n")
    with served(target, login="sync:s3cret", certificates=certificates) as url:
        secret = f"${{dir:{secrets}:password}}"
        lab.link(
            name,
            url,
            schema_target_registry_basic_auth_username="sync",
            schema_target_registry_basic_auth_password=secret,
            schema_target_registry_ssl_ca_location=str(certificates.ca),
        )
        wait_until(lambda: lab.at_rest(name), 60, what="the schemas to be there")
        wanted = {
            subject: {
                number: (version["id"], json.loads(version["schema"]) if "PROTO" not in str(version) else PROTO)
                for number in lab.source.get(f"/subjects/{subject}/versions", deleted="true")
                for version in [lab.source.get(f"/subjects/{subject}/versions/{number}", deleted="true")]
            }
            for subject in lab.source.get("/subjects", deleted="true")
        }
        found = {
            subject: {
                number: (row[0], json.loads(row[1]["schema"]) if "PROTO" not in str(row[1]) else row[1]["schema"])
                for number, row in rows.items()
            }
            for subject, rows in target.content().items()
        }
        assert found == wanted
        assert target.subjects["orders-value"][1].deleted
        assert target.levels["orders-value"] == "FULL"
        assert set(target.modes.values()) == {IMPORT}
        answer = lab.gateway.api.post(f"/v3/links/{name}/schemas:promote")
        assert answer.is_success, answer.text
        assert target.modes == {}
        assert not target.offences
        ids = sum(map(len, found.values()))
        print(f"schemas: source=apicurio-{V2} target=strict registry ids=fixed versions={ids} promoted={len(found)}")  # noqa: T201
