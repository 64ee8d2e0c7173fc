"""`lockgate dev cluster` with real brokers."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway.devcluster import DevCluster, java_command
from gateway.devcluster.jars import class_archive
from tests.support.brokers.clusters import SOON_MISSED
from tests.support.waiting import wait_until


def lockgate(*args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from gateway.cli.main import main; main()", "dev", "cluster", *args]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def status(name: str, folder: Path) -> dict[str, Any]:
    shown = lockgate("status", name, "--dir", str(folder), "-o", "json")
    assert shown.returncode == 0, shown.stderr
    value: dict[str, Any] = json.loads(shown.stdout)
    return value


def test_a_cluster_lives_through_up_down_and_up(tmp_path: Path, topic: str) -> None:
    started = lockgate("up", "blue", "--kafka", "3.9.1", "--dir", str(tmp_path))
    try:
        assert started.returncode == 0, started.stderr
        bootstrap = started.stdout.strip().removeprefix("bootstrap.servers=")
        shown = status("blue", tmp_path)
        assert (shown["up"], shown["kafka_version"], shown["bootstrap.servers"]) == (True, "3.9.1", bootstrap)
        (node,) = shown["nodes"]
        maps = Path(f"/proc/{node['pid']}/maps").read_text(encoding="utf-8")
        assert ("classes.jsa" in maps) is class_archive("3.9.1").is_file()

        created = topics(bootstrap, "--create", "--topic", topic)
        assert created.returncode == 0, created.stderr

        assert lockgate("up", "blue", "--dir", str(tmp_path)).returncode == 0
        assert status("blue", tmp_path)["nodes"][0]["pid"] == node["pid"]

        stopped = lockgate("down", "blue", "--dir", str(tmp_path))
        assert stopped.returncode == 0, stopped.stderr
        assert all("is stopping" in line for line in stopped.stderr.splitlines()), stopped.stderr
        shown = status("blue", tmp_path)
        assert (shown["up"], shown["nodes"][0]["pid"]) == (False, None)
        assert Path(node["log"]).stat().st_size > 0

        again = lockgate("up", "blue", "--dir", str(tmp_path))
        assert again.stdout == started.stdout
        assert topic in topics(bootstrap, "--list").stdout.split()
    finally:
        lockgate("down", "blue", "--delete", "--dir", str(tmp_path))
    assert not (tmp_path / "blue").exists()


def topics(bootstrap: str, *args: str) -> subprocess.CompletedProcess[str]:
    command = java_command("3.9.1", "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", bootstrap, *args)
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_what_up_refuses_is_one_line(tmp_path: Path, target: DevCluster) -> None:
    taken = str(target.spec.nodes[0].client_port)
    for args, said in [
        (["blue", "--kafka", "1.0"], "1.0"),
        (["blue", "--brokers", "2"], "1 or 3"),
        (["blue", "--port", taken], taken),
        (["blue", "--property", "nonsense"], "KEY=VALUE"),
        (["../blue"], "not a cluster name"),
    ]:
        refused = lockgate("up", *args, "--dir", str(tmp_path))
        assert refused.returncode == 1
        assert len(refused.stderr.splitlines()) == 1
        assert said in refused.stderr
    assert not list(tmp_path.iterdir())


def test_a_broker_that_cannot_start_says_why(tmp_path: Path) -> None:
    started = lockgate("up", "blue", "--dir", str(tmp_path), "--property", "log.segment.bytes=no-number")
    assert started.returncode == 1
    *waited, why = started.stderr.splitlines()
    assert all(line.startswith("cluster blue is starting") for line in waited)
    assert why.startswith("error: ")
    assert "log" in why


def test_a_pid_that_is_somebody_elses_is_not_ours(tmp_path: Path) -> None:
    cluster = DevCluster.create("blue", parent=tmp_path)
    cluster.write_files()
    (tmp_path / "blue" / "node-1.pid").write_text(f"{os.getpid()}\n")
    assert cluster.status().nodes[0].pid is None
    cluster.kill()  # must not hit this process


@pytest.mark.slow
def test_three_brokers_live_on_when_one_is_killed(tmp_path: Path, topic: str) -> None:
    cluster = DevCluster.create("three", kafka="4.3.1", brokers=3, parent=tmp_path, properties=SOON_MISSED)
    try:
        cluster.up()
        assert [node.up for node in cluster.status().nodes] == [True, True, True]
        cluster.nodes[1].signal(signal.SIGKILL)
        assert cluster.nodes[1].wait_stopped(10)
        wait_until(cluster.nodes[2].answers, 20)
        assert not cluster.status().up
        cluster.up()
        assert cluster.status().up
    finally:
        cluster.down()
