"""A Connect cluster from one Kafka cluster to another: its internal topics, its data and its sink's group together.

The order is that of docs/guides/connect.md: the workers stop, the sink's group and the topics are promoted, the
workers start at the gateway. A file goes line by line through a topic into another file, so what is lost or
comes twice shows there.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.brokers.clusters import running_cluster
from tests.support.brokers.connect_worker import INTERNAL, SINK, SOURCE, connect_worker
from tests.support.brokers.logs import create_topic
from tests.support.gateways.gateway import GatewayProcess
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1500)]

LINES, FILE_IN, FILE_OUT = "lines", "in.txt", "out.txt"
SINKS_GROUP = "connect-out"


def written(path: Path, first: int, last: int) -> list[str]:
    """Append lines; all that must have arrived by then."""
    with path.open("a") as file:
        file.writelines(f"line {number}\n" for number in range(first, last))
    return [f"line {number}" for number in range(last)]


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def test_connectors_go_on_where_they_were(tmp_path: Path) -> None:
    source_file, sink_file = tmp_path / FILE_IN, tmp_path / FILE_OUT
    with (
        running_cluster("connect-source", "4.3.1", tmp_path) as source,
        running_cluster("connect-target", "4.3.1", tmp_path) as target,
    ):
        gateway = GatewayProcess(tmp_path, target.bootstrap, groups={"quiet_period_s": 1.0})
        try:
            gateway.start()
            gateway.create_link("west", source.bootstrap)
            create_topic(source.bootstrap, LINES, partitions=1)
            wanted = written(source_file, 0, 50)
            with connect_worker(source.bootstrap, tmp_path) as worker:
                worker.create("in", {"connector.class": SOURCE, "file": str(source_file), "topic": LINES})
                worker.create("out", {"connector.class": SINK, "file": str(sink_file), "topics": LINES})
                wait_until(lambda: worker.runs("in", "out"), 300, what="the connectors")
                for topic in (LINES, *INTERNAL):
                    gateway.create_mirror("west", topic)
                wait_until(lambda: lines_of(sink_file) == wanted, 180, what="the first lines")
                wanted = written(source_file, 50, 100)
                wait_until(lambda: lines_of(sink_file) == wanted, 180, what="lines while the topics are mirrored")
                # another flush of offsets: Connect stores what it has sent
                wait_until(lambda: bool(worker.offsets("in").get("offsets")), 180, what="the source's offsets")

            # the workers are stopped: what is written now waits in the file
            wanted = written(source_file, 100, 150)
            assert gateway.api.post("/v3/links/west/groups", json={"group": SINKS_GROUP}).status_code in (201, 409)
            wait_until(
                lambda: gateway.api.post(f"/v3/links/west/groups/{SINKS_GROUP}:promote", json={}).is_success,
                180,
                what="the sink's group",
            )
            topics = [LINES, *INTERNAL]
            answer = gateway.api.post("/v3/links/west/mirrors:promote", json={"mirror_topic_names": topics})
            assert answer.is_success, answer.text
            wait_until(
                lambda: {gateway.mirror("west", name)["mirror_status"] for name in topics} == {"STOPPED"},
                180,
                what="the promote",
            )

            with connect_worker(gateway.bootstrap, tmp_path) as worker:
                wait_until(lambda: worker.runs("in", "out"), 300, what="the connectors behind the gateway")
                wait_until(lambda: lines_of(sink_file) == wanted, 180, what="what was written meanwhile")
                wanted = written(source_file, 150, 200)
                wait_until(lambda: lines_of(sink_file) == wanted, 180, what="what is written now")
            gateway.assert_runs()
        finally:
            gateway.close()
            print(gateway.log.read_text(errors="replace")[-8000:])  # noqa: T201 - pytest shows it when a test failed
    print("connect: 200 lines, each once and in order")  # noqa: T201 - what the test has shown
