"""What a stranger sees on Spark's own pages of a catch-up and an audit: read from Spark's REST API."""

from __future__ import annotations

import json
import subprocess
import sys

from gateway.devcluster import DevCluster
from tests.support.jobs.spark_pages import RECORDS


def test_what_is_done_and_what_came_of_it(source: DevCluster, target: DevCluster, topic: str) -> None:
    command = [sys.executable, "-m", "tests.support.jobs.spark_pages", source.bootstrap, target.bootstrap, topic]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

    told = list(dict.fromkeys(job.get("description", "") for job in json.loads(done.stdout)))

    begun, copied, compares, outcome = [text for text in told if text.startswith("lockgate")]
    assert begun.startswith(f"lockgate catch-up, link west, round 1: {RECORDS} records of 2 partition(s), about ")
    assert copied.startswith(f"lockgate catch-up, link west: {RECORDS} records, ")
    assert copied.endswith(" copied in 1 round(s); 0 records left to the gateway, 0 partition(s) failed")
    assert compares == "lockgate audit: 2 partition(s) of 1 topic(s)"
    assert outcome == "; ".join(
        (
            "lockgate audit: IDENTICAL",
            *(f"{side} offsets: {RECORDS} = {RECORDS} records" for side in ("source", "target")),
            *(f"{side} records: {RECORDS} = {RECORDS} equal" for side in ("source", "target")),
        )
    )
