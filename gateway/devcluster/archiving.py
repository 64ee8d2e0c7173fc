"""Makes the class archive of a Kafka version: a broker is started, and stopped (see `class_archive`)."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from gateway.devcluster.class_archive import class_archive
from gateway.devcluster.cluster import DevCluster
from gateway.devcluster.errors import DevClusterError
from gateway.devcluster.jars import ensure_jars

_DOWN_S = 120.0
"""A broker that writes its classes takes seconds more to end."""


def ensure_class_archive(kafka_version: str, warn: Callable[[str], None] = lambda _: None) -> None:
    """Make the archive unless it is there. Takes some ten seconds; brokers start without it, too, if more slowly.

    Args:
        warn: takes one line when it cannot be made.

    Raises:
        DevClusterError: no such version, or its jars cannot be resolved.
    """
    ensure_jars(kafka_version)
    archive = class_archive(kafka_version)
    if archive.is_file():
        return
    folder = Path(tempfile.mkdtemp(prefix="lockgate-classes-"))
    made = folder / archive.name
    try:
        cluster = DevCluster.create("classes", kafka=kafka_version, parent=folder)
        (node,) = cluster.nodes.values()
        node.archive = made
        try:
            cluster.up()
        finally:
            cluster.down(_DOWN_S)
        if not made.is_file():
            raise DevClusterError("the JVM wrote none")
        beside = archive.with_name(f"{archive.name}.{folder.name}")  # the same file system: it is there whole, or not
        shutil.move(made, beside)
        beside.replace(archive)
    except (DevClusterError, OSError) as error:
        warn(f"no class archive for Kafka {kafka_version}: {error}; its brokers start more slowly")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
