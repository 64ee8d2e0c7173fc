"""A copy that others spoil on a real target is found out, and `mirror repair` makes it whole."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.devcluster import DevCluster
from tests.support.brokers.logs import assert_equal, create_topic, read_logs
from tests.support.gateways.mirror_gateway import MirrorGateway, delete_records, delete_topic, mirror_gateway, produce
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


def possible(plan: dict[str, object]) -> list[str]:
    return [one["action"] for one in plan["repairs"] if one["possible"]]  # type: ignore[attr-defined]


def whole_again(mirrors: MirrorGateway, topic: str) -> None:
    """Created anew, filled from the source, and what clients write goes on to come out on both."""
    mirrors.ask("POST", f"/{topic}:recreate", code=202)
    mirrors.until(topic, "ACTIVE", 90.0)
    produce(mirrors.gateway.bootstrap, topic, range(40, 45))
    mirrors.level(topic, 1)
    assert_equal(*(read_logs(cluster.bootstrap, topic, 1) for cluster in (mirrors.source, mirrors.target)))


def test_a_copy_that_others_wrote_to(mirrors: MirrorGateway, topic: str) -> None:
    mirrored(mirrors, topic)
    produce(mirrors.target.bootstrap, topic, range(3))
    produce(mirrors.source.bootstrap, topic, range(40, 43))
    assert mirrors.until(topic, "FAILED")["mirror_topic_error"] == "TARGET_DIVERGED"
    plan = mirrors.ask("POST", f"/{topic}:repair", params={"validate_only": True})
    assert possible(plan) == ["recreate"]
    refused = mirrors.ask("POST", f"/{topic}:repair", code=409)
    assert "without deleting a topic" in refused["message"]
    whole_again(mirrors, topic)


@pytest.mark.parametrize("then", ["nothing", "created anew"])
def test_a_copy_that_others_deleted(mirrors: MirrorGateway, topic: str, then: str) -> None:
    mirrored(mirrors, topic)
    mirrors.ask("POST", f"/{topic}:pause")
    delete_topic(mirrors.target.bootstrap, topic)
    if then == "created anew":
        create_topic(mirrors.target.bootstrap, topic, partitions=1)
        produce(mirrors.target.bootstrap, topic, range(5))
    found = mirrors.until(topic, "FAILED", 90.0)
    expected = "TARGET_TOPIC_ID_CHANGED" if then == "created anew" else "TARGET_TOPIC_MAY_BE_DELETED"
    assert found["mirror_topic_error"] == expected
    assert "`mirror repair`" in found["error_message"]
    whole_again(mirrors, topic)


def test_a_source_topic_that_was_created_anew(mirrors: MirrorGateway, topic: str) -> None:
    mirrored(mirrors, topic)
    delete_topic(mirrors.source.bootstrap, topic)
    create_topic(mirrors.source.bootstrap, topic, partitions=1)
    produce(mirrors.source.bootstrap, topic, range(10))
    assert mirrors.until(topic, "FAILED", 90.0)["mirror_topic_error"] == "SOURCE_TOPIC_ID_CHANGED"
    assert possible(mirrors.ask("POST", f"/{topic}:repair", params={"validate_only": True})) == ["recreate"]
    mirrors.ask("POST", f"/{topic}:recreate", code=202)
    mirrors.until(topic, "ACTIVE", 90.0)
    mirrors.level(topic, 1)


def test_what_the_source_deleted_is_gone_behind(mirrors: MirrorGateway, topic: str) -> None:
    """SOURCE_RECORDS_DELETED: translate goes on behind it."""
    mirrored(mirrors, topic)
    mirrors.ask("POST", f"/{topic}:pause")
    produce(mirrors.source.bootstrap, topic, range(40, 60))
    delete_records(mirrors.source.bootstrap, topic, 50)
    mirrors.ask("POST", f"/{topic}:resume")
    assert mirrors.until(topic, "FAILED")["mirror_topic_error"] == "SOURCE_RECORDS_DELETED"
    assert possible(mirrors.ask("POST", f"/{topic}:repair", params={"validate_only": True})) == [
        "translate",
        "recreate",
    ]
    mirrors.ask("POST", f"/{topic}:repair", code=202)
    wait_until(
        lambda: (
            [record.value for record in read_logs(mirrors.target.bootstrap, topic, 1)[0]][-10:]
            == [str(value).encode() for value in range(50, 60)]
        ),
        60.0,
        what="what was written behind it",
    )
    found = mirrors.mirror(topic)
    assert (found["mirror_status"], found["mode"], found["records_lost"]) == ("ACTIVE", "translate", {"0": 10})
