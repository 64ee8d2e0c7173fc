"""A registry that keeps its data in Kafka is moved by mirroring its topic: ids and versions as they were.

Confluent's registry keeps them in `_schemas`, and cannot be had here. In its place stands Apicurio 3.3 with its storage
in Kafka, whose topic is a journal of changes: both registries replay it from its beginning. The second one has the
gateway as its bootstrap servers, so what it writes goes where the topic is written: to the source until the promote, to
the target from then on.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.devcluster import DevCluster
from tests.support.gateways.mirror_gateway import mirror_gateway
from tests.support.registries import apicurio
from tests.support.registries.apicurio import V3, Registry
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.skipif(not apicurio.java(21), reason="Apicurio 3 needs Java 21"),
]

JOURNAL = "kafkasql-journal"
TOPICS = (JOURNAL, "kafkasql-snapshots", "registry-events")


def storage(bootstrap: str) -> dict[str, str]:
    return {"APICURIO_STORAGE_KIND": "kafkasql", "APICURIO_KAFKASQL_BOOTSTRAP_SERVERS": bootstrap}


def avro(size: int) -> dict[str, Any]:
    schema = {"type": "fixed", "name": "F", "size": size}
    return {"schema": json.dumps(schema), "schemaType": "AVRO"}


def content(registry: Registry) -> dict[str, dict[int, tuple[int, str]]]:
    """Subject -> version -> id, schema."""
    return {
        subject: {
            number: (found["id"], found["schema"])
            for number in registry.get(f"/subjects/{subject}/versions")
            for found in [registry.get(f"/subjects/{subject}/versions/{number}")]
        }
        for subject in registry.get("/subjects")
    }


@pytest.mark.timeout(1200)
def test_a_registry_is_moved_with_its_topic(source: DevCluster, target: DevCluster, tmp_path: Path) -> None:
    with (
        apicurio.running(V3, tmp_path, settings=storage(source.bootstrap)) as old,
        mirror_gateway(tmp_path, source, target) as moved,
    ):
        ids = [old.register(f"s{size % 2}-value", avro(size)) for size in range(1, 6)]
        for topic in TOPICS:
            moved.gateway.create_mirror(moved.link, topic)
        wait_until(lambda: moved.mirror(JOURNAL)["readable"], 60, what="the journal to be readable")
        with apicurio.running(V3, tmp_path, settings=storage(moved.gateway.bootstrap)) as new:
            wait_until(lambda: content(new) == content(old), 60, what="the second registry to have what the first has")
            ids.append(old.register("later-value", avro(9)))
            wait_until(lambda: content(new) == content(old), 60, what="what comes later to come over")
            ids.append(new.register("beside-value", avro(10)))  # its write goes to the source
            wait_until(lambda: content(old) == content(new), 60, what="the first registry to have it, too")
            before = content(old)
            # Each registry reads in a group of its own, at random, which ends with it: there is nothing to promote.
            moved.ask("POST", ":promote", json={"mirror_topic_names": list(TOPICS), "force": True})
            for topic in TOPICS:
                moved.until(topic, "STOPPED")
            assert content(new) == before
            ids.append(new.register("after-value", avro(11)))
            wait_until(lambda: "after-value" in content(new), 60, what="a schema of the promoted registry")
            assert content(old) == before  # it has the source's topic, which nobody writes any more
            assert len(set(ids)) == len(ids)
            versions = sum(map(len, before.values()))
            what = f"topics={len(TOPICS)} subjects={len(before)} versions={versions} equal=true"
            print(f"registry in kafka: apicurio-{V3} {what}")  # noqa: T201
