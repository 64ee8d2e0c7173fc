"""A whole migration there and back between real clusters, by nothing but Confluent's paths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.devcluster import DevCluster
from tests.support.brokers.logs import assert_equal, assert_nothing_lost, create_topic, log_ends, read_logs
from tests.support.clients.writer import Writer
from tests.support.control.confluent_shapes import (
    ALTERED,
    CONFIG,
    LINK,
    MIRROR,
    MIRROR_WITH_ERRORS,
    assert_shape,
    list_of,
)
from tests.support.gateways.gateway import GatewayProcess, running_gateway
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
PARTITIONS = 3


class Rest:
    """The paths of one link. Every answer is held against Confluent's shape."""

    def __init__(self, gateway: GatewayProcess, link: str) -> None:
        self._api = gateway.api
        self.bootstrap = gateway.bootstrap
        self.link = link
        self.cluster: str = self._api.get("/v3/status").json()["target_cluster_id"]
        self._links = f"/kafka/v3/clusters/{self.cluster}/links"

    def ask(self, method: str, below: str = "", **options: Any) -> httpx.Response:
        """Of whatever is below the links."""
        return self._api.request(method, self._links + below, **options)

    def get(self, below: str, shape: Mapping[str, Any]) -> Any:
        answer = self.ask("GET", below)
        assert answer.status_code == 200, answer.text
        assert_shape(answer.json(), shape)
        return answer.json()

    def alter(self, verb: str, *topics: str, **query: Any) -> dict[str, Any]:
        """topic -> its entry."""
        body = {"mirror_topic_names": topics}
        answer = self.ask("POST", f"/{self.link}/mirrors:{verb}", json=body, params=query)
        assert answer.status_code == 200, answer.text
        assert_shape(answer.json(), list_of("KafkaPromoteMirror", ALTERED))
        return {each["mirror_topic_name"]: each for each in answer.json()["data"]}

    def mirror(self, topic: str) -> Any:
        return self.get(f"/{self.link}/mirrors/{topic}?include_state_transition_errors=true", MIRROR_WITH_ERRORS)

    def wait_for(self, topic: str, status: str) -> None:
        wait_until(lambda: self.mirror(topic)["mirror_status"] == status, 90, what=f"{topic} to be {status}")

    def carried_out(self, verb: str, topic: str) -> None:
        entry = self.alter(verb, topic)[topic]
        assert (entry["error_code"], entry["error_message"]) == (None, None)

    def home(self, topic: str) -> None:
        """The failback, which Confluent's API begins on the other cluster: here by the gateway's own path."""
        body = {"mirror_topic_names": [topic], "mirror_direction": "REVERSE"}
        path = f"/v3/links/{self.link}/mirrors:promote"
        wait_until(lambda: self._api.post(path, json=body).is_success, 60, what="the begin of the failback")


@pytest.fixture
def rest(tmp_path: Path, source: DevCluster, target: DevCluster, topic: str) -> Iterator[Rest]:
    with running_gateway(tmp_path, target.bootstrap, f"link-{topic}") as gateway:
        yield Rest(gateway, f"link-{topic}")


def test_a_whole_migration_there_and_back(rest: Rest, source: DevCluster, target: DevCluster, topic: str) -> None:
    create_topic(source.bootstrap, topic, partitions=PARTITIONS)
    configs = [{"name": "bootstrap.servers", "value": source.bootstrap}]
    created = rest.ask("POST", params={"link_name": rest.link}, json={"configs": configs})
    assert (created.status_code, created.content) == (204, b"")
    again = rest.ask("POST", params={"link_name": rest.link}, json={"configs": configs})
    assert (again.status_code, again.json()["error_code"]) == (400, 40002)
    created = rest.ask("POST", f"/{rest.link}/mirrors", json={"source_topic_name": topic})
    assert (created.status_code, created.content) == (204, b"")

    link = rest.get(f"/{rest.link}?include_tasks=true", LINK)
    assert (link["link_state"], link["topic_names"]) == ("ACTIVE", [topic])
    assert (
        link["metadata"]["self"]
        == str(rest._api.base_url).rstrip("/") + f"/kafka/v3/clusters/{rest.cluster}/links/{rest.link}"
    )
    assert rest._api.get(link["metadata"]["self"]).json()["link_name"] == rest.link
    configs_shown = rest.get(f"/{rest.link}/configs", list_of("KafkaLinkConfigDataList", CONFIG))["data"]
    assert {"bootstrap.servers", "ack"} <= {each["name"] for each in configs_shown}

    with Writer(rest.bootstrap, topic, partitions=PARTITIONS, rate=300) as writer:
        writer.wait_for_acks(200)
        rest.carried_out("pause", topic)
        assert rest.mirror(topic)["mirror_status"] == "PAUSED"
        assert rest.alter("pause", topic)[topic]["error_code"] == 400
        writer.wait_for_acks(100)
        rest.carried_out("resume", topic)
        assert rest.alter("promote", topic, validate_only=True)[topic]["error_code"] is None
        rest.wait_for(topic, "ACTIVE")

        results = rest.alter("promote", topic, "nobody")
        assert (results[topic]["error_code"], results["nobody"]["error_code"]) == (None, 40403)
        rest.wait_for(topic, "STOPPED")
        ends = log_ends(source.bootstrap, topic, PARTITIONS)
        stopped = rest.mirror(topic)
        assert [lag["last_source_fetch_offset"] for lag in stopped["mirror_lags"]] == [end - 1 for end in ends]
        assert stopped["mirror_state_transition_errors"] == []
        writer.wait_for_acks(200)
        assert log_ends(source.bootstrap, topic, PARTITIONS) == ends  # written on the target by now

        rest.carried_out("reverse-and-pause-mirror", topic)
        rest.wait_for(topic, "PAUSED")
        rest.carried_out("resume", topic)
        again = rest.alter("promote", topic)[topic]  # it goes to the target only, where the topic is written already
        assert (again["error_code"], "is written on the target already" in again["error_message"]) == (400, True)
        rest.home(topic)
        wait_until(
            lambda: log_ends(source.bootstrap, topic, PARTITIONS) != ends and _mirrors(rest, topic),
            90,
            what="writes on the source again",
        )
        writer.wait_for_acks(200)
        writer.stop()
    assert not writer.failed
    wait_until(
        lambda: log_ends(source.bootstrap, topic, PARTITIONS) == log_ends(target.bootstrap, topic, PARTITIONS), 60
    )
    on_source = read_logs(source.bootstrap, topic, PARTITIONS)
    assert_nothing_lost(writer, on_source)
    assert_equal(on_source, read_logs(target.bootstrap, topic, PARTITIONS))

    refused = rest.ask("DELETE", f"/{rest.link}")
    assert (refused.status_code, refused.json()["error_code"]) == (400, 40002)
    rest.carried_out("failover", topic)
    assert rest.mirror(topic)["mirror_status"] == "STOPPED"
    everything = rest.get("/-/mirrors?mirror_status=STOPPED", list_of("KafkaMirrorDataList", MIRROR))["data"]
    assert topic in [each["mirror_topic_name"] for each in everything]
    assert rest.ask("DELETE", f"/{rest.link}", params={"force": True}).status_code == 200
    gone = rest.ask("GET", f"/{rest.link}")
    assert (gone.status_code, gone.json()["error_code"]) == (404, 404)


def _mirrors(rest: Rest, topic: str) -> bool:
    return bool(rest.mirror(topic)["mirror_status"] == "ACTIVE")
