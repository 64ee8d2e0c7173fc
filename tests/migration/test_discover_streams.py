"""A Kafka Streams application with exactly_once_v2 is found on real brokers, with all that it has made itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer

from gateway.devcluster import DevCluster
from tests.migration.test_discover import discovered, set_of
from tests.support.brokers.logs import create_topic, log_ends
from tests.support.clients.streams_application import StreamsApplication
from tests.support.gateways.gateway import running_gateway
from tests.support.waiting import wait_until


@pytest.mark.slow
def test_a_streams_application(tmp_path: Path, source: DevCluster, target: DevCluster, topic: str) -> None:
    link, sink, app = f"link-{topic}", f"{topic}-out", f"app-{topic}"
    for name in (topic, sink):
        create_topic(source.bootstrap, name, partitions=1)
    producer = Producer({"bootstrap.servers": source.bootstrap})
    for number in range(50):
        producer.produce(topic, f"word{number % 7}")
    producer.flush(30)
    with running_gateway(tmp_path, target.bootstrap, link) as gateway:
        gateway.create_link(link, source.bootstrap)
        with StreamsApplication(source.bootstrap, app, topic, sink, tmp_path) as running:

            def counts() -> bool:
                running.assert_runs()
                return log_ends(source.bootstrap, sink, 1)[0] > 0

            wait_until(counts, 180.0, what="the first counts")
            whole = discovered(gateway, link)
            found = set_of(whole, app)
    assert found["kind"] == "STREAMS"
    assert found["groups"] == [app]
    assert found["topics"] == sorted([topic, sink, f"{app}-words-repartition", f"{app}-counts-changelog"])
    (group,) = [one for one in whole["groups"] if one["name"] == app]
    assert group["member_count"] == len(group["members"]) > 0
    assert all(one["client_id"].startswith(app) and one["address"] for one in group["members"])
    reads = [one["reads"] for one in group["subtopologies"]]
    assert sorted(reads) == sorted([[topic], [f"{app}-words-repartition"]])
    assert found["transactional_ids"]
    assert all(name.startswith(f"{app}-") for name in found["transactional_ids"])
    whys = {tie["why"] for tie in found["ties"] if tie["binds"]}
    assert {"STREAMS_INTERNAL", "STREAMS_PRODUCER", "WRITES_IN_TRANSACTIONS", "COMMITS_IN_TRANSACTIONS"} <= whys
