"""One gateway of several processes: one to its operator and its clients, whichever of them dies."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from gateway.devcluster import DevCluster
from tests.support.brokers.logs import create_topic
from tests.support.gateways.fleet import PARTITIONS, GatewayFleet
from tests.support.gateways.gateway import GatewayProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def fleet(tmp_path: Path, source: DevCluster, target: DevCluster, topic: str) -> Iterator[GatewayFleet]:
    """One gateway of two workers."""
    made = GatewayFleet(tmp_path, source, target, topic, workers=2)
    create_topic(source.bootstrap, topic, partitions=PARTITIONS)
    try:
        made.add()
        wait_for_workers(made)
        made.mirror_topic()
        yield made
    finally:
        try:
            made.close()
        finally:
            print(made.logs())  # noqa: T201 - pytest shows it when the test failed


def workers(gateway: GatewayProcess) -> list[psutil.Process]:
    return sorted(psutil.Process(gateway.pid).children(), key=lambda one: one.pid)


def wait_for_workers(fleet: GatewayFleet) -> None:
    (gateway,) = fleet.gateways

    def there() -> bool:
        known = fleet.known(gateway).values()
        return [(one["state"], one["workers"]) for one in known] == [("up", 2)] and metric(gateway, "workers") == 2

    wait_until(there, 60.0, what="both workers in the fleet")


def metric(gateway: GatewayProcess, name: str) -> float:
    """The sum over its labels."""
    lines = gateway.api.get("/metrics").text.splitlines()
    begins = (f"lockgate_{name} ", f"lockgate_{name}{{")
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(begins))


def test_a_gateway_of_two_workers_is_one_gateway(fleet: GatewayFleet) -> None:
    (gateway,) = fleet.gateways
    assert gateway.api.get("/v3/gateways").json()["data"][0]["name"] == fleet.name_of(gateway)
    assert fleet.leader_for(gateway) == fleet.name_of(gateway)
    wait_until(lambda: metric(gateway, "mirrored_partitions") == PARTITIONS, 30.0, what="all partitions mirrored")
    with fleet.writer() as first, fleet.writer() as second, fleet.writer() as third:
        for writer in (first, second, third):
            writer.wait_for_acks(300)
        assert metric(gateway, "client_connections") >= 3
        gateway.promote(fleet.link, fleet.topic)
        fleet.wait_for("STOPPED", gateway)
        for writer in (first, second, third):
            writer.wait_for_acks(300)
    fleet.assert_promoted(first, second, third)


@pytest.mark.parametrize("index", [0, 1])
def test_a_worker_that_is_killed_is_started_again_and_costs_a_reconnect(fleet: GatewayFleet, index: int) -> None:
    (gateway,) = fleet.gateways
    with fleet.writer() as first, fleet.writer() as second:
        for writer in (first, second):
            writer.wait_for_acks(300)
        killed = workers(gateway)[index]
        killed.kill()
        wait_until(lambda: len(workers(gateway)) == 2 and killed not in workers(gateway), 30.0, what="another worker")
        wait_until(lambda: serves(gateway), 30.0, what="the API")
        wait_for_workers(fleet)
        for writer in (first, second):
            writer.wait_for_acks(300)
        gateway.promote(fleet.link, fleet.topic)
        fleet.wait_for("STOPPED", gateway, 60.0)
        for writer in (first, second):
            writer.wait_for_acks(100)
    fleet.assert_promoted(first, second)


def serves(gateway: GatewayProcess) -> bool:
    try:
        return gateway.api.get("/health").is_success
    except httpx.TransportError:
        return False


def test_workers_end_with_their_supervisor(fleet: GatewayFleet) -> None:
    (gateway,) = fleet.gateways
    known = workers(gateway)
    assert gateway.stop() == 0
    assert not any(one.is_running() for one in known)
    gateway.start()
    wait_for_workers(fleet)
    known = workers(gateway)
    assert gateway.pid is not None
    os.kill(gateway.pid, signal.SIGKILL)
    gateway.kill()
    _, alive = psutil.wait_procs(known, 40.0)
    assert not alive
    gateway.start()
    wait_for_workers(fleet)


def test_a_second_process_of_the_gateway_changes_nothing(fleet: GatewayFleet) -> None:
    (gateway,) = fleet.gateways
    again = gateway.run_again()
    assert again.returncode == 1
    assert "cannot listen on" in again.stderr
    wait_for_workers(fleet)
