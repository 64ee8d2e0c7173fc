"""Schema ids written anew by mirrors, between real clusters: what arrives, what waits, the promote, and the audit.

Both registries are strict ones of our own behind HTTP; the target's has schemas of its own, so its ids differ. Records
are made here as serializers make them, since what matters is where they put the id.
"""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import pack
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer

from gateway.devcluster import DevCluster
from tests.support.brokers.logs import Log, Record, create_topic, read_logs
from tests.support.clients.transactions import transactional_producer
from tests.support.gateways.gateway import GatewayProcess
from tests.support.registries.served import served
from tests.support.registries.strict_registry import StrictRegistry
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(600)]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SCHEMAS = 6


def framed(schema_id: int, rest: bytes = b"\x02\x06abc") -> bytes:
    """As Avro's serializer writes it."""
    return b"\0" + pack(">i", schema_id) + rest


def fixed(size: int) -> dict[str, Any]:
    return {"type": "fixed", "name": "F", "size": size}


class Lab(NamedTuple):
    """A gateway with a link, and both registries. `name`: what the names of its topics begin with."""

    gateway: GatewayProcess
    source: DevCluster
    target: DevCluster
    registry: StrictRegistry
    theirs: StrictRegistry
    link: str
    name: str

    def topic(self, what: str, partitions: int, **configs: str) -> str:
        """On the source."""
        create_topic(self.source.bootstrap, f"{self.name}-{what}", partitions=partitions, **configs)
        return f"{self.name}-{what}"

    def ids(self) -> dict[int, int]:
        """The id map."""
        answer = self.gateway.api.get(f"/v3/links/{self.link}/schemas")
        subjects = answer.json()["data"] if answer.is_success else []
        return {one["schema_id"]: one["target_schema_id"] for subject in subjects for one in subject["versions"]}

    def mirror(self, topic: str) -> dict[str, Any]:
        return self.gateway.mirror(self.link, topic)

    def logs(self, topic: str, partitions: int) -> tuple[list[Log], list[Log]]:
        return tuple(read_logs(one.bootstrap, topic, partitions) for one in (self.source, self.target))  # type: ignore[return-value]

    def level(self, topic: str) -> None:
        def is_level() -> bool:
            lags = self.mirror(topic)["mirror_lags"]
            return bool(lags) and all(lag["lag"] == 0 for lag in lags)

        wait_until(is_level, 60, what=f"{topic} to be level")

    def refused(self, method: str, path: str, body: Any = None) -> str:
        answer = self.gateway.api.request(method, f"/v3/links/{self.link}{path}", json=body)
        assert answer.status_code in (400, 409), (answer.status_code, answer.text)
        return answer.text


@pytest.fixture
def lab(source: DevCluster, target: DevCluster, tmp_path: Path) -> Iterator[Lab]:
    here, there, name = StrictRegistry(), StrictRegistry(), uuid.uuid4().hex[:8]
    for size in range(1, 4):
        there.add(f"its-own-{size}", {"type": "fixed", "name": "Own", "size": size})
    for number in range(1, SCHEMAS + 1):
        here.add("orders-value", fixed(number), schema_id=number)
    gateway = GatewayProcess(tmp_path, target.bootstrap)
    link = f"link-{name}"
    with served(here) as source_url, served(there) as target_url:
        gateway.start()
        try:
            gateway.create_link(
                link,
                source.bootstrap,
                schema_sync_enable="true",
                schema_sync_ms="3600000",
                schema_ids="translate",
                schema_source_registry_url=source_url,
                schema_target_registry_url=target_url,
                schema_translate_topic_filters=json.dumps(
                    {"topicFilters": [{"name": f"{name}-ids", "patternType": "PREFIXED", "filterType": "INCLUDE"}]}
                ),
            )
            made = Lab(gateway, source, target, here, there, link, name)
            wait_until(lambda: len(made.ids()) == SCHEMAS, 60, what="the schemas to be on the target")
            assert all(one != other for one, other in made.ids().items())
            yield made
            gateway.assert_runs()
        finally:
            gateway.delete_link(link)
            gateway.close()
            print(gateway.log.read_text(errors="replace")[-8000:])  # noqa: T201 - pytest shows it when a test failed


def write(bootstrap: str, topic: str, records: list[dict[str, Any]], **config: Any) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "log_level": 0, **config})
    for one in records:
        producer.produce(topic, **one)
    assert producer.flush(30) == 0


def with_ids(number: int, schema_id: int) -> dict[str, Any]:
    """In key, value and headers; every third one has none that counts."""
    if number % 3 == 2:
        return {"key": b"\0\0", "value": b"no id", "headers": [("__value_schema_id", b"\1" + bytes(16)), ("n", None)]}
    headers = [
        ("__value_schema_id", framed(schema_id, b"")),
        ("apicurio.value.contentId", pack(">q", schema_id)),
        ("other", framed(schema_id, b"")),
    ]
    return {"key": framed(schema_id), "value": framed(schema_id, b"\0" + b"v" * number), "headers": headers}


def anew(record: Record, ids: dict[int, int]) -> Record:
    """What it must be on the target, worked out apart from the product."""

    def of(field: bytes | None) -> bytes | None:
        if field is None or len(field) < 5 or field[0]:
            return field
        return framed(ids[int.from_bytes(field[1:5], "big")], field[5:])

    def header(name: str, content: bytes | None) -> bytes | None:
        if name == "apicurio.value.contentId" and content is not None:
            return pack(">q", ids[int.from_bytes(content, "big")])
        return of(content) if name == "__value_schema_id" else content

    headers = tuple((name, header(name, content)) for name, content in record.headers)
    return record._replace(key=of(record.key), value=of(record.value), headers=headers)


def test_ids_are_written_anew_and_nothing_else(lab: Lab) -> None:
    """With every codec, through the gateway and beside it, and over a kill; a topic beside it is copied as bytes."""
    topic, plain = lab.topic("ids-orders", 2), lab.topic("plain", 1)
    for codec, bootstrap in zip(CODECS, (lab.source.bootstrap, lab.gateway.bootstrap) * 3, strict=False):
        if bootstrap == lab.gateway.bootstrap and codec == CODECS[1]:
            for one in (topic, plain):
                lab.gateway.create_mirror(lab.link, one)
            lab.level(topic)
        records = [{**with_ids(n, 1 + n % SCHEMAS), "partition": n % 2} for n in range(60)]
        write(bootstrap, topic, records, **{"compression.type": codec})
        write(lab.source.bootstrap, plain, [with_ids(n, 1 + n % SCHEMAS) for n in range(5)])
    lab.gateway.kill()
    write(lab.source.bootstrap, topic, [{**with_ids(n, 1), "partition": n % 2} for n in range(20)])
    lab.gateway.start()
    lab.level(topic)
    lab.level(plain)
    ids = lab.ids()
    here, there = lab.logs(topic, 2)
    assert [[anew(record, ids) for record in log] for log in here] == there
    assert sum(map(len, there)) == 60 * len(CODECS) + 20
    assert there != here
    found = lab.mirror(topic)
    assert (found["mode"], found["translates_ids"]) == ("preserve", ["key", "value", "headers"])
    here, there = lab.logs(plain, 1)
    assert here == there
    assert lab.mirror(plain)["translates_ids"] == []


def test_transactions(lab: Lab) -> None:
    """Offsets differ there; aborted records are left out, as without ids."""
    topic = lab.topic("ids-payments", 1)
    lab.gateway.create_mirror(lab.link, topic)
    producer = transactional_producer(lab.source.bootstrap, topic, compression_type="zstd")
    for number in range(9):
        producer.begin_transaction()
        for at in range(5):
            producer.produce(topic, partition=0, **with_ids(at, 1 + number % SCHEMAS))
        producer.flush(30)
        (producer.abort_transaction if number % 3 == 2 else producer.commit_transaction)(30)
    lab.level(topic)
    ids = lab.ids()
    (here,), (there,) = lab.logs(topic, 1)
    assert [anew(record, ids)[1:] for record in here] == [record[1:] for record in there]
    assert len(there) == 30
    assert lab.mirror(topic)["mode"] == "translate"


def waits(lab: Lab, topic: str, partition: int) -> Callable[[], str]:
    def look() -> str:
        found = [lag for lag in lab.mirror(topic)["mirror_lags"] if lag["partition"] == partition]
        return str(found[0]["waits_for"]) if found else ""

    return look


def test_an_unknown_id_waits_and_goes_on_by_itself(lab: Lab, tmp_path: Path) -> None:
    """Over a kill of the gateway; then under a promote, which waits too. What cannot be is refused; the audit last."""
    topic = lab.topic("ids-late", 2)
    lab.gateway.create_mirror(lab.link, topic)
    write(lab.source.bootstrap, topic, [{**with_ids(n, 1), "partition": n % 2} for n in range(10)])
    lab.level(topic)
    write(lab.source.bootstrap, topic, [{"value": framed(41), "partition": 0}, {"value": framed(1), "partition": 0}])
    write(lab.source.bootstrap, topic, [{"value": framed(1), "partition": 1}])
    said = wait_until(waits(lab, topic, 0), 30, what="the partition to say what it waits for")
    assert said.startswith("waiting for schema id 41 in the id map, which the record at source offset 5")
    assert lab.mirror(topic)["unresolved_schema_ids"] == [41]
    metrics = lab.gateway.api.get("/metrics").text
    assert f'lockgate_mirror_missing_schema_ids{{link="{lab.link}",partition="0",topic="{topic}"}} 1.0' in metrics
    wait_until(lambda: lab.mirror(topic)["mirror_lags"][1]["lag"] == 0, 30, what="the other partition to go on")
    lab.gateway.kill()
    lab.gateway.start()
    wait_until(waits(lab, topic, 0), 60, what="the next process to wait, too")
    lab.registry.add("later-value", fixed(41), schema_id=41)
    lab.level(topic)

    for verb in ("reverse-and-start-mirror", "reverse-and-pause-mirror"):
        assert "written anew" in lab.refused("POST", f"/mirrors/{topic}:{verb}", {})
    assert "written anew" in lab.refused("GET", f"/catch-up?topic={topic}")
    changes = [
        {"name": "ack", "value": "both"},
        {"name": "schema.translate.topic.filters", "operation": "DELETE"},
    ]
    assert "writes schema ids anew" in lab.refused("PUT", "/configs:alter", {"data": changes})
    assert "with ack=both" in lab.refused("PUT", "/configs:alter", {"data": changes[:1]})

    write(lab.gateway.bootstrap, topic, [{"value": framed(42), "partition": 0}])
    wait_until(waits(lab, topic, 0), 30, what="the partition to wait again")
    lab.gateway.promote(lab.link, topic)
    assert lab.mirror(topic)["mirror_status"] == "PENDING_STOPPED"
    write(lab.gateway.bootstrap, topic, [{"value": framed(1), "partition": 1}])  # no write pause yet
    lab.registry.add("later-value", fixed(42), schema_id=42)
    wait_until(lambda: lab.mirror(topic)["mirror_status"] == "STOPPED", 90, what=f"{topic} to be STOPPED")
    ids = lab.ids()
    here, there = lab.logs(topic, 2)
    assert [[anew(record, ids) for record in log] for log in here] == there
    write(lab.gateway.bootstrap, topic, [{"value": framed(ids[42]), "partition": 0}])  # the target's own from now on
    assert "written anew" in lab.refused("POST", f"/mirrors/{topic}:reverse-and-start-mirror", {})
    assert "written anew" in lab.refused("POST", f"/mirrors/{topic}:truncate-and-restore", {})
    audited(lab, topic, tmp_path)


def audited(lab: Lab, topic: str, folder: Path) -> None:
    report = folder / "audit.json"
    command = [sys.executable, "-c", "from gateway.cli.main import main; main()", "job", "audit", topic]
    linked = ["--link", lab.link, "--url", str(lab.gateway.api.base_url), "--master", "local[1]"]
    done = subprocess.run(
        [*command, *linked, "--report", str(report)], capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "IDENTICAL through the id map up to offset" in done.stdout
    found = json.loads(report.read_text())
    assert "schema ids written anew, compared through the link's id map" in found["offsets"]
    assert [one["schema_ids_through_map"] for one in found["partitions"]] == [["key", "value", "headers"]] * 2
    assert found["totals"]["compared"] == 15
    print(f"translate ids: {done.stdout.splitlines()[-1]}")  # noqa: T201
