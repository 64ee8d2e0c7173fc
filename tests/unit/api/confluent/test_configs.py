"""Configs of a link in Confluent's shape."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.control.confluent_shapes import CONFIG, assert_shape, list_of
from tests.unit.api.confluent.test_links import refused

SECRET = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "u",
    "sasl.password": "hunter2",
}


async def test_list_and_describe(api, plane):
    record = await plane.with_link(ack="both", **{"cluster.link.prefix": "a."})
    await plane.by_hand(replace(record, client={**record.client, **SECRET}))
    listed = (await api.get("/links/l/configs")).json()
    assert_shape(listed, list_of("KafkaLinkConfigDataList", CONFIG))
    assert "hunter2" not in str(listed)
    by_name = {each["name"]: each for each in listed["data"]}
    assert (by_name["ack"]["value"], by_name["ack"]["is_default"]) == ("both", False)
    assert (by_name["topic.config.sync.ms"]["value"], by_name["topic.config.sync.ms"]["is_default"]) == ("5000", True)
    assert (by_name["sasl.password"]["is_sensitive"], by_name["sasl.username"]["is_sensitive"]) == (True, False)
    prefix = by_name["link.prefix"]
    assert (prefix["is_read_only"], prefix["is_default"], prefix["synonyms"]) == (True, False, ["cluster.link.prefix"])

    assert (await api.get("/links/l/configs/ack")).json() == by_name["ack"]
    assert (await api.get("/links/l/configs/cluster.link.prefix")).json() == prefix
    refused(await api.get("/links/l/configs/color"), 404, 404, "has no config 'color'")
    refused(await api.get("/links/x/configs"), 404, 404, "link 'x' does not exist")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([{"name": "ack", "value": "both"}] * 2, "occurs twice"),
        ([{"name": "ack"}], "SET takes a value"),
        ([{"name": "ack", "value": "both", "operation": "DELETE"}], "DELETE takes none"),
    ],
)
async def test_changes_that_make_no_sense(api, plane, data, words):
    await plane.with_link()
    refused(await api.put("/links/l/configs:alter", json={"data": data}), 400, 40002, words)


async def test_configs_are_changed_and_set_back(api, plane):
    await plane.with_link(ack="both")
    data = [{"name": "ack", "value": "source"}, {"name": "topic.config.sync.ms", "value": "9000"}]
    assert (await api.put("/links/l/configs:alter?validate_only=true", json={"data": data})).status_code == 204
    assert plane.store.links["l"].configs == {"ack": "both"}
    assert (await api.put("/links/l/configs:alter", json={"data": data})).status_code == 204
    assert plane.store.links["l"].configs == {"ack": "source", "topic.config.sync.ms": "9000"}
    assert (await api.put("/links/l/configs/ack", json={"value": "both"})).status_code == 204
    assert (await api.delete("/links/l/configs/topic.config.sync.ms")).status_code == 204
    assert plane.store.links["l"].configs == {"ack": "both"}
    fixed = await api.put("/links/l/configs/link.prefix", json={"value": "w."})
    assert (fixed.status_code, "create another link" in fixed.text) == (400, True)


async def test_a_link_is_tried_and_its_deletion_too(api, plane):
    body = {"configs": [{"name": "bootstrap.servers", "value": "source:9092"}]}
    tried = await api.post("/links?link_name=l&validate_only=true", json=body)
    assert tried.status_code < 300, tried.text
    assert not plane.store.links
    await plane.with_mirror()
    assert (await api.delete("/links/l?validate_only=true&force=true")).status_code == 200
    needed = await api.delete("/links/l?validate_only=true")
    assert (needed.status_code, "are not STOPPED" in needed.text) == (400, True), needed.text
    assert "l" in plane.store.links


async def test_set_reset_and_alter(api, plane):
    await plane.with_link()
    assert (await api.put("/links/l/configs/ack", json={"value": "both"})).status_code == 204
    before = plane.store.links["l"]
    assert before.configs["ack"] == "both"
    assert (await api.put("/links/l/configs/ack", json={"value": "both"})).status_code == 204
    assert plane.store.links["l"] == before
    tried = {"data": [{"name": "ack", "value": "source"}]}
    assert (await api.put("/links/l/configs:alter?validate_only=true", json=tried)).status_code == 204
    assert plane.store.links["l"] == before
    data = [{"name": "ack", "operation": "DELETE"}, {"name": "topic.config.sync.ms", "value": "9000"}]
    assert (await api.put("/links/l/configs:alter", json={"data": data})).status_code == 204
    assert dict(plane.store.links["l"].configs) == {"topic.config.sync.ms": "9000"}
    assert (await api.delete("/links/l/configs/topic.config.sync.ms")).status_code == 204
    assert (await api.delete("/links/l/configs/topic.config.sync.ms")).status_code == 204
    assert dict(plane.store.links["l"].configs) == {}
    refused(await api.put("/links/l/configs/ack", json={"value": "maybe"}), 400, 40002, "ack")
    refused(await api.put("/links/l/configs/link.prefix", json={"value": "a."}), 400, 40002, "cannot be changed")
    refused(await api.put("/links/x/configs/ack", json={"value": "both"}), 404, 404, "link 'x' does not exist")
