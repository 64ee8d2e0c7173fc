"""Brokers that leave the target and come back are followed without a restart of the gateway."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from gateway.devcluster import DevCluster
from tests.support.brokers.clusters import running_cluster
from tests.support.brokers.logs import create_topic
from tests.support.gateways.gateway import GatewayProcess
from tests.support.waiting import wait_until


@pytest.fixture
def three(tmp_path: Path) -> Iterator[DevCluster]:
    with running_cluster("three", "4.3.1", tmp_path, brokers=3) as cluster:
        yield cluster


def accepts(address: str) -> bool:
    host, port = address.split(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True


@pytest.mark.slow
def test_a_broker_that_leaves_and_comes_back(three: DevCluster, topic: str, tmp_path: Path) -> None:
    create_topic(three.bootstrap, topic, partitions=6)
    gateway = GatewayProcess(tmp_path, three.bootstrap)
    gateway.start()
    try:
        listeners = gateway.api.get("/v3/status").json()["listeners"]
        assert set(listeners) == {"bootstrap", "1", "2", "3"}
        producer = Producer({"bootstrap.servers": gateway.bootstrap, "linger.ms": 0})
        failed: list[object] = []

        def write(count: int) -> None:
            for _ in range(count):
                producer.produce(topic, b"x", on_delivery=lambda error, _: failed.append(error) if error else None)
            assert producer.flush(60) == 0

        write(600)
        three.nodes[3].signal(signal.SIGTERM)
        assert three.nodes[3].wait_stopped(30)
        wait_until(lambda: not accepts(listeners["3"]), 60, what="the port of the broker that left is closed")
        assert accepts(listeners["1"])
        three.up()
        wait_until(lambda: accepts(listeners["3"]), 60, what="the port of the broker that is back is open again")
        assert gateway.api.get("/v3/status").json()["listeners"] == listeners
        write(600)
        assert failed == []
    finally:
        gateway.close()
