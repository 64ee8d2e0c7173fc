"""Configs of a link in Confluent's shape."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.confluent_shapes import CONFIG, assert_shape, list_of
from tests.unit.api.confluent.test_links import refused

SECRET = {
    "security.protocol": "SASL_PLAINTEXT",
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
