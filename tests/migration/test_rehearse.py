"""A promote rehearsed between real clusters, while a writer writes: nothing changes sides, nobody sees an error."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from gateway.devcluster import DevCluster
from tests.support.brokers.logs import create_topic, read_logs
from tests.support.clients.producers import ProducerProcess
from tests.support.gateways.gateway import GatewayProcess, running_gateway
from tests.support.waiting import wait_until

PARTITIONS = 2


def rehearsed(gateway: GatewayProcess, link: str, topic: str, **more: Any) -> dict[str, Any]:
    body = {"mirror_topic_names": [topic], **more}
    answer = gateway.api.post(f"/v3/links/{link}/mirrors:rehearse-promote", json=body)
    assert answer.is_success, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_rehearsed_killed_and_promoted_under_load(
    tmp_path: Path, source: DevCluster, target: DevCluster, topic: str
) -> None:
    link = f"link-{topic}"
    create_topic(source.bootstrap, topic, partitions=PARTITIONS)
    config = {"enable.idempotence": True, "client.id": "billing-7"}
    with running_gateway(tmp_path, target.bootstrap, link) as gateway:
        gateway.create_link(link, source.bootstrap)
        gateway.create_mirror(link, topic)

        def status() -> str:
            return str(gateway.mirror(link, topic)["mirror_status"])

        with ProducerProcess(
            "librdkafka", gateway.bootstrap, topic, partitions=PARTITIONS, name="in", config=config
        ) as writer:
            writer.wait_for(200)
            found = wait_until(lambda: _reached(gateway, link, topic), 60.0, what="a rehearsal")
            assert found is not None
            assert found["pause_ms"] <= found["bound_ms"]
            assert [one["client_id"] for one in found["stalls"]] == ["billing-7"]
            assert found["stalls"][0]["stall_ms"] <= found["pause_ms"] + 100
            mirror = gateway.mirror(link, topic)
            assert (mirror["mirror_status"], mirror["error_message"], mirror["promote_error"]) == ("ACTIVE", "", "")
            writer.wait_for(200)
            with ThreadPoolExecutor(1) as pool:
                asked = pool.submit(rehearsed, gateway, link, topic)
                gateway.kill()
                assert asked.exception(60) is not None
            gateway.start()
            wait_until(lambda: status() == "ACTIVE", 60.0, what="ACTIVE again")
            writer.wait_for(200)
            gateway.promote(link, topic)
            wait_until(lambda: status() == "STOPPED", 60.0, what="STOPPED")
            writer.wait_for(200)
            writer.stop()
        sys.stdout.write(f"rehearsed: pause_ms={found['pause_ms']} stalls={found['stalls']}\n")
        assert not writer.errors
    on_source = [[record.key for record in log] for log in read_logs(source.bootstrap, topic, PARTITIONS)]
    on_target = [[record.key for record in log] for log in read_logs(target.bootstrap, topic, PARTITIONS)]
    assert sum(map(len, on_target)) == len(writer.acknowledged)
    assert all(there[: len(here)] == here for here, there in zip(on_source, on_target, strict=True))


def _reached(gateway: GatewayProcess, link: str, topic: str) -> dict[str, Any] | None:
    found = rehearsed(gateway, link, topic, bound_ms=2_000)
    return found if found["reached"] and found["stalls"] else None
