"""Fixtures for the tests of exactness."""

from collections.abc import Iterator

import pytest

from gateway.devcluster import DevCluster
from tests.support.clusters import session_cluster


@pytest.fixture(scope="session")
def old_source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    """Kafka 2.8.2 with ZooKeeper, one broker: topics may have `message.format.version` 0.9.0 (v0) or 0.10.2 (v1)."""
    with session_cluster("old", "2.8.2", tmp_path_factory.mktemp("old")) as cluster:
        yield cluster
