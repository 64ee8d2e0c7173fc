"""The Spark session of a job, and the version that it runs. Driver, executors and gateway run the same version: what
one decides, the others carry out."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from gateway.jobs.source import register
from gateway.jobs.source.batches import SPECULATES
from gateway.version import VERSION

LOCAL: Final = "local[*]"
TASK_ATTEMPTS: Final = 4
"""Of one task before the job fails. Spark's default for a cluster; its default for local masters is 1."""

_AUTHENTICATE: Final = "spark.authenticate"
_ENCRYPTS: Final = ("spark.network.crypto.enabled", "spark.ssl.rpc.enabled")
_SHUFFLE: Final = "spark.sql.shuffle.partitions"
SHUFFLE_PER_CORE: Final = 3
_LEAST_SHUFFLE: Final = 6
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"  # in the environment of what spark-submit runs
_ARROW_BYTES: Final = 4 * 1024 * 1024
_LOGGING: Final = Path(__file__).with_name("log4j2.properties")
_log = logging.getLogger(__name__)
_FIXED: Final[Mapping[str, str]] = {
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Between the JVM and Python rows travel in Arrow batches; a batch of records is a row of up to some MB.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(_ARROW_BYTES),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "4096",
    "spark.sql.session.timeZone": "UTC",
    "spark.task.maxFailures": str(TASK_ATTEMPTS),
    # One attempt of a task at a time: no second one beside it, and one that was cancelled or lost is dead before the
    # next one begins. An executor that does not hear the driver ends itself (60 s) before it is given up (120 s).
    "spark.speculation": "false",
    "spark.task.reaper.enabled": "true",
    "spark.task.reaper.killTimeout": "30s",
    "spark.executor.heartbeat.maxFailures": "6",
    "spark.ui.showConsoleProgress": "false",
}


def build_session(
    app_name: str,
    *,
    master: str = "",
    py_files: str = "",
    ui: bool = False,
    configs: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start Spark, or take the session that runs already, as it is, with this project's data sources registered.

    Args:
        app_name: shown by Spark's own pages.
        master: local[*], spark://host:port, yarn, k8s://…; "" for what spark-submit was told, or else local[*].
        py_files: this project's wheel, for executors that do not have it installed.
        ui: serve Spark's web page while the job runs.
        configs: Spark's own settings; they win over ours.
    """
    running = SparkSession.getActiveSession()
    if running is not None:  # somebody else's, whose settings are theirs
        register(running)
        return running
    # Executors of a local master, and the driver's own helpers, run this interpreter with its packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    submitted = _SUBMITTED in os.environ
    builder = SparkSession.builder.appName(app_name)
    if master or not submitted:
        builder = builder.master(with_attempts(master or LOCAL))
    local = not submitted and (master or LOCAL).startswith("local")
    settings = {**_FIXED, "spark.ui.enabled": str(ui).lower(), **(_local_settings() if local else {})}
    if py_files:
        settings["spark.submit.pyFiles"] = py_files
    for name, value in {**settings, **(configs or {})}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    if not spark.sparkContext.getConf().contains(_SHUFFLE):
        # Spark's own 200 is a second of work for each of some shuffles when there is little to shuffle.
        spark.conf.set(_SHUFFLE, str(max(_LEAST_SHUFFLE, SHUFFLE_PER_CORE * spark.sparkContext.defaultParallelism)))
    register(spark)
    _warn_of_readable(spark)
    return spark


def readable_by_others(master: str, conf: Callable[[str], str]) -> list[str]:
    """Spark's settings that would keep passwords from being read between the machines of a cluster, and are off.

    The options of reads and writes hold the logins at both clusters, and travel from the driver to each task.
    """
    if master.startswith("local"):
        return []
    off = [] if _is_on(conf(_AUTHENTICATE)) else [_AUTHENTICATE]
    return off if any(_is_on(conf(name)) for name in _ENCRYPTS) else [*off, _ENCRYPTS[0]]


def _warn_of_readable(spark: SparkSession) -> None:
    conf = spark.sparkContext.getConf()
    off = readable_by_others(spark.sparkContext.master or "", lambda name: conf.get(name, "") or "")
    if off:
        _log.warning(
            "logins at both clusters travel between the machines of the Spark cluster, and can be read there: set %s "
            "to true (docs/guides/jobs.md)",
            " and ".join(off),
        )


def _is_on(text: str) -> bool:
    return text.strip().lower() == "true"


def refuse_speculation(spark: SparkSession) -> None:
    """For whatever writes.

    Raises:
        ValueError: Spark may run a task twice at the same time.
    """
    if spark.sparkContext.getConf().get("spark.speculation", "false").lower() == "true":
        raise ValueError(SPECULATES)


def with_attempts(master: str) -> str:
    """A local master that gives a failed task further attempts, as a cluster does; others are left as they are."""
    found = re.fullmatch(r"local(?:\[(\*|\d+)\])?", master)
    return f"local[{found[1] or '1'},{TASK_ATTEMPTS}]" if found else master


def _local_settings() -> dict[str, str]:
    """Nothing of a local run is seen from outside, and the driver's log is quiet from its first line."""
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}",
    }


def require_same(found: Iterable[str]) -> None:
    """Raises ValueError that names an executor's version that is not the driver's."""
    others = sorted(set(found) - {VERSION})
    if others:
        raise ValueError(
            f"an executor has lockgate {others[0]}, the driver {VERSION}: give the driver's wheel by --py-files, or "
            "install the same version on all machines"
        )


def require_same_on_executors(spark: SparkSession) -> None:
    """Ask the Python of the executors, once per slot. Raises ValueError as `require_same`."""
    slots = spark.sparkContext.defaultParallelism
    require_same(spark.sparkContext.parallelize(range(slots), slots).map(_version).distinct().collect())


def _version(_: int) -> str:
    from gateway.version import VERSION as here  # of the executor, not the driver's value sent along

    return here
