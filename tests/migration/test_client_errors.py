"""Errors that clients get after a promote stop the next wave; when the cause is removed, `resume` goes on.

Between real clusters, before a gateway of two processes, which share the clients' connections.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from gateway.devcluster import DevCluster
from gateway.migration.rules.client_errors import LEAST_FAILURES, LEAST_SAMPLES
from tests.support.brokers.topic_configs import alter
from tests.support.gateways.gateway import GatewayProcess, running_gateway
from tests.support.gateways.waves import shown, two_waves
from tests.support.waiting import wait_until

CLIENTS = 4
LARGE = b"x" * 4_000
SMALL = b"x"
LIMIT = "max.message.bytes"
"""A larger batch is refused by the target: MESSAGE_TOO_LARGE."""


class Clients:
    """Producers of one record a request, each with connections of its own."""

    def __init__(self, gateway: GatewayProcess, topic: str) -> None:
        self._topic = topic
        config = {"bootstrap.servers": gateway.bootstrap, "linger.ms": 0, "compression.type": "none"}
        self._producers = [Producer({**config, "client.id": f"shop-{index}"}) for index in range(CLIENTS)]

    def write(self, value: bytes) -> list[int]:
        """One record by each, and the errors that they got."""
        errors: list[int] = []

        def told(error: KafkaError | None, _record: Any) -> None:
            if error is not None:
                errors.append(error.code())

        for producer in self._producers:
            producer.produce(self._topic, value, partition=0, on_delivery=told)
            if producer.flush(60):
                raise KafkaException(KafkaError._TIMED_OUT)
        return errors


def test_errors_of_clients_stop_the_second_wave(
    tmp_path: Path, source: DevCluster, target: DevCluster, topic: str
) -> None:
    link, second = f"link-{topic}", f"{topic}-second"
    file = two_waves(source, link, topic, rest="1h", stop_when={"client_errors_percent": 20})
    with running_gateway(tmp_path, target.bootstrap, link, workers=2) as gateway:
        gateway.create_link(link, source.bootstrap)

        def apply(**more: Any) -> None:
            answer = gateway.api.put(f"/v3/migrations/{topic}", json={**file, **more})
            assert answer.is_success, answer.text

        def status(name: str) -> str:
            return str(gateway.mirror(link, name)["mirror_status"])

        def percent() -> float | None:
            seen = shown(gateway, topic).get("client_errors")
            return None if seen is None else seen["percent"]

        apply()
        wait_until(lambda: "rests until" in _waits(shown(gateway, topic)), 120.0, what="the first wave")
        clients = Clients(gateway, topic)
        wait_until(lambda: clients.write(SMALL) == [] and percent() == 0.0, 120.0, what="answers without errors")
        assert shown(gateway, topic)["state"] == "RUNNING"

        alter(target.bootstrap, topic, {LIMIT: "1000"})
        wait_until(lambda: clients.write(LARGE) and shown(gateway, topic)["stopped_by"], 120.0, what="the rule")
        found = shown(gateway, topic)
        assert found["state"] == "PAUSED"
        reason = found["stopped_by"]
        assert reason.startswith("client_errors_percent is ")
        assert f", 20 at most ('{topic}': " in reason
        assert "mostly MESSAGE_TOO_LARGE, client 'shop-" in reason
        assert found["journal"][-1]["what"] == "STOPPED_BY_RULE"
        assert (status(topic), status(second)) == ("STOPPED", "ACTIVE")

        # While it is PAUSED it is counted on, by whoever leads, and shows that it is not mended.
        wait_until(
            lambda: clients.write(LARGE) and (percent() or 0.0) == 100.0, 120.0, what="errors while it is paused"
        )
        (failing,) = shown(gateway, topic)["client_errors"]["failing"]
        assert (failing["name"], failing["error"]) == (topic, "MESSAGE_TOO_LARGE")
        assert failing["answers_looked_at"] >= LEAST_SAMPLES > LEAST_FAILURES
        assert "lockgate_migration_client_errors_ratio{" in gateway.api.get("/metrics").text

        alter(target.bootstrap, topic, {LIMIT: "1000000"})
        wait_until(lambda: clients.write(LARGE) == [], 60.0, what="the limit to be lifted")
        assert gateway.api.post(f"/v3/migrations/{topic}:resume").is_success
        # What was answered before is forgotten: a minute full of errors would stop it again.
        wait_until(lambda: clients.write(LARGE) == [] and percent() == 0.0, 120.0, what="answers after the resume")
        assert shown(gateway, topic)["state"] == "RUNNING"
        apply(wave_rest="0")
        wait_until(lambda: shown(gateway, topic)["state"] == "DONE", 120.0, what="the second wave")
        assert status(second) == "STOPPED"


def _waits(found: dict[str, Any]) -> str:
    return " ".join(step["waits_for"] for one in found["applications"] for step in one["steps"])
