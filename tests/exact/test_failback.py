"""The failbacks between two real clusters: reverse, and back on the source under load."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from gateway.devcluster import DevCluster
from tests.support.brokers.logs import Record, assert_equal, assert_nothing_lost, create_topic, log_ends, read_logs
from tests.support.brokers.topic_configs import configs_of, own_configs_of
from tests.support.clients.java_writer import JavaWriter
from tests.support.clients.transactions import transact, transactional_producer
from tests.support.clients.writer import Writer
from tests.support.gateways.failback import PARTITIONS, RoundTrip
from tests.support.gateways.gateway import running_gateway
from tests.support.waiting import wait_until

Trip = Callable[..., RoundTrip]


@pytest.fixture
def trip(tmp_path: Path, source: DevCluster, target: DevCluster, topic: str) -> Iterator[Trip]:
    """Makes a link and mirrors of new topics with these name endings. `configs` take `_` for `.`."""
    link = f"link-{topic}"

    with running_gateway(tmp_path, target.bootstrap, link) as gateway:

        def make(*endings: str, **configs: str) -> RoundTrip:
            topics = tuple(f"{topic}{ending}" for ending in endings or ("",))
            gateway.create_link(link, source.bootstrap)
            for name in topics:
                create_topic(source.bootstrap, name, partitions=PARTITIONS, **configs)
                gateway.create_mirror(link, name)
            return RoundTrip(gateway, link, topics, source, target)

        yield make


def test_idempotent_producers_live_through_two_round_trips(trip: Trip, tmp_path: Path) -> None:
    """Java and librdkafka, not restarted: to the target, home, to the target again, back on the source. Both logs are
    one."""
    period = trip("", "-java")
    with period.writer() as writer, JavaWriter(period.gateway.bootstrap, period.topics[1], tmp_path) as java:

        def traffic() -> None:
            writer.wait_for_acks(200)
            java.wait_for_acks(200)

        for _ in range(2):
            traffic()
            period.promote()
            traffic()
            period.reverse()
            traffic()
            period.home()
        traffic()
        writer.stop()
        java.stop()
    assert not writer.failed
    assert_nothing_lost(writer, period.level())
    java.assert_nothing_lost(period.level(period.topics[1]))
    shown = period.mirror()
    assert (shown["mirror_topic_error"], shown["records_after_cutover"]) == ("NO_ERROR", {})


def test_while_reversed_the_old_source_follows_record_by_record(trip: Trip) -> None:
    period = trip()
    with period.writer() as writer:
        writer.wait_for_acks(300)
        period.promote()
        writer.wait_for_acks(300)  # nobody mirrors these yet
        period.reverse()
        writer.wait_for_acks(300)
    assert_nothing_lost(writer, period.level())
    assert period.mirror()["mirror_lags"][0]["lag"] == 0


def test_a_record_after_cutover_on_the_source_forbids_the_reverse_and_is_counted(trip: Trip) -> None:
    period = trip()
    with period.writer() as writer:
        writer.wait_for_acks(100)
        period.promote()
    with period.writer(bootstrap=period.source.bootstrap) as late:  # one that was forgotten
        late.wait_for_acks(10)
    refused = period.post("reverse-and-start-mirror", code=409)
    assert f"{late.sent} records are on the source and not on the target" in refused["message"]
    assert "truncate-and-restore" in refused["message"]
    assert period.mirror()["mirror_status"] == "STOPPED"


def test_a_foreign_record_while_reversed_fails_the_mirror_and_no_write_of_a_client(trip: Trip) -> None:
    period = trip()
    with period.writer() as writer:
        writer.wait_for_acks(100)
        period.promote()
        period.reverse()
        with period.writer(bootstrap=period.source.bootstrap, rate=20) as late:
            late.wait_for_acks(PARTITIONS)
        writer.wait_for_acks(200)
        period.wait_for("FAILED", "REVERSE")
        writer.wait_for_acks(100)
    assert period.mirror()["mirror_topic_error"] == "TARGET_DIVERGED"
    assert_nothing_lost(writer, read_logs(period.target.bootstrap, period.topics[0], PARTITIONS))


def test_paused_after_the_reverse_until_it_is_resumed(trip: Trip) -> None:
    period = trip()
    with period.writer() as writer:
        writer.wait_for_acks(100)
        period.promote()
        period.post("reverse-and-pause-mirror")
        period.wait_for("PAUSED", "REVERSE")
        ends = log_ends(period.source.bootstrap, period.topics[0], PARTITIONS)
        writer.wait_for_acks(100)
        assert log_ends(period.source.bootstrap, period.topics[0], PARTITIONS) == ends
        path = f"/v3/links/{period.link}/mirrors/{period.topics[0]}:resume"
        assert period.gateway.api.post(path).is_success
        period.wait_for("ACTIVE", "REVERSE")
        wait_until(lambda: log_ends(period.source.bootstrap, period.topics[0], PARTITIONS) > ends)
        period.home()
        writer.wait_for_acks(100)
    assert_nothing_lost(writer, period.level())


def test_transactions_on_the_target_go_back_without_markers_and_without_what_was_aborted(trip: Trip) -> None:
    """The logs end at different offsets from then on; at the failback the mirror to the target goes on all the same."""
    period = trip()
    topic = period.topics[0]
    with period.writer() as writer:
        writer.wait_for_acks(100)
        period.promote()
        period.reverse()
        producer = transactional_producer(period.gateway.bootstrap, f"back-{topic}")
        for number in range(6):
            transact(producer, {topic: [f"-{number}.{i}" for i in range(5)]}, commit=number % 2 == 0)
        writer.wait_for_acks(100)
    records = level_without_offsets(period)
    assert period.mirror()["mode"] == "translate"
    period.home()
    with period.writer() as home:
        home.wait_for_acks(100)
    later = level_without_offsets(period)
    assert all(log[: len(before)] == before for log, before in zip(later, records, strict=True))
    period.promote()
    with period.writer() as again:
        again.wait_for_acks(100)
        period.reverse()
        period.home()
        again.wait_for_acks(100)
    found = level_without_offsets(period)
    texts = [(r.value or b"").split(b" ")[0].decode() for r in found[0]]
    kept = [text for text in texts if text.startswith("-")]
    assert kept == [f"-{number}.{i}" for number in (0, 2, 4) for i in range(5)]
    plain = [text for text in texts if not text.startswith("-")]
    assert plain == [str(n) for w in (writer, home, again) for n in range(0, w.sent, PARTITIONS)]


def level_without_offsets(period: RoundTrip) -> list[list[Record]]:
    """Wait until the mirror has come to the end, and hold both logs against each other, apart from their offsets."""
    period.wait_until_mirrored()
    source, target = (
        [[record._replace(offset=-1) for record in log] for log in read_logs(c.bootstrap, period.topics[0], PARTITIONS)]
        for c in (period.source, period.target)
    )
    assert_equal(source, target)
    return source


def test_log_append_time_is_the_origins_on_every_leg(trip: Trip) -> None:
    """Whichever cluster is written stamps; its mirror keeps the stamps."""
    period = trip(message_timestamp_type="LogAppendTime")
    with period.writer() as writer:
        writer.wait_for_acks(100)
        period.promote()
        writer.wait_for_acks(100)
        period.reverse()
        writer.wait_for_acks(100)
        period.home()
        writer.wait_for_acks(100)
    period.wait_until_mirrored()
    source, target = (read_logs(c.bootstrap, period.topics[0], PARTITIONS) for c in (period.source, period.target))
    stamps = [[[(r.offset, r.key, r.timestamp[1]) for r in log] for log in logs] for logs in (source, target)]
    assert stamps[0] == stamps[1]
    for log in stamps[0]:
        assert [stamp for _, _, stamp in log] == sorted(
            stamp for _, _, stamp in log
        )  # a log's own time never goes back
    assert own_configs_of(period.source.bootstrap, period.topics[0])["message.timestamp.type"] == "LogAppendTime"
    assert configs_of(period.target.bootstrap, period.topics[0])["message.timestamp.type"] == "CreateTime"  # a copy


def test_partitions_added_on_the_target_are_added_in_a_failback(trip: Trip) -> None:
    period = trip()
    topic = period.topics[0]
    with period.writer() as writer:
        writer.wait_for_acks(100)
    period.promote()
    add_partitions(period.gateway.bootstrap, topic, PARTITIONS + 1)
    with Writer(period.gateway.bootstrap, topic, partitions=PARTITIONS + 1) as wider:
        wider.wait_for_acks(100)
        period.reverse()
        wider.wait_for_acks(100)
        add_partitions(period.gateway.bootstrap, topic, PARTITIONS + 2)
        wait_until(
            lambda: period.mirror()["num_partitions"] == PARTITIONS + 2, 30, what="the new partition to be followed"
        )
        period.home()
        wider.wait_for_acks(100)
    assert not wider.failed
    period.wait_until_mirrored()
    logs = [read_logs(c.bootstrap, topic, PARTITIONS + 2) for c in (period.source, period.target)]
    assert_equal(*logs)
    assert len(logs[0][PARTITIONS]) == len(range(PARTITIONS, wider.sent, PARTITIONS + 1))


def test_a_gateway_killed_at_any_moment_of_the_ways_goes_on_from_the_record(trip: Trip) -> None:
    """Over and back three times, with kill -9 some random steps after each begin. One producer lives through it all."""
    period = trip()
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # noqa: T201 - to do it again
    rng = random.Random(seed)
    periods = [("promote", "STOPPED", "FORWARD"), ("reverse-and-start-mirror", "ACTIVE", "REVERSE")]
    periods.append(("promote", "ACTIVE", "FORWARD"))
    with period.writer(rate=200) as writer:
        for verb, state, direction in periods * 3:
            writer.wait_for_acks(30)
            killed = False
            while not _is(period, state, direction):
                lines = _log_lines(period) + rng.randrange(8)
                body: dict[str, object] = {"mirror_topic_names": list(period.topics)}
                body |= {"mirror_direction": "REVERSE"} if (verb, state) == ("promote", "ACTIVE") else {}
                answer = period.gateway.api.post(f"/v3/links/{period.link}/mirrors:{verb}", json=body)
                assert answer.is_success or answer.status_code in (409, 502), answer.text
                if not killed:
                    wait_until(partial(_stepped, period, lines, state, direction), what="a step")
                    period.gateway.kill()
                    period.gateway.start()
                    killed = True
                wait_until(
                    lambda: not period.mirror()["mirror_status"].startswith("PENDING_"), 60, what="the end of a way"
                )
                assert period.mirror()["mirror_status"] in ("ACTIVE", "STOPPED", "SOURCE_UNAVAILABLE"), period.mirror()
        writer.wait_for_acks(100)
    assert_nothing_lost(writer, period.level())


def add_partitions(bootstrap: str, topic: str, total: int) -> None:
    """Grow a topic, through whatever is at `bootstrap`."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions(topic, total)])[topic].result(30)


def _stepped(period: RoundTrip, lines: int, state: str, direction: str) -> bool:
    return _log_lines(period) >= lines or _is(period, state, direction)


def _log_lines(period: RoundTrip) -> int:
    """Every step of a way is a line or two in the gateway's log."""
    return period.gateway.log.read_text(errors="replace").count("\n")


def _is(period: RoundTrip, state: str, direction: str) -> bool:
    shown = period.mirror()
    return (shown["mirror_status"], shown["mirror_direction"]) == (state, direction)
