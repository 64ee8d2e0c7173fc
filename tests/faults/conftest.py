"""A gateway whose every connection to either cluster runs through a toxiproxy. Marks the folder's tests as `faults`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.devcluster import DevCluster
from tests.support.brokers.logs import create_topic
from tests.support.brokers.toxiproxy import Proxy
from tests.support.gateways.gateway import running_gateway
from tests.support.gateways.migration import PARTITIONS, Migration
from tests.support.waiting import wait_until


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.faults)


@pytest.fixture
def migration(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    source: DevCluster,
    target: DevCluster,
    source_proxy: Proxy,
    target_proxy: Proxy,
    topic: str,
) -> Iterator[Migration]:
    """A running gateway with one link and one mirrored topic of three partitions; its parameter: settings."""
    create_topic(source.bootstrap, topic, partitions=PARTITIONS)
    link = f"link-{topic}"
    with running_gateway(tmp_path, target.proxied_bootstrap, link, **getattr(request, "param", {})) as gateway:
        gateway.create_link(link, source.proxied_bootstrap)
        gateway.create_mirror(link, topic)
        migration = Migration(gateway, topic, link, source, target, source_proxy, target_proxy)
        wait_until(lambda: migration.state() == "ACTIVE", 30.0, what="the mirror to be ACTIVE")
        yield migration
        source_proxy.mend()
        target_proxy.mend()
