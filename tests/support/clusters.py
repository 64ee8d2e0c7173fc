"""Dev clusters for tests: started once per session, each with a listener that a toxiproxy may stand before."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gateway.devcluster import DevCluster, claim_ports


@contextmanager
def running_cluster(
    name: str, kafka: str, folder: Path, *, brokers: int = 1, properties: dict[str, str] | None = None
) -> Iterator[DevCluster]:
    """A fresh cluster for the time of the block. Its proxied listener advertises claimed ports; nobody listens there
    until a test puts a proxy there."""
    advertised = claim_ports(brokers)
    cluster = DevCluster.create(
        name, kafka=kafka, brokers=brokers, parent=folder, properties=properties, advertised_ports=advertised
    )
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.down()
