"""Mirror topics in Confluent's shape."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.api.confluent.mirror_models import MirrorStatus
from gateway.state.records import MirrorState, TransitionError
from tests.support.control.confluent_shapes import MIRROR, MIRROR_WITH_ERRORS, assert_shape, list_of
from tests.support.fakes.fake_engine import status
from tests.support.waiting import wait_until_async
from tests.unit.api.confluent.test_links import refused


async def test_create_list_describe(api, plane):
    await plane.with_link()
    plane.source.add("orders", 2)
    created = await api.post("/links/l/mirrors", json={"source_topic_name": "orders"})
    assert (created.status_code, created.content) == (204, b"")
    plane.engine.numbers["l", "orders"] = [status(0, lag=2, mirrored_to=8), status(1, lag=None, mirrored_to=None)]

    listed = (await api.get("/links/l/mirrors")).json()
    assert_shape(listed, list_of("KafkaMirrorDataList", MIRROR))
    assert listed["metadata"]["self"] == "http://gw:8642/kafka/v3/clusters/T/links/l/mirrors"
    mirror = (await api.get("/links/l/mirrors/orders")).json()
    assert mirror == listed["data"][0]
    assert mirror["metadata"]["self"].endswith("/links/l/mirrors/orders")
    assert mirror["mirror_lags"] == [
        {"partition": 0, "lag": 2, "last_source_fetch_offset": 7},
        {"partition": 1, "lag": -1, "last_source_fetch_offset": -1},
    ]
    assert (mirror["mirror_status"], mirror["mirror_topic_error"]) == ("ACTIVE", "NO_ERROR")
    full = (await api.get("/links/l/mirrors/orders?include_state_transition_errors=true")).json()
    assert_shape(full, MIRROR_WITH_ERRORS)
    assert full["mirror_state_transition_errors"] == []


async def test_a_stopped_topic_keeps_its_last_offsets(api, plane):
    await plane.with_mirror("orders")
    await plane.service.mirrors.promote("l", ["orders"])
    await wait_until_async(lambda: plane.state() is MirrorState.STOPPED)
    mirror = (await api.get("/links/l/mirrors/orders")).json()
    assert mirror["mirror_status"] == "STOPPED"
    assert [lag["last_source_fetch_offset"] for lag in mirror["mirror_lags"]] == [6, 7, 8]


async def test_mirrors_of_every_link(api, plane):
    await plane.with_link("a", **{"link.prefix": "a."})
    await plane.with_link("b", **{"link.prefix": "b."})
    plane.source.add("orders", 1)
    for link in ("a", "b"):
        assert (await api.post(f"/links/{link}/mirrors", json={"source_topic_name": "orders"})).status_code == 204
    await plane.service.mirrors.pause("b", "b.orders")

    everything = (await api.get("/links/-/mirrors")).json()
    assert_shape(everything, list_of("KafkaMirrorDataList", MIRROR))
    assert everything["metadata"]["self"].endswith("/links/-/mirrors")
    assert [each["mirror_topic_name"] for each in everything["data"]] == ["a.orders", "b.orders"]
    paused = (await api.get("/links/-/mirrors?mirror_status=PAUSED")).json()["data"]
    assert [each["link_name"] for each in paused] == ["b"]
    assert (await api.get("/links/a/mirrors?mirror_status=PAUSED")).json()["data"] == []


async def test_create_again_changes_nothing(api, plane):
    before = await plane.with_mirror("orders")
    again = await api.post("/links/l/mirrors", json={"source_topic_name": "orders"})
    refused(again, 400, 40002, "is already a mirror topic of link 'l'")
    assert plane.store.mirrors["l", "orders"] == before


@pytest.mark.parametrize(
    ("path", "body", "status", "code", "words"),
    [
        ("/links/x/mirrors", {"source_topic_name": "orders"}, 404, 404, "link 'x' does not exist"),
        ("/links/l/mirrors", {"source_topic_name": "nope"}, 404, 40403, "topic 'nope' does not exist on the source"),
        ("/links/l/mirrors", {"mirror_topic_name": "orders"}, 400, 400, "source_topic_name"),
        (
            "/links/l/mirrors",
            {"source_topic_name": "o", "mirror_topic_name": "p"},
            400,
            40002,
            "the name of its source",
        ),
    ],
)
async def test_refusals_of_create(api, plane, path, body, status, code, words):
    await plane.with_link()
    refused(await api.post(path, json=body), status, code, words)


async def test_refusals_of_reads(api, plane):
    await plane.with_link()
    refused(await api.get("/links/x/mirrors/orders"), 404, 404, "link 'x' does not exist")
    refused(await api.get("/links/l/mirrors/orders"), 404, 40403, "no mirror topic 'orders'")
    refused(await api.get("/links/l/mirrors?mirror_status=GREEN"), 400, 400, "mirror_status")


def test_every_state_can_be_asked_for():
    assert {state.value for state in MirrorState} <= {status.value for status in MirrorStatus}


@pytest.mark.parametrize("asked", ["PENDING_RESTORE", "PENDING_RESTORE_MIRROR"])
async def test_the_state_that_has_two_names(api, plane, asked):
    record = await plane.with_mirror("orders")
    await plane.by_hand(replace(record, state=MirrorState.PENDING_RESTORE_MIRROR))
    (found,) = (await api.get(f"/links/l/mirrors?mirror_status={asked}")).json()["data"]
    assert found["mirror_status"] == "PENDING_RESTORE"


async def test_configs_of_its_own_and_replicas(api, plane):
    await plane.with_link()
    plane.source.add("orders", 1)
    body = {
        "source_topic_name": "orders",
        "replication_factor": 1,
        "configs": [{"name": "retention.ms", "value": "9000"}],
    }
    created = await api.post("/links/l/mirrors", json=body)
    assert created.status_code == 204, created.text
    record = plane.store.mirrors["l", "orders"]
    assert (dict(record.configs), record.replication_factor) == ({"retention.ms": "9000"}, 1)
    twice = {"source_topic_name": "clicks", "configs": [{"name": "retention.ms", "value": "9000"}] * 2}
    refused(await api.post("/links/l/mirrors", json=twice), 400, 40002, "occurs twice")


async def test_transition_errors(api, plane):
    record = await plane.with_mirror("orders")
    error = TransitionError("AUTHENTICATION_ERROR", "the source refuses the login", "promote", 1)
    await plane.by_hand(replace(record, transition_errors=(error,)))
    mirror = (await api.get("/links/l/mirrors/orders?include_state_transition_errors=true")).json()
    assert_shape(mirror, MIRROR_WITH_ERRORS)
    assert mirror["mirror_state_transition_errors"] == [
        {"error_code": "AUTHENTICATION_ERROR", "error_message": "the source refuses the login"}
    ]
