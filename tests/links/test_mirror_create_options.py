"""Configs, replicas and a start of its own for a mirror topic on a real target; what is changed by hand there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.devcluster import DevCluster
from tests.support.brokers.logs import create_topic, read_logs
from tests.support.gateways.mirror_gateway import (
    MirrorGateway,
    has_topic,
    mirror_gateway,
    produce,
    set_config,
    topic_config,
)
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def mirrors(
    source: DevCluster, target: DevCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MirrorGateway]:
    with mirror_gateway(tmp_path_factory.mktemp("gateway"), source, target, topic_config_sync_ms="1000") as made:
        yield made


def first_values(mirrors: MirrorGateway, topic: str, partitions: int = 1) -> list[bytes | None]:
    mirrors.level(topic, partitions)
    return [log[0].value if log else None for log in read_logs(mirrors.target.bootstrap, topic, partitions)]


def test_configs_of_its_own_outlive_config_sync_and_promote(mirrors: MirrorGateway, topic: str) -> None:
    create_topic(mirrors.source.bootstrap, topic, partitions=1, retention_ms="111000", delete_retention_ms="222000")
    own = {"retention.ms": "333000", "delete.retention.ms": "444000", "min.insync.replicas": "1"}
    created = mirrors.create(topic, configs=[{"name": name, "value": value} for name, value in own.items()])
    assert created["configs"] == own
    set_config(mirrors.source.bootstrap, topic, "min.compaction.lag.ms", "555")  # a sync has been there when this is
    wait_until(
        lambda: topic_config(mirrors.target.bootstrap, topic)["min.compaction.lag.ms"] == "555", 30.0, what="a sync"
    )
    found = topic_config(mirrors.target.bootstrap, topic)
    assert (found["delete.retention.ms"], found["retention.ms"]) == ("444000", "333000")
    mirrors.gateway.promote(mirrors.link, topic)
    mirrors.until(topic, "STOPPED")
    wait_until(
        lambda: topic_config(mirrors.target.bootstrap, topic)["retention.ms"] == "333000",
        30.0,
        what="its own retention",
    )


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("cleanup.policy", "compact", "cleanup.policy cannot be given: it is always synced"),
        ("no.such.config", "1", "no.such.config is no topic config that the target knows"),
        ("retention.ms", "soon", "retention.ms"),
    ],
)
def test_configs_that_cannot_be_are_named(
    mirrors: MirrorGateway, topic: str, name: str, value: str, words: str
) -> None:
    create_topic(mirrors.source.bootstrap, topic, partitions=1)
    body = {"source_topic_name": topic, "configs": [{"name": name, "value": value}]}
    assert words in mirrors.ask("POST", "", json=body, code=400)["message"]
    assert not mirrors.exists(topic)
    assert not has_topic(mirrors.target.bootstrap, topic)


def test_more_replicas_than_brokers(mirrors: MirrorGateway, topic: str) -> None:
    create_topic(mirrors.source.bootstrap, topic, partitions=1)
    body = {"source_topic_name": topic, "replication_factor": 3}
    assert "the target has 1 broker" in mirrors.ask("POST", "", json=body, code=400)["message"]


def test_offsets_by_partition(mirrors: MirrorGateway, topic: str) -> None:
    create_topic(mirrors.source.bootstrap, topic, partitions=2)
    produce(mirrors.source.bootstrap, topic, range(30), 0)
    produce(mirrors.source.bootstrap, topic, range(30), 1)
    out = mirrors.ask("POST", "", json={"source_topic_name": topic, "start_offsets": {"0": 31}}, code=400)
    assert "offset 31 of partition 0 is out of range" in out["message"]
    assert (
        "no partition 2"
        in mirrors.ask("POST", "", json={"source_topic_name": topic, "start": "2:0"}, code=400)["message"]
    )
    mirrors.create(topic, start_offsets={"0": 12})
    assert first_values(mirrors, topic, 2) == [b"12", b"0"]


def test_latest_and_earliest(mirrors: MirrorGateway, topic: str) -> None:
    create_topic(mirrors.source.bootstrap, topic, partitions=1)
    produce(mirrors.source.bootstrap, topic, range(10))
    mirrors.create(topic, start="latest")
    produce(mirrors.gateway.bootstrap, topic, range(10, 15))
    assert first_values(mirrors, topic) == [b"10"]


def test_a_dry_run_creates_nothing(mirrors: MirrorGateway, topic: str) -> None:
    create_topic(mirrors.source.bootstrap, topic, partitions=2)
    plan = mirrors.ask("POST", "", json={"source_topic_name": topic, "start": "latest"}, params={"validate_only": True})
    assert (plan["num_partitions"], plan["replication_factor"], plan["mode"], plan["starts"]) == (
        2,
        1,
        "preserve",
        [0, 0],
    )
    assert not has_topic(mirrors.target.bootstrap, topic)


def test_what_is_changed_by_hand_is_set_back_or_shown(mirrors: MirrorGateway, topic: str) -> None:
    create_topic(mirrors.source.bootstrap, topic, partitions=1, max_message_bytes="700000")
    mirrors.create(topic)
    wait_until(lambda: mirrors.mirror(topic)["readable"], 30.0, what="the mirror")
    set_config(mirrors.source.bootstrap, topic, "delete.retention.ms", "777")  # a sync has been there when this is
    wait_until(
        lambda: topic_config(mirrors.target.bootstrap, topic)["delete.retention.ms"] == "777", 30.0, what="a sync"
    )
    set_config(mirrors.target.bootstrap, topic, "retention.ms", "1000")
    set_config(mirrors.target.bootstrap, topic, "segment.ms", "99000")
    wait_until(lambda: mirrors.mirror(topic)["configs_set_back"], 30.0, what="the next sync")
    found = mirrors.mirror(topic)
    assert [(one["name"], one["found"], one["value"]) for one in found["configs_set_back"]] == [
        ("retention.ms", "1000", "-1")
    ]
    assert found["configs_on_target"] == {"segment.ms": "99000"}
    assert topic_config(mirrors.target.bootstrap, topic)["retention.ms"] == "-1"
