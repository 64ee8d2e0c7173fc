"""A migration file carried out between real clusters: a plain group, and an application that reads and writes in one
transaction, over the end of the gateway that carries it out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from gateway.devcluster import DevCluster
from tests.support.brokers.logs import create_topic, read_logs
from tests.support.clients.group_lab import Offset, commit
from tests.support.clients.producers import ProducerProcess, read_committed
from tests.support.clients.transformer import Transformer
from tests.support.gateways.gateway import GatewayProcess, running_gateway
from tests.support.waiting import wait_until

PARTITIONS = 2


def applied(gateway: GatewayProcess, file: dict[str, Any], **params: str) -> dict[str, Any]:
    answer = gateway.api.put(f"/v3/migrations/{file['migration']}", json=file, params=params)
    assert answer.is_success, answer.text
    found: dict[str, Any] = answer.json()
    return found


def shown(gateway: GatewayProcess, name: str) -> dict[str, Any]:
    answer = gateway.api.get(f"/v3/migrations/{name}")
    found: dict[str, Any] = answer.json() if answer.is_success else {"state": answer.text, "applications": []}
    return found


def test_from_one_file_over_a_kill(tmp_path: Path, source: DevCluster, target: DevCluster, topic: str) -> None:
    link, sink, plain, app, reader = f"link-{topic}", f"{topic}-out", f"{topic}-plain", f"app-{topic}", f"read-{topic}"
    for name in (topic, sink, plain):
        create_topic(source.bootstrap, name, partitions=PARTITIONS)
    producer = Producer({"bootstrap.servers": source.bootstrap})
    for number in range(20):
        producer.produce(plain, str(number), partition=0)
    producer.flush(30)
    commit(source.bootstrap, reader, {(plain, 0): Offset(7)})
    file: dict[str, Any] = {
        "migration": topic,
        "link": link,
        "failback_keep": "0",
        "applications": [
            {"name": "plain", "topics": [plain], "groups": [reader], "options": {"idle_groups": True}},
            {"name": "ctp", "topics": [topic, sink], "groups": [app], "together": True, "after": ["plain"]},
        ],
    }
    with running_gateway(tmp_path, target.bootstrap, link) as gateway:
        gateway.create_link(link, source.bootstrap, groups_auto_promote="false")
        first = {**file, "applications": [{**one, "until": "mirrored"} for one in file["applications"]]}
        assert (
            len(
                [step for one in applied(gateway, first, validate_only="true")["applications"] for step in one["steps"]]
            )
            == 3
        )
        applied(gateway, first)
        wait_until(lambda: shown(gateway, topic)["state"] == "DONE", 120.0, what="the mirrors")
        with ProducerProcess(
            "librdkafka",
            gateway.bootstrap,
            topic,
            partitions=PARTITIONS,
            name="in",
            config={"enable.idempotence": True},
        ) as writer:
            with Transformer(source.bootstrap, topic, sink, app) as before:
                before.wait_for(50, 120.0)
            with Transformer(gateway.bootstrap, topic, sink, app) as after:
                applied(gateway, file)
                wait_until(lambda: _is_promoted(gateway, topic, "plain"), 120.0, what="the plain application")
                gateway.kill()
                gateway.start()
                wait_until(lambda: shown(gateway, topic)["state"] == "DONE", 240.0, what="the end of the migration")
                after.wait_for(50, 120.0)
                writer.stop()
                total = len(writer.acknowledged)
                after.wait_for(total - before.committed - after.committed, 120.0)
        assert not before.errors + after.errors + writer.errors
        _assert_journal(shown(gateway, topic))
        assert gateway.api.delete(f"/v3/migrations/{topic}").is_success
    written = [[record.key for record in log] for log in read_logs(target.bootstrap, topic, PARTITIONS)]
    transformed = [[record.key for record in log] for log in read_committed(target.bootstrap, sink, PARTITIONS)]
    assert transformed == written


def _is_promoted(gateway: GatewayProcess, name: str, application: str) -> bool:
    return any(one["stage"] == "PROMOTED" for one in shown(gateway, name)["applications"] if one["name"] == application)


def _assert_journal(found: dict[str, Any]) -> None:
    done = [
        (entry["what"], entry["application"]) for entry in found["journal"] if not entry["what"].endswith("_REFUSED")
    ]
    assert done.count(("CREATE_MIRROR", "ctp")) == 2
    assert found["journal"][-1]["what"] == "DONE"
    assert found["journal"][0]["by"]  # who applied it
