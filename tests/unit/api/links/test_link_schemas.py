"""/v3/links/{link}/schemas and /v3/links/{link}/schema-plan"""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from gateway.api.links import schema_models
from gateway.telemetry.metrics import Metrics
from tests.support.control.control_plane import Plane
from tests.support.control.shared_app import shared_app
from tests.support.registries.registry_pair import RegistryPair


@pytest.fixture
def pair(plane: Plane) -> RegistryPair:
    made = RegistryPair(plane)
    made.source.add("orders-value", {"type": "string"}, schema_id=7)
    made.source.add("lines-value", {"type": "int"}, schema_id=8)
    made.target.add("mine", {"type": "long"}, schema_id=8)
    return made


@pytest.fixture
async def api(plane: Plane) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(shared_app(lambda: plane.service, Metrics()), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://gw") as client:
        yield client


async def test_a_plan(api, pair, monkeypatch):
    await pair.link(cluster_link_paused="true")
    body = (await api.get("/v3/links/l/schema-plan")).json()
    assert (body["kind"], body["schema_sync_enabled"]) == ("KafkaLinkSchemaPlanData", True)
    assert body["changes"] == [
        {"change": "MODE", "subject": "orders-value", "version": 0, "schema_id": 0, "value": "IMPORT"},
        {"change": "REGISTER", "subject": "orders-value", "version": 1, "schema_id": 7, "value": ""},
    ]
    (left_out,) = body["left_out"]
    assert (left_out["subject"], left_out["reason"], left_out["is_error"]) == ("lines-value", "ID_TAKEN", True)
    assert (body["subject_count"], body["unchanged_count"], body["id_count"]) == (2, 0, 0)
    monkeypatch.setattr(schema_models, "SHOWN", 1)
    many = (await api.get("/v3/links/l/schema-plan")).json()
    assert (len(many["changes"]), many["change_count"]) == (1, 2)


async def test_the_id_map(api, pair, monkeypatch):
    await pair.link(schema_ids="translate")
    assert (await api.post("/v3/links/l/schemas:sync", json={"ids": [7]})).json()["change_count"] == 0
    monkeypatch.setattr(schema_models, "SHOWN", 1)
    page = (await api.get("/v3/links/l/schemas")).json()
    assert (page["kind"], page["next"]) == ("KafkaLinkSchemaSubjectDataList", "lines-value")
    (one,) = (await api.get("/v3/links/l/schemas", params={"after": page["next"]})).json()["data"]
    assert (one["subject"], one["promoted"]) == ("orders-value", False)
    assert one["versions"] == [
        {"version": 1, "schema_id": 7, "target_version": 1, "target_schema_id": 9, "own": False, "deleted": False}
    ]


async def test_a_promote(api, pair):
    await pair.linked()
    refused = await api.post("/v3/links/l/schemas:promote")
    assert (refused.status_code, "such as 1 of 'lines-value'" in refused.json()["message"]) == (409, True)
    done = await api.post("/v3/links/l/schemas:promote", json={"force": True})
    assert (done.status_code, done.json()["promoted_count"]) == (200, 1)


async def test_a_check(api, pair):
    """Ids at the ends of partitions; what the source does not know either is none."""
    await pair.linked()
    await pair.plane.with_mirror("orders", 2)
    for cluster in (pair.plane.source, pair.plane.target):
        cluster.existing["orders"].ranges = [(5, 100), (0, 0)]
    pair.plane.target.schema_ids_of = {("orders", 0, 5): frozenset({7, 8}), ("orders", 0, 99): frozenset({7, 99})}
    pair.target.schemas.pop(8)
    body = (await api.get("/v3/links/l/schema-check", params={"topic": "orders"})).json()
    assert body == {
        "kind": "KafkaLinkSchemaCheckData",
        "link_name": "l",
        "unknown_count": 1,
        "data": [{"mirror_topic_name": "orders", "seen": [7, 8], "unknown": [8], "more": False}],
    }
    assert (await api.get("/v3/links/l/schema-check", params={"topic": "x"})).status_code == 404
    assert (await api.get("/v3/links/l/schema-check")).json()["unknown_count"] == 1


async def test_refusals(api, pair):
    assert (await api.get("/v3/links/l/schema-plan")).status_code == 404
    await pair.plane.with_link("bare")
    await pair.link("paused", cluster_link_paused="true")
    for method, path, body, status, words in (
        ("GET", "/v3/links/bare/schema-plan", None, 400, "schema.source.registry.url: missing"),
        ("POST", "/v3/links/bare/schemas:promote", None, 409, "set schema.sync.enable=true"),
        ("POST", "/v3/links/paused/schemas:sync", None, 409, "is paused; resume it first"),
        ("POST", "/v3/links/bare/schemas:sync", {"ids": [-1]}, 400, "ids"),
        ("POST", "/v3/links/bare/schemas:sync", {"id": 1}, 400, "id"),
        ("GET", "/v3/links/x/schemas", None, 404, "link 'x' does not exist"),
    ):
        answer = await api.request(method, path, json=body)
        assert (answer.status_code, words in answer.json()["message"]) == (status, True), answer.text
