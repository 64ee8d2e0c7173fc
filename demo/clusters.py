"""The two clusters: made anew for each run, seen only through their bootstrap addresses and process ids."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
    """Create a topic.

    Raises:
        DemoError: The cluster refused.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 3, **access})
    new = NewTopic(topic, num_partitions=partitions, replication_factor=replicas, config=dict(configs or {}))
    done = admin.create_topics([new])[topic]
    try:
        done.result(20)
    except Exception as error:
        raise DemoError(f"topic {topic} cannot be created on {bootstrap}: {error}") from error
