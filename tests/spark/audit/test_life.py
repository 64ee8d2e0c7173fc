"""A mirror topic audited in every state of its life, with a gateway: offsets equal, and through maps of every way."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from gateway.cli.job_link import read_plan
from gateway.devcluster import DevCluster
from gateway.jobs.audit.job import run_audit
from gateway.jobs.audit.kinds import Kind
from gateway.jobs.audit.report import Report
from gateway.jobs.audit.scene import AuditOptions
from tests.support.gateway import GatewayProcess
from tests.support.logs import create_topic
from tests.support.transactions import transact, transactional_producer
from tests.support.waiting import wait_until
from tests.support.way_back import PARTITIONS, RoundTrip

pytestmark = pytest.mark.integration

Audit = Callable[[], Report]


@pytest.fixture
def way(source: DevCluster, target: DevCluster, tmp_path: Path) -> Iterator[RoundTrip]:
    """A gateway with a link, and a topic that is mirrored."""
    name = uuid.uuid4().hex[:8]
    gateway = GatewayProcess(tmp_path, target.bootstrap)
    gateway.start()
    made = RoundTrip(gateway, f"link-{name}", (f"life-{name}",), source, target)
    create_topic(source.bootstrap, made.topics[0], partitions=PARTITIONS)
    gateway.create_link(made.link, source.bootstrap)
    gateway.create_mirror(made.link, made.topics[0])
    yield made
    gateway.delete_link(made.link)
    gateway.close()


def audit(spark: SparkSession, way: RoundTrip) -> Report:
    """As `lockgate job audit --link` does it."""
    url = str(way.gateway.api.base_url)
    plan = read_plan(url, way.link, [], {}, {})

    def records() -> dict[str, object]:
        return {one.source_topic: one for one in read_plan(url, way.link, [], {}, {}).records}

    return run_audit(
        spark,
        AuditOptions(
            source=plan.source,
            target=plan.target,
            topics=list(plan.names),
            names=plan.names,
            link=plan.link,
            records=records(),  # type: ignore[arg-type]
            records_now=records,  # type: ignore[arg-type]
            wait_s=20,
        ),
    )


def write(way: RoundTrip, bootstrap: str, transactions: int, *, transactional: bool) -> None:
    """Through the gateway, or beside it."""
    topic = way.topics[0]
    if not transactional:
        with way.writer(bootstrap=bootstrap, rate=1000) as writer:
            writer.wait_for_acks(100)
        return
    producer = transactional_producer(bootstrap, f"{topic}-{uuid.uuid4().hex[:4]}")
    for number in range(transactions):
        values = [f"{number}.{record}" for record in range(9)]
        transact(producer, {topic: values}, commit=number % 3 != 2)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("transactional", [False, True], ids=["preserve", "translate"])
def test_identical_in_every_state(spark: SparkSession, way: RoundTrip, transactional: bool) -> None:
    said = []

    def look(state: str) -> Report:
        report = audit(spark, way)
        said.append((state, report.verdict.value, [one.sentence for one in report.findings]))
        assert report.exit_code == 0, said
        assert all(one.closes for one in report.findings)
        return report

    write(way, way.gateway.bootstrap, 6, transactional=transactional)
    mirroring = look("mirroring")
    assert (mirroring.sums.source.aborted > 0) is transactional
    way.promote()
    write(way, way.gateway.bootstrap, 4, transactional=transactional)
    promoted = look("promoted")
    assert sum(one.asked.since_cutover for one in promoted.findings) > 0
    assert promoted.sums.compared == mirroring.sums.compared
    way.reverse()
    reversed_ = look("reversed")
    assert reversed_.sums.compared > promoted.sums.compared
    way.home()
    write(way, way.gateway.bootstrap, 3, transactional=transactional)
    assert look("home again").sums.compared > reversed_.sums.compared
    assert way.mirror()["mode"] == ("translate" if transactional else "preserve")


@pytest.mark.timeout(300)
def test_what_differs_after_a_promote_and_a_failover(spark: SparkSession, way: RoundTrip) -> None:
    topic = way.topics[0]
    write(way, way.gateway.bootstrap, 0, transactional=False)
    wait_until(lambda: audit(spark, way).exit_code == 0, 60, what="a level mirror")
    assert way.gateway.api.post(f"/v3/links/{way.link}/mirrors/{topic}:pause").is_success
    write(way, way.source.bootstrap, 0, transactional=False)  # beside the gateway, and never mirrored
    behind = audit(spark, way)
    assert behind.exit_code == 4
    assert any("not mirrored yet" in one.sentence for one in behind.findings)
    way.post("failover")
    way.wait_for("STOPPED")
    write(way, way.gateway.bootstrap, 0, transactional=False)
    left = audit(spark, way)
    assert left.exit_code == 4
    assert any("left behind on the source when the topic failed over" in one.sentence for one in left.findings)
    assert left.sums.source_only[Kind.LEFT_BEHIND] == behind.sums.source_only[Kind.BEHIND] > 0
