"""spark-submit on a real master with two workers, whose executors get this project as a wheel and no other way."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from demo.spark.standalone import StandaloneCluster, bare_python, standalone_cluster
from gateway.devcluster import DevCluster
from tests.support.gateway import GatewayProcess
from tests.support.logs import assert_equal, create_topic, read_logs
from tests.support.spark_lab import produce

ROOT = Path(__file__).parents[2]
SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
PARTITIONS = 4

JOB = "from gateway.cli.main import main\n\nmain()\n"

WHERE = """
from pyspark.sql import SparkSession
from gateway.jobs.source import register

def where(_):
    import gateway.jobs.kafka
    return gateway.jobs.kafka.__file__

spark = SparkSession.builder.getOrCreate()
register(spark)
print("found in", *set(spark.sparkContext.parallelize(range(4), 4).map(where).collect()))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy, out = tmp_path_factory.mktemp("project") / "lockgate", tmp_path_factory.mktemp("dist")
    left_out = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, copy, ignore=left_out)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(copy)]
    subprocess.run(command, check=True, capture_output=True)
    (built,) = out.glob("*.whl")
    assert zipfile.is_zipfile(built)
    return built


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    with standalone_cluster(tmp_path_factory.mktemp("standalone"), workers=2) as cluster:
        yield cluster


def submit(cluster: StandaloneCluster, wheel: Path, program: Path, *arguments: str) -> str:
    """Run a program by spark-submit; what it printed."""
    env = {**os.environ, **bare_python()}
    python_path = bare_python()["PYTHONPATH"]
    command = [str(SUBMIT), "--master", cluster.url, "--py-files", str(wheel)]
    command += ["--conf", f"spark.executorEnv.PYTHONPATH={python_path}", "--conf", "spark.driver.host=127.0.0.1"]
    command += ["--conf", "spark.executor.memory=512m", str(program), *arguments]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=240, check=False)
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
