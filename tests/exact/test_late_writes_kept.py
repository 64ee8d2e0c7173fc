"""Records that somebody writes to the source beside the gateway go home in their place, between real clusters."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer

from gateway.devcluster import DevCluster
from tests.support.brokers.logs import create_topic, read_logs
from tests.support.gateways.failback import PARTITIONS, RoundTrip
from tests.support.gateways.gateway import running_gateway


def write(bootstrap: str, topic: str, partition: int, *values: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for value in values:
        producer.produce(topic, value=value.encode(), partition=partition)
    assert not producer.flush(30)


@pytest.mark.integration
@pytest.mark.slow
def test_late_writes_are_kept_and_both_logs_are_the_same(
    tmp_path: Path, source: DevCluster, target: DevCluster, topic: str
) -> None:
    link = f"link-{topic}"
    create_topic(source.bootstrap, topic, partitions=PARTITIONS)
    with running_gateway(tmp_path, target.bootstrap, link) as gateway:
        gateway.create_link(link, source.bootstrap)
        gateway.create_mirror(link, topic)
        trip = RoundTrip(gateway, link, (topic,), source, target)
        write(gateway.bootstrap, topic, 0, "a", "b")
        trip.promote()
        trip.reverse()
        for partition in range(PARTITIONS):
            write(gateway.bootstrap, topic, partition, "on the target")
        trip.wait_until_mirrored()
        write(source.bootstrap, topic, 0, "late 1", "late 2")

        dry = gateway.api.post(
            f"/v3/links/{link}/mirrors:undo", json={"mirror_topic_names": [topic]}, params={"validate_only": "true"}
        )
        assert dry.status_code == 409
        assert "2 records" in dry.text
        assert "2 in partition 0 from offset 3 on" in dry.text
        assert "--keep-late-writes" in dry.text

        write(gateway.bootstrap, topic, 1, "still on the target")  # of another partition: nothing meets there
        trip.wait_until_mirrored()
        body = {"mirror_topic_names": [topic], "keep_late_writes": True}
        done = gateway.api.post(f"/v3/links/{link}/mirrors:undo", json=body)
        assert done.is_success, done.text
        trip.wait_for("ACTIVE", "FORWARD")
        write(gateway.bootstrap, topic, 0, "home")
        found = [record.value for record in trip.level()[0]]
        assert found == [b"a", b"b", b"on the target", b"late 1", b"late 2", b"home"]
        assert [record.value for record in read_logs(target.bootstrap, topic, PARTITIONS)[0]] == found
