"""`lockgate job catch-up` between real clusters, beside a real gateway."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from gateway.devcluster import DevCluster
from tests.support.brokers.logs import assert_equal, create_topic, log_ends, read_logs
from tests.support.gateways.gateway import GatewayProcess
from tests.support.jobs.spark_lab import produce
from tests.support.waiting import wait_until

PARTITIONS = 3


@pytest.fixture
def gateway(target: DevCluster, tmp_path: Path) -> Iterator[GatewayProcess]:
    process = GatewayProcess(tmp_path, target.bootstrap)
    process.start()
    yield process
    process.close()


def catch_up(gateway: GatewayProcess, link: str, topic: str, *more: str) -> list[str]:
    command = [sys.executable, "-c", "from gateway.cli.main import main; main()", "job", "catch-up", topic]
    return [*command, "--link", link, "--url", str(gateway.api.base_url), "--master", "local[2]", *more]


@contextmanager
def running(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def finished(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


def state(gateway: GatewayProcess, link: str, topic: str) -> str:
    return str(gateway.mirror(link, topic)["mirror_status"])


def level(source: DevCluster, target: DevCluster, topic: str) -> None:
    ends = log_ends(source.bootstrap, topic, PARTITIONS)
    wait_until(lambda: log_ends(target.bootstrap, topic, PARTITIONS) == ends, 60, what=f"the target at {ends}")
    assert_equal(read_logs(source.bootstrap, topic, PARTITIONS), read_logs(target.bootstrap, topic, PARTITIONS))


def test_a_backlog_a_kill_and_the_hand_off(
    gateway: GatewayProcess, source: DevCluster, target: DevCluster, topic: str, tmp_path: Path
) -> None:
    create_topic(source.bootstrap, topic, partitions=PARTITIONS)
    link, report = f"link-{topic}", tmp_path / "report.json"
    gateway.create_link(link, source.bootstrap)
    gateway.create_mirror(link, topic)
    mirror = f"/v3/links/{link}/mirrors/{topic}"
    assert gateway.api.post(f"{mirror}:pause").is_success  # the engine would have copied the backlog at once
    produce(source.bootstrap, topic, PARTITIONS, 6000, size=1000)

    slow = ("--throttle", "60000", "--conf", "spark.sql.execution.arrow.maxRecordsPerBatch=10")
    with running(catch_up(gateway, link, topic, *slow)) as job:
        wait_until(lambda: state(gateway, link, topic) == "CATCHING_UP", 120, what="the job's first report")
        wait_until(lambda: gateway.mirror(link, topic)["catch_up"]["records_done"] > 0, 60, what="progress")
        shown = gateway.mirror(link, topic)["catch_up"]
        assert shown["by"] == "spark"
        assert 0 < shown["records_done"] < shown["records_total"] == 6000
        second = finished(catch_up(gateway, link, topic))
        assert second.returncode == 1
        assert f"'{topic}' is being caught up by spark job" in second.stderr
        assert job.poll() is None
    wait_until(lambda: state(gateway, link, topic) == "PAUSED", 30, what="the end of the killed job's lease")
    assert 0 < sum(log_ends(target.bootstrap, topic, PARTITIONS)) < 6000

    with running(catch_up(gateway, link, topic, "--report", str(report))) as job:
        wait_until(lambda: state(gateway, link, topic) == "CATCHING_UP", 120, what="the job's first report")
        assert gateway.api.post(f"{mirror}:resume").is_success
        assert gateway.api.post(f"{mirror}:promote").status_code == 409
        out, _ = job.communicate(timeout=240)
    assert job.returncode == 0, out
    found: dict[str, Any] = json.loads(report.read_text())
    assert (found["topics"], found["partitions"], found["left_records"]) == ([topic], PARTITIONS, 0)
    assert 0 < found["records"] < 6000, "the second run did not go on where the first was killed"
    assert f"copied {found['records']} records" in out

    assert state(gateway, link, topic) == "ACTIVE"
    produce(source.bootstrap, topic, PARTITIONS, 30)  # the engine goes on
    level(source, target, topic)
    gateway.delete_link(link)


def delete_on_source(source: DevCluster, topic: str, before: int) -> None:
    admin = AdminClient({"bootstrap.servers": source.bootstrap})
    for future in admin.delete_records([TopicPartition(topic, 0, before)]).values():
        future.result(30)


def a_backlog_with_a_loss(
    gateway: GatewayProcess, source: DevCluster, target: DevCluster, topic: str, says: str, before: int, size: int = 100
) -> str:
    """Of 300 offsets of each partition the engine has copied 100; partition 0 begins at `before` now. The link."""
    create_topic(source.bootstrap, topic, partitions=PARTITIONS)
    link = f"link-{topic}"
    gateway.create_link(link, source.bootstrap, mirror_on_records_deleted=says)
    gateway.create_mirror(link, topic)
    produce(source.bootstrap, topic, PARTITIONS, 300)
    wait_until(lambda: sum(log_ends(target.bootstrap, topic, PARTITIONS)) == 300, 60, what="the engine's copy")
    assert gateway.api.post(f"/v3/links/{link}/mirrors/{topic}:pause").is_success
    produce(source.bootstrap, topic, PARTITIONS, 600, size=size)
    delete_on_source(source, topic, before)
    return link


@pytest.mark.parametrize("says", ["skip", "fail"])
def test_what_the_source_deleted_is_skipped_where_the_link_says_so(
    gateway: GatewayProcess, source: DevCluster, target: DevCluster, topic: str, tmp_path: Path, says: str
) -> None:
    report = tmp_path / "report.json"
    link = a_backlog_with_a_loss(gateway, source, target, topic, says, 200)

    done = finished(catch_up(gateway, link, topic, "--report", str(report)))

    found = json.loads(report.read_text())
    copied = log_ends(target.bootstrap, topic, PARTITIONS)  # from where on is kept, the log start sync decides
    if says == "skip":
        assert done.returncode == 0, done.stderr
        assert found["lost"] == [{"topic": topic, "partition": 0, "first": 100, "following": 200}]
        assert f"lost: {topic}-0: source offsets 100..199 were deleted there" in done.stderr
        assert gateway.mirror(link, topic)["records_lost"] == {"0": 100}
        assert copied == [200, 300, 300]
        assert found["left_records"] == 0
    else:
        assert done.returncode == 1
        assert f"not copied: {topic}-0: " in done.stderr
        assert "RECORDS" in found["failed"][f"{topic}-0"]
        assert copied == [100, 300, 300]
    gateway.delete_link(link)


def test_where_nothing_is_left_to_copy_the_loss_is_the_engines_to_count(
    gateway: GatewayProcess, source: DevCluster, target: DevCluster, topic: str
) -> None:
    link = a_backlog_with_a_loss(gateway, source, target, topic, "skip", 300)

    done = finished(catch_up(gateway, link, topic))

    assert done.returncode == 0, done.stderr
    assert log_ends(target.bootstrap, topic, PARTITIONS) == [100, 300, 300]
    assert gateway.api.post(f"/v3/links/{link}/mirrors/{topic}:resume").is_success
    wait_until(lambda: gateway.mirror(link, topic)["records_lost"] == {"0": 200}, 60, what="the loss, counted")
    gateway.delete_link(link)


def test_what_was_lost_is_counted_once_although_the_job_is_killed(
    gateway: GatewayProcess, source: DevCluster, target: DevCluster, topic: str
) -> None:
    link = a_backlog_with_a_loss(gateway, source, target, topic, "skip", 200, size=5000)

    def lost() -> object:
        return gateway.mirror(link, topic)["records_lost"]

    with running(catch_up(gateway, link, topic, "--throttle", "60000")) as job:
        wait_until(lambda: lost() == {"0": 100}, 120, what="the loss in the gateway, while the job runs")
        assert job.poll() is None
    wait_until(lambda: state(gateway, link, topic) == "PAUSED", 30, what="the end of the killed job's lease")

    done = finished(catch_up(gateway, link, topic))

    assert done.returncode == 0, done.stderr
    assert lost() == {"0": 100}
    assert log_ends(target.bootstrap, topic, PARTITIONS) == [200, 300, 300]
    ours, theirs = (read_logs(cluster.bootstrap, topic, PARTITIONS)[0] for cluster in (source, target))
    assert [record._replace(offset=0) for record in theirs[-100:]] == [record._replace(offset=0) for record in ours]
    gateway.delete_link(link)


def test_wrong_usage(gateway: GatewayProcess, source: DevCluster, topic: str) -> None:
    create_topic(source.bootstrap, topic, partitions=PARTITIONS)
    link = f"link-{topic}"
    gateway.create_link(link, source.bootstrap)

    def refused(*arguments: str) -> tuple[int, str]:
        done = finished(catch_up(gateway, link, *arguments))
        return done.returncode, done.stderr

    assert refused("nope") == (1, f"error: link '{link}' has no mirror topic 'nope'\n")
    gateway.create_mirror(link, topic)
    assert refused(topic, "--start", "soon") == (
        2,
        "error: --start: mirror.start.offset.spec: 'soon' is not earliest, latest, an ISO-8601 time or milliseconds\n",
    )
    gateway.delete_link(link)
