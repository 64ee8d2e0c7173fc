"""Links in Confluent's shape: answers, refusals, and what asking again does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.state.records import MirrorState
from tests.support.control.confluent_shapes import LINK, assert_shape, list_of
from tests.support.control.control_plane import SOURCE

CONFIGS = [{"name": "bootstrap.servers", "value": SOURCE}, {"name": "ack", "value": "both"}]


def refused(answer, status, code, words):
    assert answer.status_code == status, answer.text
    assert answer.json().keys() == {"error_code", "message"}
    assert answer.json()["error_code"] == code
    assert words in answer.json()["message"]


async def test_a_links_life(api, plane):
    created = await api.post("/links?link_name=l", json={"source_cluster_id": "S", "configs": CONFIGS})
    assert (created.status_code, created.content) == (204, b"")
    await plane.with_mirror("orders")

    listed = (await api.get("/links")).json()
    assert_shape(listed, list_of("KafkaLinkDataList", LINK))
    assert listed["metadata"]["self"] == "http://gw:8642/kafka/v3/clusters/T/links"
    link = (await api.get("/links/l")).json()
    assert link == listed["data"][0]
    assert link["metadata"]["self"] == "http://gw:8642/kafka/v3/clusters/T/links/l"
    assert (link["link_name"], link["source_cluster_id"], link["topic_names"]) == ("l", "S", ["orders"])
    assert (link["link_state"], link["link_error"], link["tasks"]) == ("ACTIVE", "NO_ERROR", None)
    assert link["category_counts"] == [{"state_category": "ACTIVE", "count": 1}]
    with_tasks = (await api.get("/links/l?include_tasks=true")).json()
    assert_shape(with_tasks, LINK)
    assert {"CheckAvailability", "TopicConfigsSync"} <= {task["task_name"] for task in with_tasks["tasks"]}

    refused(await api.delete("/links/l"), 400, 40002, "promote them first")
    assert (await api.delete("/links/l?force=true")).status_code == 200
    refused(await api.delete("/links/l?force=true"), 404, 404, "link 'l' does not exist")


async def test_every_kind_of_state_is_counted(api, plane):
    await plane.with_link()
    plane.parts.health.clear()  # who knows that the source is there would make what is lost ACTIVE again, meanwhile
    for state in MirrorState:
        record = await plane.with_mirror(f"t-{state}")
        await plane.by_hand(replace(record, state=state))
    counts = {c["state_category"]: c["count"] for c in (await api.get("/links/l")).json()["category_counts"]}
    assert sum(counts.values()) == len(MirrorState)
    assert counts["NOT_APPLICABLE"] == 1
    assert counts["PAUSED"] == 1
    assert counts["IN_ERROR"] == 3


async def test_create_again_changes_nothing(api, plane):
    await plane.with_link(ack="both")
    before = plane.store.links["l"]
    refused(await api.post("/links?link_name=l", json={"configs": CONFIGS}), 400, 40002, "exists already")
    assert plane.store.links["l"] == before


@pytest.mark.parametrize(
    ("path", "body", "status", "code", "words"),
    [
        ("/links", {"configs": CONFIGS}, 400, 400, "link_name"),
        ("/links?link_name=l", {"configs": CONFIGS, "color": 1}, 400, 400, "color"),
        ("/links?link_name=l", {"configs": CONFIGS * 2}, 400, 40002, "occurs twice"),
        ("/links?link_name=l", {"configs": [*CONFIGS, {"name": "nack", "value": "1"}]}, 400, 40002, "nack"),
        ("/links?link_name=l", {"source_cluster_id": "X", "configs": CONFIGS}, 400, 40002, "leads to cluster S, not"),
        ("/links?link_name=l", {"destination_cluster_id": "X", "configs": CONFIGS}, 400, 40035, "source_cluster_id"),
        (
            "/links?link_name=l",
            {"configs": [*CONFIGS, {"name": "link.mode", "value": "SOURCE"}]},
            400,
            40035,
            "link.mode",
        ),
        ("/../X/links?link_name=l", {"configs": CONFIGS}, 404, 404, "Cluster X cannot be found"),
    ],
)
async def test_refusals_of_create(api, plane, path, body, status, code, words):
    refused(await api.post(path, json=body), status, code, words)
    assert not plane.store.links


async def test_modes_that_every_link_has(api, plane):
    modes = [{"name": "link.mode", "value": "bidirectional"}, {"name": "connection.mode", "value": "OUTBOUND"}]
    assert (await api.post("/links?link_name=l", json={"configs": CONFIGS + modes})).status_code == 204
    assert "l" in plane.store.links


async def test_another_cluster_than_the_target_is_not_found(api, plane):
    await plane.with_link()
    for method, path in (("GET", "/links"), ("GET", "/links/l"), ("DELETE", "/links/l"), ("GET", "/links/-/mirrors")):
        url = f"http://gw:8642/kafka/v3/clusters/S{path}"
        refused(await api.request(method, url), 404, 404, "Cluster S cannot be found: the target of this gateway is")
    assert "l" in plane.store.links


async def test_a_source_that_does_not_answer(api, plane):
    plane.source.down = True
    refused(await api.post("/links?link_name=l", json={"configs": CONFIGS}), 503, 50302, "not reachable")


async def test_validate_only_changes_nothing(api, plane):
    tried = await api.post("/links?link_name=l&validate_only=true", json={"configs": CONFIGS})
    assert tried.status_code == 204
    assert not plane.store.links
    await plane.with_mirror("orders")
    refused(await api.delete("/links/l?validate_only=true"), 400, 40002, "promote them first")
    assert (await api.delete("/links/l?validate_only=true&force=true")).status_code == 200
    assert "l" in plane.store.links
