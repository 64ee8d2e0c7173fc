"""A fleet of two nodes before the session's target, with a topic to be mirrored. More can be added."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.devcluster import DevCluster
from tests.support.brokers.logs import create_topic
from tests.support.gateways.fleet import PARTITIONS, GatewayFleet


@pytest.fixture
def fleet(
    request: pytest.FixtureRequest, tmp_path: Path, source: DevCluster, target: DevCluster, topic: str
) -> Iterator[GatewayFleet]:
    """Parametrised indirectly it takes sections of the gateways' settings."""
    made = GatewayFleet(tmp_path, source, target, topic, **getattr(request, "param", {}))
    create_topic(source.bootstrap, topic, partitions=PARTITIONS)
    try:
        made.add()
        made.add()
        made.wait_together()
        made.mirror_topic()
        yield made
    finally:
        try:
            made.close()
        finally:
            print(made.logs())  # noqa: T201 - pytest shows it when the test failed
