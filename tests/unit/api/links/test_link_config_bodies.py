"""Configs and tasks of a link in both APIs: byte for byte what clients were told since there are two of them."""

from __future__ import annotations

from dataclasses import replace

import httpx
import pytest

from gateway.operations.link_tasks import LinkTask, TaskErrorCode
from gateway.telemetry.metrics import Metrics
from tests.support.control.shared_app import shared_app

SECRET = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "u",
    "sasl.password": "hunter2",
}
CONFLUENT = "/kafka/v3/clusters/T/links/l"

GIVEN = (
    '{"kind":"KafkaLinkConfigData","link_name":"l","name":"ack","value":"both","read_only":false,"sensitive":false,'
    '"source":"DYNAMIC_CLUSTER_LINK_CONFIG","synonyms":[]}'
)
DEFAULT = (
    '{"kind":"KafkaLinkConfigData","link_name":"l","name":"topic.config.sync.ms","value":"5000","read_only":false,'
    '"sensitive":false,"source":"DEFAULT_CONFIG","synonyms":[]}'
)
FIXED = (
    '{"kind":"KafkaLinkConfigData","link_name":"l","name":"link.prefix","value":"a.","read_only":true,'
    '"sensitive":false,"source":"DYNAMIC_CLUSTER_LINK_CONFIG","synonyms":[]}'
)
HIDDEN = (
    '{"kind":"KafkaLinkConfigData","link_name":"l","name":"sasl.password","value":"********","read_only":false,'
    '"sensitive":true,"source":"DYNAMIC_CLUSTER_LINK_CONFIG","synonyms":[]}'
)


def confluent(name, value, *, default=False, fixed=False, sensitive=False, synonyms="[]"):
    flags = f'"is_default":{default},"is_read_only":{fixed},"is_sensitive":{sensitive}'.replace("T", "t")
    return (
        '{"kind":"KafkaLinkConfigData","metadata":{"self":'
        f'"http://gw{CONFLUENT}/configs/{name}","resource_name":null}},"cluster_id":"T","link_name":"l",'
        f'"name":"{name}","value":"{value}",{flags.replace("F", "f")},'
        f'"source":"DYNAMIC_CLUSTER_LINK_CONFIG","synonyms":{synonyms}}}'
    )


@pytest.fixture
async def api(plane):
    record = await plane.with_link(ack="both", **{"cluster.link.prefix": "a."})
    await plane.by_hand(replace(record, client={**record.client, **SECRET}))
    app = shared_app(lambda: plane.service, Metrics())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://gw") as client:
        yield client


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/v3/links/l/configs/ack", GIVEN),
        ("/v3/links/l/configs/topic.config.sync.ms", DEFAULT),
        ("/v3/links/l/configs/link.prefix", FIXED),
        ("/v3/links/l/configs/sasl.password", HIDDEN),
        (f"{CONFLUENT}/configs/ack", confluent("ack", "both")),
        (f"{CONFLUENT}/configs/topic.config.sync.ms", confluent("topic.config.sync.ms", "5000", default=True)),
        (
            f"{CONFLUENT}/configs/link.prefix",
            confluent("link.prefix", "a.", fixed=True, synonyms='["cluster.link.prefix"]'),
        ),
        (f"{CONFLUENT}/configs/sasl.password", confluent("sasl.password", "********", sensitive=True)),
    ],
)
async def test_a_config(api, path, text):
    assert (await api.get(path)).text == text


async def test_both_lists_have_the_same_configs_in_the_same_order(api):
    ours = (await api.get("/v3/links/l/configs")).json()["data"]
    theirs = (await api.get(f"{CONFLUENT}/configs")).json()["data"]
    assert [(one["name"], one["value"]) for one in ours] == [(one["name"], one["value"]) for one in theirs]
    assert [one["name"] for one in ours] == sorted(one["name"] for one in ours)


async def test_a_task_and_its_error(api, plane):
    tasks, link = plane.parts.tasks, f"{CONFLUENT}?include_tasks=true"
    tasks.failed("l", LinkTask.TOPIC_CONFIGS_SYNC, (TaskErrorCode.AUTHORIZATION_ERROR, "not allowed"))
    ours = await api.get("/v3/links/l/tasks")
    error = '{"error_code":"AUTHORIZATION_ERROR","error_message":"not allowed","time_ms":1000000}'
    assert (
        '{"kind":"KafkaLinkTaskData","task_name":"TopicConfigsSync","state":"IN_ERROR","state_time_ms":1000000,'
        f'"last_run_ms":1000000,"errors":[{error}],"last_error":{error}}}'
    ) in ours.text
    assert (
        '{"task_name":"TopicConfigsSync","state":"IN_ERROR","errors":[{"error_code":"AUTHORIZATION_ERROR",'
        '"error_message":"not allowed"}]}'
    ) in (await api.get(link)).text

    tasks.succeeded("l", LinkTask.TOPIC_CONFIGS_SYNC)
    assert f'"errors":[],"last_error":{error}' in (await api.get("/v3/links/l/tasks")).text
    assert '{"task_name":"TopicConfigsSync","state":"ACTIVE","errors":[]}' in (await api.get(link)).text


async def test_a_config_is_found_by_its_other_name(api):
    assert (await api.get("/v3/links/l/configs/cluster.link.prefix")).text == FIXED
