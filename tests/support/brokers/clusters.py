"""Dev clusters for tests: started once per session, each with a listener that a toxiproxy may stand before.

With `LOCKGATE_KEEP_CLUSTERS=FOLDER` in the environment the clusters of the session fixtures stay up in that folder
after the tests, and the next run takes them as they are: no start to wait for while one test is being written. CI never
sets it, and topics of earlier runs stay in such clusters.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from gateway.devcluster import DevCluster, DevClusterError, claim_ports

KEEP = "LOCKGATE_KEEP_CLUSTERS"
SOON_MISSED = {"broker.session.timeout.ms": "4000", "broker.heartbeat.interval.ms": "500"}
"""For tests that kill a broker: it is missed after four seconds instead of nine, and may be back as soon."""


@contextmanager
def running_cluster(
    name: str,
    kafka: str,
    folder: Path,
    *,
    brokers: int = 1,
    properties: dict[str, str] | None = None,
    racks: Sequence[str] = (),
) -> Iterator[DevCluster]:
    """A fresh cluster for the time of the block. Its proxied listener advertises claimed ports; nobody listens there
    until a test puts a proxy there."""
    cluster = _new(name, kafka, folder, brokers, properties, racks)
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.down()


@contextmanager
def session_cluster(name: str, kafka: str, folder: Path) -> Iterator[DevCluster]:
    """A cluster with one broker for a whole test session: fresh, unless `LOCKGATE_KEEP_CLUSTERS` keeps one."""
    keep = os.environ.get(KEEP)
    if not keep:
        with running_cluster(name, kafka, folder) as cluster:
            yield cluster
        return
    kept = Path(keep)
    kept.mkdir(parents=True, exist_ok=True)
    try:
        cluster = DevCluster.open(name, parent=kept)
    except DevClusterError:
        cluster = _new(name, kafka, kept, 1, None)
    cluster.up()
    yield cluster


def _new(
    name: str,
    kafka: str,
    folder: Path,
    brokers: int,
    properties: dict[str, str] | None,
    racks: Sequence[str] = (),
) -> DevCluster:
    return DevCluster.create(
        name,
        kafka=kafka,
        brokers=brokers,
        parent=folder,
        properties=properties,
        advertised_ports=claim_ports(brokers),
        racks=racks,
    )
