"""Fixtures for the tests of exactness."""

import uuid
from collections.abc import Iterator

import pytest

from gateway.devcluster import DevCluster
from tests.exact.migration import Migration
from tests.support.brokers.clusters import session_cluster


@pytest.fixture(scope="session")
def failback_destination(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    """Kafka 2.8.2 with ZooKeeper, one broker: topics may have `message.format.version` 0.9.0 (v0) or 0.10.2 (v1)."""
    with session_cluster("old", "2.8.2", tmp_path_factory.mktemp("old")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def migration(source: DevCluster, target: DevCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Migration]:
    """A gateway between the default clusters, for all tests of a module."""
    yield from _running(Migration(tmp_path_factory.mktemp("gateway"), source, target, f"exact-{uuid.uuid4().hex[:8]}"))


@pytest.fixture(scope="module")
def old_migration(
    failback_destination: DevCluster, target: DevCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Migration]:
    """A gateway with a link to the failback destination."""
    yield from _running(
        Migration(tmp_path_factory.mktemp("gateway"), failback_destination, target, f"exact-{uuid.uuid4().hex[:8]}")
    )


def _running(migration: Migration) -> Iterator[Migration]:
    try:
        migration.start()
        yield migration
        migration.stop()
    finally:
        migration.gateway.close()
        print(migration.gateway.log.read_text(errors="replace")[-4000:])  # noqa: T201 - shown when a test failed


@pytest.fixture(scope="module")
def skipping(migration: Migration) -> Iterator[Migration]:
    """A link that goes on behind what the source deleted."""
    yield (other := migration.with_link(f"{migration.link}-skipping", mirror_on_records_deleted="skip"))
    other.gateway.delete_link(other.link)
