"""An application that reads, writes and commits its offsets in one transaction is moved, record by record exact."""

from __future__ import annotations

from pathlib import Path

from gateway.devcluster import DevCluster
from tests.support.brokers.logs import create_topic, read_logs
from tests.support.clients.producers import ProducerProcess, read_committed
from tests.support.clients.transformer import Transformer
from tests.support.gateways.gateway import GatewayProcess, running_gateway
from tests.support.waiting import wait_until

PARTITIONS = 3


def test_its_output_is_promoted_before_its_group(
    tmp_path: Path, source: DevCluster, target: DevCluster, topic: str
) -> None:
    """On the source; restarted onto the gateway, where it waits; what it writes promoted, its group, what it reads."""
    link, sink, app = f"link-{topic}", f"{topic}-out", f"app-{topic}"
    for name in (topic, sink):
        create_topic(source.bootstrap, name, partitions=PARTITIONS)
    with running_gateway(tmp_path, target.bootstrap, link) as gateway:
        gateway.create_link(link, source.bootstrap, groups_auto_promote="false")
        for name in (topic, sink):
            gateway.create_mirror(link, name)

        def promoted(name: str) -> None:
            gateway.promote(link, name)
            wait_until(lambda: gateway.mirror(link, name)["mirror_status"] == "STOPPED", 60.0, what=f"{name} STOPPED")

        with ProducerProcess(
            "librdkafka",
            gateway.bootstrap,
            topic,
            partitions=PARTITIONS,
            name="in",
            config={"enable.idempotence": True},
        ) as writer:
            with Transformer(source.bootstrap, topic, sink, app) as before:
                before.wait_for(100)
            with Transformer(gateway.bootstrap, topic, sink, app) as after:
                promoted(sink)
                answer = wait_until(lambda: _promote_group(gateway, link, app), 60.0, what="the group's promote")
                assert answer
                after.wait_for(100)
                promoted(topic)
                after.wait_for(100)
                writer.stop()
                total = len(writer.acknowledged)
                after.wait_for(total - before.committed - after.committed, 60.0)
        assert not before.errors + after.errors + writer.errors
        written = [[record.key for record in log] for log in read_logs(target.bootstrap, topic, PARTITIONS)]
        transformed = [[record.key for record in log] for log in read_committed(target.bootstrap, sink, PARTITIONS)]
        assert transformed == written


def _promote_group(gateway: GatewayProcess, link: str, group: str) -> bool:
    """False while it cannot be promoted yet: its last member has not left the source, or none waits here."""
    return gateway.api.post(f"/v3/links/{link}/groups/{group}:promote", json={}).is_success
