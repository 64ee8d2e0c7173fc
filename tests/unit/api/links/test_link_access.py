"""/v3/links/{link}/acl-plan and /v3/links/{link}/access"""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from gateway.api.links import access_models
from gateway.kafka.rules.acl import Acl, Operation, PatternType, Permission, ResourceType
from gateway.telemetry.metrics import Metrics
from tests.support.control.control_plane import Plane
from tests.support.control.shared_app import shared_app

ACL = Acl(ResourceType.TOPIC, PatternType.LITERAL, "orders", "User:alice", "*", Operation.WRITE, Permission.ALLOW)
SHOWN = {
    "resource_type": "TOPIC",
    "resource_name": "orders",
    "pattern_type": "LITERAL",
    "principal": "User:alice",
    "host": "*",
    "operation": "DESCRIBE",
    "permission": "ALLOW",
}


@pytest.fixture
async def api(plane: Plane) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(shared_app(lambda: plane.service, Metrics()), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://gw") as client:
        yield client


async def test_a_plan(api, plane, monkeypatch):
    await plane.with_link()
    plane.source.acls_there = {ACL}
    body = (await api.get("/v3/links/l/acl-plan")).json()
    assert (body["kind"], body["acl_sync_enabled"], body["state"]) == ("KafkaLinkAclPlanData", False, "NOT_CONFIGURED")
    assert (body["create"], body["create_count"], body["delete"], body["own"]) == ([SHOWN], 1, [], [])
    (left_out,) = body["left_out"]
    assert (left_out["acl"]["operation"], left_out["reason"]) == ("WRITE", "UNTIL_PROMOTED")
    assert (body["waiting"], body["waiting_count"]) == ([], 0)

    monkeypatch.setattr(access_models, "SHOWN", 2)
    plane.source.acls_there = {ACL._replace(name=f"t{index}") for index in range(5)}
    many = (await api.get("/v3/links/l/acl-plan")).json()
    assert (len(many["create"]), many["create_count"]) == (2, 5)
    assert (len(many["left_out"]), many["left_out_count"]) == (2, 5)


async def test_access(api, plane):
    await plane.with_link()
    plane.source.acls_there = {ACL}
    body = (await api.get("/v3/links/l/access", params={"principal": "User:alice"})).json()
    assert (body["kind"], body["differences"]) == ("KafkaAccessData", 2)
    assert body["data"][0] == {
        "resource_type": "TOPIC",
        "pattern_type": "LITERAL",
        "source_name": "orders",
        "target_name": "orders",
        "operation": "WRITE",
        "source_allowed": True,
        "target_allowed": False,
        "gateway_allowed": False,
        "differs": True,
        "reason": "the target does not allow it",
    }


async def test_refusals(api, plane):
    await plane.with_link()
    for path, status, words in (
        ("/v3/links/x/acl-plan", 404, "link 'x' does not exist"),
        ("/v3/links/x/access?principal=User:a", 404, "link 'x' does not exist"),
        ("/v3/links/l/access", 400, "principal"),
        ("/v3/links/l/access?principal=a", 400, "is not of the form User:NAME"),
    ):
        answer = await api.get(path)
        assert (answer.status_code, words in answer.json()["message"]) == (status, True), path
