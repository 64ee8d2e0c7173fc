"""A mirror topic audited in every state of its life, with a gateway: offsets equal, and through maps of every mirror
period."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from gateway.cli.jobs.link import read_plan
from gateway.devcluster import DevCluster
from gateway.jobs.audit.job import run_audit
from gateway.jobs.audit.kinds import DifferenceKind
from gateway.jobs.audit.report import Report
from gateway.jobs.audit.scene import AuditOptions
from tests.support.brokers.logs import create_topic
from tests.support.clients.transactions import transact, transactional_producer
from tests.support.gateways.failback import PARTITIONS, RoundTrip
from tests.support.gateways.gateway import GatewayProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration

Audit = Callable[[], Report]


@pytest.fixture
def period(source: DevCluster, target: DevCluster, tmp_path: Path) -> Iterator[RoundTrip]:
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


def audit(spark: SparkSession, period: RoundTrip) -> Report:
    """As `lockgate job audit --link` does it."""
    url = str(period.gateway.api.base_url)
    plan = read_plan(url, period.link, [], {}, {})

    def records() -> dict[str, object]:
        return {one.source_topic: one for one in read_plan(url, period.link, [], {}, {}).records}

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


def write(period: RoundTrip, bootstrap: str, transactions: int, *, transactional: bool) -> None:
    """Through the gateway, or beside it."""
    topic = period.topics[0]
    if not transactional:
        with period.writer(bootstrap=bootstrap, rate=1000) as writer:
            writer.wait_for_acks(100)
        return
    producer = transactional_producer(bootstrap, f"{topic}-{uuid.uuid4().hex[:4]}")
    for number in range(transactions):
        values = [f"{number}.{record}" for record in range(9)]
        transact(producer, {topic: values}, commit=number % 3 != 2)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("transactional", [False, True], ids=["preserve", "translate"])
def test_identical_in_every_state(spark: SparkSession, period: RoundTrip, transactional: bool) -> None:
    said = []

    def look(state: str) -> Report:
        report = audit(spark, period)
        said.append((state, report.verdict.value, [one.sentence for one in report.findings]))
        assert report.exit_code == 0, said
        assert all(one.closes for one in report.findings)
        return report

    write(period, period.gateway.bootstrap, 6, transactional=transactional)
    mirroring = look("mirroring")
    assert (mirroring.sums.source.aborted > 0) is transactional
    period.promote()
    write(period, period.gateway.bootstrap, 4, transactional=transactional)
    promoted = look("promoted")
    assert sum(one.asked.since_cutover for one in promoted.findings) > 0
    assert promoted.sums.compared == mirroring.sums.compared
    period.reverse()
    reversed_ = look("reversed")
    assert reversed_.sums.compared > promoted.sums.compared
    period.home()
    write(period, period.gateway.bootstrap, 3, transactional=transactional)
    assert look("back on the source").sums.compared > reversed_.sums.compared
    assert period.mirror()["mode"] == ("translate" if transactional else "preserve")


@pytest.mark.timeout(300)
def test_what_differs_after_a_promote_and_a_failover(spark: SparkSession, period: RoundTrip) -> None:
    topic = period.topics[0]
    write(period, period.gateway.bootstrap, 0, transactional=False)
    wait_until(lambda: audit(spark, period).exit_code == 0, 60, what="a level mirror")
    assert period.gateway.api.post(f"/v3/links/{period.link}/mirrors/{topic}:pause").is_success
    write(period, period.source.bootstrap, 0, transactional=False)  # beside the gateway, and never mirrored
    behind = audit(spark, period)
    assert behind.exit_code == 4
    assert any("not mirrored yet" in one.sentence for one in behind.findings)
    period.post("failover")
    period.wait_for("STOPPED")
    write(period, period.gateway.bootstrap, 0, transactional=False)
    left = audit(spark, period)
    assert left.exit_code == 4
    assert any("left behind on the source when the topic failed over" in one.sentence for one in left.findings)
    assert left.sums.source_only[DifferenceKind.LEFT_BEHIND] == behind.sums.source_only[DifferenceKind.BEHIND] > 0
