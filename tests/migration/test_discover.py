"""Discovery on real brokers: clients that run, and what must move together with them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Producer
from typer.testing import CliRunner

from gateway.cli.main import app
from gateway.devcluster import DevCluster
from gateway.migration.rules.file import parsed
from tests.support.brokers.logs import create_topic
from tests.support.clients.group_lab import Offset, commit
from tests.support.clients.transformer import Transformer
from tests.support.gateways.gateway import GatewayProcess, running_gateway


@pytest.fixture
def gateway(tmp_path: Path, source: DevCluster, target: DevCluster, topic: str) -> Iterator[GatewayProcess]:
    with running_gateway(tmp_path, target.bootstrap, f"link-{topic}") as made:
        made.create_link(f"link-{topic}", source.bootstrap)
        yield made


def discovered(gateway: GatewayProcess, link: str) -> dict[str, Any]:
    answer = gateway.api.get(f"/v3/links/{link}/migration-discovery", params={"picture": "true"})
    assert answer.is_success, answer.text
    found: dict[str, Any] = answer.json()
    return found


def set_of(found: dict[str, Any], name: str) -> dict[str, Any]:
    return next(one for one in found["sets"] if name in one["topics"] + one["groups"] + one["transactional_ids"])


def produce(bootstrap: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(count):
        producer.produce(topic, str(number))
    producer.flush(30)


def test_a_plain_group_and_a_transactional_application(
    gateway: GatewayProcess, source: DevCluster, topic: str, tmp_path: Path
) -> None:
    """The application runs between two topics; a group has read a third one; nobody tells the gateway any of it."""
    link, sink, plain, name, reader = f"link-{topic}", f"{topic}-out", f"{topic}-plain", f"app-{topic}", f"read-{topic}"
    for each in (topic, sink, plain):
        create_topic(source.bootstrap, each, partitions=2)
        produce(source.bootstrap, each, 20)
    commit(source.bootstrap, reader, {(plain, 0): Offset(5)})
    with Transformer(source.bootstrap, topic, sink, name) as running:
        running.wait_for(20)
        found = discovered(gateway, link)
    assert not running.errors
    idle = discovered(gateway, link)
    for one in (found, idle):  # what has ended is found by what it left behind
        moves = set_of(one, name)
        assert (moves["topics"], moves["groups"], moves["transactional_ids"]) == ([topic, sink], [name], [name])
        assert (moves["kind"], moves["binds"]) == ("TRANSACTIONAL", True)
        exact = {tie["why"] for tie in moves["ties"] if tie["binds"] and not tie["likely"]}
        assert exact == {"WRITES_IN_TRANSACTIONS", "COMMITS_IN_TRANSACTIONS"}
        assert set_of(one, plain)["groups"] == [reader]
        assert not set_of(one, plain)["binds"]
    assert any("idempotent producers" in one["what"] for one in found["not_known"])
    applications = {one.name: one for one in parsed(yaml.safe_load(found["file"])).applications}
    assert applications[name].together
    assert found["svg"].count("<title>") > 4
    _by_command(gateway, link, tmp_path, name)


def _by_command(gateway: GatewayProcess, link: str, folder: Path, name: str) -> None:
    """The same by the command line, and the files that it writes."""
    out, svg = folder / "migration.yaml", folder / "picture.svg"
    arguments = ["migration", "discover", "--link", link, "--svg", str(svg), "-f", str(out)]
    result = CliRunner().invoke(app, [*arguments, "--url", str(gateway.api.base_url)])
    assert result.exit_code == 0, result.output
    assert name in result.output
    assert name in {one["name"] for one in yaml.safe_load(out.read_text())["applications"]}
    assert svg.read_text().startswith("<svg")
    shown = CliRunner().invoke(app, [*arguments, "--output", "json", "--url", str(gateway.api.base_url)])
    assert name in {one["name"] for one in json.loads(shown.output)["sets"]}
