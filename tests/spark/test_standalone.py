"""spark-submit on a real master with two workers, whose executors get this project as a wheel and no other way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pyspark
import pytest
from confluent_kafka import Producer

from demo.spark.standalone import StandaloneCluster, bare_python, standalone_cluster
from gateway.devcluster import DevCluster
from tests.support.brokers.clusters import running_cluster
from tests.support.brokers.logs import assert_equal, create_topic, log_ends, read_logs
from tests.support.gateways.gateway import GatewayProcess
from tests.support.jobs.spark_lab import produce
from tests.support.waiting import wait_until
from tests.support.wheel import build_wheel

ROOT = Path(__file__).parents[2]
SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
PARTITIONS = 4
OLD_S = 2 * 86_400

LOST_SOON = {
    "spark.network.timeout": "15s",
    "spark.network.timeoutInterval": "1s",
    "spark.executor.heartbeatInterval": "2s",
}
"""A driver with these gives an executor up that it has not heard of for 15 s."""

JOB = "from gateway.cli.main import main\n\nmain()\n"

WHERE = """
from pyspark.sql import SparkSession
from lockgate.spark import register

def where(_):
    import gateway.jobs.kafka
    return gateway.jobs.kafka.__file__

spark = SparkSession.builder.getOrCreate()
register(spark)
print("found in", *set(spark.sparkContext.parallelize(range(4), 4).map(where).collect()))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = build_wheel(tmp_path_factory.mktemp("wheel"))
    assert zipfile.is_zipfile(built)
    return built


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    with standalone_cluster(tmp_path_factory.mktemp("standalone"), workers=2) as cluster:
        yield cluster


def submit(
    cluster: StandaloneCluster, wheel: Path, program: Path, *arguments: str, conf: Mapping[str, str] = {}
) -> str:
    """Run a program by spark-submit; what it printed."""
    env = {**os.environ, **bare_python()}
    python_path = bare_python()["PYTHONPATH"]
    command = [str(SUBMIT), "--master", cluster.url, "--py-files", str(wheel)]
    command += ["--conf", f"spark.executorEnv.PYTHONPATH={python_path}", "--conf", "spark.driver.host=127.0.0.1"]
    for name, value in conf.items():
        command += ["--conf", f"{name}={value}"]
    command += ["--conf", "spark.executor.memory=512m", str(program), *arguments]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_executors_have_the_wheel_and_nothing_else(standalone: StandaloneCluster, wheel: Path, tmp_path: Path) -> None:
    program = tmp_path / "where.py"
    program.write_text(WHERE)

    found = submit(standalone, wheel, program)

    assert "found in" in found
    assert str(ROOT) not in found
    assert all(f"{wheel.stem}.zip/gateway" in path for path in found.partition("found in ")[2].split())


def test_catch_up_on_two_workers(
    standalone: StandaloneCluster, wheel: Path, source: DevCluster, target: DevCluster, topic: str, tmp_path: Path
) -> None:
    program, report = tmp_path / "job.py", tmp_path / "report.json"
    program.write_text(JOB)
    create_topic(source.bootstrap, topic, partitions=PARTITIONS)
    gateway = GatewayProcess(tmp_path, target.bootstrap)
    gateway.start()
    try:
        link = f"link-{topic}"
        gateway.create_link(link, source.bootstrap)
        gateway.create_mirror(link, topic)
        assert gateway.api.post(f"/v3/links/{link}/mirrors/{topic}:pause").is_success
        produce(source.bootstrap, topic, PARTITIONS, 4000, size=500)

        arguments = (topic, "--link", link, "--url", str(gateway.api.base_url), "--report", str(report))
        out = submit(standalone, wheel, program, "job", "catch-up", *arguments)

        found = json.loads(report.read_text())
        assert (found["records"], found["left_records"], found["tasks"]) == (4000, 0, 2), out
        assert_equal(read_logs(source.bootstrap, topic, PARTITIONS), read_logs(target.bootstrap, topic, PARTITIONS))
        audited = tmp_path / "audit.json"
        arguments = (topic, "--link", link, "--url", str(gateway.api.base_url), "--report", str(audited))
        submit(standalone, wheel, program, "job", "audit", *arguments)
        found = json.loads(audited.read_text())
        assert (found["verdict"], found["totals"]["compared"], found["totals"]["closes"]) == ("IDENTICAL", 4000, True)
        last = [standalone.executor_logs(number)[-1].read_text() for number in range(2)]
        assert all("Finished task" in log for log in last), "one worker had nothing to do"
        gateway.delete_link(link)
    finally:
        gateway.close()


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    """A target that forgets producer ids a day after their last record's timestamp, and looks often. Then no broker
    refuses what a task appends a second time."""
    soon = {"producer.id.expiration.check.interval.ms": "200"}
    with running_cluster("forgetful", "4.3.1", tmp_path_factory.mktemp("forgetful"), properties=soon) as cluster:
        yield cluster


def produce_old(bootstrap: str, topic: str, count: int) -> None:
    """Records with timestamps of two days ago, in small batches."""
    producer = Producer({"bootstrap.servers": bootstrap, "batch.num.messages": 20, "linger.ms": 2, "log_level": 0})
    when = int((time.time() - OLD_S) * 1000)
    for number in range(count):
        producer.produce(topic, b"%d " % number + b"x" * 500, partition=0, timestamp=when + number)
        if number % 1000 == 0:
            producer.flush(30)
    assert producer.flush(60) == 0


def connected_to(port: int, roots: list[int]) -> list[psutil.Process]:
    """The Python processes of executors that have a connection to a port of this machine."""
    found = []
    for root in roots:
        for process in psutil.Process(root).children(recursive=True):
            try:
                if "pyspark.daemon" in process.cmdline() and any(
                    one.raddr and one.raddr.port == port and one.status == psutil.CONN_ESTABLISHED
                    for one in process.net_connections("tcp")
                ):
                    found.append(process)
            except psutil.NoSuchProcess:  # it ended meanwhile
                continue
    return found


def has_given_up(process: psutil.Process, port: int) -> bool:
    """It has closed its connection to the driver, which did so before, or has ended. A task that has given up may stay:
    it tells its executor, which does not listen."""
    try:
        return is_over(process) or all(one.raddr.port != port for one in process.net_connections("tcp") if one.raddr)
    except psutil.NoSuchProcess:
        return True


def is_over(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


@pytest.mark.timeout(600)  # Spark starts, and an executor has to be missed
def test_a_frozen_task_appends_nothing_once_another_has_taken_over(
    standalone: StandaloneCluster,
    wheel: Path,
    source: DevCluster,
    forgetful: DevCluster,
    topic: str,
    tmp_path: Path,
    unused_port: Callable[[], int],
) -> None:
    program, report, records, port = tmp_path / "job.py", tmp_path / "report.json", 20_000, unused_port()
    program.write_text(JOB)
    create_topic(source.bootstrap, topic, partitions=1)
    gateway = GatewayProcess(tmp_path, forgetful.bootstrap)
    gateway.start()
    frozen: list[psutil.Process] = []
    link, url = f"link-{topic}", str(gateway.api.base_url)

    def end() -> int:
        return log_ends(forgetful.bootstrap, topic, 1)[0]

    try:
        gateway.create_link(link, source.bootstrap)
        gateway.create_mirror(link, topic)
        assert gateway.api.post(f"/v3/links/{link}/mirrors/{topic}:pause").is_success
        produce_old(source.bootstrap, topic, records)
        arguments = ("job", "catch-up", topic, "--link", link, "--url", url, "--throttle", "500000")
        conf = {"spark.lockgate.attempts.port": str(port), **LOST_SOON}
        with ThreadPoolExecutor(1) as pool:
            job = pool.submit(submit, standalone, wheel, program, *arguments, "--report", str(report), conf=conf)
            wait_until(lambda: job.done() or end() > 0, 200, what="the first attempt's records")
            assert not job.done(), job.result()
            (task,) = connected_to(port, standalone.pids())
            daemon, executor, worker, *_ = task.parents()
            assert worker.pid in standalone.pids()
            for process in (worker, executor, daemon, task):  # as on a machine that is suspended
                process.send_signal(signal.SIGSTOP)
                frozen.insert(0, process)
            wait_until(lambda: job.done() or len(connected_to(port, standalone.pids())) > 1, 90, what="an attempt more")
            copied = end()
            wait_until(lambda: job.done() or end() > copied, 60, what="its records")
            assert not job.done(), "it was over before the first attempt woke up"
            assert not has_given_up(task, port)
            task.send_signal(signal.SIGCONT)
            wait_until(lambda: has_given_up(task, port), 60, what="the end of the first attempt")
            assert not job.done(), "the second attempt was over before the first one"
            out = job.result(300)
    finally:
        for process in frozen:
            if process.pid in standalone.pids():
                process.send_signal(signal.SIGCONT)
            elif not is_over(process):
                process.kill()
        gateway.close()
        wait_until(lambda: standalone.state().get("aliveworkers") == 2, 60, what="both workers")

    found = json.loads(report.read_text())
    assert (found["left_records"], found["failed"]) == (0, {}), out
    assert 0 < copied < records
    assert_equal(read_logs(source.bootstrap, topic, 1), read_logs(forgetful.bootstrap, topic, 1))
