"""The two clusters: made anew for each run, seen only through their bootstrap addresses and process ids."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from demo.access import IN_CLEAR, Access
from demo.errors import DemoError
from demo.settings import CLUSTER_UP_S
from gateway.devcluster import DevCluster, DevClusterError


def new_cluster(
    name: str, kafka: str, parent: Path, properties: Mapping[str, str] | None = None, **options: Any
) -> DevCluster:
    """Describe a cluster in `parent`; what an earlier run left there under this name is killed and removed.

    `options`: of `DevCluster.create`.
    """
    try:
        left = DevCluster.open(name, parent=parent)
    except DevClusterError:
        shutil.rmtree(parent / name, ignore_errors=True)
    else:
        left.kill()
        left.delete()
    return DevCluster.create(name, kafka=kafka, parent=parent, properties=properties, **options)


def start(cluster: DevCluster, timeout_s: float = CLUSTER_UP_S) -> None:
    """Start a cluster and wait until it answers, for so long at most.

    Raises:
        DemoError: It did not come up.
    """
    try:
        cluster.up(timeout_s)
    except DevClusterError as error:
        raise DemoError(str(error)) from error


def create_topic(
    bootstrap: str,
    topic: str,
    partitions: int,
    configs: Mapping[str, str] | None = None,
    *,
    replicas: int = 1,
    access: Access = IN_CLEAR,
) -> None:
    """Create a topic, and wait until each broker in `bootstrap` knows it.

    The controller answers before all brokers have heard of it, and a client may come to any of them: where topics are
    created on demand, that broker would ask whether the client may create it.

    Raises:
        DemoError: The cluster refused, or a broker does not know it in time.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 3, **access})
    new = NewTopic(topic, num_partitions=partitions, replication_factor=replicas, config=dict(configs or {}))
    done = admin.create_topics([new])[topic]
    try:
        done.result(20)
    except Exception as error:
        raise DemoError(f"topic {topic} cannot be created on {bootstrap}: {error}") from error
    deadline = time.monotonic() + CLUSTER_UP_S
    for broker in bootstrap.split(","):
        while not _leads(broker, topic, partitions, access):
            if time.monotonic() >= deadline:
                raise DemoError(f"broker {broker} does not know topic {topic} after {CLUSTER_UP_S:g} s")
            time.sleep(0.1)


def _leads(broker: str, topic: str, partitions: int, access: Access) -> bool:
    """Whether this broker tells a leader of each partition. A client's first question goes where it is pointed at."""
    client = AdminClient({"bootstrap.servers": broker, "log_level": 3, **access})
    try:
        known = client.list_topics(timeout=20).topics.get(topic)
    except KafkaException as error:
        raise DemoError(f"broker {broker} does not tell its topics: {error}") from error
    return known is not None and sum(each.leader >= 0 for each in known.partitions.values()) == partitions
