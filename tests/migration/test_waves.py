"""Waves between real clusters: a rule of the file stops the second one, and who goes on accepts what has stopped it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from gateway.devcluster import DevCluster
from tests.support.gateways.gateway import running_gateway
from tests.support.gateways.waves import shown, two_waves
from tests.support.waiting import wait_until

REST_S = 20


def test_a_late_write_stops_the_second_wave(tmp_path: Path, source: DevCluster, target: DevCluster, topic: str) -> None:
    link, second = f"link-{topic}", f"{topic}-second"
    file = two_waves(source, link, topic, rest=f"{REST_S}s", stop_when={"late_writes": 0})
    with running_gateway(tmp_path, target.bootstrap, link) as gateway:
        gateway.create_link(link, source.bootstrap)

        def status(name: str) -> str:
            return str(gateway.mirror(link, name)["mirror_status"])

        answer = gateway.api.put(f"/v3/migrations/{topic}", json=file)
        assert answer.is_success, answer.text
        wait_until(lambda: "rests until" in _waits(shown(gateway, topic)), 120.0, what="the first wave")
        producer = Producer({"bootstrap.servers": source.bootstrap})  # beside the gateway
        producer.produce(topic, "late", partition=0)
        assert producer.flush(30) == 0
        wait_until(lambda: shown(gateway, topic).get("stopped_by"), 90.0, what="the rule")
        found = shown(gateway, topic)
        assert (found["state"], found["stopped_by"]) == ("PAUSED", f"late_writes is 1, 0 at most ('{topic}')")
        assert found["journal"][-1]["what"] == "STOPPED_BY_RULE"
        assert (status(topic), status(second)) == ("STOPPED", "ACTIVE")
        gateway.kill()
        gateway.start()
        assert gateway.api.post(f"/v3/migrations/{topic}:resume").is_success
        wait_until(lambda: shown(gateway, topic)["state"] == "DONE", 120.0, what="the second wave")
        assert status(second) == "STOPPED"


def _waits(found: dict[str, Any]) -> str:
    return " ".join(step["waits_for"] for one in found["applications"] for step in one["steps"])
