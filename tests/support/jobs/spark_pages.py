"""A catch-up and an audit in a session with Spark's own pages, and what the pages tell of them.

    python -m tests.support.jobs.spark_pages SOURCE TARGET TOPIC

prints one line of JSON. A process of its own: a session is begun with its pages, or goes without.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast
from urllib.parse import urlsplit

import httpx
from pyspark.sql import SparkSession

from gateway.devcluster import DevCluster
from gateway.jobs.audit.job import run_audit
from gateway.jobs.audit.scene import AuditOptions
from gateway.jobs.catch_up import CatchUpJob, CatchUpOptions
from gateway.jobs.kafka import ask
from gateway.jobs.link_plan import LinkPlan
from gateway.jobs.session import build_session
from gateway.kafka.cluster import Cluster
from tests.support.jobs.spark_lab import SparkLab
from tests.support.waiting import wait_until

RECORDS: Final = 200
_ANSWER_S: Final = 60.0


def main(source: str, target: str, topic: str) -> None:
    """Copy, audit, look."""
    spark = build_session("pages", master="local[2]", ui=True, configs={"spark.ui.port": "0"})
    try:
        with tempfile.TemporaryDirectory() as folder:
            here, there = (cast(DevCluster, SimpleNamespace(bootstrap=one)) for one in (source, target))
            lab = SparkLab(spark, here, there, topic, Path(folder))
            lab.produce(RECORDS)
            from_, to = {"bootstrap.servers": source}, {"bootstrap.servers": target}
            plan = LinkPlan(
                link="west",
                source_cluster_id=ask(from_, _cluster_id),
                target_cluster_id=ask(to, _cluster_id),
                source=from_,
                target=to,
                mirrors=(replace(lab.mirror, implied=((0, 0),) * lab.partitions),),
            )
            CatchUpJob(spark, plan, CatchUpOptions(), lambda _: None).run()
            run_audit(spark, AuditOptions(source=from_, target=to, topics=[topic], wait_s=0.0))
        jobs = wait_until(lambda: _done(_get(spark, "jobs")), 60, what="the jobs on Spark's pages")
        sys.stdout.write(json.dumps(jobs))
    finally:
        spark.stop()


async def _cluster_id(cluster: Cluster) -> str:
    return cluster.view.cluster_id


def _done(jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All of them, the first one first, once the last one is done: the pages are some way behind."""
    found = sorted(jobs, key=lambda job: int(job["jobId"]))
    outcome = bool(found) and "lockgate audit: IDENTICAL" in found[-1].get("description", "")
    return found if outcome and found[-1]["status"] == "SUCCEEDED" else []


def _get(spark: SparkSession, what: str) -> list[dict[str, Any]]:
    context = spark.sparkContext
    port = urlsplit(context.uiWebUrl or "").port
    url = f"http://127.0.0.1:{port}/api/v1/applications/{context.applicationId}/{what}"
    answer: list[dict[str, Any]] = httpx.get(url, timeout=_ANSWER_S).raise_for_status().json()
    return answer


if __name__ == "__main__":
    main(*sys.argv[1:])
