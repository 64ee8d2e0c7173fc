"""Dry runs between real clusters: what a reverse, a group's promote and its demote would meet; nothing is changed."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from gateway.devcluster import DevCluster
from tests.support.brokers.logs import create_topic
from tests.support.gateways.mirror_gateway import MirrorGateway, mirror_gateway, produce


@pytest.fixture(scope="module")
def mirrors(
    source: DevCluster, target: DevCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MirrorGateway]:
    with mirror_gateway(tmp_path_factory.mktemp("gateway"), source, target, groups_auto_promote="false") as made:
        yield made


def mirrored(mirrors: MirrorGateway, topic: str) -> None:
    create_topic(mirrors.source.bootstrap, topic, partitions=1)
    produce(mirrors.source.bootstrap, topic, range(40))
    mirrors.create(topic)
    mirrors.level(topic, 1)


def ask_group(mirrors: MirrorGateway, path: str, body: Any = None, **params: Any) -> Any:
    """The answer's body; `path` below that of the groups."""
    answer = mirrors.gateway.api.post(f"/v3/links/{mirrors.link}/groups{path}", json=body, params=params)
    assert answer.is_success, (answer.status_code, answer.text)
    return answer.json()


def consumer(bootstrap: str, group: str) -> Consumer:
    """One that reads and commits without being a member."""
    return Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})


def committed(bootstrap: str, group: str, topic: str) -> int:
    """The group's offset of the first partition; negative for none."""
    reader = consumer(bootstrap, group)
    (found,) = reader.committed([TopicPartition(topic, 0)], timeout=30)
    reader.close()
    return int(found.offset)


def test_a_dry_run_of_a_reverse_compares_both_logs(mirrors: MirrorGateway, topic: str) -> None:
    mirrored(mirrors, topic)
    (plan,) = mirrors.ask(
        "POST",
        ":reverse-and-start-mirror",
        json={"mirror_topic_names": [topic]},
        params={"validate_only": True},
    )["data"]
    assert (plan["promoted_first"], plan["blockers"]) == (True, [])
    mirrors.ask("POST", f"/{topic}:promote", code=202)
    before = mirrors.until(topic, "STOPPED")
    plan = mirrors.ask("POST", f"/{topic}:reverse-and-start-mirror", params={"validate_only": True})
    assert (plan["promoted_first"], plan["blockers"]) == (False, [])
    produce(mirrors.source.bootstrap, topic, range(40, 43))  # beside the gateway
    plan = mirrors.ask("POST", f"/{topic}:reverse-and-start-mirror", params={"validate_only": True})
    assert "3 records are on the source and not on the target" in plan["blockers"][0]
    after = mirrors.mirror(topic)
    assert [after[name] for name in ("mirror_status", "mirror_direction", "state_time_ms")] == [
        before[name] for name in ("mirror_status", "mirror_direction", "state_time_ms")
    ]


def test_a_dry_run_of_a_group_carries_nothing_over(mirrors: MirrorGateway, topic: str) -> None:
    mirrored(mirrors, topic)
    group = f"group-{uuid.uuid4().hex[:8]}"
    reader = consumer(mirrors.source.bootstrap, group)
    reader.commit(offsets=[TopicPartition(topic, 0, 20)], asynchronous=False)
    reader.close()
    ask_group(mirrors, "", {"group": group}, validate_only=True)
    assert group not in [
        one["group"] for one in mirrors.gateway.api.get(f"/v3/links/{mirrors.link}/groups").json()["data"]
    ]
    ask_group(mirrors, "", {"group": group})

    plan = ask_group(mirrors, f"/{group}:promote", validate_only=True)
    assert (plan["state"], plan["blockers"], plan["waits_for"]) == ("ACTIVE", [], "")
    (offset,) = plan["offsets"]
    assert (offset["topic"], offset["source_offset"], offset["target_offset"]) == (topic, 20, 20)
    assert committed(mirrors.target.bootstrap, group, topic) < 0
    assert "is ACTIVE, not PROMOTED" in ask_group(mirrors, f"/{group}:demote", validate_only=True)["blockers"][0]

    assert ask_group(mirrors, f"/{group}:promote")["state"] == "PROMOTED"
    assert committed(mirrors.target.bootstrap, group, topic) == 20
    plan = ask_group(mirrors, f"/{group}:demote", validate_only=True)
    assert (plan["state"], plan["blockers"], plan["waits_for"]) == ("PROMOTED", [], "")
    assert [one["source_offset"] for one in plan["offsets"]] == [20]
    assert ask_group(mirrors, f"/{group}:demote")["state"] == "ACTIVE"
