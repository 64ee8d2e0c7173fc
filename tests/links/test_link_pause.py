"""A whole link is paused and resumed; a source that is gone and comes back; what a deletion would leave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from gateway.devcluster import DevCluster
from tests.support.brokers.logs import assert_equal, assert_nothing_lost, create_topic, log_ends, read_logs
from tests.support.brokers.toxiproxy import Proxy
from tests.support.clients.writer import Writer
from tests.support.gateways.gateway import GatewayProcess, running_gateway
from tests.support.waiting import wait_until

PARTITIONS = 2


def wait_level(source: DevCluster, target: DevCluster, topic: str) -> None:
    def ends(cluster: DevCluster) -> list[int]:
        return log_ends(cluster.bootstrap, topic, PARTITIONS)

    wait_until(lambda: ends(source) == ends(target), 60.0, what="equal ends on both clusters")


def post(gateway: GatewayProcess, path: str, body: Any = None) -> httpx.Response:
    return gateway.api.post(path, json=body)


def test_a_paused_link_mirrors_nothing_and_clients_write_on(
    source: DevCluster, target: DevCluster, topic: str, tmp_path: Path
) -> None:
    link = f"link-{topic}"
    create_topic(source.bootstrap, topic, partitions=PARTITIONS)
    with running_gateway(tmp_path, target.bootstrap, link) as gateway:
        gateway.create_link(link, source.bootstrap)
        gateway.create_mirror(link, topic)
        with Writer(gateway.bootstrap, topic, partitions=PARTITIONS, rate=300) as writer:
            writer.wait_for_acks(300)
            paused = post(gateway, f"/v3/links/{link}:pause")
            assert (paused.status_code, paused.json()["link_state"]) == (200, "PAUSED"), paused.text
            writer.wait_for_acks(300)  # what was fetched is on the target by then
            stands = log_ends(target.bootstrap, topic, PARTITIONS)
            writer.wait_for_acks(600)
            assert log_ends(target.bootstrap, topic, PARTITIONS) == stands
            shown = gateway.mirror(link, topic)
            assert (shown["mirror_status"], shown["paused_by_link"]) == ("PAUSED", True)
            refused = post(gateway, f"/v3/links/{link}/mirrors/{topic}:promote")
            assert (refused.status_code, "resume the link first" in refused.text) == (409, True), refused.text

            gateway.stop()  # a paused link is paused for the next gateway, too
            gateway.start()
            assert gateway.mirror(link, topic)["mirror_status"] == "PAUSED"
            writer.wait_for_acks(300)
            assert log_ends(target.bootstrap, topic, PARTITIONS) == stands

            resumed = post(gateway, f"/v3/links/{link}:resume")
            assert (resumed.status_code, resumed.json()["link_state"]) == (200, "ACTIVE"), resumed.text
            writer.wait_for_acks(300)
        wait_level(source, target, topic)
        assert gateway.mirror(link, topic)["mirror_status"] == "ACTIVE"
        logs = [read_logs(cluster.bootstrap, topic, PARTITIONS) for cluster in (source, target)]
        assert_nothing_lost(writer, logs[0])
        assert_equal(*logs)


def test_a_source_that_is_gone_and_comes_back(
    source: DevCluster, target: DevCluster, source_proxy: Proxy, topic: str, tmp_path: Path
) -> None:
    link = f"link-{topic}"
    create_topic(source.bootstrap, topic, partitions=PARTITIONS)
    with running_gateway(tmp_path, target.bootstrap, link) as gateway:
        gateway.create_link(link, source.proxied_bootstrap)
        gateway.create_mirror(link, topic)

        def state() -> tuple[str, str, str]:
            tasks = {one["task_name"]: one for one in gateway.api.get(f"/v3/links/{link}/tasks").json()["data"]}
            shown = gateway.api.get(f"/v3/links/{link}").json()
            mirror = gateway.mirror(link, topic)["mirror_status"]
            return shown["link_state"], mirror, tasks["CheckAvailability"]["state"]

        wait_until(lambda: state() == ("ACTIVE", "ACTIVE", "ACTIVE"), what="the link at work")
        with source_proxy.being_cut():
            wait_until(
                lambda: state() == ("UNAVAILABLE", "SOURCE_UNAVAILABLE", "IN_ERROR"), 60.0, what="the source is lost"
            )
        wait_until(lambda: state() == ("ACTIVE", "ACTIVE", "ACTIVE"), 60.0, what="the link at work again")
        with Writer(gateway.bootstrap, topic, partitions=PARTITIONS) as writer:
            writer.wait_for_acks(200)
        wait_level(source, target, topic)


def test_what_would_be_made_and_what_would_be_left(
    source: DevCluster, target: DevCluster, topic: str, tmp_path: Path
) -> None:
    link = f"link-{topic}"
    create_topic(source.bootstrap, topic, partitions=PARTITIONS)
    with running_gateway(tmp_path, target.bootstrap, link) as gateway:
        body = {"link_name": link, "configs": [{"name": "bootstrap.servers", "value": source.bootstrap}]}
        tried = gateway.api.post("/v3/links", json=body, params={"validate_only": True})
        assert (tried.status_code, tried.json()["link_name"]) == (200, link), tried.text
        assert gateway.api.get(f"/v3/links/{link}").status_code == 404

        gateway.create_link(link, source.bootstrap)
        gateway.create_mirror(link, topic)
        plan = gateway.api.delete(f"/v3/links/{link}", params={"validate_only": True})
        assert (plan.status_code, plan.json()["remains"][0]["name"]) == (200, topic), plan.text
        assert "are not STOPPED" in plan.json()["refusal"]
        assert gateway.api.get(f"/v3/links/{link}").status_code == 200
