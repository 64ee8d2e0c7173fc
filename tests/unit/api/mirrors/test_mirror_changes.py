"""REST of what is told before a mirror topic is changed, of its repair, its deletion, and its transition errors."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from gateway.state.records import MirrorError, MirrorState
from gateway.state.transition_errors import TransitionErrorCode, with_error
from gateway.telemetry.metrics import Metrics
from tests.support.control.control_plane import Plane
from tests.support.control.mirror_records import changed
from tests.support.control.shared_app import shared_app
from tests.support.waiting import wait_until_async

MIRRORS = "/v3/links/l/mirrors"
DRY = {"validate_only": True}


@pytest.fixture
async def api(plane: Plane) -> AsyncIterator[httpx.AsyncClient]:
    app = shared_app(lambda: plane.service, Metrics())
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://gw") as client:
        yield client


def refused(answer: httpx.Response, code: int, words: str) -> None:
    assert (answer.status_code, answer.json()["error_code"]) == (code, code)
    assert words in answer.json()["message"]


async def failed(plane, error=MirrorError.INTERNAL_ERROR):
    record = await plane.with_mirror()
    record = changed(record, state=MirrorState.FAILED, error=error, error_message="why")
    await plane.by_hand(record)
    await plane.parts.engine.stop_mirror("l", "orders")
    return record


async def test_create_with_what_is_its_own(api, plane):
    await plane.with_link()
    plane.source.add("orders", 2, 100)
    body = {
        "source_topic_name": "orders",
        "configs": [{"name": "delete.retention.ms", "value": "7"}],
        "replication_factor": 2,
        "start_offsets": {"1": 40},
    }
    plan = (await api.post(MIRRORS, json=body, params=DRY)).json()
    assert (plan["kind"], plan["starts"], plan["replication_factor"]) == ("LockgateMirrorCreatePlan", [0, 40], 2)
    assert plan["configs"]["delete.retention.ms"] == "7"
    assert "orders" not in plane.target.existing

    created = (await api.post(MIRRORS, json=body)).json()
    assert (created["configs"], created["replication_factor"], created["start"]) == (
        {"delete.retention.ms": "7"},
        2,
        "1:40",
    )
    refused(await api.post(MIRRORS, json={**body, "start": "latest"}), 400, "give one of the two")
    twice = {**body, "configs": [{"name": "retention.ms", "value": "7"}] * 2}
    refused(await api.post(MIRRORS, json=twice), 400, "a name occurs twice")
    refused(await api.post(MIRRORS, json={**body, "replication_factor": 0}), 400, "replication_factor")
    refused(await api.post(MIRRORS, json={**body, "start_offsets": {"-1": 4}}), 400, "not negative")


async def test_delete(api, plane):
    await failed(plane)
    refused(await api.delete(f"{MIRRORS}/orders"), 409, "what clients of the gateway write to it")
    plan = await api.delete(f"{MIRRORS}/orders", params={**DRY, "delete_topic": True})
    assert (plan.status_code, plan.json()["refused"], plan.json()["delete_topic"]) == (200, "", True)
    gone = await api.delete(f"{MIRRORS}/orders", params={"delete_topic": True})
    assert (gone.status_code, gone.content) == (204, b"")
    assert "orders" not in plane.target.existing
    refused(await api.delete(f"{MIRRORS}/orders"), 404, "no mirror topic 'orders'")


async def test_repair(api, plane):
    await plane.with_mirror()
    refused(await api.post(f"{MIRRORS}/orders:repair"), 409, "has not FAILED")
    await plane.by_hand(changed(plane.store.mirrors["l", "orders"], state=MirrorState.FAILED))
    plan = (await api.post(f"{MIRRORS}/orders:repair", params=DRY)).json()
    assert [(one["action"], one["possible"]) for one in plan["repairs"]] == [
        ("resume", True),
        ("translate", False),
        ("recreate", True),
    ]
    refused(await api.post(f"{MIRRORS}/orders:repair", json={"action": "translate"}), 400, "it helps against")
    refused(await api.post(f"{MIRRORS}/orders:repair", json={"action": "recreate"}), 400, "action")
    done = await api.post(f"{MIRRORS}/orders:repair")
    assert (done.status_code, done.json()["mirror_status"]) == (202, "ACTIVE")


async def test_recreate(api, plane, monkeypatch):
    monkeypatch.setattr("gateway.topics.create._AGAIN_S", 0.01)
    before = await failed(plane, MirrorError.TARGET_DIVERGED)
    done = await api.post(f"{MIRRORS}/orders:recreate")
    assert (done.status_code, done.json()["mirror_status"]) == (202, "PENDING_MIRROR")
    await wait_until_async(lambda: plane.store.mirrors["l", "orders"].created)
    assert plane.store.mirrors["l", "orders"].mirror_topic_id != before.mirror_topic_id


async def test_transition_errors(api, plane):
    record = await plane.with_mirror()
    shown = (await api.get(f"{MIRRORS}/orders")).json()
    assert shown["mirror_state_transition_errors"] is None
    said = {"include_state_transition_errors": "true"}
    assert (await api.get(f"{MIRRORS}/orders", params=said)).json()["mirror_state_transition_errors"] == []

    await plane.store.put(with_error(record, "reverse", "Bad login.", 7, TransitionErrorCode.AUTHENTICATION_ERROR))
    one = {"error_code": "AUTHENTICATION_ERROR", "error_message": "Bad login."}
    assert (await api.get(f"{MIRRORS}/orders", params=said)).json()["mirror_state_transition_errors"] == [one]
    listed = (await api.get(f"{MIRRORS}/orders/state-transition-errors")).json()
    assert listed["data"] == [{**one, "operation": "reverse", "time_ms": 7}]
    refused(await api.get(f"{MIRRORS}/nope/state-transition-errors"), 404, "no mirror topic 'nope'")


async def test_dry_run_of_a_promote(api, plane):
    await plane.with_mirror()
    one = (await api.post(f"{MIRRORS}/orders:promote", params=DRY)).json()
    both = (await api.post(f"{MIRRORS}:promote", params=DRY, json={"mirror_topic_names": ["orders"]})).json()
    assert one == both
    assert (one["blockers"], one["topics"][0]["mirror_status"]) == ([], "ACTIVE")
    assert plane.promoters.asked == []


async def test_reverse_from_active(api, plane):
    await plane.with_mirror()
    answer = await api.post(f"{MIRRORS}/orders:reverse-and-pause-mirror", json={"force": True})
    assert answer.status_code == 202
    assert plane.promoters.asked == [("l", ("orders",), True)]
    assert plane.store.mirrors["l", "orders"].cutover.then_reverse == "pause"
    assert answer.json()["reverses"]
