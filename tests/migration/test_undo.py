"""Undo between real clusters: a set is promoted by a file, mirrored back by itself, taken home while a writer writes,
and promoted again; and a mirror back whose time is over ends by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gateway.devcluster import DevCluster
from tests.support.brokers.logs import create_topic, log_ends, read_logs
from tests.support.clients.group_lab import Offset, commit, committed
from tests.support.clients.producers import ProducerProcess
from tests.support.gateways.asking import answered
from tests.support.gateways.gateway import GatewayProcess, running_gateway
from tests.support.waiting import wait_until

PARTITIONS = 2


def shown(gateway: GatewayProcess, name: str) -> dict[str, Any]:
    answer = gateway.api.get(f"/v3/migrations/{name}")
    found: dict[str, Any] = answer.json() if answer.is_success else {"state": answer.text, "applications": []}
    return found


def undo_of(gateway: GatewayProcess, name: str) -> dict[str, Any]:
    return next((one["undo"] or {} for one in shown(gateway, name)["applications"]), {})


def keys(cluster: DevCluster, topic: str) -> list[list[Any]]:
    return [[record.key for record in log] for log in read_logs(cluster.bootstrap, topic, PARTITIONS)]


def posted(gateway: GatewayProcess, path: str) -> None:
    answer, _ = answered(lambda: gateway.api.post(path))
    assert answer.is_success, answer.text


def test_a_set_goes_home_and_is_promoted_again(
    tmp_path: Path, source: DevCluster, target: DevCluster, topic: str
) -> None:
    link, other, group = f"link-{topic}", f"{topic}-other", f"read-{topic}"
    for name in (topic, other):
        create_topic(source.bootstrap, name, partitions=PARTITIONS)
    commit(source.bootstrap, group, {(topic, 0): Offset(0)})
    application = {"name": "a", "topics": [topic, other], "groups": [group], "options": {"idle_groups": True}}
    file = {"migration": topic, "link": link, "applications": [application], "failback_keep": "1h"}
    with running_gateway(tmp_path, target.bootstrap, link) as gateway:
        gateway.create_link(link, source.bootstrap, groups_auto_promote="false")
        for name in (topic, other):
            gateway.create_mirror(link, name)
        with ProducerProcess(
            "librdkafka",
            gateway.bootstrap,
            topic,
            partitions=PARTITIONS,
            name="in",
            config={"enable.idempotence": True},
        ) as writer:
            writer.wait_for(100)
            answer = gateway.api.put(f"/v3/migrations/{topic}", json=file)
            assert answer.is_success, answer.text
            wait_until(lambda: shown(gateway, topic)["state"] == "DONE", 120.0, what="the promote")
            wait_until(lambda: undo_of(gateway, topic).get("open") == 2, 60.0, what="mirrors back")
            found = undo_of(gateway, topic)
            assert (found["promoted"], found["over"], found["refused"]) == (2, 0, 0)
            assert found["until_time_ms"] > shown(gateway, topic)["state_time_ms"]
            writer.wait_for(100)
            commit(target.bootstrap, group, {(topic, 0): Offset(9)})
            wait_until(lambda: min(log_ends(source.bootstrap, topic, PARTITIONS)) > 9, 60.0, what="the mirror back")
            wait_until(lambda: _asked(gateway, f"{topic}:undo?groups=true"), 60.0, what="the way home to begin")
            wait_until(lambda: _home(gateway, link, (topic, other)), 60.0, what="home")
            assert shown(gateway, topic)["state"] == "PAUSED"
            assert committed(source.bootstrap, group)[topic, 0].offset == 9
            writer.wait_for(100)
            before = len(writer.acknowledged)
            posted(gateway, f"/v3/migrations/{topic}:resume")
            posted(gateway, f"/v3/links/{link}/groups/{group}:promote")
            wait_until(lambda: shown(gateway, topic)["state"] == "DONE", 120.0, what="the promote again")
            assert committed(target.bootstrap, group)[topic, 0].offset == 9
            writer.wait_for(100)
            writer.stop()
        assert not writer.errors
        wait_until(lambda: undo_of(gateway, topic).get("open") == 2, 60.0, what="mirrors back again")
        wait_until(lambda: undo_of(gateway, topic).get("records_at_risk") == 0, 60.0, what="nothing at risk")
        wait_until(lambda: keys(source, topic) == keys(target, topic), 60.0, what="equal logs")
    assert sum(map(len, keys(target, topic))) == len(writer.acknowledged) > before


def _asked(gateway: GatewayProcess, path: str) -> bool:
    """Asked again while a mirror back is not ACTIVE yet."""
    answer, _ = answered(lambda: gateway.api.post(f"/v3/migrations/{path}"))
    assert answer.is_success or "begins just now" in answer.text, answer.text
    return answer.is_success


def _home(gateway: GatewayProcess, link: str, topics: tuple[str, ...]) -> bool:
    found = [gateway.mirror(link, name) for name in topics]
    return all((one["mirror_status"], one["mirror_direction"]) == ("ACTIVE", "FORWARD") for one in found)


def test_it_ends_by_itself_over_a_kill(tmp_path: Path, source: DevCluster, target: DevCluster, topic: str) -> None:
    link = f"link-{topic}"
    create_topic(source.bootstrap, topic, partitions=PARTITIONS)
    with running_gateway(tmp_path, target.bootstrap, link) as gateway:
        gateway.create_link(link, source.bootstrap, failback_keep="8s")
        gateway.create_mirror(link, topic)

        def mirror() -> dict[str, Any]:
            found: dict[str, Any] = gateway.mirror(link, topic)
            return found

        gateway.promote(link, topic)
        wait_until(lambda: (mirror()["undo"] or {}).get("state") == "open", 60.0, what="the mirror back")
        gateway.kill()
        gateway.start()
        wait_until(lambda: (mirror()["undo"] or {}).get("state") == "over", 60.0, what="the end of its time")
        wait_until(lambda: mirror()["mirror_status"] == "STOPPED", 60.0, what="STOPPED")
        assert "the time for an undo was over" in mirror()["error_message"]
        answer = gateway.api.post(f"/v3/links/{link}/mirrors:undo", json={"mirror_topic_names": [topic]})
        assert (answer.status_code, "the time for it is over" in answer.text) == (409, True)
