"""A source that dies: failover with its losses in numbers, and truncate-and-restore once it is back."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from gateway.devcluster import DevCluster
from tests.support.brokers.clusters import running_cluster
from tests.support.brokers.logs import create_topic, log_ends, numbers, read_logs
from tests.support.brokers.topic_configs import configs_of
from tests.support.clients.writer import Writer
from tests.support.gateways.failback import PARTITIONS, RoundTrip
from tests.support.gateways.gateway import running_gateway
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    """A source of its own, to be killed."""
    with running_cluster("mortal", "3.9.1", tmp_path_factory.mktemp("mortal")) as cluster:
        yield cluster


@pytest.fixture
def period(tmp_path: Path, mortal: DevCluster, target: DevCluster, topic: str) -> Iterator[RoundTrip]:
    """One mirrored topic of that source."""
    mortal.up()
    link = f"link-{topic}"
    with running_gateway(tmp_path, target.bootstrap, link) as gateway:
        create_topic(mortal.bootstrap, topic, partitions=PARTITIONS, retention_ms="86400000", segment_ms="600000")
        gateway.create_link(link, mortal.bootstrap)
        gateway.create_mirror(link, topic)
        yield RoundTrip(gateway, link, (topic,), mortal, target)


def left_behind(period: RoundTrip) -> int:
    """Write records to the source that the mirror does not get, and kill the source; how many there are."""
    path = f"/v3/links/{period.link}/mirrors/{period.topics[0]}"
    assert period.gateway.api.post(f"{path}:pause").is_success
    with period.writer(rate=500) as writer:
        writer.wait_for_acks(90)
    wait_until(lambda: foretold(period) == writer.sent, what="the lag to be known")
    period.source.kill()
    return writer.sent


def foretold(period: RoundTrip) -> int:
    """What a failover now would lose."""
    (plan,) = period.post("failover", validate_only="true")["data"]
    return sum(plan["records_not_mirrored"].values())


def fail_over(period: RoundTrip) -> tuple[int, int]:
    """What was foretold to be lost, and what is then shown as lost."""
    said = foretold(period)
    (shown,) = period.post("failover")["data"]
    assert shown["mirror_status"] == "STOPPED"
    return said, sum(shown["records_not_mirrored"].values())


def test_a_dead_source_is_failed_over_at_once_and_the_loss_is_said(period: RoundTrip) -> None:
    with period.writer() as before:
        before.wait_for_acks(300)
    period.level()
    lost = left_behind(period)
    assert fail_over(period) == (lost, lost)
    with period.writer() as after:
        after.wait_for_acks(300)
    target = read_logs(period.target.bootstrap, period.topics[0], PARTITIONS)
    assert [numbers(log) for log in target] == _numbers(before, after)


def test_a_source_that_died_in_the_midst_of_writes_costs_at_most_what_it_alone_had(period: RoundTrip) -> None:
    """The producer is not restarted: it goes on on the target. What is missing is one stretch, around the failover."""
    with period.writer(rate=500) as writer:
        writer.wait_for_acks(500)
        period.source.kill()
        period.post("failover")
        writer.wait_for_acks(500)
    assert not writer.failed
    target = read_logs(period.target.bootstrap, period.topics[0], PARTITIONS)
    for partition, log in enumerate(target):
        found = numbers(log)
        assert found == sorted(set(found)), "repeated or out of order"
        missing = sorted(set(range(partition, writer.sent, PARTITIONS)) - set(found))
        assert missing == list(range(missing[0], missing[-1] + 1, PARTITIONS)) if missing else True


def test_truncate_and_restore_brings_the_old_source_back_as_a_mirror(period: RoundTrip) -> None:
    with period.writer() as before:
        before.wait_for_acks(300)
    period.level()
    lost = left_behind(period)
    fail_over(period)
    with period.writer() as after:
        after.wait_for_acks(300)
        period.source.up()
        wait_until(lambda: _back(period), 60.0, what="the source to be known as back")
        assert f"{lost} records are on the source" in period.post("reverse-and-start-mirror", code=409)["message"]
        plan = period.post("truncate-and-restore", validate_only="true")["data"][0]
        assert sum(plan["records_divergent"].values()) == lost
        assert period.mirror()["mirror_status"] == "STOPPED"  # nothing was changed
        period.post("truncate-and-restore")
        period.wait_for("ACTIVE", "REVERSE", 90)
        after.wait_for_acks(200)
        restored = read_logs(period.source.bootstrap, period.topics[0], PARTITIONS)
        period.home()
        after.wait_for_acks(200)
    logs = period.level()
    assert [numbers(log) for log in logs] == _numbers(before, after)
    assert all(log[: len(old)] == old for log, old in zip(logs, restored, strict=True))
    assert not after.failed


def test_the_restored_topic_begins_where_the_targets_log_does(period: RoundTrip) -> None:
    """What the target does not keep any more is not restored, and offsets are the target's."""
    with period.writer() as writer:
        writer.wait_for_acks(600)
    period.promote()
    _delete_records(period.target.bootstrap, period.topics[0], 100)
    plan = period.post("truncate-and-restore", validate_only="true")["data"][0]
    assert plan["records_older"] == {str(partition): 100 for partition in range(PARTITIONS)}
    period.post("truncate-and-restore")
    period.wait_for("ACTIVE", "REVERSE", 90)
    logs = period.level()
    assert [log[0].offset for log in logs] == [100] * PARTITIONS
    ends = log_ends(period.source.bootstrap, period.topics[0], PARTITIONS)
    assert [log[-1].offset + 1 for log in logs] == ends
    assert configs_of(period.source.bootstrap, period.topics[0])["segment.ms"] == "600000"  # as the old topic had it
    period.home()
    assert configs_of(period.source.bootstrap, period.topics[0])["retention.ms"] == "86400000"
    with period.writer() as again:
        again.wait_for_acks(100)
    period.level()


def test_a_gateway_killed_in_the_midst_of_a_restore_ends_it(period: RoundTrip) -> None:
    """kill -9 after each number of steps in turn, again and again on the same topic; a producer lives through it."""
    with period.writer(rate=200) as writer:
        writer.wait_for_acks(100)
        period.promote()
        for steps in range(1, 7):
            lines = _log_lines(period) + steps
            period.post("truncate-and-restore")
            wait_until(partial(_stepped, period, lines), what="a step")
            period.gateway.kill()
            period.gateway.start()
            period.wait_for("ACTIVE", "REVERSE", 90)
            writer.wait_for_acks(50)
            if steps < 6:
                period.post("failover")
    logs = period.level()
    assert [numbers(log) for log in logs] == _numbers(writer)
    assert not writer.failed


def _log_lines(period: RoundTrip) -> int:
    return period.gateway.log.read_text(errors="replace").count("\n")


def _stepped(period: RoundTrip, lines: int) -> bool:
    """So many steps were taken (each is a line or two in the gateway's log), or all."""
    return _log_lines(period) >= lines or period.mirror()["mirror_status"] == "ACTIVE"


def _numbers(*writers: Writer) -> list[list[int]]:
    return [[n for w in writers for n in range(partition, w.sent, PARTITIONS)] for partition in range(PARTITIONS)]


def _back(period: RoundTrip) -> bool:
    (link,) = [x for x in period.gateway.api.get("/v3/links").json()["data"] if x["link_name"] == period.link]
    return bool(link["link_state"] == "ACTIVE")


def _delete_records(bootstrap: str, topic: str, before: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    found = admin.delete_records([TopicPartition(topic, p, before) for p in range(PARTITIONS)])
    for future in found.values():
        future.result(30)
