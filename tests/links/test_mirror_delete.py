"""`mirror delete` between real clusters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from threading import Thread

import httpx
import pytest

from gateway.devcluster import DevCluster
from tests.support.brokers.logs import create_topic, log_ends
from tests.support.gateways.mirror_gateway import MirrorGateway, delete_topic, has_topic, mirror_gateway, produce
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def mirrors(
    source: DevCluster, target: DevCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MirrorGateway]:
    with mirror_gateway(tmp_path_factory.mktemp("gateway"), source, target) as made:
        yield made


def level(mirrors: MirrorGateway, topic: str, records: int = 50) -> None:
    create_topic(mirrors.source.bootstrap, topic, partitions=1)
    produce(mirrors.source.bootstrap, topic, range(records))
    mirrors.create(topic)
    mirrors.level(topic, 1)


def test_a_mirror_goes_with_its_topic_and_the_source_keeps_it(mirrors: MirrorGateway, topic: str) -> None:
    level(mirrors, topic)
    mirrors.ask("DELETE", f"/{topic}", params={"delete_topic": True}, code=204)
    assert not mirrors.exists(topic)
    wait_until(lambda: not has_topic(mirrors.target.bootstrap, topic), 30.0, what="the deletion on the target")
    assert log_ends(mirrors.source.bootstrap, topic, 1) == [50]


def test_a_promoted_topic_stays_and_goes_on_being_written(mirrors: MirrorGateway, topic: str) -> None:
    level(mirrors, topic)
    mirrors.gateway.promote(mirrors.link, topic)
    mirrors.until(topic, "STOPPED")
    mirrors.ask("DELETE", f"/{topic}", code=204)
    assert not mirrors.exists(topic)
    produce(mirrors.gateway.bootstrap, topic, range(50, 60))
    assert log_ends(mirrors.target.bootstrap, topic, 1) == [60]
    assert log_ends(mirrors.source.bootstrap, topic, 1) == [50]


def test_one_that_is_mirrored_is_refused_with_the_reason(mirrors: MirrorGateway, topic: str) -> None:
    level(mirrors, topic)
    refused = mirrors.ask("DELETE", f"/{topic}", code=409)
    assert "what clients of the gateway write to it would go to the target" in refused["message"]
    produce(mirrors.gateway.bootstrap, topic, range(50, 60))
    assert log_ends(mirrors.source.bootstrap, topic, 1) == [60]
    plan = mirrors.ask("DELETE", f"/{topic}", params={"validate_only": True, "delete_topic": True}, code=200)
    assert plan["refused"] == ""
    mirrors.ask("DELETE", f"/{topic}", params={"force": True}, code=204)
    assert has_topic(mirrors.target.bootstrap, topic)


def test_a_topic_that_others_created_under_the_name_stays(mirrors: MirrorGateway, topic: str) -> None:
    level(mirrors, topic)
    mirrors.ask("POST", f"/{topic}:pause")
    delete_topic(mirrors.target.bootstrap, topic)
    create_topic(mirrors.target.bootstrap, topic, partitions=1)
    produce(mirrors.target.bootstrap, topic, range(7))
    mirrors.ask("DELETE", f"/{topic}", params={"delete_topic": True}, code=204)
    assert not mirrors.exists(topic)
    assert log_ends(mirrors.target.bootstrap, topic, 1) == [7]


def test_a_name_is_mirrored_again_after_it(mirrors: MirrorGateway, topic: str) -> None:
    level(mirrors, topic)
    mirrors.ask("DELETE", f"/{topic}", params={"delete_topic": True}, code=204)
    wait_until(lambda: not has_topic(mirrors.target.bootstrap, topic), 30.0, what="the deletion on the target")
    mirrors.create(topic)
    mirrors.level(topic, 1)


@pytest.mark.parametrize("after_s", [0.0, 0.03, 0.1])
def test_a_deletion_outlives_the_gateway(mirrors: MirrorGateway, topic: str, after_s: float) -> None:
    """Killed at some moment of it: the next one comes to the end, or the deletion was never begun."""
    level(mirrors, topic)
    asked = Thread(target=ask_in_vain, args=(mirrors, topic))
    asked.start()
    asked.join(after_s)
    mirrors.gateway.kill()
    asked.join(30)
    mirrors.gateway.start()
    listed = [one for one in mirrors.ask("GET", "")["data"] if one["mirror_topic_name"] == topic]
    if listed and listed[0]["waiting_for"] != "it is being deleted":  # it was never begun
        produce(mirrors.gateway.bootstrap, topic, range(50, 55))
        mirrors.level(topic, 1)
        return
    wait_until(lambda: not mirrors.exists(topic), 60.0, what="the end of the deletion")
    wait_until(lambda: not has_topic(mirrors.target.bootstrap, topic), 30.0, what="the deletion on the target")


def ask_in_vain(mirrors: MirrorGateway, topic: str) -> None:
    """The gateway may be gone before it answers."""
    with suppress(httpx.TransportError):
        mirrors.gateway.api.delete(f"{mirrors.path}/{topic}", params={"delete_topic": True})
