"""The class archive of a Kafka version: used where it is, made where it is not, and never in the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.devcluster import cluster as clusters
from gateway.devcluster.cluster import DevCluster
from gateway.devcluster.jars import archive_options, class_archive
from gateway.devcluster.spec import DevClusterError

KAFKA = "4.3.1"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Jars that are said to be there, and nothing else."""
    monkeypatch.setenv("LOCKGATE_DEV_HOME", str(tmp_path))
    monkeypatch.setattr(clusters, "ensure_jars", lambda version: class_archive(version).parent)
    class_archive(KAFKA).parent.mkdir(parents=True)
    return tmp_path


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[DevCluster]:
    """Clusters that were stopped. None is really started; at its end a node writes its classes, if it is to."""
    stopped: list[DevCluster] = []

    def down(cluster: DevCluster, timeout_s: float) -> None:
        stopped.append(cluster)
        for node in cluster.nodes.values():
            assert node.archive is not None
            node.archive.write_text("classes", encoding="utf-8")

    monkeypatch.setattr(DevCluster, "up", lambda cluster: None)
    monkeypatch.setattr(DevCluster, "down", down)
    return stopped


def test_it_is_used_where_it_is(ended: list[DevCluster]) -> None:
    assert archive_options(KAFKA) == []
    clusters.ensure_class_archive(KAFKA, pytest.fail)
    assert archive_options(KAFKA) == [f"-XX:SharedArchiveFile={class_archive(KAFKA)}"]
    assert [path.name for path in class_archive(KAFKA).parent.iterdir()] == ["classes.jsa"]
    clusters.ensure_class_archive(KAFKA, pytest.fail)
    assert len(ended) == 1


@pytest.mark.parametrize("fails", ["up", "nothing is written"])
def test_brokers_start_without_it(ended: list[DevCluster], monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    def refuses(*_: Any) -> None:
        raise DevClusterError("node 1 of classes ended")

    if fails == "up":
        monkeypatch.setattr(DevCluster, "up", refuses)
    monkeypatch.setattr(DevCluster, "down", lambda cluster, timeout_s: ended.append(cluster))
    told: list[str] = []
    clusters.ensure_class_archive(KAFKA, told.append)
    reason = "node 1 of classes ended" if fails == "up" else "the JVM wrote none"
    assert told == [f"no class archive for Kafka {KAFKA}: {reason}; its brokers start more slowly"]
    assert archive_options(KAFKA) == []
    (cluster,) = ended
    assert not cluster.folder.parent.exists()
