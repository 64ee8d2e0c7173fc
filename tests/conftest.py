"""Fixtures for all tests. Real clusters start when the first test asks for them, and once per session."""

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from gateway.devcluster import DevCluster, claim_ports, release_ports
from tests.support.brokers.clusters import session_cluster
from tests.support.brokers.toxiproxy import Proxy, ToxiproxyServer

settings.register_profile("fast", max_examples=100, deadline=None)
settings.register_profile("deep", max_examples=20_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))


@pytest.hookimpl(trylast=True)  # behind pytest-randomly, whose order stays within each kind
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow files first, unit tests last: workers take a file each, and none is to end long after the others."""
    here = Path(__file__).parent
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (item.path not in slow, item.path.is_relative_to(here / "unit")))


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    """The cluster that clients leave: Kafka 3.9.1, one broker."""
    with session_cluster("source", "3.9.1", tmp_path_factory.mktemp("source")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    """The cluster that clients move to: Kafka 4.3.1, one broker."""
    with session_cluster("target", "4.3.1", tmp_path_factory.mktemp("target")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def toxiproxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToxiproxyServer]:
    """A toxiproxy server."""
    server = ToxiproxyServer(tmp_path_factory.mktemp("toxiproxy") / "server.log")
    yield server
    server.stop()


@pytest.fixture
def source_proxy(source: DevCluster, toxiproxy: ToxiproxyServer) -> Iterator[Proxy]:
    """The toxiproxy before the source: clients that start from `source.proxied_bootstrap` go through it. Its port is
    free again after each test."""
    node = source.spec.nodes[0]
    proxy = toxiproxy.proxy("source", f"127.0.0.1:{node.proxied_port}", node.advertised_port)
    yield proxy
    proxy.remove()


@pytest.fixture
def target_proxy(target: DevCluster, toxiproxy: ToxiproxyServer) -> Iterator[Proxy]:
    """The toxiproxy before the target, as `source_proxy`."""
    node = target.spec.nodes[0]
    proxy = toxiproxy.proxy("target", f"127.0.0.1:{node.proxied_port}", node.advertised_port)
    yield proxy
    proxy.remove()


@pytest.fixture
def unused_port() -> Iterator[Callable[[], int]]:
    """Gives a port of 127.0.0.1 that nobody else will take while the test runs."""
    given: list[int] = []

    def give() -> int:
        given.extend(claim_ports(1))
        return given[-1]

    yield give
    release_ports(given)


@pytest.fixture
def topic() -> str:
    """A topic name that no other test uses."""
    return f"t-{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def third(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    """One more cluster, for what takes three: Kafka 4.3.1, one broker."""
    with session_cluster("third", "4.3.1", tmp_path_factory.mktemp("third")) as cluster:
        yield cluster
