"""Promote and reverse as one command between real clusters, and dry runs of a promote."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.devcluster import DevCluster
from tests.support.brokers.logs import assert_equal, create_topic, read_logs
from tests.support.gateways.mirror_gateway import MirrorGateway, mirror_gateway, produce
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def mirrors(
    source: DevCluster, target: DevCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MirrorGateway]:
    with mirror_gateway(tmp_path_factory.mktemp("gateway"), source, target) as made:
        yield made


def mirrored(mirrors: MirrorGateway, topic: str) -> None:
    create_topic(mirrors.source.bootstrap, topic, partitions=1)
    produce(mirrors.source.bootstrap, topic, range(40))
    mirrors.create(topic)
    mirrors.level(topic, 1)


def is_reversed(mirrors: MirrorGateway, topic: str, status: str) -> None:
    wait_until(
        lambda: (found := mirrors.mirror(topic))["mirror_direction"] == "REVERSE" and found["mirror_status"] == status,
        90.0,
        what=f"{topic} to be {status} on its way back",
    )


def test_reverse_and_start_from_active(mirrors: MirrorGateway, topic: str) -> None:
    mirrored(mirrors, topic)
    mirrors.ask("POST", ":reverse-and-start-mirror", json={"mirror_topic_names": [topic]}, code=202)
    is_reversed(mirrors, topic, "ACTIVE")
    produce(mirrors.gateway.bootstrap, topic, range(40, 60))
    mirrors.level(topic, 1)
    assert_equal(*(read_logs(cluster.bootstrap, topic, 1) for cluster in (mirrors.source, mirrors.target)))


def test_reverse_and_pause_from_active(mirrors: MirrorGateway, topic: str) -> None:
    mirrored(mirrors, topic)
    mirrors.ask("POST", f"/{topic}:reverse-and-pause-mirror", code=202)
    is_reversed(mirrors, topic, "PAUSED")
    produce(mirrors.gateway.bootstrap, topic, range(40, 50))
    mirrors.ask("POST", f"/{topic}:resume")
    mirrors.level(topic, 1)


def test_the_next_leader_goes_on_with_the_reverse(mirrors: MirrorGateway, topic: str) -> None:
    mirrored(mirrors, topic)
    mirrors.ask("POST", f"/{topic}:reverse-and-start-mirror", code=202)
    mirrors.gateway.kill()
    mirrors.gateway.start()
    is_reversed(mirrors, topic, "ACTIVE")
    mirrors.level(topic, 1)


def test_a_dry_run_of_a_promote_says_what_blocks_it(mirrors: MirrorGateway, topic: str) -> None:
    mirrored(mirrors, topic)
    plan = mirrors.ask("POST", f"/{topic}:promote", params={"validate_only": True}, code=202)
    assert (plan["blockers"], plan["topics"][0]["lag"], plan["topics"][0]["eta_s"]) == ([], 0, 0.0)
    mirrors.ask("POST", f"/{topic}:pause")
    plan = mirrors.ask("POST", f"/{topic}:promote", params={"validate_only": True}, code=202)
    assert "is PAUSED; resume it first" in plan["blockers"][0]
    assert mirrors.mirror(topic)["mirror_status"] == "PAUSED"
