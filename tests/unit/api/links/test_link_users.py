"""/v3/links/{link}/user-plan, users:apply, quota-plan and quotas:apply"""

from __future__ import annotations

import base64

import httpx
import pytest

from gateway.kafka.rules.quota import EntityType, QuotaEntityPart, QuotaKey
from gateway.kafka.rules.scram import ScramCredential, ScramKey, ScramMechanism, salted
from gateway.telemetry.metrics import Metrics
from tests.support.control.shared_app import shared_app

ALICE = ScramKey("alice", ScramMechanism.SHA_256)
SALT = b"0123456789abcdef"
QUOTA = QuotaKey((QuotaEntityPart(EntityType.USER, None),), "producer_byte_rate")


@pytest.fixture
async def api(plane):
    await plane.with_link()
    plane.source.scram = {ALICE: ScramCredential(ALICE, 4096, b"s", b"p")}
    plane.source.quotas_there = {QUOTA: 100.0}
    transport = httpx.ASGITransport(shared_app(lambda: plane.service, Metrics()), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://gw") as client:
        yield client


def credential(**changes: object) -> dict[str, object]:
    made = salted(ALICE, 4096, SALT, "hush")
    return {
        "name": "alice",
        "mechanism": "SCRAM-SHA-256",
        "iterations": 4096,
        "salt": base64.b64encode(SALT).decode(),
        "salted_password": base64.b64encode(made.salted_password).decode(),
        **changes,
    }


async def test_users_are_planned_and_made(api, plane):
    plan = (await api.get("/v3/links/l/user-plan")).json()
    assert (plan["kind"], plan["counts"]["MISSING"]) == ("KafkaLinkUserPlanData", 1)
    assert plan["data"][0] == {
        "name": "alice",
        "target_name": "alice",
        "mechanism": "SCRAM-SHA-256",
        "iterations": 4096,
        "state": "MISSING",
        "state_detail": "",
    }
    answer = await api.post("/v3/links/l/users:apply", json={"credentials": [credential()]})
    assert (answer.status_code, answer.json()["counts"]["CREATED"]) == (200, 1)
    assert plane.target.scram[ALICE] == salted(ALICE, 4096, SALT, "hush")
    assert "salt" not in answer.text


async def test_users_who_need_none(api):
    plan = (await api.get("/v3/links/l/user-plan", params={"identity_token": ["bob", "al*"]})).json()
    assert plan["counts"]["NOT_NEEDED"] == 1


@pytest.mark.parametrize(
    "body",
    [
        {"credentials": [credential(salted_password="hush!")]},
        {"credentials": [credential(iterations=1)]},
        {"credentials": [credential(salt="")]},
        {"password": "hush!"},
        {"secrets": "hush!"},
    ],
)
async def test_bad_bodies_are_refused_and_not_repeated(api, body):
    answer = await api.post("/v3/links/l/users:apply", json=body)
    assert answer.status_code == 400
    assert "hush!" not in answer.text


async def test_quotas_are_planned_and_set(api, plane):
    plan = (await api.get("/v3/links/l/quota-plan", params={"factor": ["3", "producer_byte_rate=2"]})).json()
    assert plan["data"][0] == {
        "entity": [{"entity_type": "user", "entity_name": None}],
        "target_entity": [{"entity_type": "user", "entity_name": None}],
        "key": "producer_byte_rate",
        "value": 100.0,
        "target_value": 200.0,
        "present_value": None,
        "state": "MISSING",
        "state_detail": "",
    }
    answer = await api.post("/v3/links/l/quotas:apply", json={"factor": 2})
    assert (answer.status_code, answer.json()["counts"]["SET"]) == (200, 1)
    assert plane.target.quotas_there == {QUOTA: 200.0}


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/v3/links/x/user-plan", None, 404),
        ("POST", "/v3/links/x/users:apply", {}, 404),
        ("GET", "/v3/links/x/quota-plan", None, 404),
        ("GET", "/v3/links/l/quota-plan?factor=many", None, 400),
        ("GET", "/v3/links/l/quota-plan?factor=0", None, 400),
        ("POST", "/v3/links/l/quotas:apply", {"factor": -1}, 400),
        ("POST", "/v3/links/l/users:apply", {"users": ["carol"]}, 400),
    ],
)
async def test_refusals(api, method, path, body, status):
    assert (await api.request(method, path, json=body)).status_code == status
