"""A Spark Connect server of its own process, as PySpark's package brings it, and clients of it.

A classic session and one of Spark Connect do not share a process, so neither runs in the process of the tests.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyspark

from demo.process import Child
from gateway.devcluster import claim_ports, release_ports
from tests.support.waiting import wait_until

HOST: Final = "127.0.0.1"
ROOT: Final = Path(__file__).parents[3]
WITHOUT_PANDAS: Final = Path(__file__).with_name("without_pandas")
"""First on PYTHONPATH it makes a process one without pandas."""

_SERVER: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"
_UP_S: Final = 120.0


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """A server with two tasks at a time for the time of the block, whose Python has this project; its address."""
    home = Path(pyspark.__file__).parent
    ports = claim_ports(1)
    settings = {
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": str(ports[0]),
        "spark.driver.host": HOST,
        "spark.driver.bindAddress": HOST,
        "spark.local.dir": str(folder / "local"),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
    }
    command = [str(home / "bin" / "spark-submit"), "--class", _SERVER, "--master", "local[2]"]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    env = {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": HOST, **_python()}
    server = Child("spark-connect", [*command, "spark-internal"], folder, env)
    try:
        wait_until(lambda: _answers(server, ports[0]), _UP_S, what="the Spark Connect server")
        yield f"sc://{HOST}:{ports[0]}"
    finally:
        server.end(20.0)
        release_ports(ports)


def run_client(program: str, *arguments: str) -> str:
    """What a Python program prints that has this project and is given these arguments."""
    command = [sys.executable, "-c", program, *arguments]
    env = {**os.environ, **_python()}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _python() -> dict[str, str]:
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    path = [str(ROOT), *(folder for folder in given if folder and folder != str(WITHOUT_PANDAS))]
    return {"PYTHONPATH": os.pathsep.join(path), "PYSPARK_PYTHON": sys.executable}


def _answers(server: Child, port: int) -> bool:
    server.check_alive()
    with socket.socket() as tried:
        return tried.connect_ex((HOST, port)) == 0
